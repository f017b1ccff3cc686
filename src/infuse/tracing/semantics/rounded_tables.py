"""Functions of int16 as LiteRT's kernels read them: straight lines between the places of a table.

Each gives the function of all 65,536 elements, in the order of -32768 … 32767.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from infuse.ir.graph import Array
from infuse.ops.core.special import erf
from infuse.tracing.semantics.fixed_point import factor, scaled

_LEAST, _MOST = -(2**15), 2**15 - 1
_EVERY: Final = np.arange(_LEAST, _MOST + 1)
_STEPS: Final = 512


def between(
    function: Callable[[Array], Array], scale: float, zero: int, step: float, shift: int
) -> Array:
    """A function of float32, from one scale and zero point to another: exact at 513 places but for
    half of what a straight line would be off in the middle of two.
    """
    f = np.float32
    low, high = (f(scale) * f(end - zero) for end in (_LEAST, _MOST))
    bottom, top = (f(step) * f(end - shift) for end in (_LEAST, _MOST))
    width = (high - low) / f(_STEPS)
    inverse = f(2**16) / (top - bottom)
    places = np.arange(_STEPS, dtype=f)
    with np.errstate(all="ignore"):
        starts, middles, ends = (
            np.asarray(function(x))
            for x in (
                low + places * width,
                low + places * width + width / f(2),
                low + (places + f(1)) * width,
            )
        )
        start = _nearest(starts * inverse)
        line = _nearest((ends * inverse + start) / f(2))
        bias = _nearest((line - _nearest(middles * inverse)) / f(2))
        last = _nearest(function(np.array([high])) * inverse)
    table = _within(np.concatenate([start - bias, last])).astype(np.int64)
    at, rest = (_EVERY >> 7) + _STEPS // 2, _EVERY & 127
    base, slope = table[at], table[at + 1] - table[at]
    return _wrapped(base + ((_wrapped(slope).astype(np.int64) * rest + 64) >> 7))


def exponential(x: Array) -> Array:
    """Eˣ in float32, correctly rounded."""
    return np.asarray(np.exp(x.astype(np.float64)).astype(np.float32))


def logarithm(least: np.float32) -> Callable[[Array], Array]:
    """The natural logarithm in float32, and `least` of what is not positive."""

    def function(x: Array) -> Array:
        known = np.where(x > 0, x, 1).astype(np.float64)
        return np.asarray(np.where(x > 0, np.log(known).astype(np.float32), least))

    return function


def inverse_root(most: np.float32) -> Callable[[Array], Array]:
    """1 / √x in float32, and `most` of what is not positive."""

    def function(x: Array) -> Array:
        known = np.where(x > 0, x, 1)
        return np.asarray(np.where(x > 0, np.float32(1) / np.sqrt(known), most))

    return function


def gelu(approximate: bool) -> Callable[[Array], Array]:
    """The Gaussian error linear unit in float32; the error function is float64."""
    f = np.float32

    def function(x: Array) -> Array:
        if approximate:
            inner = f(math.sqrt(2 / math.pi)) * (x + f(0.044715) * x * x * x)
            share = f(1) + np.tanh(inner.astype(np.float64)).astype(f)
        else:
            share = 1 + erf((x * f(math.sqrt(0.5))).astype(np.float64))
        return np.asarray((f(0.5) * x * share).astype(f))

    return function


def sloped(scale: float, zero: int, step: float, shift: int, alpha: float) -> Array:
    """X, and alpha · x where x is negative, in another scale."""
    stored, f = _EVERY - zero, np.float32
    one, other = float(f(scale) / f(step)), float(f(scale) * f(alpha) / f(step))
    up = scaled(stored, *factor(one))
    m, power = factor(abs(other)) if other else (0, 0)
    down = scaled(stored, m if other > 0 else -m, power)
    return _within(np.where(stored >= 0, up, down) + shift).astype(np.int16)


def logistic(scale: float) -> Array | None:
    """The logistic function, in steps of 2⁻¹⁵; None for the scale 2⁻¹², where LiteRT computes."""
    if scale == 2.0**-12:
        return None
    x = _thirds(scale, 0)
    magnitude, fraction = np.abs(x), np.abs(x) & 511
    y = np.where(magnitude >> 9 >= 255, (2**15 - 1) << 10, _line(magnitude >> 9, fraction, 9))
    half = 1 << 9
    return (np.where(x >= 0, y + half, (1 << 25) - y + half - 1) >> 10).astype(np.int16)


def tanh(scale: float) -> Array | None:
    """The hyperbolic tangent, in steps of 2⁻¹⁵; None for 2⁻¹² and 2⁻¹¹, where LiteRT computes."""
    if scale in (2.0**-12, 2.0**-11):
        return None
    x = _thirds(scale, 1)
    magnitude, fraction = np.abs(x), np.abs(x) & 255
    y = np.where(magnitude >> 8 >= 255, (2**16 - 1) << 8, _line(magnitude >> 8, fraction, 8))
    one, half = 1 << 23, 1 << 7
    return (np.where(x >= 0, y - one + half, -y + one + half - 1) >> 8).astype(np.int16)


def _thirds(scale: float, most: int) -> Array:
    """All elements in steps of 1/12288, rounded."""
    share, shift = float(np.float32(scale)) * 3 * 2**12, 0
    power = math.log2(scale) + 12
    if power == int(power) and 0 <= power <= most:
        return _EVERY * (3 << int(power))
    while share <= (2**15 - 1) / 2 and shift <= 30:
        share, shift = share * 2, shift + 1
    return (_EVERY * int(share) + ((1 << shift) >> 1)) >> shift


def _line(place: Array, fraction: Array, bits: int) -> Array:
    """Between the logistic function of place / 24 and of the next one, in steps of 2⁻¹⁶⁻ᵇⁱᵗˢ."""
    starts, middles, ends = (
        2**16 / (1 + np.exp(-(np.arange(256) + part) / 24)) for part in (0, 0.5, 1)
    )
    table = np.rint(starts + (middles - (starts + ends) / 2) / 2).astype(np.int64)
    table[-1] = 2**16 - 1
    place = np.minimum(place, 254)
    step = table[place + 1] - table[place]
    return np.asarray((table[place] << bits) + fraction * step)


def _nearest(x: Array) -> Array:
    """Halves away from zero."""
    return np.asarray(np.trunc(x + np.copysign(np.float32(0.5), x)))


def _within(x: Array) -> Array:
    return np.clip(x, _LEAST, _MOST)


def _wrapped(x: Array) -> Array:
    return x.astype(np.int64).astype(np.int16)
