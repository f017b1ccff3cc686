"""Functions of every element by itself that torch has not, or has in another form."""

from __future__ import annotations

from typing import Any

from infuse.frontends.mindspore.calls import Call, primitive, shared
from infuse.ir.graph import Value

shared("MaskedFill", "masked_fill", "0", "1", "2")


@primitive("GeLU")
def gelu(call: Call) -> Value:
    """GELU by way of tanh."""
    return call.g("Gelu", call.value(0), approximate="tanh")


@primitive("FastGeLU")
def fast_gelu(call: Call) -> Value:
    """GELU by way of a sigmoid: x / (1 + exp(-1.702 · x))."""
    g, x = call.g, call.value(0)
    return g("Mul", x, g("Sigmoid", g("Mul", x, 1.702)))


@primitive("Elu")
def elu(call: Call) -> Value:
    """Exp(x) - 1 below 0."""
    return call.g("Elu", call.value(0), alpha=float(call.number(1, 1.0)))


@primitive("CeLU")
def celu(call: Call) -> Value:
    """Alpha · (exp(x / alpha) - 1) below 0."""
    return call.g("Celu", call.value(0), alpha=float(call.number(1, 1.0)))


@primitive("PReLU")
def prelu(call: Call) -> Value:
    """X times the weight of its channel below 0."""
    g, x, weight = call.g, call.value(0), call.value(1)
    if weight.rank == 1 and x.rank > 2:
        weight = g.shaped(weight, -1, *[1] * (x.rank - 2))
    return g("PRelu", x, weight)


@primitive("Softplus", "Softsign")
def soft(call: Call) -> Value:
    """Log(exp(x) + 1), or x / (1 + |x|)."""
    return call.g(call.name, call.value(0))


@primitive("Softmax", "LogSoftmax")
def softmax(call: Call) -> Value:
    """Exponentials by their sum along an axis, or the logarithms of that."""
    x = call.value(0)
    (axis,) = call.ints(call.item(1, -1), 1)
    return call.g(call.name, x, axis=axis % max(x.rank, 1))


@primitive("BiasAdd")
def bias_add(call: Call) -> Value:
    """X + a number for each channel, which is the second axis, or the last of NHWC."""
    g, x, bias = call.g, call.value(0), call.value(1)
    layout = call.item(2, 0)
    if layout in (0, 2, "NCHW", "NCDHW"):
        return g("Add", x, g.shaped(bias, -1, *[1] * max(x.rank - 2, 0)))
    if layout in (1, "NHWC"):
        return g("Add", x, bias)
    raise call.unsupported(f"data format {layout!r}")


@primitive("AddN", "AccumulateNV2")
def add_n(call: Call) -> Value:
    """The sum of several tensors."""
    first, *rest = call.values()
    for value in rest:
        first = call.g("Add", first, value)
    return first


@primitive("SquaredDifference")
def squared_difference(call: Call) -> Value:
    """(x - y)²."""
    g = call.g
    difference = g("Sub", *g.tensors(call.item(0), call.item(1), dtype=g.dtype))
    return g("Mul", difference, difference)


@primitive("Xlogy", "DivNoNan")
def zero_first(call: Call) -> Value:
    """X · log(y), 0 where x is 0; or x / y, 0 where y is 0."""
    g = call.g
    x, y = g.tensors(call.item(0), call.item(1), dtype=g.dtype)
    zero = g.number(0, x.dtype)
    if call.name == "DivNoNan":
        return g("Where", g("Equal", y, zero), zero, g("Div", x, y))
    product = g("Mul", x, g("Log", y))
    return g("Where", g("And", g("Equal", x, zero), g("Not", g("IsNaN", y))), zero, product)


@primitive("Round")
def round_(call: Call) -> Value:
    """The nearest whole number, even ones where two are as near."""
    x, decimals = call.value(0), call.number(1, 0)
    if decimals:
        raise call.unsupported(f"rounding to {decimals} places")
    return call.g("Round", x) if x.dtype.is_float else x


@primitive("Dropout", "DropoutExt", "Dropout2D", "Dropout3D")
def dropout(call: Call) -> list[Any]:
    """X itself where nothing is dropped; the mask is not read."""
    x = call.value(0)
    call.ignore("seed0", "seed1", "Seed0", "Seed1", 2, 3)
    keep = call.item(1, call.attribute("keep_prob", 1.0))
    if call.name == "DropoutExt":
        keep = 1.0 - call.number(1)
    if keep != 1.0:
        raise call.unsupported("dropout in training mode")
    return [x, None]
