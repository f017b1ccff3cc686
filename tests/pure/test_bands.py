"""The bands that are read from how masks are computed are those of the masks themselves."""

from typing import Any

import numpy as np
import pytest

from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Graph, Value
from infuse.ops.core.evaluate import evaluate
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.attention.bands import Band, visible_band
from infuse.testing.patterns import graph_of

pytestmark = pytest.mark.row("G33")
ROWS, COLUMNS = 6, 9
LIMIT = -1e9
KINDS = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual")


def places(count: int, axis: int, first: int) -> Any:
    numbers = Call("Range", (np.array(first), np.array(first + count), np.array(1)))
    return Call("Unsqueeze", (numbers, int64s(axis)))


def comparison(rng: np.random.Generator) -> Any:
    """A random comparison of places, of their distance with a number, or a triangle."""
    keys = places(COLUMNS, 0, int(rng.integers(-2, 3)))
    queries = places(ROWS, 1, int(rng.integers(-2, 3)))
    number = np.array(int(rng.integers(-3, 4)))
    pair = (keys, queries) if rng.random() < 0.5 else (queries, keys)
    kind = KINDS[int(rng.integers(4))]
    apart = Call("Sub", pair)
    ones = Call("Expand", (np.array(True), int64s(ROWS, COLUMNS)))
    return (
        Call(kind, pair),
        Call(kind, (apart, number)),
        Call(kind, (number, apart)),
        Call("LessOrEqual", (Call("Abs", (apart,)), np.abs(number))),
        Call("Trilu", (ones, number), {"upper": int(rng.integers(2))}),
        Call(kind, (Call("Add", (pair[0], number)), pair[1])),
    )[int(rng.integers(6))]


def mask_of(rng: np.random.Generator) -> Any:
    """A random mask: a condition or two, negated or chosen by, or made a number."""
    seen = comparison(rng)
    if rng.random() < 0.4:
        seen = Call("And", (seen, comparison(rng)))
    if rng.random() < 0.3:
        seen = Call("Not", (seen,))
    low = np.float32(-np.inf if rng.random() < 0.5 else -1e30)
    return (
        seen,
        Call("Where", (seen, np.float32(0), low)),
        Call("Where", (seen, low, np.float32(0))),
        Call("Unsqueeze", (seen, int64s(0, 1))),
        Call("Mul", (Call("Cast", (seen,), {"to": "float32"}), np.float32(-1e30))),
    )[int(rng.integers(4))]


def shown(mask: Any) -> Any:
    """The pairs that a mask shows."""
    matrix = mask.reshape(ROWS, COLUMNS)
    return matrix if matrix.dtype == bool else matrix == 0


def pairs(band: Band) -> Any:
    """The pairs of a band."""
    ahead = np.arange(COLUMNS) - np.arange(ROWS)[:, None]
    result = np.ones_like(ahead, dtype=bool)
    if band.first is not None:
        result &= ahead >= band.first
    if band.last is not None:
        result &= ahead <= band.last
    return result


def operand(graph: Graph) -> Value:
    """What the last node of a graph reads."""
    last = graph.outputs[0].producer
    assert last is not None
    value = last.inputs[0]
    assert isinstance(value, Value)
    return value


def test_a_band_is_what_the_mask_shows(rng: np.random.Generator) -> None:
    """Random masks: a band that is stated is theirs, and most have one."""
    stated = 0
    for _ in range(300):
        graph = graph_of(Call("Identity", (mask_of(rng),)))
        (mask,) = evaluate(graph, {}).values()
        value = operand(graph)
        found = visible_band(value, LIMIT)
        if found is not None:
            stated += 1
            np.testing.assert_array_equal(pairs(found[0]), shown(mask), err_msg=str(graph))
    assert stated > 150


@pytest.mark.parametrize("first", [None, -2, 0, 1])
@pytest.mark.parametrize("last", [None, 0, 3])
def test_a_constant_mask_is_looked_at(first: int | None, last: int | None) -> None:
    band = Band(first, last)
    matrix = pairs(band)
    graph = graph_of(Call("Identity", (Variable("m"),)), m=matrix)
    value = operand(graph)
    found = visible_band(value, LIMIT)
    if matrix.all() or not matrix.any():
        assert found is None
    else:
        assert found == (band, True)


def test_a_constant_mask_of_several_bands_is_none() -> None:
    matrix = pairs(Band(None, 0))
    matrix[4, 1] = False
    graph = graph_of(Call("Identity", (Variable("m"),)), m=matrix)
    value = operand(graph)
    assert visible_band(value, LIMIT) is None
