"""What foreign operators mean (`tracing/semantics`), beside NumPy on special values: NaN, zeros of
both signs, infinities, one element, none.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.ops.core.evaluate import evaluate
from infuse.tracing.importer import Importer
from infuse.tracing.semantics import activations, arithmetic, indexing, ordering, special, windows

NAN, INF = math.nan, math.inf
SPECIAL = np.array([NAN, -INF, -2.5, -1.0, -0.0, 0.0, 0.5, 3.0, INF])
ARRAYS = (SPECIAL, SPECIAL[:0], SPECIAL[3:4])
LEFT, RIGHT = (a.reshape(-1) for a in np.meshgrid(SPECIAL, SPECIAL))
WHOLE = np.array([[7, -7, 7, -7, 0, -(2**31)], [2, 2, -2, -2, 5, 1]], np.int32)


def computed(function: Callable[..., Any], *arrays: Any) -> Any:
    """What a function of an importer and values makes of arrays."""
    g = Importer("case")
    inputs = [
        g.input(f"x{i}", dtypes.by_numpy(np.asarray(a).dtype), np.shape(a))
        for i, a in enumerate(arrays)
    ]
    made = function(g, *inputs)
    results = [made] if isinstance(made, Value) else list(made)
    for i, value in enumerate(results):
        g.output(f"y{i}", g("Identity", value))
    named = {f"x{i}": np.asarray(a) for i, a in enumerate(arrays)}
    outputs = list(evaluate(g.graph, named).values())
    return outputs[0] if isinstance(made, Value) else outputs


def glu(x: Any) -> Any:
    first, second = np.split(x, 2)
    return first / (1 + np.exp(-second))


ONE: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "log1p": (arithmetic.log1p, np.log1p),
    "expm1": (arithmetic.expm1, np.expm1),
    "truncated": (arithmetic.truncated, np.trunc),
    "is_negative": (arithmetic.is_negative, lambda x: np.signbit(x) & ~np.isnan(x)),
    "sign_bit": (arithmetic.sign_bit, np.signbit),
    "erfc": (special.erfc, np.vectorize(math.erfc, otypes=[float])),
    "log_sigmoid": (activations.FUNCTIONS["log_sigmoid"], lambda x: -np.logaddexp(0, -x)),
    "tanh_shrink": (activations.FUNCTIONS["tanh_shrink"], lambda x: x - np.tanh(x)),
    "squareplus": (activations.FUNCTIONS["squareplus"], lambda x: (x + np.sqrt(x * x + 4)) / 2),
    "hard_shrink": (
        activations.FUNCTIONS["hard_shrink"],
        lambda x: np.where(np.abs(x) > 0.5, x, 0),
    ),
}
TWO: dict[str, tuple[Callable[..., Any], Callable[[Any, Any], Any]]] = {
    "logaddexp": (arithmetic.logaddexp, np.logaddexp),
    "hypot": (arithmetic.hypot, np.hypot),
    "floor_mod": (arithmetic.floor_mod, np.mod),
    "floor_quotient": (arithmetic.floor_quotient, np.floor_divide),
    "atan2": (arithmetic.atan2, np.arctan2),
    "fmax": (lambda g, x, y: arithmetic.number_of_two(g, "Max", x, y), np.fmax),
    "fmin": (lambda g, x, y: arithmetic.number_of_two(g, "Min", x, y), np.fmin),
}


UNSIGNED = ("floor_mod", "fmax", "fmin")
"""Functions whose zeros may have either sign."""


def agrees(ours: Any, theirs: Any, signs: bool = True) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=0)
    if ours.dtype.kind == "f" and signs:
        numbers = ~np.isnan(theirs)
        np.testing.assert_array_equal(np.signbit(ours)[numbers], np.signbit(theirs)[numbers])


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("x", ARRAYS, ids=("special", "empty", "one"))
def test_functions_of_one_number(name: str, x: Any) -> None:
    ours, numpys = ONE[name]
    with np.errstate(all="ignore"):
        expected = numpys(x)
        agrees(computed(ours, x), expected)


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_numbers(name: str) -> None:
    ours, numpys = TWO[name]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = numpys(LEFT, RIGHT)
        agrees(computed(ours, LEFT, RIGHT), expected, signs=name not in UNSIGNED)


@pytest.mark.parametrize("name", ["floor_mod", "floor_quotient"])
def test_quotients_of_integers(name: str) -> None:
    ours, numpys = TWO[name]
    np.testing.assert_array_equal(computed(ours, *WHOLE), numpys(*WHOLE))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_sums(count: int) -> None:
    arrays = [SPECIAL * n for n in range(1, count + 1)]
    with np.errstate(all="ignore"):
        agrees(
            computed(lambda g, *values: arithmetic.summed(g, values), *arrays),
            sum(arrays[1:], arrays[0]),
        )


def test_different_elements() -> None:
    x = np.array([2.0, NAN, 1.0, 2.0, NAN, -INF])
    values, first, inverse, counts = computed(ordering.distinct, x)
    np.testing.assert_array_equal(values, [-INF, 1, 2, NAN, NAN])
    np.testing.assert_array_equal(first, [5, 2, 0, 1, 4])
    np.testing.assert_array_equal(values[inverse], x)
    np.testing.assert_array_equal(counts, [1, 1, 2, 1, 1])


def test_halves_of_an_axis() -> None:
    x = np.array([1.0, NAN, -0.0, 0.0, 2.0, INF])
    agrees(computed(lambda g, v: activations.FUNCTIONS["glu"](g, v, 0), x), glu(x))


@pytest.mark.parametrize(("axis", "batch"), [(1, 1), (2, 1), (2, 2), (3, 1)])
def test_gathering_by_batches(axis: int, batch: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5))
    at = np.random.default_rng(1).integers(0, 3, (2, 3, 2))
    made = computed(lambda g, a, b: indexing.gathered_by_batches(g, a, b, axis, batch), x, at)
    for place in np.ndindex(*x.shape[:batch]):
        np.testing.assert_array_equal(made[place], np.take(x[place], at[place], axis - batch))


def test_windows() -> None:
    assert [windows.cropped(total, True) for total in (-3, 0, 3)] == [
        (0, 0, 3),
        (0, 0, 0),
        (1, 2, 0),
    ]
    assert [windows.cropped(total, False) for total in (-3, 3)] == [(0, 0, 3), (0, 3, 0)]
    assert windows.groups(6, 3) == 2
    x = np.arange(35.0).reshape(1, 5, 7)

    def parts(g: Importer, value: Value) -> list[Value]:
        return [part for _, part in windows.taps(g, value, (1, 2), (2, 3), (2, 1), (1, 2))]

    made = np.stack(computed(parts, x), -1).reshape(2, 3, 2, 3)
    for row, column, i, j in np.ndindex(*made.shape):
        assert made[row, column, i, j] == x[0, 2 * row + i, column + 2 * j]
