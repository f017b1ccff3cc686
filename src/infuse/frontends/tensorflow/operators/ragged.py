"""Rows of different lengths: their elements one after another, and where they begin and end."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.tensorflow.calls import FlowCall, operator
from infuse.ir.graph import Value
from infuse.tracing.importer import Importer


@operator("RaggedTensorToTensor")
def filled(call: FlowCall) -> Value:
    """Rows as a matrix, filled up with a default. Operands: the shape that is asked for, the
    elements, the default, and how they are put into rows.
    """
    g, values, kinds = call.g, call.raw(1), _kinds(call)
    stated = call.ints(0)
    if values.rank != 1 or (len(stated) == 2 and stated[0] >= 0):
        raise call.unsupported(f"rows of {values.type} with the shape {stated}")
    if kinds == ["ROW_SPLITS"]:
        splits = call.int64(3)
        begin, end = _without(g, splits, first=False), _without(g, splits, first=True)
        sizes = g("Sub", end, begin)
    elif kinds == ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]:
        sizes = _counts(g, call.int64(4), g("Reshape", call.int64(3), g.ints(1)))
        begin = g("CumSum", sizes, g.constant(np.array(0, np.int64)), exclusive=1)
    else:
        raise call.unsupported(f"rows by {', '.join(kinds)}")
    if len(stated) == 2 and stated[1] >= 0:
        width = g.ints(stated[1])
    else:
        padded = g("Concat", sizes, g.ints(0), axis=0)
        width = g("ReduceMax", padded, g.ints(0), keepdims=1)
    inside = g("Less", places := _numbers(g, width), g("Unsqueeze", sizes, g.ints(1)))
    # What fills up a row is the default, which stands behind all elements.
    at = g("Where", inside, g("Add", g("Unsqueeze", begin, g.ints(1)), places), g("Shape", values))
    default = g("Reshape", call.raw(2), g.ints(1))
    return g("Gather", g("Concat", values, default, axis=0), at, axis=0)


@operator("RaggedBincount")
def counts(call: FlowCall) -> Value:
    """How often each number below a size is in each row, or the sum of its weights."""
    g, splits, values, size = call.g, call.int64(0), call.int64(1), call.list_of(2)
    dtype = call.type("T")
    if values.rank != 1:
        raise call.unsupported(f"rows of {values.type}")
    weights, given = call.raw(3), call.raw(3).tensor.shape
    if given != (0,):
        if given is None or given != values.tensor.shape:
            raise call.unsupported(f"weights of {weights.type}")
    else:
        weights = g("Expand", g.number(1, dtype), g("Shape", values))
    rows = _rows(g, splits, g("Shape", values))
    inside = g("Less", values, size)
    at = [
        g("Unsqueeze", v, g.ints(1))
        for v in (rows, g("Where", inside, values, g.number(0, dtypes.int64)))
    ]
    weights = g("Where", inside, weights, g.number(0, dtype))
    shape = g("Concat", g("Sub", g("Shape", splits), 1), size, axis=0)
    zeros = g("Expand", g.number(0, dtype), shape)
    how = "max" if call.option("binary_output", False) else "add"
    return g("ScatterND", zeros, g("Concat", *at, axis=1), weights, reduction=how)


def _kinds(call: FlowCall) -> list[str]:
    listed = call.option("row_partition_types", [])
    if not isinstance(listed, list):
        raise ModelFileError("it does not say how rows are made")
    return [kind.decode("utf-8", "replace") if isinstance(kind, bytes) else "" for kind in listed]


def _without(g: Importer, splits: Value, first: bool) -> Value:
    """All but the first or the last."""
    start, end = (1, 1 << 62) if first else (0, -1)
    return g("Slice", splits, g.ints(start), g.ints(end), g.ints(0))


def _numbers(g: Importer, count: Value) -> Value:
    """The numbers below one that is a list of one."""
    zero, one = (g.constant(np.array(n, np.int64)) for n in (0, 1))
    return g("Range", zero, g("Squeeze", count, g.ints(0)), one)


def _counts(g: Importer, rows: Value, count: Value) -> Value:
    """How many elements each of so many rows has."""
    zeros = g("Expand", g.constant(np.array(0, np.int64)), count)
    ones = g("Expand", g.constant(np.array(1, np.int64)), g("Shape", rows))
    return g("ScatterElements", zeros, rows, ones, axis=0, reduction="add")


def _rows(g: Importer, splits: Value, count: Value) -> Value:
    """The row of each of so many elements."""
    inner = _without(g, _without(g, splits, first=True), first=False)
    begins = _counts(g, inner, g("Add", count, 1))
    rows = g("CumSum", begins, g.constant(np.array(0, np.int64)))
    return _without(g, rows, first=False)
