"""Fourier transforms and complex numbers in control flow, traced, beside NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import infuse
from tests.array_programs import difference, run

pytestmark = pytest.mark.row("C9")

RNG = np.random.default_rng(9)
X = RNG.normal(size=(3, 8, 5))
Z = X + 1j * RNG.normal(size=X.shape)
DTYPES = ("float32", "float64", "complex64", "complex128")
ROUNDINGS = 40
"""Of the largest element: the sums of some 120 products, in another order."""


def held(function: Any, x: np.ndarray) -> None:
    right = function(np, x)
    for symbolic in (False, True):
        (result,) = run(function, x, symbolic=symbolic)
        assert difference(result, right, ROUNDINGS, np.abs(right).max()) is None


def signal(dtype: str) -> np.ndarray:
    return (Z if "c" in dtype else X).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_along_one_axis(name: str, dtype: str) -> None:
    if name in ("rfft", "ihfft") and "c" in dtype:
        return
    norms = ("backward", "ortho", "forward")
    for n, axis, norm in itertools.product((None, 1, 4, 7), (-1, 0, 1), norms):

        def function(xp: Any, x: Any, n: Any = n, axis: Any = axis, norm: Any = norm) -> Any:
            return getattr(xp.fft, name)(x, n=n, axis=axis, norm=norm)

        held(function, signal(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_along_several_axes(name: str, dtype: str) -> None:
    if name == "rfftn" and "c" in dtype:
        return
    places = [(None, None), ((4, 6), (0, 1)), ((3, 9), (-1, 0)), (None, (1, 2))]
    for s, axes in [*places, ((3, 8, 5), (0, 1, 2))]:

        def function(xp: Any, x: Any, s: Any = s, axes: Any = axes) -> Any:
            return getattr(xp.fft, name)(x, s=s, axes=axes, norm="ortho")

        held(function, signal(dtype))


def test_integers_are_transformed() -> None:
    held(lambda xp, x: xp.fft.fft(x), np.arange(12).reshape(3, 4))


@pytest.mark.parametrize("n", [4, 5])
def test_frequencies(n: int) -> None:
    x = X[0, 0, : n // 2 + 1]
    held(lambda xp, x: xp.fft.fftshift(xp.fft.fftfreq(n, d=0.5)) + x[0], x)
    held(lambda xp, x: xp.fft.rfftfreq(n, d=2.0) * x, x)
    held(lambda xp, x: xp.fft.ifftshift(xp.fft.fftshift(x, axes=(0, 2)), axes=(0, 2)), X)
    held(lambda xp, x: xp.fft.fftshift(x), Z)


def test_complex_numbers_in_control_flow() -> None:
    """Branches, loops and scans carry the two parts of their states."""

    def branches(xp: Any, z: Any) -> Any:
        return infuse.cond(xp.sum(xp.real(z)) > 0, lambda z: z * z, lambda z: xp.conj(z), [z])

    def loops(xp: Any, z: Any) -> Any:
        return infuse.loop(lambda i, z: i < 3, lambda i, z: (i + 1, z * (1 + 0.5j)), (0, z))[1]

    def scans(xp: Any, z: Any) -> Any:
        last, rows = infuse.scan(
            lambda state, entry: ((state[0] + entry[0],), (state[0] * entry[0],)), (z[0],), (z,)
        )
        return last[0], rows[0]

    z = Z[0]
    for x in (z, -z):
        (result,) = run(branches, x)
        right = x * x if x.real.sum() > 0 else x.conj()
        assert difference(result, right, 8) is None
    (result,) = run(loops, z)
    assert difference(result, z * (1 + 0.5j) ** 3, 8) is None
    last, rows = run(scans, z)
    states = z[0] + np.cumsum(z, axis=0)
    assert difference(last, states[-1], 8, np.abs(z).sum()) is None
    assert difference(rows, np.concatenate([z[:1], states[:-1]]) * z, 20) is None


def test_a_loop_keeps_the_types_of_its_complex_state() -> None:
    with pytest.raises(infuse.InfuseError, match="makes int64, complex128 of a state of int64, fl"):
        run(
            lambda xp, x: infuse.loop(
                lambda i, x: i < 3, lambda i, x: (i + 1, x * 1j), (0, xp.real(x))
            )[1],
            Z,
        )


def test_einsum_of_complex_numbers() -> None:
    for equation in ("ij,ij->i", "ij,kj->ik"):
        right = np.einsum(equation, Z[0], Z[1])
        (result,) = run(lambda xp, a, b, e=equation: xp.einsum(e, a, b), Z[0], Z[1])
        assert difference(result, right, 40, np.abs(right).max()) is None


def test_variances_of_complex_numbers() -> None:
    for name in ("var", "std"):
        right = getattr(np, name)(Z, axis=1)
        (result,) = run(lambda xp, z, name=name: getattr(xp, name)(z, axis=1), Z)
        assert difference(result, right, 40) is None
