"""Primitives that join elements along axes, and sort them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from infuse import dtypes
from infuse.frontends.jax.calls import JaxCall, JaxImporter, primitive
from infuse.frontends.jax.primitives.elementwise import number_of
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.tracing.sized import highest, lowest

REDUCTIONS: Final = {
    "add": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin", "mul": "ReduceProd",
    "and": "ReduceMin", "or": "ReduceMax",
}  # fmt: skip
"""By the primitive that joins two elements."""


def reduced(call: JaxCall, joins: str, x: Value) -> Value:
    """The elements along the axes, joined."""
    listed = call["axes" if "axes" in call.parameters else "dimensions"]
    g, axes = call.g, [int(axis) for axis in listed]
    if joins in ("and", "or", "xor") and not x.dtype.is_bool:
        raise call.unsupported(f"the bits of integers, joined by {joins},")
    if not axes:
        return x
    if joins == "xor":
        total = g("ReduceSum", g.cast(x, dtypes.int32), g.ints(*axes), keepdims=0)
        return g.cast(g("BitwiseAnd", total, g.number(1, dtypes.int32)), dtypes.bool_)
    return g(REDUCTIONS[joins], x, g.ints(*axes), keepdims=0)


def _reduction(joins: str) -> Callable[[JaxCall], Value]:
    return lambda call: reduced(call, joins, call.x)


for _name, _joins in {
    "reduce_sum": "add", "reduce_max": "max", "reduce_min": "min", "reduce_prod": "mul",
    "reduce_and": "and", "reduce_or": "or", "reduce_xor": "xor",
}.items():  # fmt: skip
    primitive(_name)(_reduction(_joins))


def joined_by(call: JaxCall, jaxpr: Any) -> str:
    """The primitive by which a jaxpr joins two elements."""
    opened = getattr(jaxpr, "jaxpr", jaxpr)
    if len(opened.eqns) == 1:
        (equation,) = opened.eqns
        name = str(equation.primitive.name)
        read = {id(atom) for atom in equation.invars}
        plain = read == {id(v) for v in opened.invars} and opened.outvars == equation.outvars
        if plain and name in REDUCTIONS:
            return name
    raise call.unsupported("elements joined by a function of its own")


@primitive("reduce")
def reduce(call: JaxCall) -> Value:
    """Elements joined by a function, with one more at the beginning."""
    if len(call.operands) != 2:
        raise call.unsupported("a reduction of several arrays")
    joins = joined_by(call, call["jaxpr"])
    x, first = call.operands
    return join(call.g, joins, reduced(call, joins, x), first)


def join(g: JaxImporter, joins: str, a: Value, b: Value) -> Value:
    """Elements of two arrays, joined by a primitive."""
    logical = {"and": "And", "or": "Or", "max": "Or", "min": "And"}
    numeric = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
    return g((logical if a.dtype.is_bool else numeric)[joins], a, b)


def _place(kind: str) -> Callable[[JaxCall], Value]:
    def build(call: JaxCall) -> Value:
        (axis,) = call["axes"]
        x = number_of(call.g, call.x)
        return call.g.cast(call.g(kind, x, axis=int(axis), keepdims=0), call.dtype)

    return build


primitive("argmax")(_place("ArgMax"))
primitive("argmin")(_place("ArgMin"))


# -- running ---------------------------------------------------------------------------------------


def _running(kind: str) -> Callable[[JaxCall], Value]:
    def build(call: JaxCall) -> Value:
        axis = call.g.constant(int(call["axis"]))
        return call.g(kind, call.x, axis, reverse=int(call["reverse"]))

    return build


primitive("cumsum")(_running("CumSum"))
primitive("cumprod")(_running("CumProd"))


def _log_add(g: JaxImporter, a: Value, b: Value) -> Value:
    """log(e^a + e^b), without overflow."""
    most = g("Max", a, b)
    far = g("Neg", g("Abs", g("Sub", a, b)))
    distance = g("Where", g("Equal", a, b), g.number(0, a.dtype), far)
    return g("Add", most, g("Log", g("Add", g("Exp", distance), 1.0)))


def _scanned(
    first: Callable[[Any], Any], joined: Callable[[JaxImporter, Value, Value], Value]
) -> Callable[[JaxCall], Value]:
    """What all elements up to each of an axis give, joined one after the other."""

    def build(call: JaxCall) -> Value:
        g, x, axis = call.g, call.x, int(call["axis"])
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        start = g.expand(g.constant(first(x.dtype), dtype=x.dtype), *shape)
        body = g.body("body")
        state = body.typed_input("state", TensorType(x.dtype, shape))
        row = body.typed_input("row", TensorType(x.dtype, shape))
        made = joined(body, state, row)
        body.output("state_out", made)
        body.output("row_out", body("Identity", made))
        way = (int(call["reverse"]),)
        return g.control(
            2, "Scan", start, x, bodies={"body": body}, num_scan_inputs=1,
            scan_input_axes=(axis,), scan_output_axes=(axis,),
            scan_input_directions=way, scan_output_directions=way,
        )[1]  # fmt: skip

    return build


primitive("cummax")(_scanned(lowest, lambda g, a, b: g("Max", a, b)))
primitive("cummin")(_scanned(highest, lambda g, a, b: g("Min", a, b)))
primitive("cumlogsumexp")(_scanned(lowest, _log_add))


# -- order -----------------------------------------------------------------------------------------


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
