"""Weights of few values: k-means in one dimension."""

from __future__ import annotations

import numpy as np

from infuse.errors import OptionError
from infuse.ir.graph import Array

BITS = range(2, 9)
ROUNDS = 200
CELLS = 512
"""Of which clusters are made at first: fewer values than these are clustered as well as can be."""
_BINS, _FILLED = 4096, 64


def clustered(array: Array, bits: int) -> Array:
    """The floats of an array, each replaced by the mean of its cluster: at most 2^bits values, of
    the same element type, near the smallest sum of squared errors that so many allow. Zero stays
    zero where it is a value that many elements have.

    OptionError unless there are 2 to 8 bits and all elements are finite.
    """
    check_bits(bits)
    values = array.reshape(-1).astype(np.float64)
    if not np.isfinite(values).all():
        raise OptionError("a weight that is to be clustered has elements that are not finite")
    zeros = np.count_nonzero(values == 0.0)
    with_zero = zeros * 2**bits > len(values)
    rest = np.sort(values[values != 0.0] if with_zero else values)
    centers = _centers(rest, 2**bits - with_zero) if len(rest) else np.zeros(0)
    nearest = centers[np.searchsorted((centers[1:] + centers[:-1]) / 2, values)]
    if with_zero:
        nearest[values == 0.0] = 0.0
    return nearest.astype(array.dtype).reshape(array.shape)


def check_bits(bits: int) -> None:
    """OptionError unless weights can be clustered to so many bits."""
    if bits not in BITS:
        raise OptionError(f"weights cannot be clustered to {bits} bits", hint="2 to 8 bits")


def _centers(ordered: Array, count: int) -> Array:
    """At most `count` means of clusters of ordered values: the best there are of clusters that are
    made of whole cells, or centers as dense as is best for many, whichever Lloyd's iterations make
    the better ones of.
    """
    distinct = np.unique(ordered)
    if len(distinct) <= count:
        return distinct
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    bounds = _best_bounds(ordered, _cells(ordered, distinct), count)
    candidates = [np.diff(sums[bounds]) / np.diff(bounds)]
    if len(distinct) > CELLS:
        candidates.append(_spread(ordered, (np.arange(count) + 0.5) / count))
    settled = [_settled(ordered, sums, centers) for centers in candidates]
    return max(settled, key=lambda each: each[1])[0]


def _settled(ordered: Array, sums: Array, centers: Array) -> tuple[Array, float]:
    """Centers after Lloyd's iterations, and the sum of their squares by the sizes of clusters: the
    larger it is, the smaller is the sum of squared errors.
    """
    for _ in range(ROUNDS):
        cuts = np.searchsorted(ordered, (centers[1:] + centers[:-1]) / 2)
        bounds = np.unique(np.concatenate([[0], cuts, [len(ordered)]]))
        means = np.diff(sums[bounds]) / np.diff(bounds)
        if np.array_equal(means, centers):
            break
        centers = means
    return means, float(np.dot(np.diff(bounds), means**2))


def _spread(ordered: Array, shares: Array) -> Array:
    """The values at shares of the cube root of the density, which is how dense the centers of the
    best clusters are where these are many (Panter and Dite, 1951).
    """
    histogram, edges = np.histogram(ordered, min(_BINS, len(ordered) // _FILLED + 1))
    mass = np.concatenate([[0.0], np.cumsum(np.cbrt(histogram))])
    spread: Array = np.interp(shares * mass[-1], mass, edges)
    return spread


def _cells(ordered: Array, distinct: Array) -> Array:
    """Bounds of at most CELLS cells of ordered values, each value in one."""
    if len(distinct) > CELLS:
        distinct = _spread(ordered, np.arange(CELLS) / CELLS)
    bounds = np.searchsorted(ordered, distinct)
    return np.unique(np.concatenate([[0], bounds, [len(ordered)]]))


def _best_bounds(ordered: Array, cells: Array, count: int) -> Array:
    """Where at most `count` clusters of whole cells begin and end, so that the sum of squared
    errors is the smallest (dynamic programming).
    """
    shifted = ordered - ordered.mean()
    sums = np.concatenate([[0.0], np.cumsum(shifted)])[cells]
    squares = np.concatenate([[0.0], np.cumsum(shifted**2)])[cells]
    sizes = np.subtract.outer(cells, cells).astype(np.float64)  # [end, start]
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.subtract.outer(squares, squares) - np.subtract.outer(sums, sums) ** 2 / sizes
    error[sizes <= 0] = np.inf
    best = error[:, 0].copy()
    best[0] = 0.0
    starts = []
    for _ in range(min(count, len(cells) - 1) - 1):
        total = error + best
        total[0, 0] = 0.0
        starts.append(total.argmin(1))
        best = total.min(1)
    bounds = [len(cells) - 1]
    for start in reversed(starts):
        bounds.append(int(start[bounds[-1]]))
    return np.unique(cells[[0, *bounds]])
