"""Orthogonal matrices that spread single large elements evenly: randomized Hadamard matrices where
a construction of the size is known, and random ones elsewhere.
"""

from __future__ import annotations

import math

import numpy as np

from infuse.ir.graph import Array


def rotation(size: int, rng: np.random.Generator) -> Array:
    """A random orthogonal matrix in float64 whose elements have about the same magnitudes, and
    that leaves the vector of ones as it is: means and variances of rows stay, which is all that
    LayerNormalization knows of them.
    """
    matrix = hadamard(size)
    if matrix is None:
        matrix = np.linalg.qr(rng.standard_normal((size, size)))[0]
    spread = matrix * rng.choice((-1.0, 1.0), size) / np.linalg.norm(matrix[0])
    even = np.full(size, 1 / math.sqrt(size))
    away = even @ spread - even
    length = float(away @ away)
    if length < np.finfo(np.float64).eps:
        return np.asarray(spread)
    result: Array = spread - np.outer(spread @ away, away) * (2 / length)
    return result


def hadamard(size: int) -> Array | None:
    """A matrix of 1 and -1 whose rows are orthogonal, by the constructions of Sylvester and Paley;
    None where these have none of this size.
    """
    if size in (1, 2):
        return np.array([[1.0, 1.0], [1.0, -1.0]])[:size, :size]
    if size <= 0 or size % 4:
        return None
    if _is_prime(size - 1):
        return _paley(size - 1)
    if size // 2 % 4 == 2 and _is_prime(size // 2 - 1):
        return _paley_doubled(size // 2 - 1)
    half = hadamard(size // 2)
    return None if half is None else np.kron(np.array([[1.0, 1.0], [1.0, -1.0]]), half)


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % each for each in range(2, math.isqrt(number) + 1))


def _residues(prime: int) -> Array:
    """Whether differences of row and column are squares modulo a prime: 1, -1, and 0."""
    character = np.full(prime, -1.0)
    character[[each * each % prime for each in range(1, prime)]] = 1
    character[0] = 0
    places = np.arange(prime)
    result: Array = character[(places[:, None] - places) % prime]
    return result


def _bordered(prime: int, sign: float) -> Array:
    """The residues below a row of ones and beside a column of `sign`."""
    result = np.zeros((prime + 1, prime + 1))
    result[0, 1:], result[1:, 0], result[1:, 1:] = 1, sign, _residues(prime)
    return result


def _paley(prime: int) -> Array:
    """The matrix of a prime that is 3 modulo 4."""
    result: Array = np.eye(prime + 1) + _bordered(prime, -1)
    return result


def _paley_doubled(prime: int) -> Array:
    """The matrix of twice the size, of a prime that is 1 modulo 4."""
    core, unit = _bordered(prime, 1), np.eye(prime + 1)
    result: Array = np.kron(core, [[1, 1], [1, -1]]) + np.kron(unit, [[1, -1], [-1, -1]])
    return result
