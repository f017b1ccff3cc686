"""Functions of every element that are put together in float64, of polynomials and series: gamma
and Bessel functions, what is left of the error function far out, quantiles of the normal
distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from infuse.ir.graph import Value
from infuse.ops.core.building import GraphBuilder


def polynomial(g: GraphBuilder, x: Value, factors: Sequence[float]) -> Value:
    """The polynomial of these factors, that of the highest power first."""
    result = g.number(factors[0], x.dtype)
    for factor in factors[1:]:
        result = g("Add", g("Mul", result, x), factor)
    return result


_CENTRAL: Final = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_TAIL: Final = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip
"""Giles, Approximating the erfinv function."""


def erf_inv(g: GraphBuilder, x: Value) -> Value:
    """The number whose erf is x: Giles's polynomials, and one step of Newton's."""
    one = g.number(1, x.dtype)
    w = g("Neg", g("Log", g("Mul", g("Sub", one, x), g("Add", one, x))))
    near = polynomial(g, g("Sub", w, 2.5), _CENTRAL)
    far = polynomial(g, g("Sub", g("Sqrt", g("Max", w, 0.0)), 3.0), _TAIL)
    start = g("Mul", x, g("Where", g("Less", w, 5.0), near, far))
    slope = g("Mul", g("Exp", g("Neg", g("Mul", start, start))), 2 / math.sqrt(math.pi))
    step = g("Div", g("Sub", g("Erf", start), x), slope)
    inside = g("Less", g("Abs", x), 0.999999)
    better = g("Where", inside, g("Sub", start, step), start)
    ends = g("Equal", g("Abs", x), one)
    return g("Where", ends, g("Mul", x, math.inf), better)


_LANCZOS: Final = (
    676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip


def lgamma(g: GraphBuilder, x: Value) -> Value:
    """Log |Γ(x)|: Lanczos's series, and the reflection for x < 1/2."""
    left = g("Less", x, 0.5)
    z = g("Sub", g("Where", left, g("Sub", g.number(1, x.dtype), x), x), 1.0)
    series = g.number(0.99999999999980993, x.dtype)
    for number, factor in enumerate(_LANCZOS):
        part = g("Div", g.number(factor, x.dtype), g("Add", z, float(number + 1)))
        series = g("Add", series, part)
    t = g("Add", z, 7.5)
    grown = g("Sub", g("Mul", g("Add", z, 0.5), g("Log", t)), t)
    plain = g("Add", g("Add", grown, g("Log", series)), 0.5 * math.log(2 * math.pi))
    sine = g("Abs", g("Sin", _turned(g, x)))
    mirrored = g("Sub", g("Log", g("Div", g.number(math.pi, x.dtype), sine)), plain)
    result = g("Where", left, mirrored, plain)
    return g("Where", g("IsInf", x), g.number(math.inf, x.dtype), result)


def _turned(g: GraphBuilder, x: Value) -> Value:
    """π times how far x is from the next whole number, which small numbers keep."""
    return g("Mul", g("Sub", x, g("Round", x)), math.pi)


_SHIFT: Final = 10
_BERNOULLI: Final = (-1 / 132, 1 / 240, -1 / 252, 1 / 120, -1 / 12)


def digamma(g: GraphBuilder, x: Value) -> Value:
    """Γ'(x) / Γ(x): the asymptotic series at x + 10, and the reflection for x < 1/2; NaN of 0 and
    of whole numbers below.
    """
    left = g("Less", x, 0.5)
    one = g.number(1, x.dtype)
    z = g("Where", left, g("Sub", one, x), x)
    y = g("Add", z, float(_SHIFT))
    inverse = g("Div", one, y)
    square = g("Mul", inverse, inverse)
    series = g("Mul", polynomial(g, square, _BERNOULLI), square)
    result = g("Add", g("Sub", g("Log", y), g("Mul", inverse, 0.5)), series)
    for number in range(_SHIFT):
        result = g("Sub", result, g("Div", one, g("Add", z, float(number))))
    tangent = g("Tan", _turned(g, x))
    mirrored = g("Sub", result, g("Div", g.number(math.pi, x.dtype), tangent))
    pole = g("And", g("Equal", x, g("Floor", x)), g("LessOrEqual", x, 0.0))
    result = g("Where", left, mirrored, result)
    return g("Where", pole, g.number(math.nan, x.dtype), result)


