"""Where movement operators leave the elements of a value, against NumPy."""

from typing import Any

import numpy as np
import pytest

from infuse import ops
from infuse.ir.expression import Call
from infuse.ops.core.evaluate import evaluate
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.movement.gathering import counted
from infuse.passes.rules.movement.views import View, views
from infuse.testing.patterns import graph_of

START = (2, 6, 4)


def indices(view: View) -> np.ndarray:
    """The places that a view of fixed size reads."""
    total = np.asarray(view.offset)
    for size, step in view.axes:
        assert isinstance(size, int)
        assert isinstance(step, int)
        total = total[..., None] + np.arange(size) * step
    return total


def moved(x: Any, shape: tuple[int, ...], rng: np.random.Generator) -> tuple[Call, tuple[int, ...]]:
    """One movement operator chosen at random, and the shape of its result."""
    axis = int(rng.integers(len(shape)))
    kind = rng.integers(7)
    if kind == 0:
        perm = tuple(int(p) for p in rng.permutation(len(shape)))
        return ops.transpose(x, perm=perm), tuple(shape[p] for p in perm)
    if kind == 1 and shape[axis] % 2 == 0:
        cut = (*shape[:axis], 2, shape[axis] // 2, *shape[axis + 1 :])
        return ops.reshape(x, int64s(*cut)), cut
    if kind == 2 and len(shape) > 1:
        joined = (
            (*shape[: axis - 1], -1, *shape[axis + 1 :])
            if axis
            else (shape[0] * shape[1], *shape[2:])
        )
        sizes = (
            (*shape[: axis - 1], shape[axis - 1] * shape[axis], *shape[axis + 1 :])
            if axis
            else joined
        )
        return ops.reshape(x, int64s(*sizes)), sizes
    if kind == 3 and len(shape) > 1:
        place = int(rng.integers(-shape[axis], shape[axis]))
        return ops.gather(x, np.asarray(place), axis=axis), shape[:axis] + shape[axis + 1 :]
    if kind == 4 and shape[axis] > 1:
        step = int(rng.integers(1, 3))
        sizes = (*shape[:axis], len(range(1, shape[axis], step)), *shape[axis + 1 :])
        return ops.slice(x, int64s(1), int64s(99), int64s(axis), int64s(step)), sizes
    if kind == 5 and shape[axis] > 1:
        split = ops.split(x, int64s(1, shape[axis] - 1), axis=axis)
        return split[1], (*shape[:axis], shape[axis] - 1, *shape[axis + 1 :])
    return ops.unsqueeze(x, int64s(axis)), (*shape[:axis], 1, *shape[axis:])


@pytest.mark.parametrize("seed", range(60))
def test_views_name_the_elements_that_operators_move(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x: Any = Call("Relu", (START,))
    shape: tuple[int, ...] = START
    for _ in range(int(rng.integers(1, 6))):
        x, shape = moved(x, shape, rng)
    graph = graph_of(x)
    (source,) = graph.inputs
    found = evaluate(graph, {source.name: np.arange(48, dtype=np.float32).reshape(START)})["y0"]
    seen = list(views(graph.outputs[0]))
    assert seen[0][0] is graph.outputs[0]
    relu = [
        (value, view)
        for value, view in seen
        if value.producer is not None and value.producer.kind == "Relu"
    ]
    for value, view in relu:
        assert value.shape == START
        assert np.array_equal(indices(view), found)
    assert relu or any(node.kind == "Reshape" for node in graph.nodes)


@pytest.mark.parametrize("which", range(4))
def test_counted_numbers_are_those_of_the_graph(which: int) -> None:
    rows = ops.range(np.asarray(0), np.asarray(3), np.asarray(1))
    columns = ops.range(np.asarray(2), np.asarray(10), np.asarray(2))
    apart = ops.unsqueeze(rows, int64s(1))
    choices = [
        apart * int64s(4) + columns,
        ops.expand(ops.reshape(columns, int64s(2, 2)), int64s(3, 2, 2)),
        ops.add(columns, np.asarray(5)) * int64s(3),
        ops.slice(columns, int64s(1), int64s(4)),
    ]
    graph = graph_of(choices[which])
    view = counted(graph.outputs[0])
    assert view is not None
    assert np.array_equal(indices(view), evaluate(graph, {})["y0"])
