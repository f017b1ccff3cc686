"""Elements by their place in the order of an axis, and extremes and sums of what came so far."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.ops.quantization import limits
from infuse.tracing.aten.calls import TorchImporter, aten, axis_of
from infuse.tracing.aten.ranking import sort
from infuse.tracing.semantics import arithmetic


def picked(g: TorchImporter, x: Value, place: Any, dim: int, keepdim: bool) -> tuple[Value, Value]:
    """The element at a place of the order of an axis, and where it is; `place` is a number, or one
    for each row, its axis kept.
    """
    if x.rank == 0:
        return x, g.number(0, dtypes.int64)
    axis = axis_of(dim, x.rank)
    values, places = sort(g, x, axis)
    if isinstance(place, Value) and place.rank == x.rank:
        picked = [g("GatherElements", part, place, axis=axis) for part in (values, places)]
    else:
        at = g.shaped(g.tensor(place, dtypes.int64), 1)
        picked = [g("Gather", part, at, axis=axis) for part in (values, places)]
    if not keepdim:
        picked = [g("Squeeze", part, g.ints(axis)) for part in picked]
    return picked[0], picked[1]


@aten("kthvalue")
def kthvalue(
    g: TorchImporter, x: Value, k: Any, dim: int = -1, keepdim: bool = False
) -> list[Value]:
    """The k-th least element of an axis, and where it is."""
    return list(picked(g, x, g.calculated("Sub", k, 1), dim, keepdim))


@aten("median.dim", "nanmedian.dim")
def median_of_axis(g: TorchImporter, x: Value, dim: int = -1, keepdim: bool = False) -> list[Value]:
    """The median of an axis (the lower one of two), and where it is; of a row with NaN the first
    one, or with `nanmedian` the median of the others.
    """
    if x.rank == 0:
        return [x, g.number(0, dtypes.int64)]
    axis = axis_of(dim, x.rank)
    size = g.tensor(g.size_of(x, axis), dtypes.int64)
    zero, one, two = (g.number(i, dtypes.int64) for i in range(3))
    if not x.dtype.is_float:
        return list(picked(g, x, g("Div", g("Sub", size, one), two), dim, keepdim))
    lost = g.cast(g("IsNaN", x), dtypes.int64)
    count = g("ReduceSum", lost, g.ints(axis), keepdims=1)
    numbers = g("Sub", size, count)
    middle = g("Div", g("Max", g("Sub", numbers, one), zero), two)
    if not g.called.startswith("aten.nanmedian"):
        middle = g("Where", g("Greater", count, zero), numbers, middle)
    return list(picked(g, x, middle, dim, keepdim))


@aten("median.default", "nanmedian.default")
def median(g: TorchImporter, x: Value) -> Value:
    """The median of all elements, the lower one of two; of none NaN, or the least integer."""
    if 0 in x.shape:
        return g.number(math.nan if x.dtype.is_float else limits(x.dtype)[0], x.dtype)
    return median_of_axis(g, g.shaped(x, -1), 0)[0]


@aten("fmax", "fmin")
def number_of_two(g: TorchImporter, x: Value, other: Value) -> Value:
    """The larger or smaller of two elements, the other one where one is NaN."""
    a, b = g.tensors(x, other, dtype=g.dtype)
    y = g.bounded("Max" if g.called.startswith("aten.fmax") else "Min", a, b)
    if not a.dtype.is_float:
        return y
    return g("Where", g("IsNaN", a), b, g("Where", g("IsNaN", b), a, y))


aten("logaddexp")(lambda g, x, other: arithmetic.logaddexp(g, *g.tensors(x, other, dtype=g.dtype)))


def running(
    g: TorchImporter, x: Value, axis: int, joined: Callable[[Value, Value], Value]
) -> Value:
    """What an associative function makes of the elements so far: of 2, 4, 8 … of them."""
    size = x.shape[axis]
    if not isinstance(size, int):
        raise g.unsupported("a running extreme of an axis of computed size")
    step = 1
    while step < size:
        first, rest = g.part(x, axis, 0, step), g.part(x, axis, step, size)
        x = g("Concat", first, joined(rest, g.part(x, axis, 0, size - step)), axis=axis)
        step *= 2
    return x


@aten("cummax", "cummin")
def running_extreme(g: TorchImporter, x: Value, dim: int) -> list[Value]:
    """The extremes of the elements so far, and where the last of them is."""
    if x.rank == 0:
        return [x, g.number(0, dtypes.int64)]
    axis, is_max = axis_of(dim, x.rank), g.called.startswith("aten.cummax")
    kind = "Max" if is_max else "Min"
    wide = g.cast(x, dtypes.uint8) if x.dtype.is_bool else x
    values = running(g, wide, axis, lambda a, b: g(kind, a, b))
    reached = g("GreaterOrEqual" if is_max else "LessOrEqual", wide, values)
    if wide.dtype.is_float:
        reached = g("Or", reached, g("IsNaN", wide))
    sizes = [1] * x.rank
    sizes[axis] = -1
    numbers = g.shaped(g.indices(g.size_of(x, axis)), *sizes)
    marked = g("Where", reached, numbers, g.number(0, dtypes.int64))
    return [g.cast(values, x.dtype), running(g, marked, axis, lambda a, b: g("Max", a, b))]


@aten("logcumsumexp")
def running_logsumexp(g: TorchImporter, x: Value, dim: int) -> Value:
    """The logarithm of the sum of the exponentials of the elements so far."""
    if x.rank == 0:
        return x
    axis = axis_of(dim, x.rank)
    return running(g, x, axis, lambda a, b: arithmetic.logaddexp(g, a, b))
