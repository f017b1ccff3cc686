"""Resizing along any axes as a selection or a matrix product per axis, where the image kernel does not reach."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from infuse import dtypes
from infuse.codegen.expand.composer import Composer, Results, expands
from infuse.ir.graph import Node, Value, constant
from infuse.ops.resampling import Resize, ResizedAxis


@expands("Resize")
def resize(make: Composer, node: Node) -> Results:
    x, op = node.inputs[0], node.op
    assert x is not None
    assert isinstance(op, Resize)
    if resizes_image(node):
        return None
    given = [node.input(i) for i in (1, 2, 3)]
    if (
        not x.tensor.is_static
        or not node.output.tensor.is_static
        or any(v is not None and v.const is None for v in given)
    ):
        make.unsupported("sizes that only run time knows, in this mode")
    shape = tuple(int(d) for d in x.shape if isinstance(d, int))
    result = x
    for axis in op.plan(shape, *(None if v is None else v.const for v in given)):
        result = _resampled(make, op, result, axis)
    return make("Identity", result) if result is x else make.cast(result, x.dtype)


def resizes_image(node: Node) -> bool:
    """Whether the image kernel does it: float32 in (N, C, …), one or two spatial axes, in a plain mode."""
    x, op = node.inputs[0], node.op
    assert x is not None
    assert isinstance(op, Resize)
    if x.dtype != dtypes.float32 or x.rank not in (3, 4) or op.keep_aspect_ratio_policy != "stretch":
        return False
    if x.shape[:2] != node.output.shape[:2]:
        return False
    roi = node.input(1)
    scales, sizes = node.input(2), node.input(3)
    sized = sizes is not None and sizes.tensor.size != 0
    scaled = scales is not None and scales.is_const
    crops = op.coordinate_transformation_mode == "tf_crop_and_resize"
    return (sized or scaled) and (not crops or (roi is not None and roi.is_const))


def _resampled(make: Composer, op: Resize, x: Value, axis: ResizedAxis) -> Value:
    """One axis resampled: what a unit in every place gives is the matrix that does it."""
    if axis.is_identity:
        return x
    line = replace(axis, number=0)
    if op.mode == "nearest":
        places, outside = op.resample(np.arange(axis.before), line), op.outside(line)
        result = make("Gather", x, constant(np.where(outside, 0, places).astype(np.int64)), axis=axis.number)
    else:
        outside = op.outside(line)
        matrix = op.resample(np.eye(axis.before), line)
        wide = make.cast(x, x.dtype if x.dtype.is_float else dtypes.float64)
        last = [a for a in range(x.rank) if a != axis.number] + [axis.number]
        product = make("MatMul", make.permute(wide, *last), constant(matrix.T.astype(wide.dtype.numpy)))
        result = make.permute(product, *np.argsort(last).tolist())
    if not outside.any():
        return result
    mask = constant(outside.reshape(-1, *(1,) * (x.rank - 1 - axis.number)))
    return make("Where", mask, make.number(op.extrapolation_value, result.dtype), result)
