"""Weights of few bits that are rounded row by row, each error made up for by the rows that are
still to come: GPTQ (Frantar et al., 2022, arXiv:2210.17323).
"""

from __future__ import annotations

import numpy as np

from infuse.compression.layers import Floats
from infuse.compression.weights import BlockWeights, Grid, grid_of, in_blocks
from infuse.ir.graph import Array

DAMPING = 0.01
"""What is added to the diagonal of the second moments, as a part of its mean."""
CHUNK = 128
"""Rows after which errors are handed on to all others."""


def gptq(matrix: Floats, moments: Array, bits: int, block: int) -> BlockWeights:
    """Integers of a matrix [depth, columns] for the activations whose second moments
    [depth, depth] are given: the sum of the squared errors of the products is small, not that of
    the weights.
    """
    depth = len(matrix)
    factors = _factors(moments)
    importance = np.diag(moments)
    left = matrix.astype(np.float64)
    codes = np.zeros(matrix.shape, np.float32)
    grids: list[Grid] = []
    for start in range(0, depth, CHUNK):
        end = min(start + CHUNK, depth)
        errors = np.zeros((end - start, matrix.shape[1]))
        for row in range(start, end):
            if row % block == 0:
                rows = slice(row, row + block)
                grids.append(grid_of(np.asarray(left[rows], np.float32), bits, importance[rows]))
            codes[row] = grids[-1].codes(np.asarray(left[row], np.float32))
            error = (left[row] - grids[-1].numbers(codes[row])) / factors[row, row]
            left[row + 1 : end] -= np.outer(factors[row, row + 1 : end], error)
            errors[row - start] = error
        left[end:] -= factors[start:end, end:].T @ errors
    return in_blocks(codes, grids, bits, block)


def _factors(moments: Array) -> Array:
    """The upper Cholesky factor of the inverse of damped moments."""
    damped = moments.astype(np.float64)
    diagonal = np.diag(damped).copy()
    mean = float(diagonal.mean()) or 1.0
    diagonal[diagonal <= 0] = mean  # an activation that is always zero
    np.fill_diagonal(damped, diagonal + DAMPING * mean)
    factor: Array = np.linalg.cholesky(np.linalg.inv(damped)).T
    return factor
