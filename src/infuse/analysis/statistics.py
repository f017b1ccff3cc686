"""What the elements of a constant are like: extremes, moments, zeros, and how they are spread."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from infuse.dtypes import DType
from infuse.ir.graph import Array
from infuse.mapped import give_back

BINS: Final = 32
"""Bars of a histogram."""
FEWEST: Final = 9
"""Elements of the smallest array that has a histogram."""
CHUNK: Final = 1 << 13
"""Elements that are widened to float64 at a time: 64 KiB, which stay in the cache and which the
allocator has at hand (larger pieces are fresh pages of the system each time: six times as slow).
"""


@dataclass
class Statistics:
    """Figures over the finite elements of an array; None where it has no such element or its type
    has no such figure.

    Elements of strings count as zeros where they are empty, complex numbers have counts alone.
    """

    elements: int
    zeros: int = 0
    nan: int = 0
    infinite: int = 0
    minimum: float | None = None
    maximum: float | None = None
    mean: float | None = None
    deviation: float | None = None
    """The standard deviation of all elements (no sample's correction)."""
    histogram: list[int] = field(default_factory=list)
    """Elements in intervals of one width from the minimum to the maximum; empty for few ones."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "elements": self.elements,
            "zeros": self.zeros,
            "nan": self.nan,
            "infinite": self.infinite,
            "minimum": self.minimum,
            "maximum": self.maximum,
            "mean": self.mean,
            "deviation": self.deviation,
            "histogram": list(self.histogram),
        }


def statistics_of(array: Array, dtype: DType) -> Statistics:
    """The statistics of an array of this type.

    Elements are read twice, in chunks, so that a mapped file never lies in memory as float64; its
    pages leave the memory afterwards. Moments are float64.
    """
    result = Statistics(array.size)
    if dtype.kind == "s":
        result.zeros = sum(not element for element in array.flat)
        return result
    for chunk in _chunks(array):
        _count(result, chunk, dtype)
    if result.minimum is not None:
        _spread(result, array)
    give_back(array)
    return result


def _chunks(array: Array) -> Iterator[Array]:
    """The elements in pieces of one axis, in the order of memory, without a copy of all."""
    if array.flags.c_contiguous:
        flat = array.reshape(-1)
        for start in range(0, flat.size, CHUNK):
            yield flat[start : start + CHUNK]
        return
    yield from np.nditer(
        array, flags=["external_loop", "buffered", "zerosize_ok"], buffersize=CHUNK
    )


def _count(result: Statistics, chunk: Array, dtype: DType) -> None:
    """Add zeros, what is not finite, and the extremes of a chunk."""
    if dtype.kind == "c":
        result.zeros += int(np.count_nonzero(chunk == 0))
        result.nan += int(np.count_nonzero(np.isnan(chunk)))
        result.infinite += int(np.count_nonzero(np.isinf(chunk)))
        return
    result.zeros += chunk.size - int(np.count_nonzero(chunk))
    # Bytes and NumPy's own types are looked at as they are: float64 cannot tell neighbours among
    # the largest integers of 64 bits, and widening takes most of the time.
    comparable = chunk if chunk.dtype.isbuiltin == 1 else chunk.astype(np.float64)
    finite = comparable if dtype.is_integer or dtype.is_bool else _finite(comparable)
    if finite.size < chunk.size:
        nan = int(np.count_nonzero(np.isnan(comparable)))
        result.nan += nan
        result.infinite += chunk.size - finite.size - nan
    if finite.size:
        number = float if dtype.is_float else int
        low, high = number(finite.min()), number(finite.max())
        result.minimum = low if result.minimum is None else min(result.minimum, low)
        result.maximum = high if result.maximum is None else max(result.maximum, high)


def _spread(result: Statistics, array: Array) -> None:
    """Add mean, standard deviation and histogram.

    Elements are divided by the largest magnitude, so that no square leaves float64.
    """
    assert result.minimum is not None
    assert result.maximum is not None
    scale = max(abs(float(result.minimum)), abs(float(result.maximum))) or 1.0
    low, high = result.minimum / scale, result.maximum / scale
    count, mean, squares = 0, 0.0, 0.0
    bars = np.zeros(BINS, np.int64)
    has_bars = array.size >= FEWEST and low < high
    is_finite = not result.nan and not result.infinite
    for chunk in _chunks(array):
        scaled = chunk.astype(np.float64)
        if not is_finite:
            scaled = _finite(scaled)
        if not scaled.size:
            continue
        scaled /= scale
        part = float(scaled.mean())
        step, total = part - mean, count + scaled.size
        around = scaled - part
        squares += float(around @ around) + step * step * count * scaled.size / total
        mean += step * scaled.size / total
        count = total
        if has_bars:
            places = ((scaled - low) * (BINS / (high - low))).astype(np.intp)
            bars += np.bincount(np.minimum(places, BINS - 1, out=places), minlength=BINS)
    result.mean = mean * scale
    result.deviation = math.sqrt(squares / count) * scale
    result.histogram = bars.tolist() if has_bars else []


def _finite(chunk: Array) -> Array:
    keep = np.isfinite(chunk)
    return chunk if keep.all() else chunk[keep]
