"""Scaled integers as LiteRT's own kernels compute with them: factors of 31 bits, two roundings."""

from __future__ import annotations

import math

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Array, Value
from infuse.tracing.importer import Importer


def factor(real: float) -> tuple[int, int]:
    """A positive factor as m · 2^shift / 2^31, with 2^30 <= m < 2^31."""
    share, shift = math.frexp(real)
    m = math.floor(share * 2**31 + 0.5)
    return (m // 2, shift + 1) if m == 2**31 else (m, shift)


def scaled(x: Array, m: int, shift: int) -> Array:
    """Integers of 32 bits times a factor: the product is rounded, and what is left of the division
    by a power of two once more, halves away from zero.
    """
    wide = x.astype(np.int64) << max(shift, 0)
    high = _rounded(wide * m, 31, below=True)
    return _rounded(high, max(-shift, 0), below=False)


def _rounded(x: Array, bits: int, *, below: bool) -> Array:
    """X / 2^bits; halves of negative numbers go towards zero with `below`, and else away from it
    like those of others.
    """
    if bits == 0:
        return x
    half = np.int64(1) << (bits - 1)
    return np.asarray(np.where(x >= 0, (x + half) >> bits, -((-x + half - below) >> bits)))


def looked_up(g: Importer, x: Value, table: Array) -> Value:
    """The entry of a table for each integer of 8 or 16 bits; the least one has the first entry."""
    places = g.cast(x, dtypes.int64)
    if x.dtype.is_signed:
        places = g("Add", places, g.number(1 << (x.dtype.bits - 1), dtypes.int64))
    return g("Gather", g.constant(table), places)
