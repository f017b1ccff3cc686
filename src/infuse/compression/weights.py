"""Weights as signed integers of 8 bits, one scale for each output channel, and as integers of few
bits in blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from infuse import dtypes
from infuse.compression.layers import Floats
from infuse.ir.graph import Array

SHRINKS = (1.0, 0.97, 0.94, 0.91, 0.88, 0.85, 0.8, 0.75)
"""Parts of the largest weight of a channel that are tried as the largest integer."""
MOST = 127
PART = 1 << 18
"""Weights that are rounded at once, in whole columns: some copies in float64 are made of them."""


@dataclass(frozen=True, eq=False)
class IntegerWeights:
    """Integers [groups, depth, columns] and scales [groups, 1, columns]."""

    integers: NDArray[np.int8]
    scales: Floats

    @property
    def numbers(self) -> Floats:
        """What the integers stand for."""
        return self.integers * self.scales

    @property
    def channel_scales(self) -> Floats:
        """A scale for each output channel."""
        return self.scales.reshape(-1)


def round_to_nearest(
    matrices: Floats, importance: Array | None = None, per_channel: bool = True
) -> IntegerWeights:
    """Symmetric integers with, for each channel, the range of least squared error.

    `importance` [groups, depth] weighs the errors: the mean square of what is multiplied.
    """
    groups, depth, columns = matrices.shape
    wide = max(1, PART // (groups * depth))
    parts = [slice(start, start + wide) for start in range(0, columns, wide)]
    if per_channel:
        scales = np.concatenate([_best_scales(matrices[..., p], importance) for p in parts], 2)
    else:
        largest = max(float(np.abs(matrices[..., part]).max()) for part in parts)
        scales = _above_zero(np.full((groups, 1, columns), largest / MOST, np.float32))
    integers = np.empty(matrices.shape, np.int8)
    for part in parts:
        integers[..., part] = nearest_integers(matrices[..., part], scales[..., part])
    return IntegerWeights(integers, scales)


def _best_scales(matrices: Floats, importance: Array | None) -> Floats:
    """The scale of each channel with the least squared error, weighed by `importance`."""
    full = np.abs(matrices).max(axis=1, keepdims=True)
    weight = 1.0 if importance is None else importance[:, :, None]
    best = np.full(full.shape, np.inf)
    scales = np.ones(full.shape, np.float32)
    for part in SHRINKS:
        trial = _above_zero(np.asarray(full * (part / MOST), np.float32))
        error = (weight * (nearest_integers(matrices, trial) * trial - matrices) ** 2).sum(
            1, keepdims=True
        )
        better = error < best
        best, scales = np.where(better, error, best), np.where(better, trial, scales)
    return scales


def _above_zero(scales: Floats) -> Floats:
    """Scales that divide: 1 for channels of zeros."""
    return np.where(scales < 1e-30, np.float32(1), scales)


def nearest_integers(matrices: Floats, scales: Floats) -> Floats:
    """The nearest integers of 8 bits, as whole floats."""
    return np.asarray(np.clip(np.rint(matrices / scales), -MOST, MOST), np.float32)


@dataclass(frozen=True, eq=False)
class BlockWeights:
    """Integers [depth, columns] of few bits, with scales and zero points [blocks, columns] for
    `block` rows each; scales are float16 where that holds them all.
    """

    integers: Array
    scales: Array
    zeros: Array | None
    block: int
    bits: int

    @property
    def numbers(self) -> Floats:
        """What the integers stand for."""
        zeros = 0 if self.zeros is None else np.repeat(self.zeros.astype(np.float32), self.block, 0)
        scales = np.repeat(self.scales.astype(np.float32), self.block, 0)
        return np.asarray((self.integers.astype(np.float32) - zeros) * scales)


@dataclass(frozen=True, eq=False)
class Grid:
    """The numbers that a block of rows can have, by column: (code − zero) · scale for codes from 0
    to `most`.
    """

    scales: Floats
    zeros: Floats
    most: int

    def codes(self, rows: Floats) -> Floats:
        """The nearest codes of rows [.., columns], as whole floats."""
        return np.asarray(np.clip(np.rint(rows / self.scales) + self.zeros, 0, self.most))

    def numbers(self, codes: Floats) -> Floats:
        """What codes stand for."""
        return (codes - self.zeros) * self.scales


HALF = np.finfo(np.float16)


def short_scales(scales: Floats) -> Floats:
    """Scales rounded to float16, where it has them with all its bits: so each differs by a part of
    2^-11 at most, which is less than the codes' own rounding to one of 255.
    """
    fits = (scales >= HALF.tiny) & (scales <= HALF.max)
    short = np.where(fits, scales, 1).astype(np.float16)
    return np.asarray(np.where(fits, short.astype(np.float32), scales), np.float32)


BLOCK_SHRINKS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)
"""Parts of the range of a block that are tried."""


def grid_of(
    rows: Floats,
    bits: int,
    importance: Array | None = None,
    shrinks: Sequence[float] = BLOCK_SHRINKS,
) -> Grid:
    """The grid of a block of rows [block, columns] with the least squared error for each column,
    weighed by `importance` [block].
    """
    most = (1 << bits) - 1
    low, high = np.minimum(rows.min(0), 0), np.maximum(rows.max(0), 0)
    weight = 1.0 if importance is None else np.asarray(importance, np.float32)[:, None]
    best = np.full(low.shape, np.inf)
    scales, zeros = np.ones_like(low), np.zeros_like(low)
    for part in shrinks:
        steps = np.asarray((high - low) * np.float32(part / most))
        steps[steps < 1e-30] = 1
        steps = short_scales(steps)
        trial = Grid(steps, np.clip(np.rint(-low * np.float32(part) / steps), 0, most), most)
        error = (weight * (trial.numbers(trial.codes(rows)) - rows) ** 2).sum(0)
        better = error < best
        best, scales = np.where(better, error, best), np.where(better, trial.scales, scales)
        zeros = np.where(better, trial.zeros, zeros)
    return Grid(scales, zeros, most)


def blocks(
    matrix: Floats,
    bits: int,
    block: int,
    importance: Array | None = None,
    shrinks: Sequence[float] = BLOCK_SHRINKS,
) -> BlockWeights:
    """Unsigned integers of a matrix [depth, columns], rounded to nearest: for each block of rows
    of a column a scale and a zero point. The depth is a multiple of `block`.
    """
    parts = matrix.reshape(-1, block, matrix.shape[1])
    weights = [None] * len(parts) if importance is None else importance.reshape(-1, block)
    grids = [grid_of(part, bits, each, shrinks) for part, each in zip(parts, weights)]
    codes = np.concatenate([grid.codes(part) for grid, part in zip(grids, parts)])
    return in_blocks(codes, grids, bits, block)


CODES = {2: dtypes.uint2, 3: dtypes.uint4, 4: dtypes.uint4, 8: dtypes.uint8}
"""The type that codes of so many bits have."""


def in_blocks(codes: Floats, grids: Sequence[Grid], bits: int, block: int) -> BlockWeights:
    """Codes [depth, columns] with the grids of their blocks."""
    kind = CODES[bits].numpy
    scales, zeros = (np.stack([getattr(g, name) for g in grids]) for name in ("scales", "zeros"))
    return BlockWeights(
        codes.astype(kind), with_short_scales(scales), zeros.astype(kind), block, bits
    )


def with_short_scales(scales: Floats) -> Array:
    """Scales as float16 where that holds them all."""
    short = np.clip(scales, None, HALF.max).astype(np.float16)
    return short if np.array_equal(short.astype(np.float32), scales) else scales


def importance_of(rows: Floats) -> Array:
    """The mean square of the rows [rows, groups, depth]: [groups, depth]."""
    return np.mean(rows.astype(np.float64) ** 2, axis=0) if len(rows) else np.ones(rows.shape[1:])
