"""Resizing of images, channels last."""

from __future__ import annotations

from collections.abc import Callable

from infuse.codegen.formulas import literal
from infuse.codegen.groups import Group
from infuse.codegen.lower.convolution import image
from infuse.codegen.lower.linear import label
from infuse.codegen.lower.views import operand
from infuse.codegen.lowering import Lowering, lowers
from infuse.codegen.program import size_text
from infuse.codegen.tensors import channels_last
from infuse.ir.dims import Dim
from infuse.ir.graph import Node
from infuse.ops.resampling import Resize, meant

# The enumerators of kernels/resize.hpp, in their order.
_MODES = ("nearest", "linear", "cubic")
_COORDINATES = (
    *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"),
    "tf_crop_and_resize",
)
_ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@lowers("Resize", fuses=True, reads=(0,))
def resize(low: Lowering, node: Node, group: Group) -> None:
    x = operand(node)
    tensor = image(low, node)
    f = low.function("resize", *group.nodes)
    f.include("resize.hpp")
    sink = low.sink(f, group, channels_last(x.rank))
    f.scratch(f"resize_scratch({_shape(node, size_text)})", "resize.hpp")
    f.line(f"resize(c, {_shape(node, f.number)}, {f.read(tensor)}, {sink});")
    f.finish(label(group))


def _shape(node: Node, text: Callable[[Dim], str]) -> str:
    """The ResizeShape; `text` prints whole numbers, all of them, so that equal models of numbers share the code."""
    x, op = operand(node), node.op
    assert isinstance(op, Resize)
    sides = [_side(node, axis, text) for axis in range(2, x.rank)]
    sides = [f"{{{text(1)}, {text(1)}, {_ratio(1, 1, text)}, 0.0, 1.0}}", *sides] if len(sides) == 1 else sides
    fields = [text(x.shape[0]), text(x.shape[1]), *sides]
    fields.append(f"ResizeMode({text(_MODES.index(op.mode))})")
    fields.append(f"ResizeCoordinates({text(_COORDINATES.index(op.coordinate_transformation_mode))})")
    fields.append(f"ResizeRounding({text(_ROUNDINGS.index(op.nearest_mode))})")
    fields += [literal(op.cubic_coeff_a, x.dtype), f"{text(int(bool(op.exclude_outside)))} != 0"]
    fields += [literal(op.extrapolation_value, x.dtype), f"{text(int(bool(op.antialias)))} != 0"]
    return f"ResizeShape{{{', '.join(fields)}}}"


def _side(node: Node, axis: int, text: Callable[[Dim], str]) -> str:
    """One side of the image: sizes, scale, and the part of it that is shown."""
    x, op = operand(node), node.op
    assert isinstance(op, Resize)
    before, after = x.shape[axis], node.output.shape[axis]
    axes = [a % x.rank for a in op.axes] or list(range(x.rank))
    start, end, scale = 0.0, 1.0, _ratio(after, before, text)
    if axis in axes:
        place = axes.index(axis)
        roi, scales, sizes = (node.input(i) for i in (1, 2, 3))
        if (sizes is None or sizes.tensor.size == 0) and scales is not None and scales.const is not None:
            fraction = meant(float(scales.const.reshape(-1)[place]))
            scale = _ratio(fraction.numerator, fraction.denominator, text)
        if roi is not None and roi.const is not None and roi.const.size:
            start, end = float(roi.const[place]), float(roi.const[place + len(axes)])
    return f"{{{text(before)}, {text(after)}, {scale}, {start!r}, {end!r}}}"


def _ratio(above: Dim, below: Dim, text: Callable[[Dim], str]) -> str:
    return f"double({text(above)}) / double({text(below)})"
