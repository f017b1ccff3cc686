"""The comparison within a stated accuracy: what agrees, what does not, and what it says then."""

import inspect
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from infuse.ops.core.base import EXACT, Rounding
from infuse.testing import compare
from infuse.testing.compare import assert_agrees, difference, spacing


def f32(*values: float) -> Any:
    return np.array(values, dtype=np.float32)


def test_there_is_no_default_tolerance() -> None:
    for function in (assert_agrees, difference):
        assert inspect.signature(function).parameters["accuracy"].default is inspect.Parameter.empty


@pytest.mark.parametrize(
    ("actual", "exact", "accuracy"),
    [
        (f32(1, 2), np.array([1.0, 2.0]), EXACT),
        (f32(0.1), np.array([0.1]), EXACT),
        (f32(0.0), f32(-0.0), EXACT),
        (f32(np.nan, np.inf, -np.inf), np.array([np.nan, np.inf, -np.inf]), EXACT),
        (f32(np.inf), np.array([1e300]), EXACT),
        (np.nextafter(f32(1), f32(2)), f32(1), Rounding(ulp=1)),
        (f32(100, 1e-4), f32(100, 0), Rounding(ulp=0, abs=1e-6)),
        (np.array([1.0], np.float16), np.array([1.0004]), EXACT),
        (np.array([1.0078125], ml_dtypes.bfloat16), np.array([1.0]), Rounding(ulp=1)),
        (np.array([3, 4]), np.array([3, 4]), Rounding(ulp=100)),
        (np.array([100], np.uint8), np.array([99], np.uint8), Rounding(abs=0.02)),
        (np.array(["a"], object), np.array(["a"], object), EXACT),
        (np.zeros((0, 3), np.float32), np.zeros((0, 3)), EXACT),
        (np.array(True), np.array(True), EXACT),
    ],
)
def test_what_agrees(actual: Any, exact: Any, accuracy: Rounding) -> None:
    assert difference(actual, exact, accuracy) is None
    assert_agrees(actual, exact, accuracy)


@pytest.mark.parametrize(
    ("actual", "exact", "accuracy", "message"),
    [
        (f32(1, 2), f32(1), Rounding(ulp=9), "the shape is (2,), expected (1,)"),
        (f32(1), np.array([1]), Rounding(ulp=9), "the element type is float32, expected int64"),
        (
            f32(1, 1.5),
            f32(1, 1),
            Rounding(ulp=4),
            "1 of 2 elements differ, first at [1]: 1.5 for 1.0",
        ),
        (np.nextafter(f32(1), f32(2)), f32(1), EXACT, "0 ulp or 0 of the largest allowed, 1 ulp"),
        (f32(np.nan), f32(1), Rounding(ulp=9), "nan for 1.0"),
        (f32(1), f32(np.nan), Rounding(ulp=9), "1.0 for nan"),
        (f32(np.inf), f32(-np.inf), Rounding(ulp=9, abs=1), "inf for -inf"),
        (f32(3e38), f32(np.inf), Rounding(ulp=9, abs=1), "for inf"),
        (f32(0, 1e-3), f32(0, 0), Rounding(abs=1e-2), "of 2 elements differ"),
        (np.array([3]), np.array([4]), Rounding(ulp=100), "3 for 4 (within 0)"),
        (np.array([True]), np.array([False]), Rounding(ulp=9, abs=9), "True for False"),
        (np.array(5.0), np.array(6.0), EXACT, "1 of 1 elements differ, 5.0 for 6.0"),
        (
            np.array([2**63 - 1]),
            np.array([-(2**63)]),
            EXACT,
            "9223372036854775807 for -9223372036854775808",
        ),
    ],
)
def test_what_differs(actual: Any, exact: Any, accuracy: Rounding, message: str) -> None:
    found = difference(actual, exact, accuracy)
    assert found is not None
    assert message in found
    with pytest.raises(AssertionError, match="the third layer: "):
        assert_agrees(actual, exact, accuracy, "the third layer")


@given(st.floats(-(2.0**127), 2.0**127, width=32))
def test_a_unit_in_the_last_place_is_numpys(x: float) -> None:
    value = np.float32(abs(x))
    assert spacing(np.array(float(value)), np.float32) == np.spacing(value)
    half = np.array(min(float(value), 6e4)).astype(np.float16)
    assert spacing(half.astype(np.float64), np.float16) == np.spacing(half)


@given(st.floats(-1e6, 1e6, width=32), st.integers(1, 20))
def test_units_are_counted(x: float, steps: int) -> None:
    exact = np.array([x], np.float32)
    actual = exact.copy()
    for _ in range(steps):
        actual = np.nextafter(actual, np.float32(np.inf))
    assert (
        difference(actual, exact, Rounding(ulp=steps)) is None
        or np.frexp(exact)[1] != np.frexp(actual)[1]
    )
    assert difference(actual, exact, Rounding(ulp=steps / 4)) is not None


def test_the_helper_is_documented() -> None:
    for function in (assert_agrees, difference, spacing):
        assert function.__module__ == compare.__name__
        assert function.__doc__


def test_what_agrees_with_code_that_flushes_subnormal_numbers() -> None:
    exact = np.array([1e-39, -1e-39, 1.0])
    assert difference(f32(0, 0, 1), exact, EXACT) is not None
    assert difference(f32(0, 0, 1), exact, EXACT, flushed=True) is None
    assert difference(f32(0, 2e-39, 1), exact, EXACT, flushed=True) is not None
    assert difference(f32(0, 0, 1), np.array([1e-37, 0, 1]), EXACT, flushed=True) is not None
    assert difference(np.zeros(1), np.array([1e-39]), EXACT, flushed=True) is not None
