"""Functions of floats that are made of others, exact where those alone are not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import TypeMismatchError
from infuse.frontends.arrays.array import Array, Complex, lifted, node, source_line, together
from infuse.frontends.arrays.elementwise import (
    abs,
    copysign,
    floating,
    isinf,
    isnan,
    maximum,
    minimum,
    public,
    sign,
    signbit,
    where,
)


@public
def expm1(x: Any, /) -> Array:
    """e^x - 1, exact for small x too: 2 sinh(x/2) e^(x/2)."""
    array = floating(x)
    half = array * 0.5
    small = 2 * node("Sinh", half) * node("Exp", half)
    return where(abs(array) < 1, small, node("Exp", array) - 1)


@public
def log1p(x: Any, /) -> Array:
    """log(1 + x), exact for small x too: x log(u) / (u - 1) with u = 1 + x rounded (Kahan)."""
    array = floating(x)
    if isinstance(array, Complex):
        return node("Log1p", array)  # only complex numbers have this kind: parts of other nodes
    u = 1 + array
    finite = where(u == 1, lifted(2, array.dtype), u)
    precise = where(u == 1, array, array / (finite - 1) * node("Log", finite))
    return where(u == np.inf, u, precise)


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
    most = maximum(a, b)
    far = where(a == b, lifted(0, a.dtype), -abs(a - b))
    return most + log1p(node("Exp", far))


@public
def hypot(x1: Any, x2: Any, /) -> Array:
    """The length of a vector of two elements, without overflow."""
    a, b = (floating(x) for x in together(x1, x2))
    if isinstance(a, Complex):
        raise TypeMismatchError("hypot is of real numbers", where=source_line())
    a, b = abs(a), abs(b)
    most, least = maximum(a, b), minimum(a, b)
    ratio = least / where(most == 0, lifted(1, a.dtype), most)
    length = most * node("Sqrt", 1 + ratio * ratio)
    return where(isinf(a) | isinf(b), lifted(np.inf, a.dtype), length)


@public
def atan2(x1: Any, x2: Any, /) -> Array:
    """The angle of the point (x2, x1)."""
    y, x = (floating(v) for v in together(x1, x2))
    both = isinf(x) & isinf(y)
    ratio = where(both, sign(y) * sign(x), y / where(x == 0, lifted(1, x.dtype), x))
    angle = node("Atan", ratio)
    turned = angle + where(signbit(y), lifted(-np.pi, x.dtype), lifted(np.pi, x.dtype))
    side = where(y == 0, where(signbit(x), turned, y), sign(y) * (np.pi / 2))
    return where(x == 0, side, where(x < 0, turned, angle))


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
