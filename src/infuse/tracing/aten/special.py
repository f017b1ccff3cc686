"""Functions of every element that torch has among its special ones, and parts of floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.arrays.array import applied
from infuse.tracing.arrays.floats import nextafter as next_number
from infuse.tracing.aten.calls import TorchImporter, aten
from infuse.tracing.semantics import arithmetic, special

_Function = Callable[[TorchImporter, Value], Value]


def _exact(function: _Function) -> Any:
    """A function of one number, computed in float64."""
    return lambda g, x: g.cast(function(g, g.cast(x, dtypes.float64)), g.dtype)


aten("lgamma", "special_gammaln")(_exact(special.lgamma))
aten("special_erfcx")(_exact(special.erfcx))
aten("special_ndtri")(_exact(special.ndtri))
for _order in (0, 1):
    aten(f"special_i{_order}", *["i0"][_order:])(_exact(partial(special.bessel_i, order=_order)))
    aten(f"special_i{_order}e")(_exact(partial(special.bessel_i, order=_order, scaled=True)))


@aten("erfinv", "special_erfinv")
def erfinv(g: TorchImporter, x: Value) -> Value:
    """The number whose erf is x."""
    if g.dtype == dtypes.float64:
        raise g.unsupported("erfinv in float64, to which the polynomials are not exact,")
    return g.cast(special.erf_inv(g, g.cast(x, dtypes.float64)), g.dtype)


@aten("digamma", "special_digamma", "special_psi")
def digamma(g: TorchImporter, x: Value) -> Value:
    """Γ'(x) / Γ(x); of a zero it is infinite, of the other sign."""
    wide = g.cast(x, dtypes.float64)
    zero = g.number(0, wide.dtype)
    y = g("Where", g("Equal", wide, zero), g("Neg", g("Reciprocal", wide)),
          special.digamma(g, wide))  # fmt: skip
    return g.cast(y, g.dtype)


@aten("polygamma", "special_polygamma")
def polygamma(g: TorchImporter, n: int, x: Value) -> Value:
    """Digamma, or its slope."""
    if n == 0:
        return digamma(g, x)
    if n > 1:
        raise g.unsupported(f"polygamma of order {n}, which needs Hurwitz's zeta function,")
    return g.cast(special.trigamma(g, g.cast(x, dtypes.float64)), g.dtype)


@aten("mvlgamma", "special_multigammaln")
def mvlgamma(g: TorchImporter, x: Value, p: int) -> Value:
    """The logarithm of the gamma function of matrices of p rows."""
    wide = g.cast(x, dtypes.float64)
    y = g.number(p * (p - 1) / 4 * math.log(math.pi), wide.dtype)
    for place in range(p):
        y = g("Add", y, special.lgamma(g, g("Sub", wide, place / 2)))
    return g.cast(y, g.dtype)


def _times_logarithm(near_one: bool) -> Any:
    def build(g: TorchImporter, x: Any, other: Any) -> Value:
        a, b = g.tensors(x, other, dtype=g.dtype)
        wide = g.cast(b, dtypes.float64 if b.dtype.bits >= 32 else dtypes.float32)
        logarithm = arithmetic.log1p(g, wide) if near_one else g("Log", wide)
        zero = g.number(0, a.dtype)
        y = g("Where", g("Equal", a, zero), zero, g("Mul", a, g.cast(logarithm, a.dtype)))
        return g("Where", g("IsNaN", b), b, y)

    return build


aten("xlogy", "special_xlogy")(_times_logarithm(near_one=False))
aten("special_xlog1py")(_times_logarithm(near_one=True))


@aten("special_entr")
def entr(g: TorchImporter, x: Value) -> Value:
    """-x · log x, 0 of 0, and -∞ of negative numbers."""
    x = g.cast(x, g.dtype)
    zero = g.number(0, x.dtype)
    y = g("Where", g("Equal", x, zero), zero, g("Neg", g("Mul", x, g("Log", x))))
    return g("Where", g("Less", x, zero), g.number(-math.inf, x.dtype), y)


