"""Primitives that sort."""

from __future__ import annotations

from infuse.frontends.jax.calls import JaxCall, JaxImporter, primitive
from infuse.frontends.jax.primitives.elementwise import number_of
from infuse.ir.dims import Dim
from infuse.ir.graph import Value


@primitive("sort")
def sort(call: JaxCall) -> list[Value]:
    """Arrays in the order of the first ones, of which the first counts most; NaN comes last."""
    g, axis = call.g, int(call["dimension"])
    count, size = int(call["num_keys"]), call.x.shape[axis]
    if len(call.operands) == 1:
        ordered, _ = _best(g, number_of(g, call.x), size, axis, largest=0)
        return [g.cast(ordered, call.dtype)]
    places: Value | None = None
    for key in reversed(call.operands[:count]):
        value = number_of(g, key)
        if places is None:
            _, places = _best(g, value, size, axis, largest=0)
        else:
            before = g("GatherElements", value, places, axis=axis)
            _, order = _best(g, before, size, axis, largest=0)
            places = g("GatherElements", places, order, axis=axis)
    return [g("GatherElements", value, places, axis=axis) for value in call.operands]


def _best(g: JaxImporter, x: Value, count: Dim, axis: int, largest: int) -> list[Value]:
    return g.several(2, "TopK", x, g.ints(count), axis=axis, largest=largest)


@primitive("top_k")
def top_k(call: JaxCall) -> list[Value]:
    """The largest elements along an axis, and their places; NaN is larger than all numbers."""
    g, x = call.g, call.x
    axis = int(call.parameters.get("axis", -1))
    best, places = _best(g, number_of(g, x), call.size(call["k"]), axis, largest=1)
    return [g.cast(best, x.dtype), g.cast(places, call.types[1].dtype)]
