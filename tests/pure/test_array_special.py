"""Traced programs on special values, beside NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.ops.core.evaluate import evaluate
from infuse.tracing.arrays import namespace as xp

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
NAN, INF = np.nan, np.inf
FLOATS = np.array(
    [
        NAN,
        INF,
        -INF,
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        1e-40,
        -1e-40,
        100.0,
        -100.0,
        88.0,
        -104.0,
        3.4e38,
        1e-30,
        3.0,
        -7.0,
    ]
)
UNARY = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log"),
    *("log1p", "log2", "log10", "sin", "sinh", "sqrt", "tan", "tanh", "abs", "ceil", "floor"),
    *("round", "trunc", "sign", "square", "negative", "isnan", "isinf", "isfinite", "signbit"),
)
BINARY = (
    *("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "pow", "atan2"),
    *("hypot", "copysign", "logaddexp", "maximum", "minimum", "equal", "less", "less_equal"),
)
OF_INTEGERS = (
    *("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "maximum", "minimum"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"),
)
MATRICES = {
    "special": np.array(
        [[1, NAN, 3, NAN], [INF, -INF, 2, -0.0], [0.0, -0.0, 1, 1], [2, 2, INF, INF]], np.float32
    ),
    "one": np.array([[NAN]], np.float32),
    "no rows": np.zeros((0, 3), np.float32),
    "no columns": np.zeros((3, 0), np.float32),
    "bytes": np.array([[3, 1, 2], [2, 2, -128]], np.int8),
    "truths": np.array([[True, False], [True, True]]),
}


def results(function: Callable[..., Any], *arrays: Any) -> list[Any]:
    """What a traced function gives."""
    traced = (lambda a: function(a)) if len(arrays) == 1 else (lambda a, b: function(a, b))
    graph = infuse.trace(traced, list(arrays))
    feeds = {value.name: array for value, array in zip(graph.inputs, arrays, strict=True)}
    return list(evaluate(graph, feeds).values())


def same(result: Any, expected: Any, ulps: float = 16) -> None:
    """Assert that arrays are equal, the signs of zeros too."""
    expected = np.asarray(expected)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(result, expected)
        return
    least = np.finfo(expected.dtype).smallest_subnormal
    rtol = float(ulps * np.finfo(expected.dtype).eps)
    np.testing.assert_allclose(result, expected, rtol=rtol, atol=float(least))
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result)[numbers], np.signbit(expected)[numbers])


def pairs(values: Any) -> list[Any]:
    """Two vectors in which all pairs of values occur."""
    return [grid.ravel().copy() for grid in np.meshgrid(values, values)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_floats(name: str, dtype: Any) -> None:
    arrays = [FLOATS.astype(dtype)] if name in UNARY else pairs(FLOATS.astype(dtype))
    made, expected = results(getattr(xp, name), *arrays)[0], getattr(np, name)(*arrays)
    if name in ("maximum", "minimum"):  # NumPy gives either zero, by the processor and the place
        made, expected = made + 0.0, expected + 0.0
    same(made, expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize("name", OF_INTEGERS)
def test_integers_by_zero_and_by_more_than_their_width(name: str, dtype: Any) -> None:
    info = np.iinfo(dtype)
    small = {0, 1, 2, 3, 5, 7, 8, 31, 32, 63, 64, 100, info.max - 1, info.max}
    signed = {info.min, info.min + 1, -1, -2, -3, -7} if info.min else set()
    arrays = pairs(np.array(sorted(small | signed), dtype))
    same(results(getattr(xp, name), *arrays)[0], getattr(np, name)(*arrays))


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "any", "all"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_reductions(name: str, matrix: str, axis: int | None) -> None:
    x = MATRICES[matrix]
    made = results(lambda x: getattr(xp, name)(x, axis=axis), x)[0]
    same(made, getattr(np, name)(x, axis=axis))


@pytest.mark.parametrize("correction", [0, 1, 3, 4, 5, 2.5])
@pytest.mark.parametrize("matrix", ["special", "one", "bytes"])
def test_spreads_of_too_few_are_infinite(matrix: str, correction: float) -> None:
    x = MATRICES[matrix]
    made = results(lambda x: xp.var(x, axis=1, correction=correction), x)[0]
    same(made, np.var(x, axis=1, ddof=correction))


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("name", ["unique_counts", "unique_inverse", "unique_all"])
def test_each_nan_is_an_element_of_its_own(name: str, matrix: str) -> None:
    x = MATRICES[matrix]
    expected = getattr(np, name)(x)
    made = results(lambda x: tuple(getattr(xp, name)(x)), x)
    for result, reference in zip(made, expected, strict=True):
        same(result, reference)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    "limits",
    [[1.0, 2.0, 3.0], [1.0, 2.0, NAN], [NAN, NAN], [], [1.0, INF, NAN], [2.0, 2.0, 2.0]],
)
def test_nan_is_past_the_end(limits: list[float], side: str) -> None:
    arrays = [np.array(limits, np.float32), FLOATS.astype(np.float32)]
    made = results(lambda a, x: xp.searchsorted(a, x, side=side), *arrays)[0]
    same(made, np.searchsorted(*arrays, side=side))  # type: ignore[call-overload]
