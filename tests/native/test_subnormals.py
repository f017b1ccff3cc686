"""Results below the smallest normal number: zeros in compiled code, on all of its threads, and not
in the code that calls it.
"""

from platform import machine

import numpy as np
import pytest

from infuse import dtypes
from infuse.build.compile import compile_graph
from infuse.errors import InfuseError
from infuse.ir.graph import Graph
from infuse.options import CompileOptions
from tests.native.builder import Builder

pytestmark = pytest.mark.row("R1")
F = np.float32
TINY = np.finfo(F).tiny
COUNT = 1 << 18
"""Elements that several threads share."""


def chains() -> Graph:
    """Products, exponentials, gates and a state that decays."""
    b = Builder("small")
    x, low = b.input(COUNT, name="x"), b.input(COUNT, name="low")
    rows = b("Reshape", low, [-1, 64])
    state = x
    for _ in range(8):
        state = b("Mul", state, 0.25)
    results = b("Mul", x, 0.1), b("Exp", low), b("Sigmoid", low), b("Softmax", rows), state
    b.output(*results)
    return b.graph


def feeds() -> dict[str, np.ndarray]:
    low = np.full(COUNT, -100, F)
    low[::64] = 0
    return {"x": np.full(COUNT, 2 * TINY, F), "low": low}


def subnormal(results: np.ndarray) -> int:
    return int(np.count_nonzero((results != 0) & (np.abs(results) < TINY)))


def caller_has_them() -> bool:
    return bool(F(TINY) * F(0.5) > 0)


@pytest.mark.skipif(machine() != "x86_64", reason="on other processors they cost nothing")
@pytest.mark.parametrize("threads", [1, 2])
def test_no_thread_makes_them(threads: int) -> None:
    with compile_graph(chains(), CompileOptions(threads=threads)) as model:
        for _ in range(3):
            results = list(model.run(feeds()).values())
            assert [subnormal(array) for array in results] == [0] * len(results)
            assert caller_has_them()
    scaled, powers, gates, shares, state = results
    ones = feeds()["low"] == 0
    assert not scaled.any()
    assert not state.any()
    np.testing.assert_array_equal(powers, ones)
    np.testing.assert_array_equal(gates, np.where(ones, F(0.5), 0))
    np.testing.assert_array_equal(shares.ravel(), ones)


def test_operands_are_read_as_they_are() -> None:
    b = Builder("small")
    x = b.input("n", name="x")
    b.output(b("Log", x), b("Greater", x, 0.0), b("Mul", x, float(2**30)))
    values = np.array([1e-45, 1e-40, 1e-38, 1.0], F)
    with compile_graph(b.graph) as model:
        log, greater, larger = model.run({"x": values}).values()
    np.testing.assert_allclose(log, np.log(values.astype(np.float64)), rtol=1e-6)
    assert greater.all()
    np.testing.assert_array_equal(larger, values * F(2**30))


def test_the_caller_has_them_after_a_run_that_fails() -> None:
    b = Builder("small")
    x, places = b.input(8, name="x"), b.input("n", dtype=dtypes.int64, name="places")
    b.output(b("Gather", x, places))
    with compile_graph(b.graph) as model:
        with pytest.raises(InfuseError):
            model.run({"x": np.ones(8, F), "places": np.array([9])})
        assert caller_has_them()
