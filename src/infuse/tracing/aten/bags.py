"""Sums, means and maxima of rows of a table: bags."""

from __future__ import annotations

import math
from typing import Any

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter, aten

_SUM, _MEAN, _MAX = range(3)


@aten("embedding_bag.padding_idx")
def padded_bags(
    g: TorchImporter,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Value | None,
    include_last_offset: bool,
    padding_idx: int | None,
) -> list[Value | None]:
    """Bags without the rows of this number, which counts from the end where it is negative."""
    left_out: Any = padding_idx
    if padding_idx is not None and padding_idx < 0:
        left_out = g.calculated("Add", g.size_of(weight, 0), padding_idx)
    return _bags(
        g, weight, indices, offsets, mode, per_sample_weights, include_last_offset, left_out
    )


@aten("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
def bags(
    g: TorchImporter,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> list[Value | None]:
    """Bags of rows that begin at the offsets; of a negative number no rows are left out."""
    left_out = padding_idx if padding_idx >= 0 else None
    return _bags(
        g, weight, indices, offsets, mode, per_sample_weights, include_last_offset, left_out
    )


def _bags(
    g: TorchImporter,
    weight: Value,
    indices: Value,
    offsets: Value,
    mode: int,
    factors: Value | None,
    has_last: bool,
    left_out: Any,
) -> list[Value | None]:
    (rows,) = g.operands(g("Gather", weight, indices, axis=0), steps=True)
    if factors is not None:
        rows = g("Mul", rows, g("Unsqueeze", g.cast(factors, rows.dtype), g.ints(1)))
    count = g.calculated("Sub", g.size_of(offsets, 0), int(has_last))
    bag = _bag_of_each(g, indices, g.cast(offsets, dtypes.int64))
    if left_out is not None:  # what belongs to no bag goes into one more, behind the others
        lost = g("Equal", indices, g.tensor(left_out, indices.dtype))
        bag = g("Where", lost, g.tensor(count, dtypes.int64), bag)
    places = g("Unsqueeze", bag, g.ints(1))
    sizes = [g.calculated("Add", count, 1), g.size_of(weight, 1)]
    zero, one = g.number(0, rows.dtype), g.number(1, rows.dtype)

    def put(first: Value, into: list[Any], updates: Value, reduction: str) -> Value:
        made = g("ScatterND", g.expand(first, into), places, updates, reduction=reduction)
        return g.part(made, 0, 0, count)

    if mode == _SUM:
        return [g.cast(put(zero, sizes, rows, "add"), g.dtype), None, None, None]
    ones = g("Expand", g.reshape(one, 1, 1), g.ints(g.size_of(indices, 0), 1))
    counts = put(zero, [sizes[0], 1], ones, "add")
    if mode == _MEAN:
        total = put(zero, sizes, rows, "add")
        return [g.cast(g("Div", total, g("Max", counts, one)), g.dtype), None, None, None]
    most = put(g.number(-math.inf, rows.dtype), sizes, rows, "max")
    return [g.cast(g("Where", g("Equal", counts, zero), zero, most), g.dtype), None, None, None]


def _bag_of_each(g: TorchImporter, indices: Value, offsets: Value) -> Value:
    """The bag to which each index belongs: the last one that begins at or before it."""
    numbers = g("Unsqueeze", g.indices(g.size_of(indices, 0)), g.ints(1))
    begun = g.cast(g("LessOrEqual", offsets, numbers), dtypes.int64)
    return g("Sub", g("ReduceSum", begun, g.ints(1), keepdims=0), 1)
