"""What foreign formats say of the order of elements: the different ones, the largest."""

from __future__ import annotations

import math
from typing import Final

from infuse import dtypes
from infuse.errors import UnsupportedOperatorError
from infuse.ir.graph import Array, Value
from infuse.ops.conversion import finite_limit
from infuse.ops.core.building import GraphBuilder
from infuse.tracing.importer import Importer


def distinct(g: GraphBuilder, x: Value) -> tuple[Value, Value, Value, Value]:
    """The different elements of a vector in order, where each occurs first, which of them each
    element is, and how often each occurs. Every NaN differs from all others, and comes last.
    """
    if not x.dtype.is_float:
        values, first, inverse, counts = g.several(4, "Unique", x, sorted=1)
        return values, first, inverse, counts
    axis, zero = g.number(0, dtypes.int64), g.number(0, dtypes.int64)
    one, row = g.number(1, dtypes.int64), g.reshape(zero, 1)
    lost = g("IsNaN", x)
    kept = g("Not", lost)
    places = (g("Reshape", g("NonZero", mask), g.ints(-1)) for mask in (kept, lost))
    kept_places, lost_places = places
    values, first, inverse, counts = g.several(
        4, "Unique", g("Gather", x, kept_places, axis=0), sorted=1
    )
    before = g("Sub", g("CumSum", g.cast(kept, dtypes.int64), axis), one)
    among = g("Gather", g("Concat", inverse, row, axis=0), g("Max", before, zero), axis=0)
    behind = g("Sub", g("CumSum", g.cast(lost, dtypes.int64), axis), one)
    place = g("Where", lost, g("Add", g("Size", values), behind), among)
    once = g("Expand", one, g("Shape", lost_places))
    return (
        g("Concat", values, g("Gather", x, lost_places, axis=0), axis=0),
        g("Concat", g("Gather", kept_places, first, axis=0), lost_places, axis=0),
        place,
        g("Concat", counts, once, axis=0),
    )


def ranked(g: GraphBuilder, x: Value, kind: str) -> Value:
    """What ArgMax (or ArgMin, the KIND) is to look through, where it begins with the last number
    of the type and asks for a larger one, as TensorFlow does: NaN and infinities never are.
    """
    if not x.dtype.is_float:
        return x
    last = float(finite_limit(x.dtype) or 0)
    end = g.number(-last if kind == "ArgMax" else last, x.dtype)
    return g("Where", g("Greater" if kind == "ArgMax" else "Less", x, end), x, end)


_ROUNDED: Final = {"lower": "Floor", "higher": "Ceil", "nearest": "Round"}


def quantiles(g: Importer, rows: Value, shares: Array, method: str, skips: bool) -> Value:
    """The quantiles of the last axis, which has one place for each of the shares then: between two
    elements as a `method` of NumPy says; without NaN where it `skips` them, else NaN with one.
    """
    lost = g("IsNaN", rows)
    last = rows.rank - 1
    count = g("Shape", rows, start=last)
    ordered = g("Where", g("Not", lost), rows, g.number(math.inf, rows.dtype))
    ordered, _ = g.several(2, "TopK", ordered, count, axis=last, largest=0, sorted=1)
    if skips:
        kept = g.cast(g("Not", lost), dtypes.float64)
        size = g("ReduceSum", kept, g.ints(last), keepdims=1)
        empty = g("Equal", size, g.number(0, size.dtype))
    else:
        size = g("Reshape", g.cast(count, dtypes.float64), g.ints(*[1] * rows.rank))
        empty = g("ReduceMax", g.cast(lost, dtypes.uint8), g.ints(last), keepdims=1)
        empty = g.cast(empty, dtypes.bool_)
    end = g("Sub", size, 1.0)
    exact = g("Mul", end, g.constant(shares.reshape(*[1] * last, -1)))

    def taken(places: Value) -> Value:
        inside = g("Max", g("Min", places, end), 0.0)
        shape = g("Concat", g("Shape", rows, end=last), g.ints(shares.size), axis=0)
        return g("GatherElements", ordered, g("Expand", g.cast(inside, dtypes.int64), shape),
                 axis=last)  # fmt: skip

    if method in _ROUNDED:
        y = taken(g(_ROUNDED[method], exact))
    elif method == "midpoint":
        y = g("Mul", g("Add", taken(g("Floor", exact)), taken(g("Ceil", exact))), 0.5)
    elif method == "linear":
        below = g("Max", g("Sub", g("Max", g("Min", g("Ceil", exact), end), 0.0), 1.0), 0.0)
        above = g("Min", g("Add", below, 1.0), end)
        share = g.cast(g("Sub", above, exact), rows.dtype)
        rest = g("Sub", g.number(1, share.dtype), share)
        y = g("Add", g("Mul", taken(above), rest), g("Mul", taken(below), share))
    else:
        raise UnsupportedOperatorError(f"the method {method!r} is not supported")
    return g("Where", empty, g.number(math.nan, rows.dtype), y)
