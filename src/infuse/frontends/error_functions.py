"""What is left of the error function far out, and the quantiles of the normal distribution; of
float64, as accurate as that.
"""

from __future__ import annotations

import math
from typing import Final

from infuse.frontends.special_functions import polynomial
from infuse.ir.graph import Value
from infuse.ops.core.building import GraphBuilder

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
