"""Operations of `keras.ops` on every element by itself that are put together of others."""

from __future__ import annotations

import math
from typing import Any

from infuse import dtypes
from infuse.frontends.keras.calls import KerasCall
from infuse.frontends.keras.layers.operations import operation, real, tensor, together
from infuse.ir.graph import Value
from infuse.tracing.arrays.array import applied
from infuse.tracing.arrays.floats import nextafter as next_number
from infuse.tracing.semantics import arithmetic, special


def _roomy(call: KerasCall, x: Any) -> Value:
    """Floats; those of int64 have 64 bits."""
    value = tensor(call, x)
    if value.dtype.is_float:
        return value
    return call.g.cast(value, dtypes.float64 if value.dtype.bits == 64 else dtypes.float32)


@operation("Cbrt")
def cbrt(call: KerasCall, x: Any) -> Value:
    """The cube root, with the sign of x."""
    g, value = call.g, _roomy(call, x)
    return g("Mul", g("Sign", value), g("Pow", g("Abs", value), 1 / 3))


@operation("Heaviside")
def heaviside(call: KerasCall, x1: Any, x2: Any) -> Value:
    """0 below zero, 1 above, else x2."""
    g = call.g
    a, b = (_roomy(call, x) for x in together(call, x1, x2))
    zero, one = call.number(0, a), call.number(1, a)
    return g("Where", g("Less", a, zero), zero, g("Where", g("Greater", a, zero), one, b))


@operation("I0")
def bessel_i0(call: KerasCall, x: Any) -> Value:
    """The modified Bessel function of order 0."""
    value = _roomy(call, x)
    wide = call.g.cast(value, dtypes.float64)
    return call.g.cast(special.bessel_i(call.g, wide, 0), value.dtype)


@operation("Erfinv")
def erfinv(call: KerasCall, x: Any) -> Value:
    """The number whose erf is x."""
    value = real(call, x)
    if value.dtype == dtypes.float64:
        raise call.unsupported("erfinv in float64")
    wide = call.g.cast(value, dtypes.float64)
    return call.g.cast(special.erf_inv(call.g, wide), value.dtype)


@operation("Sinc")
def sinc(call: KerasCall, x: Any) -> Value:
    """Sin πx / πx, and 1 of 0."""
    g, value = call.g, real(call, x)
    turned = g("Mul", value, math.pi)
    y = g("Div", g("Sin", turned), turned)
    return g("Where", g("Equal", value, call.number(0, value)), call.number(1, value), y)


@operation("Logaddexp2")
def logaddexp2(call: KerasCall, x1: Any, x2: Any) -> Value:
    """The logarithm to the base 2 of 2^x1 + 2^x2."""
    g = call.g
    pair = [real(call, x) for x in together(call, x1, x2)]
    wide = (g("Mul", arithmetic.wide(g, x), math.log(2)) for x in pair)
    exact = g("Mul", arithmetic.logaddexp(g, *wide), 1 / math.log(2))
    return g.cast(exact, pair[0].dtype)


@operation("Ldexp")
def ldexp(call: KerasCall, x1: Any, x2: Any) -> Value:
    """X1 times 2 to the power x2."""
    g, value = call.g, real(call, x1)
    power = g("Pow", call.number(2, value), g.cast(tensor(call, x2), value.dtype))
    still = g("Or", g("IsInf", value), g("Equal", value, call.number(0, value)))
    return g("Where", still, value, g("Mul", value, power))


@operation("Fmod")
def fmod(call: KerasCall, x1: Any, x2: Any) -> Value:
    """The rest of the quotient that is cut off, with the sign of x1."""
    g, pair = call.g, together(call, x1, x2)
    dtype = dtypes.int32 if pair[0].dtype.is_bool else pair[0].dtype
    computed = dtypes.int32 if dtype.kind == "u" else dtype
    a, b = (g.cast(x, computed) for x in pair)
    rest = arithmetic.floor_mod(g, g("Abs", a), g("Abs", b))
    return g.cast(g("Mul", g("Sign", a), rest), dtype)


@operation("Isclose")
def isclose(
    call: KerasCall,
    x1: Any,
    x2: Any,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Value:
    """Whether elements are near each other; infinite ones are not."""
    g, (a, b) = call.g, together(call, x1, x2)
    if not a.dtype.is_float:
        return g("Equal", a, b)
    room = g("Add", g("Mul", g("Abs", b), float(rtol)), float(atol))
    close = g("LessOrEqual", g("Abs", g("Sub", a, b)), room)
    return g("Or", close, g("And", g("IsNaN", a), g("IsNaN", b))) if equal_nan else close


@operation("AllClose")
def allclose(
    call: KerasCall,
    x1: Any,
    x2: Any,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Value:
    """Whether all elements are equal or near each other."""
    g, (a, b) = call.g, together(call, x1, x2)
    close = g("Equal", a, b)
    if a.dtype.is_float:
        near = isclose(call, a, b, rtol, atol, equal_nan)
        infinite = g("Or", g("IsInf", a), g("IsInf", b))
        close = g("Or", close, g("And", near, g("Not", infinite)))
    least = call.reduced("ReduceMin", g.cast(close, dtypes.uint8), range(close.rank))
    return call.boolean(least)


@operation("Nextafter")
def nextafter(call: KerasCall, x1: Any, x2: Any) -> Value:
    """The number of float64 that is next to x1 on the way to x2, in the type of the operands."""
    g, pair = call.g, [real(call, x) for x in together(call, x1, x2)]
    (y,) = applied(g, next_number, *(g.cast(x, dtypes.float64) for x in pair))
    return g.cast(y, pair[0].dtype)


def _shift(direction: str) -> Any:
    def build(call: KerasCall, x: Any, y: Any) -> Value:
        a, b = together(call, x, y)
        return arithmetic.shifted_within(call.g, a, b, direction)

    return build


operation("LeftShift", "BitwiseLeftShift")(_shift("LEFT"))
operation("RightShift", "BitwiseRightShift")(_shift("RIGHT"))


# -- real numbers as complex ones ------------------------------------------------------------------


operation("Conj", "Conjugate", "Real")(tensor)


@operation("Imag")
def imaginary_part(call: KerasCall, x: Any) -> Value:
    """Zeros: the imaginary parts of real numbers."""
    value = tensor(call, x)
    return call.g("Expand", call.number(0, value), call.g("Shape", value))


@operation("Isreal")
def isreal(call: KerasCall, x: Any) -> Value:
    """True everywhere, as there are no complex numbers."""
    true = call.g.number(1, dtypes.bool_)
    return call.g("Expand", true, call.g("Shape", tensor(call, x)))


@operation("Angle")
def angle(call: KerasCall, x: Any) -> Value:
    """The angles of real numbers: π of negative ones, else 0."""
    g, value = call.g, real(call, x)
    zero = call.number(0, value)
    return g("Where", g("Less", value, zero), call.number(math.pi, value), zero)


operation("Signbit")(lambda call, x: arithmetic.sign_bit(call.g, tensor(call, x)))
