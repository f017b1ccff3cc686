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
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.ir.graph import Value
from infuse.ops.core.evaluate import evaluate
from infuse.tracing.importer import Importer
from infuse.tracing.semantics import (
    activations,
    arithmetic,
    indexing,
    movement,
    ordering,
    special,
    windows,
)

NAN, INF = math.nan, math.inf
SPECIAL = np.array([NAN, -INF, -2.5, -1.0, -0.0, 0.0, 0.5, 3.0, INF])
ARRAYS = (SPECIAL, SPECIAL[:0], SPECIAL[3:4])
LEFT, RIGHT = (a.reshape(-1) for a in np.meshgrid(SPECIAL, SPECIAL))
WHOLE = np.array([[7, -7, 7, -7, 0, -(2**31)], [2, 2, -2, -2, 5, 1]], np.int32)


def computed(function: Callable[..., Any], *arrays: Any, fixed: bool = True) -> Any:
    """What a function of an importer and values makes of arrays, whose sizes it knows or not."""
    g = Importer("case")
    inputs = []
    for i, array in enumerate(arrays):
        shape = np.shape(array) if fixed else tuple(f"n{i}{k}" for k in range(np.ndim(array)))
        inputs.append(g.input(f"x{i}", dtypes.by_numpy(np.asarray(array).dtype), shape))
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


# -- movement --------------------------------------------------------------------------------------

BLOCK = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("shift", [0, 1, -1, 3, 8, -7])
@pytest.mark.parametrize(("x", "axis"), [(BLOCK, 0), (BLOCK, 2), (BLOCK[:, :0], 1)])
def test_rolling(x: Any, axis: int, shift: int, fixed: bool) -> None:
    made = computed(lambda g, x: movement.rolled(g, x, axis, shift), x, fixed=fixed)
    np.testing.assert_array_equal(made, np.roll(x, shift, axis))


def test_rolling_by_a_computed_number() -> None:
    made = computed(lambda g, x, by: movement.rolled(g, x, 1, by), BLOCK, np.int64(-4))
    np.testing.assert_array_equal(made, np.roll(BLOCK, -4, 1))


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("offset", [0, 1, 3, 4, 9, -1, -2, -3])
@pytest.mark.parametrize("axes", [(1, 2), (2, 1), (0, 2)])
def test_diagonals(axes: tuple[int, int], offset: int, fixed: bool) -> None:
    made = computed(lambda g, x: movement.diagonal(g, x, offset, *axes), BLOCK, fixed=fixed)
    np.testing.assert_array_equal(made, np.diagonal(BLOCK, offset, *axes))


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize(("size", "step"), [(1, 1), (2, 1), (2, 2), (3, 2), (2, 5)])
@pytest.mark.parametrize("axis", [1, 2])
def test_windows_along_an_axis(axis: int, size: int, step: int, fixed: bool) -> None:
    def build(g: Importer, x: Value) -> Value:
        return movement.unfolded(g, x, axis, g.size_of(x, axis), size, step)

    every = np.lib.stride_tricks.sliding_window_view(BLOCK, size, axis)
    expected = every[(slice(None),) * axis + (slice(None, None, step),)]
    np.testing.assert_array_equal(computed(build, BLOCK, fixed=fixed), expected)


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize(
    ("kernel", "strides", "rates"),
    [([1, 1], [1, 1], [1, 1]), ([2, 3], [2, 1], [1, 2]), ([3, 2], [1, 2], [2, 1])],
)
def test_windows_of_images_as_columns(
    kernel: list[int], strides: list[int], rates: list[int], fixed: bool
) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 6, 7))
    spans = [(k - 1) * rate + 1 for k, rate in zip(kernel, rates)]
    every = np.lib.stride_tricks.sliding_window_view(x, spans, (2, 3))
    some = every[:, :, :: strides[0], :: strides[1], :: rates[0], :: rates[1]]
    expected = some.transpose(0, 1, 4, 5, 2, 3).reshape(2, 3 * math.prod(kernel), -1)
    made = computed(lambda g, x: movement.columns(g, x, kernel, strides, rates), x, fixed=fixed)
    np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize(("before", "after"), [(0, 0), (1, 0), (0, 3), (4, 2), (4, 4)])
@pytest.mark.parametrize("axis", [0, 2])
def test_mirrored_borders(axis: int, before: int, after: int) -> None:
    x = np.concatenate([BLOCK, BLOCK + 100])
    made = computed(lambda g, x: movement.mirrored(g, x, axis, before, after), x)
    widths = [(before, after) if i == axis else (0, 0) for i in range(3)]
    np.testing.assert_array_equal(made, np.pad(x, widths, mode="symmetric"))


def test_what_cannot_be_mirrored_is_refused() -> None:
    with pytest.raises(ModelFileError, match="3 elements have no 4 at their border"):
        computed(lambda g, x: movement.mirrored(g, x, 1, 4, 0), BLOCK)
    with pytest.raises(UnsupportedOperatorError, match="unknown length"):
        computed(lambda g, x: movement.mirrored(g, x, 1, 1, 0), BLOCK, fixed=False)
