"""Linear algebra that takes matrices apart: the Array API's functions on elimination.py and
jacobi.py. All take stacks of matrices along the last two axes, of float32, float64 and complex
numbers; integers become float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from infuse.errors import ShapeError, UnsupportedOperatorError
from infuse.tracing.arrays.array import Array, Complex, lifted, node, source_line, together
from infuse.tracing.arrays.creation import eye
from infuse.tracing.arrays.elementwise import (
    FUNCTIONS,
    abs as absolute,
    floating,
    maximum,
    where,
)
from infuse.tracing.arrays.elimination import (
    adjoint,
    cholesky_factor,
    eliminated,
    reflected,
    scale_of,
    solved,
    stacked,
    unitary,
)
from infuse.tracing.arrays.jacobi import eigen, singular
from infuse.tracing.arrays.linear import diagonal, matmul, vector_norm
from infuse.tracing.arrays.manipulation import broadcast_to, expand_dims, squeeze
from infuse.tracing.arrays.reduction import max, min, prod, sum
from infuse.tracing.arrays.sizes import joint_sizes

__all__ = ["cholesky", "det", "eigh", "eigvalsh", "inv", "matrix_norm", "matrix_power"]
__all__ += ["matrix_rank", "pinv", "qr", "slogdet", "solve", "svd", "svdvals"]


class EighResult(NamedTuple):
    """Eigenvalues, ascending, and eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """Orthonormal columns, and upper triangles."""

    Q: Array
    R: Array


class SlogdetResult(NamedTuple):
    """Signs of determinants, and logarithms of their sizes."""

    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    """Orthonormal columns, singular values, descending, and orthonormal rows."""

    U: Array
    S: Array
    Vh: Array


def _matrices(x: Any, is_square: bool = False) -> Array:
    array = floating(x)
    if array.ndim < 2:
        raise ShapeError(f"{array.ndim} axes are too few for a matrix", where=source_line())
    rows, columns = array.shape[-2:]
    if is_square and isinstance(rows, int) and isinstance(columns, int) and rows != columns:
        raise ShapeError(f"a matrix of {rows} × {columns} is not square", where=source_line())
    return array


def cholesky(x: Array, /, *, upper: bool = False) -> Array:
    """L of x = L Lᴴ for Hermitian matrices that are positive definite, of which the lower triangle
    is read; with `upper` U = Lᴴ, and the upper one is read. A matrix that is not positive definite
    gives NaN.
    """
    array = _matrices(x, True)
    factor = cholesky_factor(adjoint(array) if upper else array)
    return adjoint(factor) if upper else factor


def det(x: Array, /) -> Array:
    """The determinants of matrices."""
    array = _matrices(x, True)
    if not isinstance(array, Complex):
        return node("Det", array)
    upper, _, sign = eliminated(array, array[..., :0])
    return prod(diagonal(upper), axis=-1) * sign


def slogdet(x: Array, /) -> SlogdetResult:
    """The signs of determinants, and the logarithms of their sizes: 0 and -∞ of singular
    matrices.
    """
    array = _matrices(x, True)
    upper, _, sign = eliminated(array, array[..., :0])
    heads = diagonal(upper)
    sizes = node("Log", absolute(heads))
    sign = prod(FUNCTIONS["sign"](heads), axis=-1) * sign
    return SlogdetResult(where(sign == 0, lifted(0, sign.dtype), sign), sum(sizes, axis=-1))


