"""Linear algebra of traced programs beside LAPACK, through NumPy: matrices are put together again,
and bounds are multiples of the rounding times the size, as LAPACK's own are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.array_programs import TYPES, difference, run
from tests.pure.test_array_axes import check, elements

pytestmark = pytest.mark.row("C9")

DTYPES = TYPES[-4:]
SHAPES = [(1, 1), (2, 2), (2, 5, 5), (3, 1, 6, 6), (0, 0), (0, 3, 3)]
SIDES = [(7, 3), (3, 8), (2, 1, 5), (2, 6, 1), (0, 3), (3, 0), (0, 3, 2)]
RNG = np.random.default_rng(5)
SINGULAR = np.array([[1.0, 2], [2, 4]])
INDEFINITE = np.array([[1.0, 2], [2, 1]])
MISSING = np.array([[1.0, np.nan], [np.nan, 2]])


def of_types(shapes: list[tuple[int, ...]]) -> list[tuple[tuple[int, ...], str]]:
    """Shapes for every type, and a larger one for two of them."""
    cases = [(shape, dtype) for shape in shapes for dtype in DTYPES]
    return [*cases, ((21, 21), "float64"), ((21, 21), "complex64")]


def matrices(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    x = RNG.normal(size=shape)
    return np.asarray(x + 1j * RNG.normal(size=shape) if "c" in dtype else x).astype(dtype)


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(x, -1, -2))


def size(x: np.ndarray) -> Any:
    return np.linalg.norm(x.astype(np.result_type(x.dtype, np.float64)), axis=(-2, -1))


def close(result: np.ndarray, right: np.ndarray, roundings: float, scale: Any = None) -> None:
    """Whether matrices differ by so many roundings of their size, or of `scale`."""
    assert result.shape == right.shape
    bound = roundings * np.finfo(result.dtype).eps * (size(right) if scale is None else scale)
    assert np.all(size(result - right) <= bound)


def orthonormal(columns: np.ndarray) -> None:
    n = columns.shape[-1]
    unit = np.broadcast_to(np.eye(n), (*columns.shape[:-2], n, n))
    close(adjoint(columns) @ columns, unit, 6 * max(columns.shape[-2], 4), 1)


def both(function: Any, *arrays: np.ndarray) -> list[list[np.ndarray]]:
    """Results with sizes that are known, and with symbols: small ones of half of the types, as the
    interpreter takes a millisecond for a round of a loop.
    """
    symbols = arrays[0].dtype in (np.float32, np.complex128) and arrays[0].shape[-1] < 30
    return [run(function, *arrays, symbolic=symbolic) for symbolic in (False, True)[: 1 + symbols]]


@pytest.mark.parametrize(("shape", "dtype"), of_types(SHAPES), ids=str)
def test_square_matrices(shape: tuple[int, ...], dtype: str) -> None:
    x = matrices(shape, dtype)
    n = shape[-1]
    unit = np.broadcast_to(np.eye(n, dtype=dtype), shape)
    positive = (x @ adjoint(x) + n * unit).astype(dtype)
    right = matrices((*shape[:-1], 3), dtype)
    for (factor,) in both(lambda xp, x: xp.linalg.cholesky(x), positive):
        close(factor @ adjoint(factor), positive, 4 * n)
        assert not np.triu(factor, 1).any()
        assert (np.linalg.diagonal(factor).real > 0).all()
    below = np.tril(positive)  # no more is read
    (upper,) = run(lambda xp, x: xp.linalg.cholesky(xp.matrix_transpose(x), upper=True), below)
    close(adjoint(upper.conj()) @ upper.conj(), positive, 4 * n)
    for (inverse,) in both(lambda xp, x: xp.linalg.inv(x), x):
        close(inverse @ x, unit, 4 * n, size(x) * size(inverse))
    for (result,) in both(lambda xp, x, b: xp.linalg.solve(x, b), x, right):
        close(x @ result, right, 4 * n, size(x) * size(result))
    sign, logarithm = np.linalg.slogdet(x.astype(np.result_type(dtype, np.float64)))
    growth = 10 * max(n, 1) ** 2 * np.linalg.cond(x) if x.size else 0
    for result_sign, result in both(lambda xp, x: xp.linalg.slogdet(x), x):
        assert difference(result_sign, sign.astype(dtype), 40 * n) is None
        exact = logarithm.astype(result.dtype)
        assert difference(result, exact, 1, np.abs(exact) + growth) is None
    for (result,) in both(lambda xp, x: xp.linalg.det(x), x):
        exact = (sign * np.exp(logarithm)).astype(dtype)
        assert difference(result, exact, 8, np.abs(exact) * (1 + growth)) is None


@pytest.mark.parametrize(("shape", "dtype"), of_types(SHAPES), ids=str)
def test_eigenvalues(shape: tuple[int, ...], dtype: str) -> None:
    x = matrices(shape, dtype)
    hermitian = ((x + adjoint(x)) / 2).astype(dtype)
    exact = np.linalg.eigvalsh(hermitian.astype(np.result_type(dtype, np.float64)))
    most = 4 * max(shape[-1], 4) * np.expand_dims(size(hermitian), -1)
    for values, vectors in both(lambda xp, x: xp.linalg.eigh(x), np.tril(hermitian)):
        assert vectors.dtype == dtype
        assert difference(values, exact.astype(values.dtype), 1, most) is None
        assert (np.diff(values) >= 0).all()
        close(hermitian @ vectors, vectors * values[..., None, :], 2 * shape[-1], size(hermitian))
        orthonormal(vectors)
    for (values,) in both(lambda xp, x: xp.linalg.eigvalsh(x), hermitian):
        assert difference(values, exact.astype(values.dtype), 1, most) is None


def clusters(values: np.ndarray) -> np.ndarray:
    """A symmetric matrix with these eigenvalues."""
    vectors = np.linalg.qr(RNG.normal(size=(len(values), len(values)))).Q
    return np.asarray((vectors * values) @ vectors.T)


def special_matrices(dtype: str) -> dict[str, np.ndarray]:
    large = 1e30 if dtype in ("float32", "complex64") else 1e200
    i = np.arange(9)
    return {
        "zeros": np.zeros((4, 3), dtype),
        "equal": (3 * np.eye(5)).astype(dtype),
        "ones": np.ones((9, 9), dtype),
        "one column": matrices((6, 1), dtype) @ matrices((1, 5), dtype),
        "two rows": matrices((4, 2), dtype) @ matrices((2, 7), dtype),
        "large": matrices((5, 5), dtype) * np.dtype(dtype).type(large),
        "small": matrices((5, 5), dtype) * np.dtype(dtype).type(1 / large),
        "clusters": clusters(np.repeat([1.0, -1.0, 2.0], 8)).astype(dtype),
        "graded": clusters(10.0 ** -np.arange(12)).astype(dtype),
        "of Hilbert": (1 / (1 + i + i[:, None])).astype(dtype),
    }


def taken_apart(x: np.ndarray, whole: bool) -> None:
    """The singular values and vectors of matrices, put together again."""
    scale = np.abs(x).max(initial=0)
    unit = 1 if scale == 0 or 1e-9 < scale < 1e9 else scale  # squares have to stay in range
    exact = np.linalg.svd(x, full_matrices=whole)
    for left, values, right in both(lambda xp, x: xp.linalg.svd(x, full_matrices=whole), x):
        assert [y.shape for y in (left, values, right)] == [y.shape for y in exact]
        assert [y.dtype for y in (left, values, right)] == [y.dtype for y in exact]
        count = values.shape[-1]
        product = (left[..., :count] * (values / unit)[..., None, :]) @ right[..., :count, :]
        close(product, x / unit, 4 * max(*x.shape[-2:], 4))
        orthonormal(left)
        orthonormal(adjoint(right))
        most = 4 * max(*x.shape[-2:], 4) * np.expand_dims(size(x / unit), -1)
        assert difference(values / unit, exact.S / unit, 1, most) is None
        assert (np.diff(values) <= 0).all()


@pytest.mark.parametrize(("shape", "dtype"), of_types(SHAPES + SIDES), ids=str)
def test_singular_values(shape: tuple[int, ...], dtype: str) -> None:
    x = matrices(shape, dtype)
    for whole in (False, True):
        taken_apart(x, whole)
    exact = np.linalg.svdvals(x)
    most = 8 * max(*shape[-2:], 4) * np.expand_dims(size(x), -1)
    for (values,) in both(lambda xp, x: xp.linalg.svdvals(x), x):
        assert difference(values, exact, 1, most) is None
    for q, r in both(lambda xp, x: xp.linalg.qr(x), x):
        close(q @ r, x, 4 * max(*shape[-2:], 2))
        orthonormal(q)
        assert not np.tril(r, -1).any()
        assert q.shape[-1] == min(shape[-2:])
    for q, r in both(lambda xp, x: xp.linalg.qr(x, mode="complete"), x):
        close(q @ r, x, 4 * max(*shape[-2:], 2))
        orthonormal(q)
        assert q.shape[-1] == shape[-2]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", special_matrices("float32"))
def test_matrices_that_are_hard(name: str, dtype: str) -> None:
    x = special_matrices(dtype)[name]
    taken_apart(x, True)
    if x.shape[-1] == x.shape[-2]:
        hermitian = x + adjoint(x)
        unit = np.abs(hermitian).max()
        for values, vectors in both(lambda xp, x: xp.linalg.eigh(x), hermitian):
            product = vectors * (values / unit)[..., None, :]
            close((hermitian / unit) @ vectors, product, 40, size(hermitian / unit))
            orthonormal(vectors)


@pytest.mark.parametrize("dtype", DTYPES)
def test_ranks_inverses_and_norms(dtype: str) -> None:
    examples = (matrices((2, 4, 3), dtype), matrices((3, 5), dtype), matrices((4, 4), dtype))
    for turn, x in enumerate(examples):
        for (result,) in both(lambda xp, x: xp.linalg.pinv(x), x):
            close(result, np.linalg.pinv(x), 400, size(result))
        (result,) = run(lambda xp, x: xp.linalg.pinv(x, rtol=0.9), x)
        close(result, np.linalg.pinv(x, rtol=0.9), 400)
        for (rank,) in both(lambda xp, x: xp.linalg.matrix_rank(x), x):
            assert rank.tolist() == np.linalg.matrix_rank(x).tolist()
        (rank,) = run(lambda xp, x: xp.linalg.matrix_rank(x, rtol=0.5), x)
        assert rank.tolist() == np.linalg.matrix_rank(x, rtol=0.5).tolist()
        for number, order in enumerate(("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)):
            keepdims = bool((number + turn) % 2)  # both of each order, and both of each matrix

            def norm(xp: Any, x: Any, order: Any = order, keepdims: bool = keepdims) -> Any:
                return xp.linalg.matrix_norm(x, ord=order, keepdims=keepdims)

            exact = np.linalg.matrix_norm(x, ord=order, keepdims=keepdims)
            assert difference(run(norm, x)[0], exact, 40, size(x).max()) is None
    for name in ("one column", "two rows", "zeros"):
        x = special_matrices(dtype)[name]
        (rank,) = run(lambda xp, x: xp.linalg.matrix_rank(x), x)
        assert rank == np.linalg.matrix_rank(x)
        (result,) = run(lambda xp, x: xp.linalg.pinv(x), x)
        close(x @ result @ x, x, 60)
    x = matrices((2, 3, 3), dtype)
    for power in (-3, -1, 0, 1, 4):
        (result,) = run(lambda xp, x, n=power: xp.linalg.matrix_power(x, n), x)
        exact = np.linalg.matrix_power(x, power)
        close(result, exact, 100 * np.linalg.cond(x).max() ** 2)


def test_stacks_of_equations() -> None:
    a, b = matrices((4, 2, 3, 3), "float64"), matrices((2, 3, 5), "float64")
    for right in (b, b[0], b[0, :, 0], b[0, None, None, :, :1]):
        exact = np.linalg.solve(a, right)
        for (result,) in both(lambda xp, a, b: xp.linalg.solve(a, b), a, right):
            assert result.shape == exact.shape
            np.testing.assert_allclose(result, exact, rtol=1e-10, atol=1e-13)
    exact = np.linalg.solve(a[0, 0], a)
    for (result,) in both(lambda xp, a, b: xp.linalg.solve(a, b), a[0, 0], a):
        np.testing.assert_allclose(result, exact, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        *((name, [SINGULAR, MISSING]) for name in ("inv", "solve")),
        ("cholesky", [SINGULAR, INDEFINITE, MISSING]),
        *((name, [MISSING, MISSING * np.inf]) for name in ("eigh", "svd", "qr", "pinv")),
        *((name, [MISSING]) for name in ("eigvalsh", "svdvals")),
    ],
)
def test_matrices_without_a_result_give_nan(name: str, bad: list[np.ndarray]) -> None:
    """Only they do: other matrices of the same stack do not mind."""
    good = np.array([[2.0, 1], [1, 3]])
    stack = np.stack([*bad, good])

    def function(xp: Any, x: Any) -> Any:
        more = (x,) if name == "solve" else ()
        return getattr(xp.linalg, name)(x, *more)

    results = run(function, stack)
    alone = run(function, good)
    for result, right in zip(results, alone):
        below = np.tril(np.ones(result.shape[-2:], bool)) if name == "qr" else ...
        if name != "qr":
            assert np.isnan(result[:-1][..., below] if below is not ... else result[:-1]).all()
        assert np.isnan(result[:-1]).any(axis=(-2, -1) if result.ndim > 2 else -1).all()
        np.testing.assert_array_equal(result[-1], right)


def test_determinants_and_ranks_of_singular_matrices() -> None:
    for symbolic in (False, True):
        (result,) = run(
            lambda xp, x: xp.linalg.det(x), np.stack([SINGULAR, MISSING]), symbolic=symbolic
        )
        assert result[0] == 0
        assert np.isnan(result[1])
        sign, size_of = run(lambda xp, x: xp.linalg.slogdet(x), SINGULAR, symbolic=symbolic)
        assert (sign, size_of) == (0, -np.inf)
        assert not np.signbit(sign)
    (rank,) = run(lambda xp, x: xp.linalg.matrix_rank(x), np.stack([SINGULAR, MISSING]))
    assert rank.tolist() == [1, 0]
    large = matrices((200, 200), "float32") * np.float32(100)  # its determinant is out of range
    sign, logarithm = run(lambda xp, x: xp.linalg.slogdet(x), large)
    right = np.linalg.slogdet(large.astype(np.float64))
    assert sign == right.sign
    np.testing.assert_allclose(logarithm, right.logabsdet, rtol=1e-5)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("other", ["same", "float64", "uint8", "complex64"])
def test_products(dtype: str, other: str) -> None:
    second = dtype if other == "same" else other
    pairs = [((3, 4), (4, 5)), ((4,), (4,)), ((2, 3, 4), (4,)), ((4,), (2, 4, 3))]
    pairs += [((2, 1, 3, 4), (5, 4, 2)), ((0, 4), (4, 3)), ((3, 0), (0, 2))]
    for a, b in pairs:
        x, y = elements(dtype, a), elements(second, b)
        check(lambda xp, x, y: xp.matmul(x, y), x, y)
        check(lambda xp, x, y: xp.tensordot(x, y, axes=1), x, y)
    for a, b in [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1, 4), (2, 4)), ((3, 0), (3, 0))]:
        x, y = elements(dtype, a), elements(second, b)
        check(lambda xp, x, y: xp.vecdot(x, y), x, y)
        check(lambda xp, x, y: xp.linalg.vecdot(x, y, axis=-1), x, y)
        check(lambda xp, x, y: xp.tensordot(x, y, axes=0), x, y)
    x, y = elements(dtype, (2, 3)), elements(second, (2, 3))
    check(lambda xp, x, y: xp.linalg.cross(x, y), x, y)
    check(lambda xp, x, y: xp.linalg.cross(x.mT, y.mT, axis=0), x, y)
    check(lambda xp, x, y: xp.linalg.cross(x, y[0:1, :]), x, y)
    check(lambda xp, x, y: xp.linalg.outer(x[0, :], y[1, :]), x, y)
    check(lambda xp, x, y: xp.tensordot(x, y, axes=((0, 1), (0, 1))), x, y)


@pytest.mark.parametrize("dtype", TYPES)
def test_diagonals_and_norms_of_vectors(dtype: str) -> None:
    for shape in [(3, 4), (4, 3), (2, 3, 3), (0, 0), (2, 0, 3)]:
        x = elements(dtype, shape)
        for offset in (-5, -1, 0, 1, 2, 6):
            check(lambda xp, x, k=offset: xp.linalg.diagonal(x, offset=k), x)
            check(lambda xp, x, k=offset: xp.linalg.trace(x, offset=k), x)
        for axis in (None, 0, -1, (0, 1)):
            for ord in (0, 1, 2, 3, -1, 0.5, np.inf, -np.inf):
                for keepdims in (False, True):

                    def norm(
                        xp: Any, x: Any, a: Any = axis, o: Any = ord, k: Any = keepdims
                    ) -> Any:
                        return xp.linalg.vector_norm(x, axis=a, ord=o, keepdims=k)

                    check(norm, x, symbolic=False)
