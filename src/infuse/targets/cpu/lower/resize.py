"""Resizing: images in one pass, other tensors axis by axis; sizes and scales may be known to the
run alone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from infuse import dtypes
from infuse.immutable import Immutable, replace
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value
from infuse.lowering.expressions import Aggregate, Calculated, Element, Expression, Size, invoke
from infuse.lowering.groups import Group
from infuse.lowering.liveness import is_known
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import array, operand
from infuse.lowering.tensors import Tensor, channels_last, natural
from infuse.lowering.writer import FunctionWriter
from infuse.ops.resampling import Resize, meant
from infuse.targets.cpu.lower.linear import label
from infuse.targets.cpu.table import lowers
from infuse.targets.text.literals import literal

# The enumerators of kernels/resize.hpp and resize_plan.hpp, in their order.
_MODES = ("nearest", "linear", "cubic")
_COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
_ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_POLICIES = ("stretch", "not_larger", "not_smaller")
Text = Callable[[Dim], Expression]


class Side(Immutable):
    """One axis: its sizes, its scale as a fraction, and the part of it that is shown.

    `plan` is where the run writes scale and part (three numbers for every axis), if it finds them.
    """

    axis: int
    before: Dim
    after: Dim
    scale: tuple[Dim, Dim]
    part: tuple[float, float] = (0.0, 1.0)
    plan: Tensor | None = None

    def fields(self, text: Text, f: FunctionWriter | None = None) -> Aggregate:
        """The ResizeSide; without a function, one that needs at least as much scratch memory."""
        before, after = text(self.before), text(self.after)
        if self.plan is None:
            scale = tuple(map(text, self.scale))
            quotient = Calculated("double({}) / double({})", scale, operator.truediv)
            part: list[Expression] = [quotient, *map(repr, self.part)]
        elif f is None:
            part = [invoke("least_scale", before, after), "0.0", "1.0"]
        else:
            pointer = f.read(self.plan)
            part = [Element(pointer, 3 * self.axis + i) for i in range(3)]
        names = ("size", "out", "scale", "start", "end")
        return Aggregate(tuple(zip(names, (before, after, *part))))

    @property
    def stays(self) -> bool:
        """Whether the axis surely stays as it is."""
        return (
            self.plan is None
            and self.before == self.after
            and self.scale[0] == self.scale[1]
            and self.part == (0.0, 1.0)
        )


ONE = Side(0, 1, 1, (1, 1))
FEW_CHANNELS: Final = 8
"""Up to these, vectors of channels are too few for what a pixel costs beside them."""


@lowers("Resize", has_epilogue=True, runtime_inputs=(0,))
def resize(low: Lowering, node: Node, group: Group) -> None:
    x, op = operand(node), node.op
    assert isinstance(op, Resize)
    sides = _sides(low, node, op)
    tensor = low.storage.tensor(x)
    if (
        x.dtype != dtypes.float32
        or x.rank not in (3, 4)
        or not all(side.stays for side in sides[:2])
    ):
        _axis_by_axis(low, node, op, sides)
        _finish(low, node, group)
    elif _has_few_channels(x) or (
        tensor.is_dense(natural(x.rank)) and not tensor.is_dense(channels_last(x.rank))
    ):
        _image(low, node, group, sides, "resize_planes")
    elif op.antialias:
        _axis_by_axis(low, node, op, sides)
        _finish(low, node, group)
    else:
        _image(low, node, group, sides, "resize")


def _has_few_channels(x: Value) -> bool:
    """Whether planes are faster even for an image that has to be made planes first."""
    return isinstance(x.shape[1], int) and x.shape[1] <= FEW_CHANNELS


def _image(low: Lowering, node: Node, group: Group, sides: list[Side], kernel: str) -> None:
    """One or two spatial axes of float32, rows and columns together."""
    x, op = operand(node), node.op
    assert isinstance(op, Resize)
    planes = kernel == "resize_planes"
    order = natural(x.rank) if planes else channels_last(x.rank)
    tensor = low.storage.dense(x, order)
    f = low.function("resize", *group.nodes)
    header = f"{kernel}.hpp"
    f.include(header)
    sink = low.fusing.sink(f, group, order)
    plane = (ONE, *sides[2:])[-2:]
    needed = _shape(op, x.shape[:2], plane, Size)
    f.scratch(f"{kernel}_scratch", header, needed, named=_named(x.shape[:2], plane))
    f.call(kernel, _shape(op, x.shape[:2], plane, f.number, f), f.read(tensor), sink)
    f.finish(label(group))


def _shape(
    op: Resize,
    lead: tuple[Dim, ...],
    plane: tuple[Side, ...],
    text: Text,
    f: FunctionWriter | None = None,
) -> Aggregate:
    """The ResizeShape; `text` prints whole numbers, all of them, so that equal models of numbers
    share the code.
    """
    coordinates = _COORDINATES.index(op.coordinate_transformation_mode)
    fields: dict[str, Expression] = {
        **dict(zip(("n", "c"), map(text, lead))),
        **{name: side.fields(text, f) for name, side in zip(("h", "w"), plane)},
        "mode": _enumerator("ResizeMode", text(_MODES.index(op.mode))),
        "coordinates": _enumerator("ResizeCoordinates", text(coordinates)),
        "rounding": _enumerator("ResizeRounding", text(_ROUNDINGS.index(op.nearest_mode))),
        "cubic": literal(op.cubic_coeff_a, dtypes.float32),
        "exclude_outside": _flag(text(int(bool(op.exclude_outside)))),
        "outside": literal(op.extrapolation_value, dtypes.float32),
        "antialias": _flag(text(int(bool(op.antialias)))),
    }
    return Aggregate(tuple(fields.items()), "ResizeShape")


def _enumerator(type: str, number: Expression) -> Expression:
    """A number as one of an enumeration."""
    return Calculated(f"{type}({{}})", (number,), int)


def _flag(number: Expression) -> Expression:
    """Whether a number is not 0."""
    return Calculated("{} != 0", (number,), bool)


def _named(lead: Sequence[Dim], plane: Sequence[Side]) -> list[Dim]:
    """The sizes that `_shape` prints."""
    sides = [size for side in plane for size in (side.before, side.after, *side.scale)]
    return [*lead, *sides]


def _axis_by_axis(low: Lowering, node: Node, op: Resize, sides: list[Side]) -> None:
    """One axis after another, of tensors of any rank and element type."""
    x = operand(node)
    tensor = low.storage.dense(x)
    moving = [side for side in sides if not side.stays]
    wide = x.dtype if x.dtype.is_float or op.mode == "nearest" else dtypes.float64
    shape = list(x.shape)
    for side in sorted(moving, key=lambda side: tensor.order.index(side.axis)):
        shape[side.axis] = side.after
        last = side is max(moving, key=lambda side: tensor.order.index(side.axis))
        target = (
            low.storage.allocate(node.output, tensor.order)
            if last
            else low.storage.scratch_tensor(wide, tuple(shape), tensor.order, node.output.name)
        )
        _axis(low, node, op, side, tensor, target)
        tensor = target
    low.storage.tensors[node.output] = tensor


def _axis(
    low: Lowering, node: Node, op: Resize, side: Side, source: Tensor, target: Tensor
) -> None:
    """A step that resamples one axis."""
    place = source.order.index(side.axis)
    physical = source.physical_shape
    outer, inner = dims.product(physical[:place]), dims.product(physical[place + 1 :])
    f = low.function("resample", node)
    f.include("resample.hpp")
    computes = (
        "float"
        if source.dtype == target.dtype == dtypes.float32 or op.mode == "nearest"
        else "double"
    )
    plain = _shape(op, (1, 1), (ONE, side), Size)
    named = _named((), (side,))
    f.scratch("resample_scratch", "resample.hpp", plain, template=(computes,), named=named)
    shape, sizes = _shape(op, (1, 1), (ONE, side), f.number, f), f.numbers(outer, inner)
    if op.mode == "nearest":
        outside = np.asarray(op.extrapolation_value).astype(source.dtype.numpy)
        number = literal(
            int(outside.reshape(1).view(source.bits.dtype.numpy)[0]), source.bits.dtype
        )
        f.call("pick", shape, sizes, f.read(source.bits), f.write(target.bits), number)
    else:
        f.call("resample", shape, sizes, f.read(source), f.write(target), template=(computes,))
    f.finish("Resize")


def _finish(low: Lowering, node: Node, group: Group) -> None:
    """The elementwise work after a kernel without a sink."""
    rest = [n for n in group.nodes if n is not node]
    if rest:
        stored = [v for v in group.stored if v is not node.output]
        low.fusing.elementwise(Group(rest, None, group.formulas, stored=stored))


# -- sizes and scales ------------------------------------------------------------------------------


def _sides(low: Lowering, node: Node, op: Resize) -> list[Side]:
    """What is done with every axis."""
    x = operand(node)
    roi, scales, sizes = (node.input(i) for i in (1, 2, 3))
    roi, scales, sizes = (
        None if v is None or v.tensor.size == 0 else v for v in (roi, scales, sizes)
    )
    crops = op.coordinate_transformation_mode == "tf_crop_and_resize" and roi is not None
    pairs = list(zip(x.shape, node.output.shape))
    plain = [Side(a, before, after, (after, before)) for a, (before, after) in enumerate(pairs)]
    axes = [a % x.rank for a in op.axes] or list(range(x.rank))
    result = [Side(a, before, after, (1, 1)) for a, (before, after) in enumerate(pairs)]
    # A scale that is not known, a part that is not known, or sizes of which only some count.
    open_scales = sizes is None and scales is not None and scales.const is None
    open_sizes = sizes is not None and (not is_known(sizes) or not low.are_known(node))
    shares = sizes is not None and op.keep_aspect_ratio_policy != "stretch"
    open_ratio = shares and not (x.tensor.is_static and node.output.tensor.is_static)
    if open_scales or open_sizes or open_ratio or (crops and roi is not None and roi.const is None):
        plan = _found_plan(low, node, op, crops)
        if sizes is not None and not shares and not crops:  # others may be known to stay
            axes = [a for a in axes if pairs[a][0] != pairs[a][1]]
        return [
            replace(side, scale=plain[side.axis].scale, plan=plan) if side.axis in axes else side
            for side in result
        ]
    for place, axis in enumerate(axes):
        before, after = pairs[axis]
        scale = plain[axis].scale
        if sizes is None and scales is not None and scales.const is not None:
            fraction = meant(float(scales.const.reshape(-1)[place]))
            scale = fraction.numerator, fraction.denominator
        elif shares:
            scale = op.common_ratio(
                [int(str(pairs[a][0])) for a in axes], _wanted(node)
            ).as_integer_ratio()
        part = (0.0, 1.0)
        if crops and roi is not None and roi.const is not None:
            part = (
                float(roi.const.reshape(-1)[place]),
                float(roi.const.reshape(-1)[place + len(axes)]),
            )
        result[axis] = Side(axis, before, after, scale, part)
    return result


def _wanted(node: Node) -> list[int]:
    return [int(str(d)) for d in known_ints(node.input(3)) or ()]


def _found_plan(low: Lowering, node: Node, op: Resize, crops: bool) -> Tensor:
    """A step that finds the sizes of the result, and scale and part of every axis."""
    x = operand(node)
    axes = [a % x.rank for a in op.axes] or list(range(x.rank))
    plan = low.storage.scratch_tensor(dtypes.float64, (x.rank, 3), natural(2), "resize plan")
    f = low.function("resize_plan", node)
    f.include("resize_plan.hpp", "failure.h")
    scales, sizes, roi = node.input(2), node.input(3), node.input(1)
    sized = sizes is not None and sizes.tensor.size != 0
    if sized:
        array(low, f, node, "sizes", operand(node, 3))
    none = "(const float*)nullptr"
    pointer = none if sized or scales is None else f.read(low.storage.dense(scales))
    f.arrays({"in": map(Size, x.shape), "axes": axes})
    f.room({"out": x.rank})
    part = f.read(low.storage.dense(roi)) if crops and roi is not None else none
    policy = f"ResizePolicy({_POLICIES.index(op.keep_aspect_ratio_policy)})"
    listed = "sizes" if sized else "(const int64_t*)nullptr"
    told = "out", f.write(plan)
    lists = "in", x.rank, "axes", len(axes)
    arguments = *lists, pointer, listed, policy, part, *told
    f.call("resize_plan", *arguments, failure="BAD_SIZES", context=False)
    low.resolve_sizes(f, node, node.output.shape, "out")
    f.finish(f"Resize {node.name}: sizes")
    return plan
