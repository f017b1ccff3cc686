"""Calibrators: from what an activation was on data to the scale and the zero point of its
integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from infuse import dtypes
from infuse.compression.observation import Range
from infuse.dtypes import DType
from infuse.ir.graph import Array
from infuse.ops.quantization import limits

PERCENTILES = (99.9, 99.99, 99.999)
SHRINKS = tuple(1 - 0.04 * step for step in range(1, 18))
"""Parts of the full range that the calibrator `mse` tries."""
BINS = 2048
"""Bins of the histogram of the calibrator `entropy`."""


@dataclass(frozen=True)
class Scale:
    """How numbers are integers: (x / step rounded) + zero, limited to those of `dtype`."""

    step: np.float32
    zero: int
    dtype: DType

    def rounded(self, x: Array) -> Array:
        """Numbers as what their integers stand for."""
        low, high = limits(self.dtype)
        whole = x / self.step
        np.rint(whole, out=whole)
        whole += self.zero
        np.clip(whole, low, high, out=whole)
        whole -= self.zero
        whole *= self.step
        return np.asarray(whole, np.float32)


def scale_of(low: float, high: float, dtype: DType, symmetric: bool) -> Scale:
    """The integers for numbers from `low` to `high`, zero among them.

    Symmetric ones have the zero point in the middle (0 of int8), so that -high … high fit.
    """
    least, most = limits(dtype)
    low, high = min(low, 0.0), max(high, 0.0)
    if symmetric:
        bound = max(-low, high)
        middle = (least + most + 1) // 2
        step = bound / (most - middle)
        return Scale(_positive(step), middle, dtype)
    step = (high - low) / (most - least)
    positive = _positive(step)
    return Scale(positive, int(np.clip(round(least - low / float(positive)), least, most)), dtype)


def _positive(step: float) -> np.float32:
    """A scale that divides; 1 for numbers that are all zero."""
    chosen: np.float32 = np.float32(step if step > 1e-30 else 1)
    return chosen


# -- calibrators -----------------------------------------------------------------------------------

Limits = tuple[float, float]


def min_max(seen: Range, dtype: DType, symmetric: bool) -> Iterator[tuple[str, Limits]]:
    """Everything that was seen."""
    yield "min-max", (seen.low, seen.high)


def percentile(seen: Range, dtype: DType, symmetric: bool) -> Iterator[tuple[str, Limits]]:
    """All but few of the elements, on both sides."""
    sample = seen.sample
    for share in PERCENTILES:
        tail = (100 - share) / 2 if seen.low < 0 < seen.high else 100 - share
        low, high = np.percentile(sample, (tail, 100 - tail))
        yield f"percentile {share:g}", (float(low), float(high))


def mse(seen: Range, dtype: DType, symmetric: bool) -> Iterator[tuple[str, Limits]]:
    """The part of the range with the least squared error of the elements."""
    sample = seen.sample.astype(np.float64)

    def error(part: float) -> float:
        scale = scale_of(seen.low * part, seen.high * part, dtype, symmetric)
        return float(np.mean((scale.rounded(sample) - sample) ** 2))

    best = min((1.0, *SHRINKS), key=error)
    yield "mse", (seen.low * best, seen.high * best)


def entropy(seen: Range, dtype: DType, symmetric: bool) -> Iterator[tuple[str, Limits]]:
    """The range whose integers lose the least information of the distribution of magnitudes
    (Kullback–Leibler divergence).
    """
    sizes = np.abs(seen.sample)
    largest = max(-seen.low, seen.high)
    if largest <= 0:
        return
    counts, edges = np.histogram(sizes, BINS, (0, largest))
    levels = (limits(dtype)[1] - limits(dtype)[0] + 1) // (2 if seen.low < 0 else 1)
    if levels > BINS:  # integers are finer than the histogram, and lose nothing of it
        yield "entropy", (seen.low, seen.high)
        return
    starts = range(levels, BINS + 1, max(1, (BINS - levels) // 64))
    best = min(starts, key=lambda end: _divergence(counts, end, levels))
    part = float(edges[best]) / largest
    yield "entropy", (seen.low * part, seen.high * part)


def _divergence(counts: Array, end: int, levels: int) -> float:
    """That of the counts up to bin `end`, the rest in the last one, from the same in `levels`."""
    exact = counts[:end].astype(np.float64)
    exact[-1] += counts[end:].sum()
    edges = np.linspace(0, end, levels + 1).astype(int)
    inside = counts[:end].astype(np.float64)
    filled = np.add.reduceat((inside > 0).astype(np.float64), edges[:-1])
    sums = np.add.reduceat(inside, edges[:-1])
    means = np.divide(sums, filled, out=np.zeros_like(sums), where=filled > 0)
    coarse = np.repeat(means, np.diff(edges)) * (inside > 0)
    p, q = exact / exact.sum(), coarse / max(coarse.sum(), 1e-30)
    both = p > 0
    return float(np.sum(p[both] * np.log(p[both] / np.maximum(q[both], 1e-12))))


Calibrator = Callable[[Range, DType, bool], Iterator[tuple[str, Limits]]]
CALIBRATORS: dict[str, Calibrator] = {
    "min-max": min_max,
    "percentile": percentile,
    "mse": mse,
    "entropy": entropy,
}


def candidates(
    seen: Range, calibrator: str, dtype: DType = dtypes.uint8, symmetric: bool = False
) -> list[tuple[str, Scale]]:
    """Scales by what made them: those of one calibrator, or of all (`auto`)."""
    chosen = CALIBRATORS.values() if calibrator == "auto" else (CALIBRATORS[calibrator],)
    scales: dict[Scale, str] = {}
    for make in chosen:
        for name, (low, high) in make(seen, dtype, symmetric):
            scales.setdefault(scale_of(low, high, dtype, symmetric), name)
    return [(name, scale) for scale, name in scales.items()]
