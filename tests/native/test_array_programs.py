"""Traced programs that are optimized and compiled: decompositions, transforms, complex numbers, and
all functions of every element on special values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infuse import dtypes
from infuse.tracing.arrays.array import node
from tests.array_programs import difference, run, run_native
from tests.pure.test_array_elementwise import BINARY, UNARY, allowed, operands, special
from tests.pure.test_array_linear import adjoint, close, matrices, orthonormal, size

pytestmark = pytest.mark.row("C9")

CASES = [("float32", False), ("float32", True), ("float64", False), ("complex64", False)]


@pytest.mark.parametrize(("dtype", "symbolic"), CASES)
def test_matrices_are_taken_apart(dtype: str, symbolic: bool) -> None:
    x = matrices((2, 5, 5), dtype)
    unit = np.broadcast_to(np.eye(5, dtype=dtype), x.shape)
    positive = (x @ adjoint(x) + unit).astype(dtype)

    def function(xp: Any, x: Any, positive: Any) -> Any:
        linalg = xp.linalg
        return (
            *(linalg.inv(x), linalg.solve(x, positive), linalg.cholesky(positive)),
            *(*linalg.qr(x), *linalg.eigh(positive), *linalg.slogdet(x)),
        )

    results = run_native(function, x, positive, symbolic=symbolic)
    inverse, solution, factor, q, r, values, vectors, sign, logarithm = results
    close(inverse @ x, unit, 20, size(x) * size(inverse))
    close(x @ solution, positive, 20, size(x) * size(solution))
    close(factor @ adjoint(factor), positive, 20)
    close(q @ r, x, 20)
    orthonormal(q)
    close(positive @ vectors, vectors * values[:, None, :], 20, size(positive))
    orthonormal(vectors)
    right = np.linalg.slogdet(x)
    np.testing.assert_allclose(sign, right.sign, rtol=1e-4)
    np.testing.assert_allclose(logarithm, right.logabsdet, rtol=1e-4)


@pytest.mark.parametrize(
    ("shape", "dtype", "symbolic"),
    [*(((2, 5, 5), *case) for case in CASES), ((6, 3), *CASES[1]), ((3, 6), *CASES[1])],
    ids=str,
)
def test_singular_values(shape: tuple[int, ...], dtype: str, symbolic: bool) -> None:
    x = matrices(shape, dtype)

    def function(xp: Any, x: Any) -> Any:
        return (
            *xp.linalg.svd(x),
            xp.linalg.svdvals(x),
            xp.linalg.pinv(x),
            xp.linalg.matrix_rank(x),
        )

    results = run_native(function, x, symbolic=symbolic)
    left, values, right, same, inverse, rank = results
    count = values.shape[-1]
    close((left[..., :count] * values[..., None, :]) @ right[..., :count, :], x, 40)
    orthonormal(left)
    orthonormal(adjoint(right))
    np.testing.assert_allclose(same, values, rtol=1e-4)
    np.testing.assert_allclose(values, np.linalg.svdvals(x), rtol=1e-4)
    close(x @ inverse @ x, x, 400, size(x) ** 2 * size(inverse))
    assert (rank == min(shape[-2:])).all()


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_transforms(dtype: str, symbolic: bool) -> None:
    x = matrices((3, 8, 5), dtype)

    def function(xp: Any, x: Any) -> Any:
        spectrum = xp.fft.fftn(x)
        half = xp.fft.rfft(x, axis=1, n=7, norm="ortho")
        back = xp.fft.irfft(half, axis=1, n=7, norm="ortho")
        return spectrum, half, back, xp.fft.ifft(spectrum * xp.conj(spectrum), axis=0)

    for result, right in zip(run_native(function, x, symbolic=symbolic), function(np, x)):
        assert difference(result, right, 100, np.abs(right).max()) is None


def normal(*arrays: np.ndarray) -> list[np.ndarray]:
    """Elements without subnormal numbers beside each other, which compiled code makes zero."""
    is_normal = np.ones(arrays[0].shape, np.bool_)
    for x in arrays:
        if x.dtype.kind == "f":
            is_normal &= (np.abs(x) > 4 * np.finfo(x.dtype).tiny) | (x == 0) | ~np.isfinite(x)
    return [x[is_normal] for x in arrays]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "complex64"])
def test_functions_of_one_array(dtype: str) -> None:
    (x,) = normal(special(dtype))
    names = [name for name in UNARY if allowed(name, x)]

    def function(xp: Any, x: Any) -> Any:
        return [getattr(xp, name)(x) for name in names]

    for name, result, right in zip(names, run_native(function, x), run(function, x)):
        assert difference(result, right, 16) is None, name


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_functions_of_two_arrays(dtype: str) -> None:
    names = [name for name in BINARY if allowed(name, special(dtype), special(dtype))]
    pairs = {name: normal(*operands(name, dtype, dtype)) for name in names}
    if dtype == "int32":  # what a power beyond the range gives is open
        del pairs["pow"]
    a, b = (np.stack([pair[side] for pair in pairs.values()]) for side in (0, 1))

    def function(xp: Any, a: Any, b: Any) -> Any:
        return [getattr(xp, name)(a[i, :], b[i, :]) for i, name in enumerate(pairs)]

    for name, result, right in zip(pairs, run_native(function, a, b), run(function, a, b)):
        if name in ("maximum", "minimum"):  # of 0.0 and -0.0 either
            result, right = result + 0, right + 0
        assert difference(result, right, 16) is None, name


def test_bits_are_read_beside_the_number_that_they_are() -> None:
    """Views of one buffer in two types are two operands of a function."""

    def function(xp: Any, x: Any) -> Any:
        bits = node("BitCast", x, to=dtypes.int32)
        return xp.where(x > 2, bits + 1, bits - 1), xp.astype(xp.matrix_transpose(bits), x.dtype)

    x = np.array([[1.0, 2, 3], [4, -5, 6]], np.float32)
    for result, right in zip(run_native(function, x), run(function, x)):
        assert difference(result, right, 0) is None
