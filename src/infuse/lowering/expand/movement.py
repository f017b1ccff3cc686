"""Rearrangements and comparisons of places, as views and elementwise work."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.graph import Node, Value, constant
from infuse.lowering.expand.composer import Composer, Results, expands


def _first(node: Node) -> Value:
    x = node.inputs[0]
    assert x is not None
    return x


@expands("DepthToSpace")
def depth_to_space(make: Composer, node: Node) -> Results:
    x, attributes = _first(node), node.op.attributes()
    b = attributes["blocksize"]
    n, c, h, w = x.shape
    out = dims.floordiv(c, b * b)
    if attributes["mode"] == "DCR":
        blocks = make.permute(make.reshape(x, n, b, b, out, h, w), 0, 3, 4, 1, 5, 2)
    else:
        blocks = make.permute(make.reshape(x, n, out, b, b, h, w), 0, 1, 4, 2, 5, 3)
    return make.reshape(blocks, n, out, h * b, w * b)


@expands("SpaceToDepth")
def space_to_depth(make: Composer, node: Node) -> Results:
    x, attributes = _first(node), node.op.attributes()
    b = attributes["blocksize"]
    n, c, h, w = x.shape
    rows, columns = dims.floordiv(h, b), dims.floordiv(w, b)
    order = (0, 3, 5, 1, 2, 4) if attributes["mode"] == "DCR" else (0, 1, 3, 5, 2, 4)
    blocks = make.permute(make.reshape(x, n, c, rows, b, columns, b), *order)
    return make.reshape(blocks, n, c * b * b, rows, columns)


@expands("CenterCropPad")
def center_crop_pad(make: Composer, node: Node) -> Results:
    x = result = _first(node)
    axes = node.op.attributes()["axes"]
    shape = known_ints(node.input(1))
    if shape is None:
        return None
    for axis, target in zip(range(x.rank) if axes is None else axes, shape):
        axis %= x.rank
        size = x.shape[axis]
        start = dims.floordiv(dims.maximum(size - target, 0), 2)
        result = make.slice(result, axis, start, start + dims.minimum(size, target))
        missing = dims.maximum(target - size, 0)
        result = make.pad(
            result, axis, dims.floordiv(missing, 2), missing - dims.floordiv(missing, 2)
        )
    return result


@expands("OneHot")
def one_hot(make: Composer, node: Node) -> Results:
    indices, depth, values = (v for v in node.inputs if v is not None)
    depths = known_ints(depth)
    if depths is None and depth.const is not None:
        depths = (int(depth.const.reshape(-1)[0]),)
    if depths is None:
        return None
    axis = node.op.attributes()["axis"] % (indices.rank + 1)
    if not indices.dtype.is_integer:
        indices = make.cast(indices, dtypes.int64)
    places = make.reshape(indices, *indices.shape[:axis], 1, *indices.shape[axis:])
    size = make.cast(make.size(depths[0]), indices.dtype)
    if indices.dtype.is_signed:
        places = make("Where", make("Less", places, 0), places + size, places)
    choices = make.reshape(make.range(depths[0]), depths[0], *(1,) * (indices.rank - axis))
    off, on = (make.reshape(make.slice(values, 0, i, i + 1)) for i in range(2))
    return make("Where", make("Equal", places, make.cast(choices, indices.dtype)), on, off)


@expands("EyeLike")
def eye_like(make: Composer, node: Node) -> Results:
    attributes, shape, dtype = node.op.attributes(), node.output.shape, node.output.dtype
    rows, columns = shape
    if isinstance(rows, int) and isinstance(columns, int):
        return make("Identity", constant(np.eye(rows, columns, attributes["k"], dtype=dtype.numpy)))
    diagonal = make(make.reshape(make.range(rows), rows, 1) + attributes["k"])
    return make.cast(make("Equal", diagonal, make.range(columns)), dtype)


@expands("Compress")
def compress(make: Composer, node: Node) -> Results:
    x, condition = (v for v in node.inputs if v is not None)
    if condition.const is None:
        return None
    axis = node.op.attributes()["axis"]
    if axis is None:
        x, axis = make.reshape(x, dims.product(x.shape)), 0
    return make("Gather", x, constant(np.flatnonzero(condition.const)), axis=axis)


@expands("Dropout")
def dropout(make: Composer, node: Node) -> Results:
    if not any(v.uses for v in node.outputs[1:]):
        return None
    x = _first(node)
    return [
        make("Identity", x),
        make("ConstantOfShape", make.ints(*x.shape), value=True, dtype=dtypes.bool_),
    ]
