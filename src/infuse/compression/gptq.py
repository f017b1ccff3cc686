"""Weights that are rounded row by row, each error made up for by the rows that are
still to come: GPTQ (Frantar et al., 2022, arXiv:2210.17323).
"""

from __future__ import annotations

import numpy as np

from infuse.compression.layers import Floats
from infuse.compression.moments import damped
from infuse.compression.weights import (
    BlockWeights,
    Grid,
    IntegerWeights,
    grid_of,
    in_blocks,
    nearest_integers,
)
from infuse.ir.graph import Array

CHUNK = 128
"""Rows after which errors are handed on to all others."""


def gptq(matrix: Floats, moments: Array, bits: int, block: int) -> BlockWeights:
    """Integers of a matrix [depth, columns] for the activations whose second moments
    [depth, depth] are given: the sum of the squared errors of the products is small, not that of
    the weights.
    """
    depth = len(matrix)
    factors = inverse_factors(moments)
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


def gptq_channels(matrices: Floats, scales: Floats, rows: Array) -> IntegerWeights:
    """8-bit integers of matrices [groups, depth, columns] with these scales [groups, 1, columns],
    for rows [rows, groups, depth] that they multiply. Weights of zero stay zero.
    """
    depth = matrices.shape[1]
    by_group = np.asarray(rows, np.float64).transpose(1, 0, 2)
    factors = inverse_factors(by_group.transpose(0, 2, 1) @ by_group)
    left = matrices.astype(np.float64)
    codes = np.zeros(matrices.shape, np.int8)
    for start in range(0, depth, CHUNK):
        end = min(start + CHUNK, depth)
        errors = np.zeros((len(matrices), end - start, matrices.shape[2]))
        for row in range(start, end):
            integers = nearest_integers(np.asarray(left[:, row], np.float32), scales[:, 0])
            integers[matrices[:, row] == 0] = 0
            codes[:, row] = integers
            error = (left[:, row] - integers * scales[:, 0]) / factors[:, row, row, None]
            left[:, row + 1 : end] -= factors[:, row, row + 1 : end, None] * error[:, None]
            errors[:, row - start] = error
        left[:, end:] -= factors[:, start:end, end:].transpose(0, 2, 1) @ errors
    return IntegerWeights(codes, scales)


def inverse_factors(moments: Array) -> Array:
    """The upper Cholesky factors of the inverses of damped moments [.., depth, depth]."""
    factor: Array = np.linalg.cholesky(np.linalg.inv(damped(moments))).swapaxes(-1, -2)
    return factor
