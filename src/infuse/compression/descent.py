"""Weights of few bits whose rounding and scales are improved one after another, by coordinate
descent on the error of the products (the aim of AdaRound, Nagel et al., 2020, arXiv:2004.10568; the
method of QuantEase, Behdin et al., 2023, arXiv:2309.01885).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from infuse.compression.layers import Floats
from infuse.compression.moments import damped
from infuse.compression.weights import BlockWeights, short_scales, with_short_scales
from infuse.ir.graph import Array

ROUNDS = 2
"""Fits of the scales, each followed by so many passes over the rows:"""
PASSES = 2
CHUNK = 64
"""Rows after which changes are handed on to all others."""
LEAST_SCALE = 0.5
"""The part of a scale that a fit leaves at least."""

Doubles = NDArray[np.float64]


def descended(weights: BlockWeights, matrix: Floats, moments: Array) -> BlockWeights:
    """Better codes and scales for weights in blocks that stand for a matrix [depth, columns], for
    activations whose second moments [depth, depth] are given.
    """
    zeros = np.zeros(1) if weights.zeros is None else weights.zeros.astype(np.float64)
    zeros = np.broadcast_to(zeros, weights.scales.shape)
    by_row = np.repeat(zeros, weights.block, 0)
    power = damped(moments)
    descent = _Descent(
        power,
        weights.integers.astype(np.float64) - by_row,
        weights.scales.astype(np.float64),
        -zeros,
        (1 << weights.bits) - 1 - zeros,
        power @ (matrix.astype(np.float64) - weights.numbers),
    )
    for _ in range(ROUNDS):
        descent.fit_scales()
        for _ in range(PASSES):
            if not descent.pass_over_rows():
                break
    codes = (descent.codes + by_row).astype(weights.integers.dtype)
    scales = with_short_scales(descent.scales.astype(np.float32))
    return BlockWeights(codes, scales, weights.zeros, weights.block, weights.bits)


@dataclass
class _Descent:
    """Whole `codes` [depth, columns] from `low` to `high`, and their `scales` (all three
    [blocks, columns]). `slope` [depth, columns]: `moments` times the errors of the weights.
    """

    moments: Doubles
    codes: Doubles
    scales: Doubles
    low: Doubles
    high: Doubles
    slope: Doubles

    def fit_scales(self) -> None:
        """Give each block the scale with the least error, the others as they are."""
        block = len(self.codes) // len(self.scales)
        for number, scales in enumerate(self.scales.copy()):
            rows = slice(number * block, (number + 1) * block)
            codes = self.codes[rows]
            power = (codes * (self.moments[rows, rows] @ codes)).sum(0)
            step = (codes * self.slope[rows]).sum(0) / np.where(power > 0, power, 1)
            fitted = np.maximum(scales + np.where(power > 0, step, 0), LEAST_SCALE * scales)
            fitted = short_scales(fitted.astype(np.float32)).astype(np.float64)
            self.slope -= self.moments[:, rows] @ (codes * (fitted - scales))
            self.scales[number] = fitted

    def pass_over_rows(self) -> bool:
        """Give each weight the code with the least error, the others as they are; whether one has
        changed.
        """
        depth, has_changed = len(self.codes), False
        for start in range(0, depth, CHUNK):
            rows = slice(start, min(start + CHUNK, depth))
            changes = self._change_rows(rows)
            if changes.any():
                has_changed = True
                inner = self.slope[rows].copy()
                self.slope -= self.moments[:, rows] @ changes
                self.slope[rows] = inner
        return has_changed

    def _change_rows(self, rows: slice) -> Doubles:
        """The changes of the weights of some rows; the slopes of these are up to date then."""
        block = len(self.codes) // len(self.scales)
        changes = np.zeros_like(self.codes[rows])
        for row in range(rows.start, rows.stop):
            number = row // block
            steps = self.slope[row] / (self.moments[row, row] * self.scales[number])
            codes = np.rint(self.codes[row] + steps)
            codes = np.clip(codes, self.low[number], self.high[number])
            change = (codes - self.codes[row]) * self.scales[number]
            if change.any():
                self.codes[row], changes[row - rows.start] = codes, change
                self.slope[rows] -= np.outer(self.moments[rows, row], change)
        return changes
