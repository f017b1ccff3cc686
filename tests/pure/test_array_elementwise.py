"""Functions of every element, traced, beside array_api_strict: all types that the standard allows,
all pairs of special values, complex numbers.
"""

import itertools

import numpy as np
import pytest

from tests.array_programs import COMPLEX, TYPES, difference, run, witness

pytestmark = pytest.mark.row("C9")

UNARY = (
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_invert", "ceil", "conj"),
    *("cos", "cosh", "exp", "expm1", "floor", "imag", "isfinite", "isinf", "isnan", "log"),
    *("log1p", "log2", "log10", "logical_not", "negative", "positive", "real", "reciprocal"),
    *("round", "sign", "signbit", "sin", "sinh", "square", "sqrt", "tan", "tanh", "trunc"),
)
BINARY = (
    *("add", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift"),
    *("bitwise_xor", "copysign", "divide", "equal", "floor_divide", "greater", "greater_equal"),
    *("hypot", "less", "less_equal", "logaddexp", "logical_and", "logical_or", "logical_xor"),
    *("maximum", "minimum", "multiply", "nextafter", "not_equal", "pow", "remainder", "subtract"),
)
PAIRS = [p for p in itertools.product(TYPES[9:], repeat=2) if {*p} & {*COMPLEX}]
ROUNDINGS = 16
"""Most functions are formulas of a few functions that NumPy's library rounds once or twice."""


def special(name: str) -> np.ndarray:
    """Elements of a type where functions have corners."""
    dtype = np.dtype(name)
    if name == "bool":
        return np.array([True, False])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        signed = [-1, -2, -7] if dtype.kind == "i" else []
        return np.array([0, 1, 2, 3, 7, limits.max, limits.max - 1, limits.min, *signed], dtype)
    if dtype.kind == "f":
        limits = np.finfo(dtype)
        finite = [0.0, 1, 0.5, 1.5, 2, 2.5, 3.5, 10, 30, 88, np.pi, 1e-6, 1e-30, 1e30, limits.max]
        finite += [limits.tiny, 1 - limits.eps]
        return np.array([*finite, *(-x for x in finite), np.inf, -np.inf, np.nan], dtype)
    parts = np.array([0, 1, -1, 0.5, -2, 3, -9, 0.7])
    return (parts[:, None] + 1j * parts).ravel().astype(dtype)


def allowed(name: str, *arrays: np.ndarray) -> bool:
    """Whether the standard defines a function for these types."""
    try:
        witness(lambda xp, *x: getattr(xp, name)(*x), *(np.ones_like(a) for a in arrays))
    except TypeError:
        return False
    return True


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_array(name: str) -> None:
    tried = 0
    for dtype in TYPES:
        x = special(dtype)
        if name in ("log1p", "expm1", "log", "log2", "log10") and dtype in COMPLEX:
            continue  # below, by exact numbers
        if not allowed(name, x):
            continue
        tried += 1
        (right,) = witness(lambda xp, x: getattr(xp, name)(x), x)
        (result,) = run(lambda xp, x: getattr(xp, name)(x), x)
        assert difference(result, right, ROUNDINGS) is None, dtype
    assert tried


def operands(name: str, first: str, second: str) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of special elements for which the standard says what comes out."""
    a, b = np.broadcast_arrays(special(first)[:, None], special(second))
    a, b = a.ravel().copy(), b.ravel().copy()
    is_integer = b.dtype.kind in "iu"
    if "shift" in name:
        b = np.clip(b, 0, 6)
    if name in ("floor_divide", "remainder") and is_integer:
        b = np.where(b == 0, 1, b).astype(b.dtype)
    if name == "pow" and is_integer:
        b = np.maximum(b, 0).astype(b.dtype)
    return a, b


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_arrays(name: str) -> None:
    tried = 0
    for first, second in itertools.product(TYPES, repeat=2):
        if first in COMPLEX or second in COMPLEX:
            continue
        a, b = operands(name, first, second)
        if not allowed(name, a, b):
            continue
        tried += 1
        (right,) = witness(lambda xp, a, b: getattr(xp, name)(a, b), a, b)
        (result,) = run(lambda xp, a, b: getattr(xp, name)(a, b), a, b)
        if name in ("maximum", "minimum"):  # NumPy gives either zero, by the processor
            result, right = (x + x.dtype.type(0) for x in (result, right))
        assert difference(result, right, ROUNDINGS) is None, (first, second)
    assert tried


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "equal", "not_equal"])
@pytest.mark.parametrize("pair", PAIRS)
def test_functions_of_two_complex_arrays(name: str, pair: tuple[str, str]) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.normal(size=40) + 1j * rng.normal(size=40) for _ in pair)
    a, b = (x.astype(t) if t in COMPLEX else x.real.astype(t) for x, t in zip((a, b), pair))
    (right,) = witness(lambda xp, a, b: getattr(xp, name)(a, b), a, b)
    (result,) = run(lambda xp, a, b: getattr(xp, name)(a, b), a, b)
    assert difference(result, right, 4) is None


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("name", ["log1p", "expm1", "log", "log2", "log10"])
def test_logarithms_and_exponentials_of_complex_numbers(name: str, dtype: str) -> None:
    """Also next to where they are 0, where NumPy's own are not exact: beside double the digits."""
    z = np.array([1e-5, 1e-5j, 1e-5 - 1e-4j, 0.3 + 0.2j, -0.4j, 2 - 3j, -5 + 1j, 0.9 + 0.4j], dtype)
    z = z if name in ("log1p", "expm1") else 1 + z
    wide = z.astype(np.clongdouble)
    if name == "log1p":
        wide, plain = 1 + wide, "log"
    else:
        plain = "exp" if name == "expm1" else name
    right = getattr(np, plain)(wide) - (1 if name == "expm1" else 0)
    (result,) = run(lambda xp, z: getattr(xp, name)(z), z)
    assert difference(result, right.astype(dtype), ROUNDINGS, np.abs(right)) is None


@pytest.mark.parametrize(
    "name",
    [
        *("exp", "log", "log1p", "log2", "log10", "sqrt", "sin", "cos", "sinh", "cosh", "tanh"),
        *("tan", "asin", "acos", "asinh", "acosh", "abs", "isnan", "isinf", "isfinite", "conj"),
    ],
)
def test_infinities_and_signs_of_zeros_of_complex_numbers(name: str) -> None:
    """Which side of a branch cut a number lies on, and limits, beside NumPy's."""
    parts = np.array([0.0, -0.0, 1, -1, 2.5, -2.5, np.inf, -np.inf])
    z = np.empty((8, 8), np.complex128)
    z.real, z.imag = parts[:, None], parts
    (right,) = witness(lambda xp, z: getattr(xp, name)(z), z)
    (result,) = run(lambda xp, z: getattr(xp, name)(z), z)
    if right.dtype.kind == "b":
        np.testing.assert_array_equal(result, right, strict=True)
        return
    for side in (np.real, np.imag):
        part, exact = side(result), side(right)
        with np.errstate(all="ignore"):
            near = np.abs(part - exact) <= 1e-15 * np.abs(right)
        assert ((part == exact) | near | np.isnan(exact)).all()
        if right.dtype.kind == "c" and name not in ("cos", "cosh"):  # whose zeros have any sign
            signs = np.signbit(part) == np.signbit(exact)
            assert (signs | near & (exact != 0) | ~np.isfinite(z)).all()


@pytest.mark.parametrize("dtype", COMPLEX)
def test_powers_of_complex_numbers(dtype: str) -> None:
    """E^(w log z) has an error of as many roundings as w log z is large."""
    rng = np.random.default_rng(3)
    z, w = (rng.normal(size=50) + 1j * rng.normal(size=50) for _ in range(2))
    z[:3], w[:4] = 0, [0, 2, 1 + 1j, 0]
    z, w = z.astype(dtype), w.astype(dtype)
    with np.errstate(all="ignore"):
        right = z**w
        scale = np.abs(right) * (1 + np.abs(w * np.log(z)))
    (result,) = run(lambda xp, z, w: z**w, z, w)
    assert difference(result, right, ROUNDINGS, np.nan_to_num(scale)) is None
    for power in (0, 1, 2, -1, -3, 7):
        (result,) = run(lambda xp, z, power=power: z**power, z[3:])
        assert difference(result, z[3:] ** power, ROUNDINGS) is None
    (result,) = run(lambda xp, z: z**0.5, z[3:])
    assert difference(result, z[3:] ** np.dtype(dtype).type(0.5), ROUNDINGS) is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_of_python_take_the_type_of_arrays(dtype: str) -> None:
    x = np.array([1, 2, -3], dtype)
    for function in (
        lambda xp, x: xp.add(2, x) * 1.5 - True,
        lambda xp, x: 1 / x + xp.maximum(x, 0.5),
        lambda xp, x: xp.where(x > 0, x, 0),
        lambda xp, x: x + 2j,
        lambda xp, x: xp.abs((1 - 2j) * x),
    ):
        with np.errstate(all="ignore"):
            right = np.asarray(function(np, x))
        (result,) = run(function, x)
        assert difference(result, right, 2) is None


def test_conversions_of_complex_numbers() -> None:
    z = special("complex64")
    for dtype in ("complex64", "complex128"):
        (result,) = run(lambda xp, z, dtype=dtype: xp.astype(z, getattr(xp, dtype)), z)
        assert difference(result, z.astype(dtype), 0) is None
        for source in TYPES[:-2]:
            x = special(source)
            (result,) = run(lambda xp, x, dtype=dtype: xp.astype(x, getattr(xp, dtype)), x)
            with np.errstate(all="ignore"):
                assert difference(result, x.astype(dtype), 0) is None, source


@pytest.mark.parametrize("dtype", TYPES[5:9])
def test_powers_of_unsigned_integers(dtype: str) -> None:
    """They wrap around; constant exponents are multiplied out."""
    x = special(dtype)
    for power in (0, 1, 2, 5):
        (result,) = run(lambda xp, x, n=power: x**n, x)
        assert difference(result, x**power, 0) is None
        assert (
            run(lambda xp, x, n=power: n**x, x[:5])[0] == np.asarray(power, dtype) ** x[:5]
        ).all()
