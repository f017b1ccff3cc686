"""Weights as signed integers of 8 bits, one scale for each output channel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from infuse import dtypes
from infuse.compression.layers import Floats
from infuse.ir.graph import Array

SHRINKS = (1.0, 0.97, 0.94, 0.91, 0.88, 0.85, 0.8, 0.75)
"""Parts of the largest weight of a channel that are tried as the largest integer."""
MOST = 127


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
    axes = 1 if per_channel else (0, 1, 2)
    largest = np.abs(matrices).max(axis=axes, keepdims=True)
    full = np.broadcast_to(largest, (matrices.shape[0], 1, matrices.shape[2]))
    weight = 1.0 if importance is None else importance[:, :, None]
    best = np.full(full.shape, np.inf)
    scales = np.ones(full.shape, np.float32)
    for part in SHRINKS if per_channel else (1.0,):
        trial = np.asarray(full * (part / MOST), np.float32)
        trial[trial < 1e-30] = 1
        error = (weight * (_rounded(matrices, trial) * trial - matrices) ** 2).sum(1, keepdims=True)
        better = error < best
        best, scales = np.where(better, error, best), np.where(better, trial, scales)
    return IntegerWeights(_rounded(matrices, scales).astype(np.int8), scales)


def _rounded(matrices: Floats, scales: Floats) -> Floats:
    return np.asarray(np.clip(np.rint(matrices / scales), -MOST, MOST), np.float32)


@dataclass(frozen=True, eq=False)
class BlockWeights:
    """Integers [depth, columns] of few bits, with scales and zero points [blocks, columns] for
    `block` rows each.
    """

    integers: Array
    scales: Floats
    zeros: Array | None
    block: int
    bits: int

    @property
    def numbers(self) -> Floats:
        """What the integers stand for."""
        zeros = 0 if self.zeros is None else np.repeat(self.zeros.astype(np.float32), self.block, 0)
        return (self.integers.astype(np.float32) - zeros) * np.repeat(self.scales, self.block, 0)


def blocks(matrix: Floats, bits: int, block: int) -> BlockWeights:
    """Unsigned integers of a matrix [depth, columns], rounded to nearest: for each block of rows
    of a column a scale and a zero point. The depth is a multiple of `block`.
    """
    kind = {4: dtypes.uint4, 8: dtypes.uint8}[bits].numpy
    parts = matrix.reshape(-1, block, matrix.shape[1])
    low, high = np.minimum(parts.min(1), 0), np.maximum(parts.max(1), 0)
    most = (1 << bits) - 1
    scales = np.asarray((high - low) / most, np.float32)
    scales[scales < 1e-30] = 1
    zeros = np.clip(np.rint(-low / scales), 0, most)
    whole = np.clip(np.rint(parts / scales[:, None]) + zeros[:, None], 0, most)
    return BlockWeights(
        whole.reshape(matrix.shape).astype(kind), scales, zeros.astype(kind), block, bits
    )


def importance_of(rows: Floats) -> Array:
    """The mean square of the rows [rows, groups, depth]: [groups, depth]."""
    return np.mean(rows.astype(np.float64) ** 2, axis=0) if len(rows) else np.ones(rows.shape[1:])
