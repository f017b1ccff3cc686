"""Operators that count elements: the most frequent one, histograms, repetitions."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter, aten, axis_of
from infuse.tracing.aten.order import picked, running
from infuse.tracing.aten.ranking import sort


@aten("mode")
def mode(g: TorchImporter, x: Value, dim: int = -1, keepdim: bool = False) -> list[Value]:
    """The most frequent element of an axis, the least one of several, and where it is last; each
    NaN differs from all others.
    """
    if x.rank == 0:
        return [x, g.number(0, dtypes.int64)]
    axis = axis_of(dim, x.rank)
    size = x.shape[axis]
    ordered, _ = sort(g, x, axis)
    changes = g("Not", g("Equal", g.part(ordered, axis, 1, size), g.part(ordered, axis, 0, -1)))
    places = g.shaped(
        g.indices(g.size_of(x, axis)), *(-1 if i == axis else 1 for i in range(x.rank))
    )
    zero = g.number(0, dtypes.int64)
    begun = g("Where", changes, g.part(places, axis, 1, size), zero)
    first = g.expand(zero, g("Shape", g.part(ordered, axis, 0, 1)))
    starts = g("Concat", first, begun, axis=axis)
    starts = running(g, starts, axis, lambda a, b: g("Max", a, b))
    place = g("ArgMax", g("Sub", places, starts), axis=axis, keepdims=1)
    return list(picked(g, x, place, axis, keepdim))


def _tallied(g: TorchImporter, places: Value, counts: Value, updates: Value | None) -> Value:
    """Counts, and how many places name each of them: or the sum of `updates` there."""
    if updates is None:
        updates = g.expand(g.number(1, counts.dtype), g("Shape", places))
    return g("ScatterElements", counts, places, updates, axis=0, reduction="add")


def _rounded(g: TorchImporter, kind: str, a: Value, b: Value) -> Value:
    """A result of 16 bits that compiled code rounds, too, before it computes with it."""
    if a.dtype.bits > 16:
        return g(kind, a, b)
    wide = (g.cast(x, dtypes.float32) for x in (a, b))
    return g.cast(g(kind, *wide), a.dtype)


@aten("histc")
def histc(g: TorchImporter, x: Value, bins: int = 100, min: Any = 0, max: Any = 0) -> Value:
    """How many elements lie in each of `bins` parts of equal width between two limits, the last one
    with its end: those of x where the limits are equal, and one apart where those are, too. Every
    step is rounded to the type of the elements.
    """
    flat = g.shaped(x, -1)
    one, zero = g.number(1, x.dtype), g.number(0, dtypes.int64)
    if min == max:
        low, high = (g(kind, flat, keepdims=0) for kind in ("ReduceMin", "ReduceMax"))
    else:
        low, high = g.number(min, x.dtype), g.number(max, x.dtype)
    same = g("Equal", low, high)
    low = g("Where", same, g("Sub", low, one), low)
    high = g("Where", same, g("Add", high, one), high)
    parts = _rounded(g, "Mul", _rounded(g, "Sub", flat, low), g.number(bins, x.dtype))
    steps = _rounded(g, "Div", parts, _rounded(g, "Sub", high, low))
    within = g("And", g("GreaterOrEqual", flat, low), g("LessOrEqual", flat, high))
    steps = g("Where", within, steps, g.number(bins, x.dtype))
    place = g("Min", g.cast(steps, dtypes.int64), g.number(bins - 1, dtypes.int64))
    place = g("Where", within, place, g.number(bins, dtypes.int64))
    counts = _tallied(g, g("Max", place, zero), g.constant(np.zeros(bins + 1, np.int64)), None)
    return g.cast(g.part(counts, 0, 0, bins), x.dtype)


@aten("bincount")
def bincount(g: TorchImporter, x: Value, weights: Value | None = None, minlength: Any = 0) -> Value:
    """How often each number from 0 on occurs, or the sum of its weights."""
    places = g.cast(x, dtypes.int64)
    least = (
        g.shaped(g.calculated("Sub", minlength, 1), 1)
        if isinstance(minlength, Value)
        else g.ints(minlength - 1)
    )
    most = g("ReduceMax", g("Concat", places, least, axis=0), keepdims=1)
    size = g("Add", most, g.ints(1))
    updates = None if weights is None else g.cast(weights, g.dtype)
    return _tallied(g, places, g.expand(g.number(0, g.dtype), size), updates)


@aten("repeat_interleave.Tensor")
def repeated_places(
    g: TorchImporter, repeats: Value, *, output_size: int | Value | None = None
) -> Value:
    """0, 1, 2, …, each as often as `repeats` says."""
    times = g.cast(repeats, dtypes.int64)
    zero = g.number(0, dtypes.int64)
    ends = g("CumSum", times, zero)
    total = g.ints(g("ReduceSum", times, keepdims=0) if output_size is None else output_size)
    begun = _tallied(g, ends, g.expand(zero, g("Add", total, g.ints(1))), None)
    places = g("Slice", g("CumSum", begun, zero), g.ints(0), total)
    return g.cast(places, repeats.dtype)


@aten("repeat_interleave.self_Tensor")
def repeat_interleave(
    g: TorchImporter,
    x: Value,
    repeats: Value,
    dim: int | None = None,
    *,
    output_size: int | Value | None = None,
) -> Value:
    """The elements of an axis, each as often as `repeats` says."""
    if dim is None:
        x, dim = g.shaped(x, -1), 0
    axis = axis_of(dim, x.rank)
    times = g.expand(repeats, g.ints(g.size_of(x, axis)))
    return g("Gather", x, repeated_places(g, times, output_size=output_size), axis=axis)
