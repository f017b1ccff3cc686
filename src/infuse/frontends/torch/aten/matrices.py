"""Matrices that are taken apart, by the same loops as those of traced arrays; a compiled program
cannot raise an error where torch does: a matrix without a result gives NaN.
"""

from __future__ import annotations

from typing import Any

from infuse.frontends.arrays import decompositions
from infuse.frontends.arrays.array import Array, applied, lifted
from infuse.frontends.arrays.elementwise import where
from infuse.frontends.torch.calls import TorchImporter, aten
from infuse.ir.graph import Value


@aten("linalg_inv", "inverse")
def inverse(g: TorchImporter, x: Value) -> Value:
    """The inverses of matrices."""
    return applied(g, decompositions.inv, x)[0]


@aten("linalg_inv_ex")
def inverse_unchecked(g: TorchImporter, x: Value, *, check_errors: bool = False) -> list[Any]:
    """The inverses of matrices; what went wrong is not told."""
    return [inverse(g, x), None]


def _solution(g: TorchImporter, a: Value, b: Value, left: bool) -> Value:
    """X of a · x = b, or of x · a = b; b has vectors where it lacks an axis."""
    is_vector = b.rank == 1 or (b.rank == a.rank - 1 and b.shape == a.shape[:-1])
    if is_vector:
        b = g("Unsqueeze", b, g.ints(-1))

    def solved(a: Array, b: Array) -> Array:
        return decompositions.solve(a, b) if left else decompositions.solve(a.mT, b.mT).mT

    (y,) = applied(g, solved, a, b)
    return g("Squeeze", y, g.ints(-1)) if is_vector else y


@aten("linalg_solve")
def solve(g: TorchImporter, a: Value, b: Value, *, left: bool = True) -> Value:
    """The solutions of linear equations."""
    return _solution(g, a, b, left)


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
def cholesky(g: TorchImporter, x: Value, *, upper: bool = False) -> Value:
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