_TRIGAMMA: Final = (5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6)


def trigamma(g: GraphBuilder, x: Value) -> Value:
    """The slope of digamma: the asymptotic series at x + 10, and the reflection for x < 1/2."""
    left = g("Less", x, 0.5)
    one = g.number(1, x.dtype)
    z = g("Where", left, g("Sub", one, x), x)
    inverse = g("Div", one, g("Add", z, float(_SHIFT)))
    square = g("Mul", inverse, inverse)
    series = g("Mul", polynomial(g, square, _TRIGAMMA), g("Mul", square, inverse))
    result = g("Add", g("Add", inverse, g("Mul", square, 0.5)), series)
    for number in range(_SHIFT):
        result = g("Add", result, g("Reciprocal", _square(g, g("Add", z, float(number)))))
    mirror = _square(g, g("Div", g.number(math.pi, x.dtype), g("Sin", _turned(g, x))))
    return g("Where", left, g("Sub", mirror, result), result)


def _square(g: GraphBuilder, x: Value) -> Value:
    return g("Mul", x, x)


_FAR: Final = 30.0
_NEAR_TERMS, _FAR_TERMS = 64, 18


def bessel_i(g: GraphBuilder, x: Value, order: int, scaled: bool = False) -> Value:
    """The modified Bessel function of the first kind of ORDER 0 or 1, times e^-|x| if `scaled`:
    the power series up to 30, whose terms are all positive, and the asymptotic one behind. What
    is not scaled is NaN of infinities, as in torch.
    """
    size = g("Abs", x)
    inside = g("Less", size, _FAR)
    near = g("Where", inside, size, g.number(0, x.dtype))
    quarter = _square(g, g("Mul", near, 0.5))
    powers = [1 / (math.factorial(k) * math.factorial(k + order)) for k in range(_NEAR_TERMS)]
    small = polynomial(g, quarter, powers[::-1])
    if order:
        small = g("Mul", small, g("Mul", near, 0.5))
    far = g("Max", size, _FAR)
    terms, factor = [1.0], 1.0
    for k in range(1, _FAR_TERMS):
        factor *= ((2 * k - 1) ** 2 - 4 * order**2) / (8 * k)
        terms.append(factor)
    large = polynomial(g, g("Reciprocal", far), terms[::-1])
    large = g("Div", large, g("Sqrt", g("Mul", far, 2 * math.pi)))
    if scaled:
        small = g("Mul", small, g("Exp", g("Neg", near)))
    else:
        large = g("Mul", large, g("Exp", far))
    y = g("Where", inside, small, large)
    y = g("Where", g("Less", x, 0.0), g("Neg", y), y) if order else y
    return g("Where", g("IsNaN", x), x, y)


# -- error functions -------------------------------------------------------------------------------

_PLACE: Final = 4.0
_SCALED: Final = (
    1.5763901763677707e-09, -6.99428717219546e-09, -1.6388084969565714e-08,
    9.296005896994412e-08, 7.11969247265246e-08, -8.020318102674321e-07,
    2.9794932673025604e-07, 5.689549017082105e-06, -1.1225044235037186e-05,
    -2.4387796388870908e-05, 0.0001506230645351961, -0.00019926095188834366,
    -0.0007577736953616629, 0.005031971002310226, -0.016197733984030755,
    0.037167515386292926, -0.06633036581998543, 0.09373283501078973,
    -0.10103906603588621, 0.06809705425421896, 0.015379652102610988,
    -0.13962111684055717, 1.2329951186255526,
)  # fmt: skip
"""(1 + 2x) · erfcx(x) for y = (x - _PLACE) / (x + _PLACE): Chebyshev's polynomials from -1 to 1."""