def solve(x1: Array, x2: Array, /) -> Array:
    """The solutions of linear equations, by elimination with partial pivoting; x2 is one vector, or
    matrices whose columns are right sides. A singular matrix gives NaN.
    """
    a, b = (floating(x) for x in together(x1, x2))
    a = _matrices(a, True)
    is_vector = b.ndim == 1
    if is_vector:
        b = expand_dims(b, axis=1)
    if a.ndim > 2 or b.ndim > 2:
        batch = joint_sizes(a.shape[:-2], b.shape[:-2])
        a, b = (broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    result = solved(a, b)
    return squeeze(result, axis=-1) if is_vector else result


def inv(x: Array, /) -> Array:
    """The inverses of matrices; a singular one gives NaN."""
    array = _matrices(x, True)
    return solved(array, stacked(array, eye(array.shape[-1], dtype=array.dtype)))


def qr(x: Array, /, *, mode: str = "reduced") -> QRResult:
    """Orthonormal columns Q and upper triangles R of x = Q R, by Householder's reflections; `mode`:
    "reduced", or "complete" for a square Q. The signs are LAPACK's; columns before one with NaN or
    an infinity are not touched by it.
    """
    if mode not in ("reduced", "complete"):
        raise UnsupportedOperatorError(
            f"mode is {mode!r}", where=source_line(), hint='it is "reduced" or "complete"'
        )
    array = _matrices(x)
    scale = scale_of(array)
    upper, vectors, count = reflected(array / scale)
    width = array.shape[-2] if mode == "complete" else count
    triangle = node("Trilu", upper, None, upper=1)
    if mode == "reduced":
        triangle = triangle[..., :count, :]
    return QRResult(unitary(vectors, count, width), triangle * scale)


def eigh(x: Array, /) -> EighResult:
    """Eigenvalues and eigenvectors of Hermitian matrices, of which the lower triangle is read, by
    Jacobi's rotations. A matrix with NaN or infinities gives NaN.
    """
    values, vectors = eigen(_matrices(x, True))
    assert vectors is not None
    return EighResult(values, vectors)


def eigvalsh(x: Array, /) -> Array:
    """The eigenvalues of Hermitian matrices, as `eigh` gives them."""
    return eigen(_matrices(x, True), with_vectors=False)[0]


def svd(x: Array, /, *, full_matrices: bool = True) -> SVDResult:
    """U, S and Vᴴ of x = U diag(S) Vᴴ, by Jacobi's rotations of columns; without `full_matrices`, U
    and Vᴴ have only the columns and rows that S has. A matrix with NaN or infinities gives NaN.
    """
    left, values, right = singular(_matrices(x), whole=full_matrices)
    assert left is not None
    assert right is not None
    return SVDResult(left, values, right)


def svdvals(x: Array, /) -> Array:
    """The singular values of matrices, descending."""
    return singular(_matrices(x), with_vectors=False)[1]


def _smallest(x: Array, values: Array, rtol: Any) -> Array:
    """Below which singular values count as 0; with an axis of size one."""
    limits = np.finfo(values.dtype)
    rows, columns = (lifted(size).astype(values.dtype) for size in x.shape[-2:])
    share = node("Max", rows, columns) * float(limits.eps) if rtol is None else lifted(rtol)
    if share.ndim:
        share = expand_dims(share, axis=share.ndim)
    return share.astype(values.dtype) * max(values, axis=-1, keepdims=True)


def matrix_rank(x: Array, /, *, rtol: Any = None) -> Array:
    """How many singular values are larger than `rtol` times the largest; by default, eps times the
    larger side of the matrix.
    """
    array = _matrices(x)
    return rank_above(array, lambda values: _smallest(array, values, rtol))


def rank_above(x: Array, limit: Callable[[Array], Array]) -> Array:
    """How many singular values of matrices are above the limit that a function makes of them."""
    values = svdvals(x)
    return sum((values > limit(values)).astype(np.int64), axis=-1)


def pinv(x: Array, /, *, rtol: Any = None) -> Array:
    """Moore's and Penrose's inverses; singular values up to `rtol` times the largest count as 0; by
    default, eps times the larger side of the matrix.
    """
    array = _matrices(x)
    return inverse_above(array, lambda values: _smallest(array, values, rtol))


def inverse_above(x: Array, limit: Callable[[Array], Array]) -> Array:
    """Inverses in the wider sense, for which singular values up to a limit count as 0."""
    left, values, right = svd(x, full_matrices=False)
    one, zero = lifted(1, values.dtype), lifted(0, values.dtype)
    is_zero = values <= limit(values)
    inverse = where(is_zero, zero, one / where(is_zero, one, values))
    return (adjoint(right) * expand_dims(inverse, axis=inverse.ndim - 1)) @ adjoint(left)


def matrix_power(x: Array, n: int, /) -> Array:
    """A square matrix to a power, by squaring; of the inverse where the power is negative."""
    x = _matrices(x, True) if n < 0 else lifted(x)
    if n < 0:
        return matrix_power(inv(x), -n)
    result = stacked(x, eye(x.shape[-1], dtype=x.dtype)) if n == 0 else None
    while n:
        if n & 1:
            result = x.copy() if result is None else matmul(result, x)
        n >>= 1
        if n:
            x = matmul(x, x)
    assert result is not None
    return result


def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Array:
    """The norm of matrices along the last two axes: Frobenius' ("fro"), the sum ("nuc") or extremes
    (2, -2) of singular values, or extremes of sums of columns (1, -1) or rows (±∞).
    """
    array = _matrices(x)
    if ord in ("fro", None):
        return vector_norm(array, axis=(-2, -1), keepdims=keepdims)
    if ord in (1, -1, np.inf, -np.inf):
        along = -2 if ord in (1, -1) else -1
        sums = sum(absolute(array), axis=along, keepdims=True)
        extreme = max if ord in (1, np.inf) else min
        result = extreme(sums, axis=(-2, -1), keepdims=True)
        result = maximum(result, 0) if extreme is max else result  # also of no elements
    elif ord in (2, -2, "nuc"):
        reduced = {2: max, -2: min, "nuc": sum}[ord]
        result = reduced(svdvals(array), axis=-1, keepdims=True)
        result = expand_dims(maximum(result, 0), axis=array.ndim - 2)
    else:
        raise UnsupportedOperatorError(
            f"the matrix norm {ord!r}",
            where=source_line(),
            hint='ord is "fro", "nuc", 1, -1, 2, -2, inf or -inf',
        )
    return result if keepdims else squeeze(result, axis=(-2, -1))
