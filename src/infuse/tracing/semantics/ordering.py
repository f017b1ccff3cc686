"""What foreign formats say of the order of elements: the different ones, the largest."""

from __future__ import annotations

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.ops.conversion import finite_limit
from infuse.ops.core.building import GraphBuilder


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
