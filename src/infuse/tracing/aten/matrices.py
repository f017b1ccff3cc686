"""Matrices that are taken apart, by the same loops as those of traced arrays; a compiled program
cannot raise an error where torch does: a matrix without a result gives NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.ir.graph import Value
from infuse.tracing.arrays import decompositions, linear
from infuse.tracing.arrays.array import Array, applied, lifted
from infuse.tracing.arrays.creation import tril
from infuse.tracing.arrays.elementwise import where
from infuse.tracing.aten.calls import TorchImporter, aten


@aten("linalg_inv", "inverse")
def inverse(g: TorchImporter, x: Value) -> Value:
    """The inverses of matrices."""
    return applied(g, decompositions.inv, x)[0]


aten("linalg_inv_ex")(lambda g, x, *, check_errors=False: [inverse(g, x), None])
aten("linalg_solve")(lambda g, a, b, *, left=True: _solution(g, a, b, left))


def _solution(g: TorchImporter, a: Value, b: Value, left: bool) -> Value:
    """X of a · x = b, or of x · a = b; b has vectors where it lacks an axis."""
    is_vector = b.rank == 1 or (b.rank == a.rank - 1 and b.shape == a.shape[:-1])
    if is_vector:
        b = g("Unsqueeze", b, g.ints(-1))

    def solved(a: Array, b: Array) -> Array:
        return decompositions.solve(a, b) if left else decompositions.solve(a.mT, b.mT).mT

    (y,) = applied(g, solved, a, b)
    return g("Squeeze", y, g.ints(-1)) if is_vector else y


@aten("linalg_solve_ex", "_linalg_solve_ex")
def solve_unchecked(
    g: TorchImporter, a: Value, b: Value, *, left: bool = True, check_errors: bool = False
) -> list[Any]:
    """The solutions of linear equations; factors of the matrices are not made."""
    return [_solution(g, a, b, left), None, None, None][: len(g.results)]


@aten("linalg_det", "det", "_linalg_det")
def determinant(g: TorchImporter, x: Value) -> Any:
    """The determinants of matrices; factors of them are not made."""
    (y,) = applied(g, decompositions.det, x)
    return [y, None, None] if len(g.results) > 1 else y


@aten("linalg_slogdet", "slogdet", "_linalg_slogdet")
def log_determinant(g: TorchImporter, x: Value) -> list[Any]:
    """The signs of determinants, and the logarithms of their sizes; factors are not made."""
    return [*applied(g, decompositions.slogdet, x), None, None][: len(g.results)]


@aten("logdet")
def logdet(g: TorchImporter, x: Value) -> Value:
    """The logarithms of determinants, NaN of negative ones."""

    def of_sign(x: Array) -> Array:
        sign, size = decompositions.slogdet(x)
        return where(sign < 0, lifted(float("nan"), size.dtype), size)

    return applied(g, of_sign, x)[0]


@aten("linalg_cholesky", "cholesky")
def cholesky(g: TorchImporter, x: Value, upper: bool = False) -> Value:
    """The triangular factors of positive definite matrices, of which one triangle is read."""
    return applied(g, lambda x: decompositions.cholesky(x, upper=upper), x)[0]


@aten("linalg_cholesky_ex")
def cholesky_unchecked(
    g: TorchImporter, x: Value, *, upper: bool = False, check_errors: bool = False
) -> list[Any]:
    """The triangular factors of positive definite matrices; what went wrong is not told."""
    return [cholesky(g, x, upper=upper), None]


@aten("linalg_matrix_power", "matrix_power")
def matrix_power(g: TorchImporter, x: Value, n: int) -> Value:
    """Matrices to a power, their inverses where it is negative."""
    return applied(g, lambda x: decompositions.matrix_power(x, n), x)[0]


@aten("_linalg_eigh", "linalg_eigvalsh")
def eigenvalues(
    g: TorchImporter, x: Value, UPLO: str = "L", compute_v: bool = True
) -> Any:  # fmt: skip
    """The eigenvalues of symmetric matrices, of which one triangle is read, in ascending order."""
    if compute_v and len(g.results) > 1:
        raise g.unsupported("eigenvectors, whose signs LAPACK chooses,")

    def values(x: Array) -> Array:
        half = tril(x, k=-1) if UPLO == "L" else tril(x.mT, k=-1)
        return decompositions.eigvalsh(half + half.mT + x * lifted(_identity(x), x.dtype))

    (y,) = applied(g, values, x)
    return [y, None] if len(g.results) > 1 else y


def _identity(x: Array) -> Any:
    size = x.value.shape[-1]
    if not isinstance(size, int):
        raise UnsupportedOperatorError("eigenvalues of matrices of unknown size are not supported")
    return np.eye(size)


@aten("_linalg_svd", "linalg_svdvals")
def singular_values(
    g: TorchImporter,
    A: Value,
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    driver: str | None = None,
) -> Any:
    """The singular values of matrices, in descending order."""
    if compute_uv and len(g.results) > 1:
        raise g.unsupported("singular vectors, whose signs LAPACK chooses,")
    (y,) = applied(g, decompositions.svdvals, A)
    return [None, y, None] if len(g.results) > 1 else y


@aten("linalg_solve_triangular")
def solve_triangular(
    g: TorchImporter,
    x: Value,
    B: Value,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Value:
    """The solutions of equations of which one triangle is read."""
    sides = g.constant(np.int64(1 if upper else -1) * unitriangular)
    part = g("Trilu", x, sides, upper=int(upper))
    if unitriangular:
        size = x.shape[-1]
        if not isinstance(size, int):
            raise g.unsupported("a triangle of ones of unknown size")
        part = g("Add", part, g.constant(np.eye(size, dtype=x.dtype.numpy)))
    return _solution(g, part, B, left)


@aten("cholesky_solve")
def cholesky_solve(g: TorchImporter, x: Value, input2: Value, upper: bool = False) -> Value:
    """The solutions of equations whose matrices have these triangular factors."""
    part = g("Trilu", input2, g.constant(np.int64(0)), upper=int(upper))
    order = [*range(part.rank - 2), part.rank - 1, part.rank - 2]
    other = g.permute(part, *order)
    first, second = (other, part) if upper else (part, other)
    return _solution(g, second, _solution(g, first, x, left=True), left=True)


@aten("linalg_cross")
def cross(g: TorchImporter, x: Value, other: Value, *, dim: int = -1) -> Value:
    """The cross products of vectors of three elements."""
    a, b = g.tensors(x, other, dtype=g.dtype)
    return applied(g, lambda a, b: linear.cross(a, b, axis=dim), a, b)[0]


@aten("trace")
def trace(g: TorchImporter, x: Value) -> Value:
    """The sum of the diagonal of a matrix."""
    x = g.cast(x, g.dtype)
    return applied(g, lambda x: linear.trace(x, dtype=x.dtype), x)[0]