@aten("sinc", "special_sinc")
def sinc(g: TorchImporter, x: Value) -> Value:
    """Sin πx / πx, and 1 of 0."""
    x = g.cast(x, g.dtype)
    wide = x if x.dtype.bits >= 32 else g.cast(x, dtypes.float32)
    turned = g("Mul", wide, math.pi)
    y = g.cast(g("Div", g("Sin", turned), turned), x.dtype)
    return g("Where", g("Equal", x, g.number(0, x.dtype)), g.number(1, x.dtype), y)


def _scaled(factor: float) -> Any:
    return lambda g, x: g("Mul", g.cast(x, g.dtype), factor)


aten("deg2rad")(_scaled(math.pi / 180))
aten("rad2deg")(_scaled(180 / math.pi))


@aten("heaviside")
def heaviside(g: TorchImporter, x: Value, values: Value) -> Value:
    """0 below zero, 1 above, and a value of its own at zero; 0 of NaN."""
    a, b = g.tensors(x, values, dtype=g.dtype)
    zero = g.number(0, a.dtype)
    if a.dtype.is_bool:
        return g("Or", a, b)
    return g("Where", g("Equal", a, zero), b, g.cast(g("Greater", a, zero), a.dtype))


@aten("logaddexp2")
def logaddexp2(g: TorchImporter, x: Value, other: Value) -> Value:
    """The logarithm to the base 2 of 2^x + 2^other."""
    wide = (g("Mul", g.cast(v, dtypes.float64), math.log(2)) for v in (x, other))
    return g.cast(g("Mul", arithmetic.logaddexp(g, *wide), 1 / math.log(2)), g.dtype)


# -- parts of floats -------------------------------------------------------------------------------


@aten("angle")
def angle(g: TorchImporter, x: Value) -> Value:
    """The angle of real numbers: 0, π of negative ones, NaN of NaN."""
    x = g.cast(x, g.dtype)
    zero = g.number(0, x.dtype)
    y = g("Where", g("Less", x, zero), g.number(math.pi, x.dtype), zero)
    return g("Where", g("IsNaN", x), x, y)


@aten("nextafter")
def nextafter(g: TorchImporter, x: Value, other: Value) -> Value:
    """The number next to x on the way to another."""
    return applied(g, next_number, *g.tensors(x, other, dtype=g.dtype))[0]


@aten("ldexp")
def ldexp(g: TorchImporter, x: Value, other: Value) -> Value:
    """X times 2 to the power of another number, which may be too large though the product is not,
    as in torch.
    """
    a, b = g.tensors(x, other, dtype=g.dtype)
    return g("Mul", a, g("Pow", g.number(2, b.dtype), b))


_SCALE, _BIAS, _BITS = 54, 1022, 52
"""The power that makes subnormal numbers others; what stands in the bits of numbers from 1/2 to 1;
how many bits are behind the exponent.
"""


@aten("frexp")
def frexp(g: TorchImporter, x: Value) -> list[Value]:
    """Numbers from 1/2 to 1 and exponents, int32; what is 0, infinite or NaN has the exponent 0."""
    wide = g.cast(x, dtypes.float64)
    small = g("Less", g("Abs", wide), 1e-300)
    grown = g("Where", small, g("Mul", wide, 2.0**_SCALE), wide)
    bits = g("BitCast", grown, to=dtypes.uint64)
    shifted = g("BitShift", bits, g.number(_BITS, dtypes.uint64), direction="RIGHT")
    power = g.cast(g("BitwiseAnd", shifted, g.number(2047, dtypes.uint64)), dtypes.int32)
    lower = g.number(_BIAS + _SCALE, dtypes.int32)
    power = g("Sub", power, g("Where", small, lower, g.number(_BIAS, dtypes.int32)))
    rest = g("BitwiseAnd", bits, g.number((1 << 63) | ((1 << _BITS) - 1), dtypes.uint64))
    half = g("BitwiseOr", rest, g.number(_BIAS << _BITS, dtypes.uint64))
    part = g.cast(g("BitCast", half, to=dtypes.float64), x.dtype)
    none = g("Or", g("Or", g("IsNaN", x), g("IsInf", x)), g("Equal", x, g.number(0, x.dtype)))
    return [g("Where", none, x, part), g("Where", none, g.number(0, dtypes.int32), power)]


aten("signbit")(arithmetic.sign_bit)
