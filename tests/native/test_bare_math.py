"""The functions of math that code without a C library has, against NumPy's in more digits."""

import ctypes
import math
import subprocess
from typing import Any

import numpy as np
import pytest

from infuse.targets import KERNELS
from tests.native.bare_tools import SHARED, compiler

pytestmark = pytest.mark.row("R6")
TYPES: dict[str, Any] = {"float": np.float32, "double": np.float64}
_OTHER = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
_OTHER |= {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}
EXACT = ("sqrt", "floor", "ceil", "rint", "trunc")
NAMES = (
    *("exp", "expm1", "log", "log1p", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "erf", *EXACT),
)
ULPS = {"float": {"tanh": 4.0, "sigmoid": 4.0}, "double": {"erf": 20.0, "asin": 8.0}}
"""Most units in the last place that results may be away; 2 and 5 for the others."""
ENDS = {"float": "f", "double": ""}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("math")
    lines = ['#include "bare_context.h"', '#include "bare_float.h"']
    every = [(name, kind) for name in NAMES for kind in ENDS] + [("sigmoid", "float")]
    lines += [
        f"void {name}_{kind}(const {kind}* x, {kind}* y, long n) "
        f"{{ for (long i = 0; i < n; ++i) y[i] = infuse_{name}{ENDS[kind]}(x[i]); }}"
        for name, kind in every
    ]
    two = [("pow", "float"), ("pow", "double"), ("fmod", "float"), ("fmod", "double")]
    lines += [
        f"void {name}_{kind}(const {kind}* a, const {kind}* b, {kind}* y, long n) "
        f"{{ for (long i = 0; i < n; ++i) y[i] = infuse_{name}{ENDS[kind]}(a[i], b[i]); }}"
        for name, kind in two
    ]
    lines.append(
        "void fma_float(const float* a, const float* b, const float* c, float* y, long n) "
        "{ for (long i = 0; i < n; ++i) y[i] = infuse_fmaf(a[i], b[i], c[i]); }"
    )
    (folder / "math.c").write_text("\n".join(lines))
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{KERNELS}", "-fsanitize=undefined"]
    command = [compiler(), *SHARED, *flags, "math.c", "-o", "math.so"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "math.so"))


def called(library: Any, name: str, *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    result = np.empty_like(arrays[0])
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, result)]
    getattr(library, name)(*pointers, ctypes.c_long(result.size))
    return result


def numbers(kind: str, seed: int = 0) -> np.ndarray[Any, Any]:
    """Of all sizes, near zero and one, and those that are special."""
    rng = np.random.default_rng(seed)
    parts = [rng.standard_normal(20000) * scale for scale in (1e-3, 0.1, 1, 5, 30, 300)]
    parts += [
        np.linspace(-1, 1, 10001),
        10 ** rng.uniform(-30, 30, 9000) * rng.choice([-1, 1], 9000),
    ]
    parts.append(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5]))
    parts.append(np.array([1e-45, 5e-324, 3e38, 1e308, -87.5, -104.5, 88.8, 709.9, -745.2]))
    with np.errstate(all="ignore"):
        return np.concatenate(parts).astype(TYPES[kind])


def exact(name: str, x: np.ndarray[Any, Any]) -> Any:
    """In more digits, where NumPy has them of the function."""
    if name == "sigmoid":
        return 1 / (1 + np.exp(-x.astype(np.longdouble)))
    if name == "erf":
        return np.array([math.erf(each) for each in x.astype(np.float64)])
    wide = np.float64 if name in ("sin", "cos", "tan") else np.longdouble
    return getattr(np, _OTHER.get(name, name))(x.astype(wide))


def distance(actual: np.ndarray[Any, Any], wide: Any) -> np.ndarray[Any, Any]:
    """In units in the last place; infinite where one is finite, NaN or of a sign, and not both."""
    rounded = np.asarray(wide).astype(actual.dtype)
    finite = np.isfinite(rounded) & np.isfinite(actual)
    unit = np.spacing(np.abs(rounded)).astype(np.longdouble)
    away = np.abs(actual.astype(np.longdouble) - wide) / unit
    same = (actual == rounded) | (np.isnan(actual) & np.isnan(rounded))
    zeros = (actual == 0) & (rounded == 0) & (np.signbit(actual) != np.signbit(rounded))
    return np.where(zeros, np.inf, np.where(finite, away, np.where(same, 0, np.inf)))


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("name", [*NAMES, "sigmoid"])
def test_functions_are_as_near_as_their_header_says(library: Any, name: str, kind: str) -> None:
    if (name, kind) == ("sigmoid", "double"):
        pytest.skip("of float64 it is a formula of plain.h")
    x = numbers(kind)
    with np.errstate(all="ignore"):
        away = distance(called(library, f"{name}_{kind}", x), exact(name, x))
    usual = 0.501 if name in EXACT else {"float": 2.0, "double": 5.0}[kind]
    worst = int(away.argmax())
    assert away[worst] <= ULPS[kind].get(name, usual), f"{away[worst]} at {x[worst]!r}"


def test_angles_of_any_size_are_reduced_exactly(library: Any) -> None:
    mpmath = pytest.importorskip("mpmath")
    x = np.array(
        [
            -5.246411253779129e24,
            1e22,
            1.5e300,
            3e5,
            1e16,
            710.0,
            2.0**60,
            6381956970095103 * 2.0**797,
        ]
    )
    with mpmath.workprec(1400):
        expected = [float(mpmath.sin(mpmath.mpf(float(each)))) for each in x]
    np.testing.assert_allclose(called(library, "sin_double", x), expected, rtol=1e-15)


@pytest.mark.parametrize("kind", ENDS)
def test_functions_of_two_numbers(library: Any, kind: str) -> None:
    a, b = numbers(kind), np.random.default_rng(9).permutation(numbers(kind, 1))
    least = np.finfo(TYPES[kind]).smallest_normal
    with np.errstate(all="ignore"):
        for name, function, bound in (("pow", np.power, 1e-12), ("fmod", np.fmod, 0)):
            actual, expected = called(library, f"{name}_{kind}", a, b), function(a, b)
            bound = max(bound, np.finfo(TYPES[kind]).eps) if name == "pow" else 0
            normal = np.abs(expected) >= least
            np.testing.assert_allclose(actual[normal], expected[normal], rtol=bound)
            rest = ~normal & ~((np.abs(expected) < least) & (expected != 0))
            np.testing.assert_array_equal(actual[rest], expected[rest])


def test_a_fused_product_is_rounded_once(library: Any) -> None:
    a, b, c = (numbers("float", seed)[:100000] for seed in range(3))
    near = np.where(np.arange(len(c)) % 2, c, -(a * b))
    wide = a.astype(np.longdouble) * b.astype(np.longdouble) + near.astype(np.longdouble)
    with np.errstate(all="ignore"):
        actual, expected = called(library, "fma_float", a, b, near), wide.astype(np.float32)
    np.testing.assert_array_equal(actual, expected)
