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

_MODES = {"nearest": "RESIZE_NEAREST", "linear": "RESIZE_LINEAR", "cubic": "RESIZE_CUBIC"}
_COORDINATES = {"tf_crop_and_resize": "CROP_AND_RESIZE"}


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
    """The ResizeShape; `text` prints sizes."""
    x, op = operand(node), node.op
    assert isinstance(op, Resize)
    mode = op.coordinate_transformation_mode
    sides = [_side(node, axis, text) for axis in range(2, x.rank)]
    sides = ["{1, 1, 1.0, 0.0, 1.0}", *sides] if len(sides) == 1 else sides
    fields = [text(x.shape[0]), text(x.shape[1]), *sides, _MODES[op.mode], _COORDINATES.get(mode, mode.upper())]
    fields.append(f"ROUND_{op.nearest_mode.removeprefix('round_').upper()}")
    fields += [literal(op.cubic_coeff_a, x.dtype), "true" if op.exclude_outside else "false"]
    fields += [literal(op.extrapolation_value, x.dtype), "true" if op.antialias else "false"]
    return f"ResizeShape{{{', '.join(fields)}}}"


def _side(node: Node, axis: int, text: Callable[[Dim], str]) -> str:
    """One side of the image: sizes, scale, and the part of it that is shown."""
    x, op = operand(node), node.op
    assert isinstance(op, Resize)
    before, after = text(x.shape[axis]), text(node.output.shape[axis])
    axes = [a % x.rank for a in op.axes] or list(range(x.rank))
    start, end, scale = 0.0, 1.0, f"double({after}) / double({before})"
    if axis in axes:
        place = axes.index(axis)
        roi, scales, sizes = (node.input(i) for i in (1, 2, 3))
        if (sizes is None or sizes.tensor.size == 0) and scales is not None and scales.const is not None:
            scale = repr(float(meant(float(scales.const.reshape(-1)[place]))))
        if roi is not None and roi.const is not None and roi.const.size:
            start, end = float(roi.const[place]), float(roi.const[place + len(axes)])
    return f"{{{before}, {after}, {scale}, {start!r}, {end!r}}}"
