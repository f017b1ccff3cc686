"""Operators that bring the elements of axes together, or order them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.tensorflow.calls import FlowCall, operator
from infuse.ir.graph import Value
from infuse.tracing.axes import axis_of
from infuse.tracing.semantics import ordering
from infuse.tracing.tensorflow import indexing


@operator("ArgMax", "ArgMin")
def place(call: FlowCall) -> Value:
    """Where the largest or least number is."""
    x = call.raw(0)
    if x.dtype.is_bool:
        x = call.g.cast(x, dtypes.uint8)
    kind, axis = call.node.op, axis_of(call.one(1), x.rank)
    x = ordering.ranked(call.g, x, kind)
    return call.as_result(call.g(kind, x, axis=axis, keepdims=0))


@operator("TopKV2", "TopK")
def top_k(call: FlowCall) -> list[Value]:
    """The largest elements of the last axis in order, and their places."""
    count = call.list_of(1) if call.has(1) else call.g.ints(int(call.option("k")))
    values, places = call.g.several(
        2, "TopK", call.raw(0), call.g("Reshape", count, call.g.ints(1)), axis=-1
    )
    return [values, call.as_result(places, 1)]


@operator("InTopK", "InTopKV2")
def in_top_k(call: FlowCall) -> Value:
    """Whether the class of each row is among its largest."""
    g, rows, classes, k = call.g, call.raw(0), call.int64(1), call.raw(2)
    score = g("GatherElements", rows, g("Unsqueeze", classes, g.ints(1)), axis=1)
    above = g("ReduceSum", g.cast(g("Greater", rows, score), dtypes.int64), g.ints(1), keepdims=0)
    return g("Less", above, g.cast(k, dtypes.int64))


_SEGMENTS: Final = {"SegmentProd": "mul", "SegmentMax": "max", "SegmentMin": "min"}


def _segment(how: str) -> Callable[[FlowCall], Value]:
    def build(call: FlowCall) -> Value:
        g = call.g
        last = g("ReduceMax", call.int64(1), g.ints(0), keepdims=1)
        count = g("Add", last, 1)
        made = indexing.unsorted(how)(call.on(*call.items[:2], count))
        if how == "mul":
            return made
        # A segment that nothing belongs to is zero.
        zero = g.constant(np.zeros((), made.dtype.numpy))
        start = g.constant(np.zeros((), np.int64))
        ones = g("Expand", g.number(1, dtypes.int64), g("Shape", call.raw(1)))
        full = g("Expand", start, count)
        numbers = g("Unsqueeze", call.int64(1), g.ints(-1))
        sizes = g("ScatterND", full, numbers, ones, reduction="add")
        shape = g.ints(-1, *[1] * (made.rank - 1))
        return g("Where", g("Reshape", g("Greater", sizes, 0), shape), made, zero)

    return build


for _name, _how in _SEGMENTS.items():
    operator(_name)(_segment(_how))


@operator("SegmentMean")
def segment_mean(call: FlowCall) -> Value:
    """The means of the rows of each segment."""
    g, x = call.g, call.raw(0)
    sums = indexing.segment_sum(call)
    ones = g("Expand", g.constant(np.ones((), x.dtype.numpy)), g("Shape", call.raw(1)))
    counts = g("Max", indexing.segment_sum(call.on(ones, call.item(1))), 1)
    return g("Div", sums, g("Reshape", counts, g.ints(-1, *[1] * (x.rank - 1))))


@operator("UniqueV2")
def unique_v2(call: FlowCall) -> list[Value]:
    """The different elements of a list, and which of them each one is."""
    axes = call.ints(1)
    if call.raw(0).rank != 1 or axes not in ([], [0]):
        raise call.unsupported("different slices of a tensor")
    return indexing.unique(call.on(call.item(0)))


@operator("UniqueWithCounts", "UniqueWithCountsV2")
def unique_with_counts(call: FlowCall) -> list[Value]:
    """Besides, how often each of them comes."""
    values, _, which, counts = call.g.several(4, "Unique", call.raw(0), sorted=0)
    return [values, call.as_result(which), call.as_result(counts)]


# -- putting ---------------------------------------------------------------------------------------


def _put(how: str) -> Callable[[FlowCall], Value]:
    def build(call: FlowCall) -> Value:
        x, at, updates = call.raw(0), call.int64(1), call.raw(2)
        if how == "sub":
            return call.g("ScatterND", x, at, call.g("Neg", updates), reduction="add")
        return call.g("ScatterND", x, at, updates, reduction=how)

    return build


for _name, _how in {
    "Update": "none", "Add": "add", "Sub": "sub", "Max": "max", "Min": "min"
}.items():  # fmt: skip
    operator(f"TensorScatter{_name}")(_put(_how))


@operator("TensorStridedSliceUpdate")
def strided_update(call: FlowCall) -> Value:
    """A tensor with other elements where a strided slice of it is."""
    g, x = call.g, call.raw(0)
    sizes = [size for size in x.shape if isinstance(size, int)]
    if len(sizes) != x.rank:
        raise call.unsupported("an update of a tensor of unknown size")
    if math.prod(sizes) > 1 << 26:
        raise call.unsupported(f"an update of {math.prod(sizes)} elements")
    numbers = g.constant(np.arange(math.prod(sizes), dtype=np.int64).reshape(sizes))
    places = indexing.strided_slice(call.on(numbers, *call.items[1:4]))
    updates = g("Expand", call.raw(4), g("Shape", places))
    flat = g("Reshape", x, g.ints(-1))
    at, new = g("Reshape", places, g.ints(-1, 1)), g("Reshape", updates, g.ints(-1))
    return g("Reshape", g("ScatterND", flat, at, new), g.ints(*sizes))


@operator("DynamicStitch", "ParallelDynamicStitch")
def stitch(call: FlowCall) -> Value:
    """Rows at the places that lists of numbers say, later ones over earlier ones."""
    g, count = call.g, call.count // 2
    numbers = [g("Reshape", call.int64(i), g.ints(-1)) for i in range(count)]
    rows = []
    for index in range(count):
        data, rank = call.raw(count + index), call.raw(index).rank
        rest = [g.size_of(data, axis) for axis in range(rank, data.rank)]
        rows.append(g("Reshape", data, g.ints(-1, *rest)))
    at, data = g("Concat", *numbers, axis=0), g("Concat", *rows, axis=0)
    length = g("Add", g("ReduceMax", at, g.ints(0), keepdims=1), 1)
    rest = [g.size_of(data, axis) for axis in range(1, data.rank)]
    zero = g.constant(np.zeros((), data.dtype.numpy))
    full = g("Expand", zero, g("Concat", length, g.ints(*rest), axis=0))
    return g("ScatterND", full, g("Unsqueeze", at, g.ints(-1)), data)


@operator("DynamicPartition")
def partition(call: FlowCall) -> list[Value]:
    """The rows of each of several parts."""
    g, data, numbers = call.g, call.raw(0), call.raw(1)
    many = int(call.option("num_partitions", 1))
    if not 1 <= many <= 1 << 12:
        raise ModelFileError(f"it has {many} parts")
    rest = [g.size_of(data, axis) for axis in range(numbers.rank, data.rank)]
    rows = g("Reshape", data, g.ints(-1, *rest))
    flat = g("Reshape", numbers, g.ints(-1))
    parts = []
    for part in range(many):
        here = g("Equal", flat, g.constant(np.array(part, np.int32)))
        parts.append(g("Compress", rows, here, axis=0))
    return parts


# -- boxes -----------------------------------------------------------------------------------------


def _suppressed(call: FlowCall, overlap: Any, threshold: Any) -> Value:
    g = call.g
    boxes = g("Unsqueeze", call.raw(0), g.ints(0))
    scores = g("Unsqueeze", call.raw(1), g.ints(0, 1))
    if scores.dtype != dtypes.float32:
        boxes, scores = (g.cast(value, dtypes.float32) for value in (boxes, scores))
    most = g("Reshape", call.list_of(2), g.ints(1))
    limits = [None if v is None else g.cast(v, dtypes.float32) for v in (overlap, threshold)]
    rows = g("NonMaxSuppression", boxes, scores, most, *limits)
    return g("Gather", rows, g.constant(np.array(2)), axis=1)


@operator("NonMaxSuppression")
def first_suppression(call: FlowCall) -> Value:
    """The numbers of the boxes that stay."""
    limit = call.g.constant(np.float32(call.option("iou_threshold", 0.5)))
    return call.g.cast(_suppressed(call, limit, None), dtypes.int32)


@operator("NonMaxSuppressionV2", "NonMaxSuppressionV3")
def suppression(call: FlowCall) -> Value:
    """The numbers of the boxes that stay."""
    threshold = call.raw(4) if call.has(4) else None
    return call.g.cast(_suppressed(call, call.raw(3), threshold), dtypes.int32)


@operator("NonMaxSuppressionV4")
def padded_suppression(call: FlowCall) -> list[Value]:
    """The numbers of the boxes that stay, zeros behind them where asked for, and how many."""
    g, chosen = call.g, _suppressed(call, call.raw(3), call.raw(4))
    count = g.cast(g("Squeeze", g("Shape", chosen), g.ints(0)), dtypes.int32)
    return [g.cast(_filled(call, chosen, chosen), dtypes.int32), count]


@operator("NonMaxSuppressionV5")
def soft_suppression(call: FlowCall) -> list[Value]:
    """Besides, their scores."""
    sigma = call.const(5)
    if sigma is None or np.any(sigma):
        raise call.unsupported("soft suppression of boxes")
    g, chosen = call.g, _suppressed(call, call.raw(3), call.raw(4))
    count = g.cast(g("Squeeze", g("Shape", chosen), g.ints(0)), dtypes.int32)
    scores = _filled(call, g("Gather", call.raw(1), chosen, axis=0), chosen)
    return [g.cast(_filled(call, chosen, chosen), dtypes.int32), scores, count]


def _filled(call: FlowCall, value: Value, chosen: Value) -> Value:
    if not call.option("pad_to_max_output_size", False):
        return value
    g = call.g
    missing = g("Sub", g("Reshape", call.list_of(2), g.ints(1)), g("Shape", chosen))
    return g("Pad", value, g("Concat", g.ints(0), missing, axis=0))
