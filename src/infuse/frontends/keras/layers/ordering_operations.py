"""Operations of `keras.ops` that put elements in order, and functions put together of others."""

from __future__ import annotations

import math
from typing import Any

from infuse import dtypes
from infuse.frontends.keras.calls import KerasCall
from infuse.frontends.keras.layers.operations import operation, real, tensor, together
from infuse.ir.graph import Value
from infuse.tracing.semantics import arithmetic


def _ordered(call: KerasCall, x: Any, axis: int | None, largest: int = 0) -> tuple[Value, Value]:
    """All elements along an axis in order, equal ones as they stand, and their places."""
    g, value = call.g, tensor(call, x)
    if axis is None:
        value, axis = call.shaped(value, -1), 0
    count = g.ints(g.size_of(value, axis))
    values, places = g.several(2, "TopK", value, count, axis=axis, largest=largest, sorted=1)
    return values, g.cast(places, dtypes.int32)


operation("Sort")(lambda call, x, axis=-1: _ordered(call, x, axis)[0])
operation("Argsort")(lambda call, x, axis=-1: _ordered(call, x, axis)[1])


@operation("TopK")
def top_k(call: KerasCall, x: Any, k: int, sorted: bool = True) -> list[Value]:
    """The k largest elements of the last axis in descending order, and their places, int32."""
    g = call.g
    values, places = g.several(2, "TopK", tensor(call, x), g.ints(k), axis=-1, sorted=1)
    return [values, g.cast(places, dtypes.int32)]


@operation("Arctan2")
def arctan2(call: KerasCall, x1: Any, x2: Any) -> Value:
    """The angle of the point (x2, x1)."""
    y, x = together(call, x1, x2)
    return arithmetic.atan2(call.g, real(call, y), real(call, x))


@operation("Isfinite")
def isfinite(call: KerasCall, x: Any) -> Value:
    """Whether elements are numbers and not infinite."""
    g, value = call.g, real(call, x)
    return g("Not", g("Or", g("IsInf", value), g("IsNaN", value)))


@operation("Log2", "Log10")
def logarithm(call: KerasCall, x: Any) -> Value:
    """The logarithm to the base 2 or 10."""
    g, value = call.g, real(call, x)
    base = 2 if call.layer.kind == "ops.Log2" else 10
    exact = g("Mul", g("Log", arithmetic.wide(g, value)), 1 / math.log(base))
    return g.cast(exact, value.dtype)
