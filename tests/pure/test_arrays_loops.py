"""Loops of traced programs whose state grows: sizes in the body are those of each round."""

from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import TypeMismatchError
from infuse.ops.core.evaluate import evaluate

X = np.array([1.0, 4.0, 2.0], np.float32)
SHAPES = pytest.mark.parametrize("shape", [(3,), ("n",)])


def means(x: Any) -> Any:
    """Four times the mean of all elements so far, put behind them."""
    xp = x.__array_namespace__()

    def body(i: Any, y: Any) -> Any:
        mean = xp.sum(y) / xp.astype(xp.asarray(y.shape[0]), xp.float32)
        return i + 1, xp.concat([y, xp.reshape(mean * 2, (1,))])

    _, y = infuse.loop(lambda i, y: i < 4, body, (xp.asarray(0), x))
    return y


def running(x: Any) -> Any:
    """The elements so far, and how many there were before each."""
    xp = x.__array_namespace__()

    def body(state: Any, entry: Any) -> Any:
        (y,) = state
        longer = xp.concat([y, xp.reshape(entry[0], (1,))])
        return (longer,), (xp.astype(xp.asarray(y.shape[0]), xp.int64),)

    (last,), (counts,) = infuse.scan(body, (x[:1],), (x,))
    return {"last": last, "counts": counts}


@SHAPES
def test_a_loop_sees_the_size_of_its_state(shape: Any) -> None:
    expected = X
    for _ in range(4):
        expected = np.append(expected, np.float32(expected.mean() * 2))
    graph = infuse.trace(means, {"x": infuse.Spec("float32", shape)})
    np.testing.assert_allclose(evaluate(graph, {"x": X})["output"], expected, rtol=1e-6)
    with infuse.compile(infuse.optimize(graph)) as model:
        np.testing.assert_allclose(model.run({"x": X})["output"], expected, rtol=1e-6)


@SHAPES
def test_a_scan_sees_the_size_of_its_state(shape: Any) -> None:
    graph = infuse.trace(running, {"x": infuse.Spec("float32", shape)})
    result = evaluate(graph, {"x": X})
    np.testing.assert_array_equal(result["last"], np.append(X[:1], X))
    np.testing.assert_array_equal(result["counts"], [1, 2, 3])


def test_a_state_keeps_its_rank() -> None:
    def program(x: Any) -> Any:
        return infuse.loop(lambda y: y[0] > 0, lambda y: (y[None],), (x,))[0]

    with pytest.raises(TypeMismatchError, match="an array of 2 axes of one of 1"):
        infuse.trace(program, {"x": infuse.Spec("float32", (3,))})
