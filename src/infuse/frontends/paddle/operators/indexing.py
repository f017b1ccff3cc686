"""Elements by their places."""

from __future__ import annotations

from typing import Final

import numpy as np

from infuse import dtypes
from infuse.frontends.paddle.calls import PaddleCall, front, operator
from infuse.ir.graph import Value

_SCATTERED: Final = {
    "assign": "none", "add": "add", "mul": "mul", "multiply": "mul", "amax": "max", "amin": "min",
}  # fmt: skip


@operator("gather")
def gather(call: PaddleCall) -> Value:
    """Parts of an axis by their places."""
    g, x, index = call.g, call("x"), call("index")
    axis = call.axis(x.rank, default=0)
    index = g("Reshape", index, g.ints(-1)) if index.rank > 1 else index
    return g("Gather", x, index, axis=axis)


@operator("index_select")
def index_select(call: PaddleCall) -> Value:
    """Parts of an axis by their places."""
    return call.g("Gather", call("x"), call("index"), axis=int(call.attribute("axis", 0)))


@operator("gather_nd")
def gather_nd(call: PaddleCall) -> Value:
    """Parts by places on several axes."""
    index = call.g.cast(call("index"), dtypes.int64)
    return call.g("GatherND", call("x"), index)


operator("index_sample")(lambda call: call.g("GatherElements", call("x"), call("index"), axis=1))
operator("nonzero")(lambda call: call.g.permute(call.g("NonZero", call("condition")), 1, 0))


@operator("take_along_axis")
def take_along_axis(call: PaddleCall) -> Value:
    """Elements at places of their own."""
    axis = int(call.attribute("axis", 0))
    return call.g("GatherElements", call("arr"), call("indices"), axis=axis)


@operator("put_along_axis")
def put_along_axis(call: PaddleCall) -> Value:
    """Other elements at places of their own."""
    g, index = call.g, call("indices")
    reduce = call.attribute("reduce", "assign")
    if reduce not in _SCATTERED:
        raise call.unsupported(f"reduce={reduce!r}")
    call.require("include_self", True)
    values = g("Expand", call("values"), g("Shape", index))
    axis = int(call.attribute("axis", 0))
    kind = _SCATTERED[reduce]
    return g("ScatterElements", call("arr"), index, values, axis=axis, reduction=kind)


@operator("scatter")
def scatter(call: PaddleCall) -> Value:
    """Other rows at some places, or their sums; what was there is gone."""
    g, x, updates = call.g, call("x"), call("updates")
    index = g("Reshape", g.cast(call("index"), dtypes.int64), g.ints(-1, 1))
    if call.attribute("overwrite", True):
        return g("ScatterND", x, index, updates)
    zeros = g("Mul", updates, g.number(0, updates.dtype))
    return g("ScatterND", g("ScatterND", x, index, zeros), index, updates, reduction="add")


@operator("scatter_nd_add")
def scatter_nd_add(call: PaddleCall) -> Value:
    """Sums at places on several axes."""
    index = call.g.cast(call("index"), dtypes.int64)
    return call.g("ScatterND", call("x"), index, call("updates"), reduction="add")


@operator("embedding")
def embedding(call: PaddleCall) -> Value:
    """Rows by their numbers; those of the padding are zero."""
    g, ids, weight = call.g, call("x"), call("weight")
    padding = int(call.attribute("padding_idx", -1))
    rows = g("Gather", weight, ids, axis=0)
    if padding == -1:
        return rows
    hidden = g("Unsqueeze", g("Equal", ids, g.number(padding, ids.dtype)), g.ints(-1))
    return g("Where", hidden, g.number(0, rows.dtype), rows)


@operator("one_hot")
def one_hot(call: PaddleCall) -> Value:
    """Rows of zeros with a one at a place."""
    g, depth = call.g, call.integer("num_classes", -1)
    call.require("allow_out_of_range", False)
    dtype = call.dtype() or dtypes.float32
    values = g.constant(np.array([0, 1], dtype.numpy))
    return g("OneHot", call("x"), g.number(depth, dtypes.int64), values, axis=-1)


@operator("masked_select")
def masked_select(call: PaddleCall) -> Value:
    """The elements where a mask holds, one after another."""
    g, x, mask = call.g, call("x"), call("mask")
    x, mask = g("Expand", x, g("Shape", mask)), g("Expand", mask, g("Shape", x))
    return g("Compress", g("Reshape", x, g.ints(-1)), g("Reshape", mask, g.ints(-1)))


@operator("sequence_mask")
def sequence_mask(call: PaddleCall) -> Value:
    """Ones at as many places as a length says."""
    g, x = call.g, call("x")
    count = call.integer("max_len", -1)
    if count < 0:
        raise call.unsupported("a longest sequence that is computed")
    places = g("Range", *(g.number(n, x.dtype) for n in (0, count, 1)))
    below = g("Less", places, g("Unsqueeze", x, g.ints(front(-1, x.rank + 1))))
    return g.cast(below, call.dtype("out_dtype") or dtypes.int64)
