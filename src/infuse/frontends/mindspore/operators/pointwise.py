"""Functions of every element by itself that torch has not, or has in another form."""

from __future__ import annotations

import math
from typing import Any, Final

from infuse.frontends.mindspore.calls import MindCall, primitive, shared
from infuse.frontends.mindspore.operators.linear import CHANNELS_SECOND
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import handler_of
from infuse.tracing.semantics import arithmetic

shared("MaskedFill", "masked_fill", "0", "1", "2")


_ROUNDING: Final = {1: "trunc", 2: "floor"}


@primitive("DivMod", "DivMods")
def div_mod(call: MindCall) -> Value:
    """The quotient, rounded as a number says."""
    handler, mode = handler_of("aten.div"), call.item(2, None)
    if mode is not None and mode not in _ROUNDING:
        raise call.unsupported(f"rounding_mode {mode!r}")
    assert handler is not None
    rounding = None if mode is None else _ROUNDING[mode]
    value: Value = handler(call.g, call.item(0), call.item(1), rounding_mode=rounding)
    return value


@primitive("GeLU", "GeluExt")
def gelu(call: MindCall) -> Value:
    """GELU, by way of tanh unless it is the newer form without."""
    how = 1 if call.name == "GeLU" else call.item(1, 0)
    if how not in (0, 1):
        raise call.unsupported(f"approximate {how!r}")
    return call.g("Gelu", call.value(0), approximate="tanh" if how else "none")


@primitive("Log")
def log(call: MindCall) -> Value:
    """The natural logarithm."""
    base, scale, shift = (call.attribute(*row) for row in _LOGARITHM.items())
    if base not in (-1, math.e) or scale != 1 or shift != 0:
        raise call.unsupported(f"base {base}, scale {scale} and shift {shift}")
    return call.g("Log", call.g.cast(call.value(0), call.g.dtype))


_LOGARITHM: Final = {"base": -1.0, "scale": 1.0, "shift": 0.0}


@primitive("FastGeLU")
def fast_gelu(call: MindCall) -> Value:
    """GELU by way of a sigmoid: x / (1 + exp(-1.702 · x))."""
    g, x = call.g, call.value(0)
    return g("Mul", x, g("Sigmoid", g("Mul", x, 1.702)))


primitive("Elu")(lambda call: call.g("Elu", call.value(0), alpha=float(call.number(1, 1.0))))
primitive("CeLU")(lambda call: call.g("Celu", call.value(0), alpha=float(call.number(1, 1.0))))
primitive("Softplus", "Softsign")(lambda call: call.g(call.name, call.value(0)))


@primitive("PReLU")
def prelu(call: MindCall) -> Value:
    """X times the weight of its channel below 0."""
    g, x, weight = call.g, call.value(0), call.value(1)
    if weight.rank == 1 and x.rank > 2:
        weight = g.shaped(weight, -1, *[1] * (x.rank - 2))
    return g("PRelu", x, weight)


@primitive("Softmax", "LogSoftmax")
def softmax(call: MindCall) -> Value:
    """Exponentials by their sum along an axis, or the logarithms of that."""
    x = call.value(0)
    (axis,) = call.ints(call.item(1, -1), 1)
    return call.g(call.name, x, axis=axis % max(x.rank, 1))


@primitive("BiasAdd")
def bias_add(call: MindCall) -> Value:
    """X + a number for each channel, which is the second axis, or the last of NHWC."""
    g, x, bias = call.g, call.value(0), call.value(1)
    layout = call.item(2, 0)
    if layout in CHANNELS_SECOND:
        return g("Add", x, g.shaped(bias, -1, *[1] * max(x.rank - 2, 0)))
    if layout in (1, "NHWC"):
        return g("Add", x, bias)
    raise call.unsupported(f"data format {layout!r}")


@primitive("SquaredDifference")
def squared_difference(call: MindCall) -> Value:
    """(x - y)²."""
    g = call.g
    difference = g("Sub", *g.tensors(call.item(0), call.item(1), dtype=g.dtype))
    return g("Mul", difference, difference)


@primitive("Xlogy", "DivNoNan")
def zero_first(call: MindCall) -> Value:
    """X · log(y), 0 where x is 0; or x / y, 0 where y is 0."""
    g = call.g
    x, y = g.tensors(call.item(0), call.item(1), dtype=g.dtype)
    zero = g.number(0, x.dtype)
    if call.name == "DivNoNan":
        return g("Where", g("Equal", y, zero), zero, g("Div", x, y))
    product = g("Mul", x, g("Log", y))
    return g("Where", g("And", g("Equal", x, zero), g("Not", g("IsNaN", y))), zero, product)


@primitive("Round")
def round_(call: MindCall) -> Value:
    """The nearest whole number, even ones where two are as near."""
    x, decimals = call.value(0), call.number(1, 0)
    if decimals:
        raise call.unsupported(f"rounding to {decimals} places")
    return call.g("Round", x) if x.dtype.is_float else x


@primitive("Dropout", "DropoutExt", "Dropout2D", "Dropout3D")
def dropout(call: MindCall) -> list[Any]:
    """X itself where nothing is dropped; the mask is not read."""
    x = call.value(0)
    call.ignore("seed0", "seed1", "Seed0", "Seed1", 2, 3)
    keep = call.item(1, call.attribute("keep_prob", 1.0))
    if call.name == "DropoutExt":
        keep = 1.0 - call.number(1)
    if keep != 1.0:
        raise call.unsupported("dropout in training mode")
    return [x, None]


primitive("AddN", "AccumulateNV2")(lambda call: arithmetic.summed(call.g, call.values()))
