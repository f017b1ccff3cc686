"""Functions of every element that are put together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from infuse import dtypes
from infuse.frontends import functions
from infuse.frontends.jax.calls import Call, JaxImporter, primitive
from infuse.ir.graph import Value

_Function = Callable[[JaxImporter, Value], Value]


def _exact(function: _Function) -> Callable[[Call], Value]:
    """A function computed in float64."""

    def build(call: Call) -> Value:
        wide = call.g.cast(call.x, dtypes.float64)
        return call.g.cast(function(call.g, wide), call.dtype)

    return build


def polynomial(g: JaxImporter, x: Value, factors: Sequence[float]) -> Value:
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


def _erf_inv(g: JaxImporter, x: Value) -> Value:
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


def _lgamma(g: JaxImporter, x: Value) -> Value:
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
    sine = g("Abs", g("Sin", g("Mul", _fraction(g, x), math.pi)))
    mirrored = g("Sub", g("Log", g("Div", g.number(math.pi, x.dtype), sine)), plain)
    result = g("Where", left, mirrored, plain)
    return g("Where", g("IsInf", x), g.number(math.inf, x.dtype), result)


def _fraction(g: JaxImporter, x: Value) -> Value:
    """What is left of x after its whole part."""
    return g("Sub", x, g("Floor", x))


_SHIFT: Final = 10
_BERNOULLI: Final = (-1 / 12, 1 / 240, -1 / 252, 1 / 120, -1 / 12)


def _digamma(g: JaxImporter, x: Value) -> Value:
    """Γ'(x) / Γ(x): the asymptotic series at x + 10, and the reflection for x < 1/2."""
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
    tangent = g("Tan", g("Mul", _fraction(g, x), math.pi))
    mirrored = g("Sub", result, g("Div", g.number(math.pi, x.dtype), tangent))
    pole = g("And", g("Equal", x, g("Floor", x)), g("LessOrEqual", x, 0.0))
    result = g("Where", left, mirrored, result)
    return g("Where", pole, g.number(math.nan, x.dtype), result)


for _name, _function in {
    "log1p": functions.log1p, "expm1": functions.expm1, "erfc": functions.erfc,
    "erf_inv": _erf_inv, "lgamma": _lgamma, "digamma": _digamma,
}.items():  # fmt: skip
    primitive(_name)(_exact(_function))
