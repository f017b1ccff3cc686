"""Primitives that compute every element by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.frontends.jax.calls import JaxCall, JaxImporter, primitive
from infuse.frontends.jax.primitives.bits import bits_as, signed
from infuse.ir.graph import Value
from infuse.tracing.semantics import arithmetic
from infuse.tracing.sized import highest, lowest

_SAME: Final = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh",
    "atan": "Atan", "atanh": "Atanh", "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh", "erf": "Erf",
    "exp": "Exp", "floor": "Floor", "log": "Log", "logistic": "Sigmoid", "sign": "Sign",
    "sin": "Sin", "sinh": "Sinh", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh",
}  # fmt: skip
_PAIRS: Final = {"add": "Add", "add_any": "Add", "sub": "Sub"}
_COMPARED: Final = {
    "eq": "Equal", "ge": "GreaterOrEqual", "gt": "Greater", "le": "LessOrEqual", "lt": "Less",
}  # fmt: skip
_LOGICAL: Final = {
    "and": ("BitwiseAnd", "And"), "or": ("BitwiseOr", "Or"), "xor": ("BitwiseXor", "Xor"),
    "max": ("Max", "Or"), "min": ("Min", "And"),
}  # fmt: skip
"""Operators of numbers, and those of truth values."""


def _same(kind: str) -> Callable[[JaxCall], Value]:
    return lambda call: call.g(kind, call.x)


def _pair(kind: str) -> Callable[[JaxCall], Value]:
    return lambda call: call.g(kind, call.x, call.y)


def _logical(kinds: tuple[str, str]) -> Callable[[JaxCall], Value]:
    return lambda call: call.g(kinds[call.x.dtype.is_bool], call.x, call.y)


def _compared(kind: str) -> Callable[[JaxCall], Value]:
    def build(call: JaxCall) -> Value:
        values = (number_of(call.g, value) for value in (call.x, call.y))
        return call.g(kind, *values)

    return build


for _name, _kind in _SAME.items():
    primitive(_name)(_same(_kind))
for _name, _kind in _PAIRS.items():
    primitive(_name)(_pair(_kind))
for _name, _kind in _COMPARED.items():
    primitive(_name)(_compared(_kind))
for _name, _kinds in _LOGICAL.items():
    primitive(_name)(_logical(_kinds))


def number_of(g: JaxImporter, value: Value) -> Value:
    """Truth values as 0 and 1."""
    return g.cast(value, dtypes.uint8) if value.dtype.is_bool else value


def _ordered(kind: str) -> Callable[[JaxCall], Value]:
    """A comparison in the order of all floats: -0 is below 0, and NaN above all numbers."""

    def build(call: JaxCall) -> Value:
        return call.g(kind, *(_rank(call.g, value) for value in (call.x, call.y)))

    return build


def _rank(g: JaxImporter, value: Value) -> Value:
    """Integers in the order of floats: their bits, exchanged below the sign of negative ones."""
    if not value.dtype.is_float:
        return number_of(g, value)
    whole = signed(value.dtype)
    bits = bits_as(g, value, whole)
    turned = g("BitwiseXor", bits, g.number(int(highest(whole)), whole))
    return g("Where", g("Less", bits, g.number(0, whole)), turned, bits)


for _name, _kind in {"eq_to": "Equal", "le_to": "LessOrEqual", "lt_to": "Less"}.items():
    primitive(_name)(_ordered(_kind))


primitive("ne")(lambda call: call.g("Not", call.g("Equal", call.x, call.y)))
primitive("copy", "copy_p", "name", "stop_gradient")(lambda call: call.x)
primitive("optimization_barrier", "device_put")(lambda call: call.operands)
primitive("not")(lambda call: call.g("Not" if call.dtype.is_bool else "BitwiseNot", call.x))
primitive("square")(lambda call: call.g("Mul", call.x, call.x))
primitive("rsqrt")(lambda call: call.g("Reciprocal", call.g("Sqrt", call.x)))
primitive("exp2")(lambda call: call.g("Pow", call.g.number(2, call.dtype), call.x))
primitive("atan2")(lambda call: arithmetic.atan2(call.g, call.x, call.y))
primitive("convert_element_type")(lambda call: converted(call.g, call.x, call.dtype))


@primitive("mul")
def mul(call: JaxCall) -> Value:
    """The product, in the type of the result."""
    return call.g("Mul", *(call.g.cast(value, call.dtype) for value in (call.x, call.y)))


@primitive("neg")
def neg(call: JaxCall) -> Value:
    """Numbers with the other sign; unsigned ones wrap."""
    if call.dtype.is_signed:
        return call.g("Neg", call.x)
    return call.g("Sub", call.g.number(0, call.dtype), call.x)


@primitive("cbrt")
def cbrt(call: JaxCall) -> Value:
    """The cube root, which has the sign of x."""
    g, x = call.g, call.x
    w = g.cast(x, dtypes.float64)
    root = g("Mul", g("Sign", w), g("Pow", g("Abs", w), 1 / 3))
    return g.cast(root, x.dtype)


@primitive("div")
def div(call: JaxCall) -> Value:
    """The quotient; of integers cut off, and -1 where the divisor is zero."""
    g, x, y = call.g, call.x, call.y
    if call.dtype.is_float:
        return g("Div", x, y)
    of_zero = g.number(_bits_set(call.dtype), call.dtype)
    return _divided(call, "Div", of_zero, g("Neg", x) if call.dtype.is_signed else x)


def _bits_set(dtype: DType) -> int:
    return -1 if dtype.is_signed else int(highest(dtype))


def _divided(
    call: JaxCall, kind: str, of_zero: Value, of_minus_one: Value, **attributes: Any
) -> Value:
    """A quotient or rest of integers; those of the divisors 0 and -1 are given, as the quotient of
    the least number and -1 is none.
    """
    g, x, y = call.g, call.x, call.y
    zero, minus = (g.number(number, x.dtype) for number in (0, _bits_set(x.dtype)))
    if y.const is not None and not np.isin(y.const, [0, _bits_set(x.dtype)]).any():
        return g(kind, x, y, **attributes)
    is_zero, is_minus = g("Equal", y, zero), g("Equal", y, minus)
    if not x.dtype.is_signed:
        safe = g("Where", is_zero, g.number(1, x.dtype), y)
        return g("Where", is_zero, of_zero, g(kind, x, safe, **attributes))
    safe = g("Where", g("Or", is_zero, is_minus), g.number(1, x.dtype), y)
    made = g("Where", is_minus, of_minus_one, g(kind, x, safe, **attributes))
    return g("Where", is_zero, of_zero, made)


@primitive("rem")
def rem(call: JaxCall) -> Value:
    """The rest of a quotient that is cut off; x where the divisor is zero."""
    if call.dtype.is_float:
        return call.g("Mod", call.x, call.y, fmod=1)
    return _divided(call, "Mod", call.x, call.g.number(0, call.dtype), fmod=1)


@primitive("pow")
def pow_(call: JaxCall) -> Value:
    """X to the power y; integers to negative powers are what is left of 1 / x."""
    g, x, y = call.g, call.x, call.y
    if call.dtype.is_float:
        return g("Pow", x, g.cast(y, x.dtype))
    if not y.dtype.is_signed:
        return g("Pow", x, g.cast(y, x.dtype))
    zero = g.number(0, y.dtype)
    power = g("Pow", x, g.cast(g("Max", y, zero), x.dtype))
    one, nothing = g.number(1, x.dtype), g.number(0, x.dtype)
    odd = g("Equal", g("Mod", y, g.number(2, y.dtype)), g.number(1, y.dtype))
    unit = g("Where", g("Equal", x, one), one, nothing)
    if x.dtype.is_signed:
        turned = g("Where", odd, g.number(-1, x.dtype), one)
        unit = g("Where", g("Equal", x, g.number(-1, x.dtype)), turned, unit)
    return g("Where", g("Less", y, zero), unit, power)


@primitive("integer_pow")
def integer_pow(call: JaxCall) -> Value:
    """X to a power that is a number, by products."""
    g, factor = call.g, call.x
    exponent = abs(int(call["y"]))
    result: Value | None = None
    while exponent:
        if exponent & 1:
            result = factor if result is None else g("Mul", result, factor)
        exponent >>= 1
        factor = g("Mul", factor, factor) if exponent else factor
    if result is None:
        return g.expand(g.number(1, call.dtype), *call.shape)
    return g("Reciprocal", result) if call["y"] < 0 else result


@primitive("clamp")
def clamp(call: JaxCall) -> Value:
    """The second operand, between the first and the third."""
    low, x, high = call.operands
    return call.g.clamp(x, low, high)


@primitive("is_finite")
def is_finite(call: JaxCall) -> Value:
    """Whether elements are numbers and not infinite."""
    g = call.g
    x = g.cast(call.x, dtypes.float32) if call.x.dtype.bits < 32 else call.x
    return g("Not", g("Or", g("IsInf", x), g("IsNaN", x)))


@primitive("round")
def round_(call: JaxCall) -> Value:
    """The next whole number; of two the even one, or the one that is farther from zero."""
    g, x = call.g, call.x
    if call["rounding_method"] == 1:
        return g("Round", x)
    whole = g("Floor", g("Abs", x))
    half = g("GreaterOrEqual", g("Sub", g("Abs", x), whole), 0.5)
    up = g("Where", half, g("Add", whole, g.number(1, x.dtype)), whole)
    return g("Mul", g("Sign", x), up)


@primitive("select_n")
def select_n(call: JaxCall) -> Value:
    """The case of which the first operand has the number."""
    g, which, cases = call.g, call.x, call.operands[1:]
    if which.dtype.is_bool:
        return g("Where", which, cases[1], cases[0]) if len(cases) == 2 else cases[0]
    result = cases[-1]
    for number in reversed(range(len(cases) - 1)):
        chosen = g("LessOrEqual", which, g.number(number, which.dtype))
        result = g("Where", chosen, cases[number], result)
    return result


# -- element types ---------------------------------------------------------------------------------


def converted(g: JaxImporter, x: Value, to: DType) -> Value:
    """Elements in another type; floats are cut off, and end at the limits of integers."""
    if to.is_float and to.bits == 8:
        return g("Cast", x, to=to, saturate=0)
    if not (x.dtype.is_float and to.is_integer):
        return g.cast(x, to)
    w = g.cast(x, dtypes.float32) if x.dtype.bits < 32 else x
    low, high = int(lowest(to)), int(highest(to))
    below, above = g("LessOrEqual", w, float(low)), g("GreaterOrEqual", w, float(high + 1))
    outside = g("Or", g("IsNaN", w), g("Or", below, above))
    whole = g.cast(g("Where", outside, g.number(0, w.dtype), w), to)
    ended = g("Where", above, g.number(high, to), whole)
    return g("Where", below, g.number(low, to), ended)


_PRECISIONS: Final = {(5, 10): dtypes.float16, (8, 7): dtypes.bfloat16, (8, 23): dtypes.float32}


@primitive("reduce_precision")
def reduce_precision(call: JaxCall) -> Value:
    """Numbers rounded to those of a shorter type."""
    bits = int(call["exponent_bits"]), int(call["mantissa_bits"])
    short = _PRECISIONS.get(bits)
    if short is None:
        raise call.unsupported(f"a precision of {bits[0]} bits of exponent and {bits[1]} behind")
    if short.bits > call.dtype.bits:
        return call.x
    return call.g.cast(call.g.cast(call.x, short), call.dtype)
