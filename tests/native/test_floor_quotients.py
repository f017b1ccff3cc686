"""The one quotient that is rounded down, in the interpreter and natively, beside NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import infuse
from infuse import dtypes
from infuse.ops.core.evaluate import evaluate
from infuse.tracing.importer import Importer
from infuse.tracing.semantics.arithmetic import floor_mod, floor_quotient

pytestmark = pytest.mark.row("C1")


def _ends(dtype: type) -> list[int]:
    info = np.iinfo(dtype)
    near = {info.min, info.min + 1, info.max - 1, info.max, info.max // 2 + 1}
    return sorted(near | {n for n in range(-11, 12) if info.min <= n})


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
def test_integers_are_exact(dtype: type) -> None:
    """Of 8 bits all pairs; the least number by -1 leaves the type, and wraps as in NumPy."""
    if dtype in (np.int8, np.uint8):
        left = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1).astype(dtype)
    else:
        left = np.array(_ends(dtype), dtype)
    x, y = (v.reshape(-1).copy() for v in np.meshgrid(left, left[left != 0]))
    with np.errstate(over="ignore"):
        expected = {"quotient": np.floor_divide(x, y), "rest": np.remainder(x, y)}
    if dtype == np.int32:
        assert floor_of(np.int32, -(2**31), 3) == -715827883
    if dtype == np.int8:
        assert floor_of(np.int8, -127, 5) == -26
    _check(x, y, expected)


def floor_of(dtype: type, x: int, y: int) -> int:
    """The quotient as Infuse computes it."""
    graph = _graph(np.dtype(dtype))
    feeds = {"x": np.array([x], dtype), "y": np.array([y], dtype)}
    return int(evaluate(graph, feeds)["quotient"][0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_are_those_of_python(dtype: type) -> None:
    """1 // 0.1 is 9; the sign of a zero is that of the quotient."""
    numbers = [0.0, -0.0, 0.1, -0.1, 1, -1, 3, -3, 0.7, 1e6, -1e6, math.inf, -math.inf, math.nan]
    x, y = (v.reshape(-1).copy() for v in np.meshgrid(np.array(numbers, dtype), numbers))
    y = y.astype(dtype)
    with np.errstate(all="ignore"):
        expected = {"quotient": np.floor_divide(x, y)}
    _check(x, y, expected)


def _graph(dtype: np.dtype) -> infuse.Graph:
    g = Importer("quotients")
    x, y = (g.input(name, dtypes.by_numpy(dtype), ["n"]) for name in "xy")
    g.output("quotient", floor_quotient(g, x, y))
    g.output("rest", floor_mod(g, x, y))
    return g.graph


def _check(x: np.ndarray, y: np.ndarray, expected: dict[str, np.ndarray]) -> None:
    graph = _graph(x.dtype)
    with infuse.compile(infuse.optimize(graph), infuse.CompileOptions(threads=1)) as compiled:
        results = (evaluate(graph, {"x": x, "y": y}), compiled.run({"x": x, "y": y}))
    for result in results:
        for name, right in expected.items():
            np.testing.assert_array_equal(result[name], right, strict=True)
            if x.dtype.kind == "f":
                odd = ~np.isnan(right)
                np.testing.assert_array_equal(np.signbit(result[name][odd]), np.signbit(right[odd]))
