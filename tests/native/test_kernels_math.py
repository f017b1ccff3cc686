"""Vectors and elementwise mathematics against NumPy and SciPy in float64, for every width of
vectors.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.special
from numpy.typing import NDArray

from tests.native.kernel_tools import Floats, build, fenced, pointer, targets

Doubles = NDArray[np.float64]
Rng = np.random.Generator

# Name, the function in float64, allowed error in units of the last place.
FUNCTIONS: list[tuple[str, Callable[[Doubles], Doubles], float]] = [
    ("exp", np.exp, 4),
    ("expm1", np.expm1, 4),
    ("log", np.log, 4),
    ("log1p", np.log1p, 4),
    ("tanh", np.tanh, 8),
    ("erf", scipy.special.erf, 8),
    ("sigmoid", scipy.special.expit, 4),
    ("softplus", lambda x: np.logaddexp(0, x), 4),
    ("sqrt", np.sqrt, 0.5),
    ("rsqrt", lambda x: 1 / np.sqrt(x), 1.5),
    ("sin", np.sin, 4),
    ("cos", np.cos, 4),
    ("tan", np.tan, 4),
    ("asin", np.arcsin, 4),
    ("acos", np.arccos, 4),
    ("atan", np.arctan, 4),
    ("sinh", np.sinh, 4),
    ("cosh", np.cosh, 4),
    ("asinh", np.arcsinh, 4),
    ("acosh", np.arccosh, 4),
    ("atanh", np.arctanh, 4),
    ("floor", np.floor, 0),
    ("ceil", np.ceil, 0),
    ("round", np.rint, 0),
    ("trunc", np.trunc, 0),
    ("abs", np.abs, 0),
    ("neg", np.negative, 0),
    ("sign", np.sign, 0),
]
EDGES = [
    0.0,
    -0.0,
    1,
    -1,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    np.inf,
    -np.inf,
    np.nan,
    1e-45,
    -1e-45,
    1.1754942e-38,
]
EDGES += [
    88.7,
    88.73,
    -87.4,
    -103.9,
    -104.1,
    8388607.5,
    -8388609.0,
    3.4028235e38,
    -3.4028235e38,
    1e4,
    10000.1,
]


@pytest.fixture(scope="module", params=targets())
def library(request: pytest.FixtureRequest) -> ctypes.CDLL:
    source = Path(__file__).with_name("math_driver.cpp")
    return build(source, request.param)


@pytest.fixture(scope="module")
def inputs() -> Floats:
    """Bit patterns over all floats, and many more where functions are interesting."""
    rng = np.random.default_rng(0)
    patterns = np.arange(0, 2**32, 4999, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = [rng.normal(size=100_000).astype(np.float32) * np.float32(s) for s in (1e-3, 1, 10, 100)]
    return np.concatenate([patterns, *near, np.array(EDGES, np.float32)])


def silently(function: Callable[..., NDArray], *arguments: NDArray) -> NDArray:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*arguments)


def doubled(x: Floats) -> Doubles:
    return silently(lambda: x.astype(np.float64))


def call(library: ctypes.CDLL, name: str, *arrays: NDArray, kind: type = np.float32) -> NDArray:
    result = fenced(np.full(arrays[0].shape, 77, kind))
    copies = [fenced(a) for a in arrays]
    library[name](*map(pointer, copies), pointer(result), ctypes.c_long(arrays[0].size))
    return result


def ulps(actual: Floats, expected: Doubles) -> Doubles:
    """The error in units of the last place of the expected number; infinite where only one is NaN
    or infinite.
    """
    rounded = silently(lambda x: x.astype(np.float32), expected)
    limits = np.finfo(np.float32)
    unit = doubled(np.spacing(np.clip(np.abs(rounded), limits.tiny, limits.max / 2)))
    error = silently(lambda: np.abs(doubled(actual) - expected) / unit)
    same = (np.isnan(actual) & np.isnan(expected)) | (actual == rounded)
    return np.where(np.isfinite(rounded), error, np.where(same, 0, np.inf))


@pytest.mark.parametrize(
    ("name", "function", "limit"), FUNCTIONS, ids=[row[0] for row in FUNCTIONS]
)
def test_vectors_are_accurate(
    library: ctypes.CDLL,
    inputs: Floats,
    name: str,
    function: Callable[[Doubles], Doubles],
    limit: float,
) -> None:
    expected = silently(function, doubled(inputs))
    actual = call(library, f"vector_{name}", inputs)
    error = ulps(actual, expected)
    if name == "sigmoid":
        error[(actual == 0) & (np.abs(expected) < np.finfo(np.float32).tiny)] = (
            0  # exp(-x) is infinite there
        )
    worst = int(np.argmax(error))
    assert error[worst] <= limit + 1e-6, (
        f"{name}({inputs[worst]!r}) = {actual[worst]!r}, not {expected[worst]!r}"
    )


@pytest.mark.parametrize("name", [row[0] for row in FUNCTIONS])
def test_scalars_give_the_bits_of_vectors(library: ctypes.CDLL, inputs: Floats, name: str) -> None:
    x = inputs[:: 3 if name in ("exp", "tanh") else 11]
    np.testing.assert_array_equal(
        call(library, f"scalar_{name}", x), call(library, f"vector_{name}", x)
    )


@pytest.mark.parametrize(
    ("name", "function", "limit"), FUNCTIONS, ids=[row[0] for row in FUNCTIONS]
)
def test_doubles(
    library: ctypes.CDLL,
    inputs: Floats,
    name: str,
    function: Callable[[Doubles], Doubles],
    limit: float,
) -> None:
    x = doubled(inputs[::7])
    actual = call(library, f"double_{name}", x, kind=np.float64)
    np.testing.assert_allclose(
        actual, silently(function, x), rtol=1e-14 if limit else 0, atol=1e-300 if limit else 0
    )


def test_zero_keeps_its_sign(library: ctypes.CDLL) -> None:
    zeros = np.array([0.0, -0.0], np.float32)
    names = ["expm1", "log1p", "tanh", "erf", "sqrt", "floor", "ceil", "round", "trunc"]
    names += ["sin", "tan", "asin", "atan", "sinh", "asinh", "atanh"]
    for name in names:
        assert np.signbit(call(library, f"vector_{name}", zeros)).tolist() == [False, True], name


def pairs(rng: Rng) -> tuple[Floats, Floats]:
    edges = np.array([*EDGES, 3, -3, 7.5], np.float32)
    a, b = np.meshgrid(edges, edges)
    more = rng.normal(size=(2, 5000)).astype(np.float32) * 10
    return np.concatenate([a.ravel(), more[0]]), np.concatenate([b.ravel(), more[1]])


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("min", np.minimum),
        ("max", np.maximum),
        ("mod", np.mod),
        ("fmod", np.fmod),
        ("pow", np.power),
        ("div", np.divide),
    ],
)
def test_binary_functions(
    library: ctypes.CDLL, rng: Rng, name: str, function: Callable[[NDArray, NDArray], NDArray]
) -> None:
    a, b = pairs(rng)
    for kind in ("vector", "scalar"):
        actual, expected = call(library, f"{kind}_{name}", a, b), silently(function, a, b)
        np.testing.assert_allclose(actual, expected, rtol=3e-7 if name == "pow" else 0, atol=1e-44)
    doubles = a.astype(np.float64), b.astype(np.float64)
    actual = call(library, f"double_{name}", *doubles, kind=np.float64)
    np.testing.assert_allclose(
        actual, silently(function, *doubles), rtol=1e-14 if name == "pow" else 0
    )


def test_powers_round_once(library: ctypes.CDLL, rng: Rng) -> None:
    a = np.exp(rng.uniform(-88, 88, 40000)).astype(np.float32)
    a[:20000] = rng.uniform(0.5, 2, 20000)
    b = (rng.uniform(-87, 87, 40000) / np.log(a)).astype(np.float32)
    b[::7] = np.trunc(b[::7])
    a[::14] *= -1
    expected = np.power(a.astype(np.float64), b.astype(np.float64))
    unit = np.spacing(np.abs(expected).astype(np.float32)).astype(np.float64)
    for kind in ("vector", "scalar"):
        actual = call(library, f"{kind}_pow", a, b).astype(np.float64)
        assert np.isfinite(expected).all()
        assert np.abs((actual - expected) / unit).max() < 0.51


@pytest.mark.parametrize(("kind", "name"), [(np.int32, "vector_int"), (np.int64, "long")])
def test_integers(library: ctypes.CDLL, rng: Rng, kind: type, name: str) -> None:
    low = int(np.iinfo(kind).min)
    some = [0, 1, -1, 2, -2, 7, -7, 100, low, -low - 1]
    a, b = (np.array(x, kind) for x in zip(*[(x, y) for x in some for y in some]))
    zero, wraps = b == 0, (a == low) & (b == -1)
    safe = np.where(zero | wraps, 1, b).astype(kind)
    quotient = (
        np.sign(a).astype(object)
        * np.sign(safe)
        * (abs(a.astype(object)) // abs(safe.astype(object)))
    ).astype(kind)
    quotient[wraps] = low
    expected = {
        "min": np.minimum(a, b),
        "max": np.maximum(a, b),
        "div": np.where(zero, 0, quotient),
        "mod": np.where(zero | wraps, 0, np.mod(a, safe)),
        "fmod": np.where(zero | wraps, 0, np.fmod(a, safe)),
    }
    for function, result in expected.items():
        np.testing.assert_array_equal(
            call(library, f"{name}_{function}", a, b, kind=kind), result, function
        )
    base, exponent = (
        np.array([2, -3, 5, 0, 1, -1, 7, 2], kind),
        np.array([10, 3, 0, 0, -4, -3, -1, 30], kind),
    )
    powers = [1024, -27, 1, 1, 1, -1, 0, 1 << 30]
    assert call(library, f"{name}_pow", base, exponent, kind=kind).tolist() == powers


def test_comparisons_and_masks(library: ctypes.CDLL, rng: Rng) -> None:
    a, b = pairs(rng)
    less, none = a < b, a == 0
    bits = [
        a == b,
        a != b,
        less,
        a <= b,
        a > b,
        a >= b,
        less & none,
        less | none,
        less ^ none,
        ~none,
    ]
    bits += [np.isnan(a), np.isinf(a)]
    expected = sum(mask.astype(np.int32) << i for i, mask in enumerate(bits))
    for kind in ("vector", "scalar"):
        np.testing.assert_array_equal(
            call(library, f"{kind}_comparisons", a, b, kind=np.int32), expected
        )


def test_reductions_over_lanes(library: ctypes.CDLL, rng: Rng) -> None:
    lanes = library.lanes()
    for low in (-1.0, 0.5):
        x = rng.uniform(low, 1, lanes).astype(np.float32)
        k, y = rng.integers(-1000, 1000, lanes, dtype=np.int32), np.zeros(8, np.float32)
        library.reductions(pointer(x), pointer(k), pointer(y))
        np.testing.assert_allclose(y[0], x.sum(), rtol=1e-5, atol=1e-6)
        assert y[1:].tolist() == [
            x.max(),
            x.min(),
            k.sum(),
            k.max(),
            k.min(),
            (x > 0).any(),
            (x > 0).all(),
        ]
    x[1] = np.nan
    library.reductions(pointer(x), pointer(k), pointer(y))
    assert np.isnan(y[:3]).all()


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16])
def test_narrow_integers(library: ctypes.CDLL, rng: Rng, kind: type) -> None:
    for n in (0, 1, 3, 4, 7, 16, 37):
        x = rng.integers(-(2**31), 2**31, n, dtype=np.int64).astype(np.int32)
        narrow = call(library, f"narrow_{np.dtype(kind).name}", x, kind=kind)
        np.testing.assert_array_equal(narrow, x.astype(kind))
        wide = call(library, f"widen_{np.dtype(kind).name}", narrow, kind=np.int32)
        np.testing.assert_array_equal(wide, narrow.astype(np.int32))


def test_boolean_masks(library: ctypes.CDLL, rng: Rng) -> None:
    for n in (0, 1, 5, 16, 39):
        x = rng.random(n) < 0.5
        np.testing.assert_array_equal(call(library, "masks", x, kind=np.bool_), ~x)
