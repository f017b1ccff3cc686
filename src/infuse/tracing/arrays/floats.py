"""Functions of floats that are made of others, exact where those alone are not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import TypeMismatchError
from infuse.ir.graph import Value
from infuse.tracing.arrays.array import (
    Array,
    Complex,
    built,
    lifted,
    node,
    source_line,
    together,
)
from infuse.tracing.arrays.elementwise import (
    abs,
    copysign,
    floating,
    isnan,
    public,
    where,
)
from infuse.tracing.semantics import arithmetic


@public
def expm1(x: Any, /) -> Array:
    """e^x - 1, exact for small x too: 2 sinh(x/2) e^(x/2)."""
    array = floating(x)
    half = array * 0.5
    small = 2 * node("Sinh", half) * node("Exp", half)
    return where(abs(array) < 1, small, node("Exp", array) - 1)


@public
def log1p(x: Any, /) -> Array:
    """log(1 + x), exact for small x too."""
    array = floating(x)
    if isinstance(array, Complex):
        return node("Log1p", array)  # only complex numbers have this kind: parts of other nodes
    return _of(arithmetic.log1p, array)


@public
def log2(x: Any, /) -> Array:
    """The logarithm to base 2."""
    return _divided(node("Log", floating(x)), math.log(2))


@public
def log10(x: Any, /) -> Array:
    """The logarithm to base 10."""
    return _divided(node("Log", floating(x)), math.log(10))


@public
def logaddexp(x1: Any, x2: Any, /) -> Array:
    """log(e^x1 + e^x2), without overflow."""
    a, b = (floating(x) for x in together(x1, x2))
    return _of(arithmetic.logaddexp, a, b)


@public
def hypot(x1: Any, x2: Any, /) -> Array:
    """The length of a vector of two elements, without overflow."""
    a, b = (floating(x) for x in together(x1, x2))
    if isinstance(a, Complex):
        raise TypeMismatchError("hypot is of real numbers", where=source_line())
    return _of(arithmetic.hypot, a, b)


@public
def atan2(x1: Any, x2: Any, /) -> Array:
    """The angle of the point (x2, x1)."""
    y, x = (floating(v) for v in together(x1, x2))
    return _of(arithmetic.atan2, y, x)


@public
def nextafter(x1: Any, x2: Any, /) -> Array:
    """The next number to x1 in the direction of x2, which its bits as an integer count."""
    a, b = (floating(x) for x in together(x1, x2))
    bits = np.dtype(f"i{a.dtype.itemsize}")
    least = lifted(np.array(1, bits).view(a.dtype))
    number = node("BitCast", a, to=dtypes.by_numpy(bits))
    away = (a < b) == (a > 0)
    moved = node("BitCast", where(away, number + 1, number - 1), to=a.value.dtype)
    moved = where(a == 0, copysign(least, b), moved)
    return where(isnan(a) | isnan(b), a + b, where(a == b, b, moved))


def _divided(x: Array, divisor: float) -> Array:
    if isinstance(x, Complex):
        return Complex(x.real_part / divisor, x.imag_part / divisor)
    return x / divisor


def _of(function: Callable[..., Value], *operands: Array) -> Array:
    """What a function of values makes of arrays of one shape or of several."""
    (result,) = built(lambda *given: [function(*given)], *operands)
    return result