def erfcx(g: GraphBuilder, x: Value) -> Value:
    """e^(x²) · (1 - erf(x)), which goes to 0 as 1 / x."""
    result = _scaled_tail(g, g("Abs", x))
    mirrored = g("Sub", g("Mul", g("Exp", g("Mul", x, x)), 2.0), result)
    return g("Where", g("Less", x, 0.0), mirrored, result)


def _scaled_tail(g: GraphBuilder, x: Value) -> Value:
    """Erfcx of what is not negative."""
    infinite = g("IsInf", x)
    near = g("Where", infinite, g.number(0, x.dtype), x)
    y = g("Div", g("Sub", near, _PLACE), g("Add", near, _PLACE))
    below = g("Add", g("Mul", near, 2.0), 1.0)
    result = g("Div", polynomial(g, y, _SCALED), below)
    return g("Where", infinite, g.number(0, x.dtype), result)


def erfc(g: GraphBuilder, x: Value) -> Value:
    """1 - erf(x), all digits of it where little is left."""
    far = g("Greater", x, 0.5)
    outside = g("Where", far, x, g.number(1, x.dtype))
    tail = g("Mul", _scaled_tail(g, outside), g("Exp", g("Neg", g("Mul", outside, outside))))
    return g("Where", far, tail, g("Sub", g.number(1, x.dtype), g("Erf", x)))


_ABOVE: Final = (0.010328, 0.802853, 2.515517)
_BELOW: Final = (0.001308, 0.189269, 1.432788, 1.0)
"""Abramowitz and Stegun, 26.2.23: where to begin, with an error below 0.00045."""
_CENTRE: Final = 0.02
_SERIES: Final = (34807 / 39916800, 4369 / 362880, 127 / 5040, 7 / 120, 1 / 6, 1.0)
_STEPS: Final = 3


def ndtri(g: GraphBuilder, p: Value) -> Value:
    """What the share P of a normal distribution lies below: Newton's steps on the logarithm of the
    smaller share, and a series near 1/2; -∞ of 0, ∞ of 1, and NaN of what is no share.
    """
    one, zero = g.number(1, p.dtype), g.number(0, p.dtype)
    upper = g("Greater", p, 0.5)
    share = g("Where", upper, g("Sub", one, p), p)
    inside = g("And", g("Greater", p, 0.0), g("Less", p, 1.0))
    logarithm = g("Log", g("Where", inside, share, g.number(0.25, p.dtype)))
    w = g("Sqrt", g("Mul", logarithm, -2.0))
    z = g("Sub", w, g("Div", polynomial(g, w, _ABOVE), polynomial(g, w, _BELOW)))
    for _ in range(_STEPS):
        tail = _scaled_tail(g, g("Mul", g("Max", z, 0.0), math.sqrt(0.5)))
        found = g("Sub", g("Log", g("Mul", tail, 0.5)), g("Mul", g("Mul", z, z), 0.5))
        step = g("Mul", g("Mul", g("Sub", found, logarithm), tail), math.sqrt(math.pi / 2))
        z = g("Add", z, step)
    z = g("Where", upper, z, g("Neg", z))
    y = g("Mul", g("Sub", p, 0.5), math.sqrt(2 * math.pi))
    series = g("Mul", polynomial(g, g("Mul", y, y), _SERIES), y)
    z = g("Where", g("Less", g("Abs", y), _CENTRE), series, z)
    z = g("Where", inside, z, g.number(math.nan, p.dtype))
    z = g("Where", g("Equal", p, zero), g.number(-math.inf, p.dtype), z)
    return g("Where", g("Equal", p, one), g.number(math.inf, p.dtype), z)
