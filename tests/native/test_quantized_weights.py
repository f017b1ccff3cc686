"""Products with weights in blocks, and rows of such weights."""

import numpy as np
import pytest

import infuse
from infuse import dtypes
from infuse.errors import DataError, RuntimeFailure
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN, tensor
from infuse.ops.core.evaluate import evaluate
from infuse.ops.core.weight_formats import FORMATS
from tests.support.gguf_writer import random_rows

BLOCKED = [name for name, each in FORMATS.items() if each.unpacked is not None]


def network(weights: np.ndarray, format: str, rounded: bool) -> Graph:
    """y: rows times weights, r: rows of the weights."""
    graph, stored = Graph("blocks"), constant(weights)
    k = weights.shape[1] // FORMATS[format].bytes * FORMATS[format].weights
    x, i = (
        graph.add_input("x", tensor(dtypes.float32, "t", k)),
        graph.add_input("i", tensor(dtypes.int64, "u")),
    )
    how = {"format": format}
    for name, kind, operands, attributes in (
        ("y", "MatMulBlocks", [x, stored], {**how, "rounded": int(rounded)}),
        ("r", "GatherBlocks", [stored, i], how),
    ):
        node = Node(make_operator("infuse", kind, attributes), operands, [Value(UNKNOWN, name)])
        node.op.infer_node(graph.add_node(node))
        graph.add_output(node.output, name)
    return graph


def rounded(x: np.ndarray, block: int) -> np.ndarray:
    """Rows of which each block is whole multiples of its largest magnitude / 127."""
    parts = x.reshape(len(x), -1, block)
    step = np.abs(parts).max(-1, keepdims=True) / np.float32(127)
    inverse = np.divide(np.float32(1), step, out=np.zeros_like(step), where=step > 0)
    return (np.rint(parts * inverse) * step.astype(np.float64)).reshape(x.shape)


@pytest.mark.row("L6")
@pytest.mark.parametrize("format", BLOCKED)
@pytest.mark.parametrize("is_rounded", [False, True])
def test_products_and_rows_of_every_format(format: str, is_rounded: bool) -> None:
    rng = np.random.default_rng(3)
    weights = random_rows(format, 70, 2, rng)
    graph = network(weights, format, is_rounded)
    matrix = FORMATS[format].dequantize(weights).astype(np.float64)
    block = FORMATS[format].parts(weights).group
    with infuse.compile(graph, infuse.CompileOptions(threads=2)) as model:
        for rows in (1, 2, 5, 19, 150):
            x = rng.standard_normal((rows, matrix.shape[1])).astype(np.float32)
            x[0, :block] = 0
            picks = rng.integers(0, len(weights), rows)
            result = model.run({"x": x, "i": picks})
            seen = rounded(x, block) if is_rounded else x.astype(np.float64)
            exact = seen @ matrix.T
            # What is halfway between two integers may become the other one.
            limit = (1e-3 if is_rounded else 2e-6) * np.abs(exact).max()
            np.testing.assert_allclose(result["y"], exact, atol=limit)
            # An offset is added to a number that is counted from the middle.
            near = 1e-6 * np.abs(matrix).max()
            np.testing.assert_allclose(result["r"], matrix[picks], atol=near)
    plain = evaluate(graph, {"x": x, "i": picks})
    np.testing.assert_allclose(plain["r"], matrix[picks], rtol=1e-6)


@pytest.mark.row("L6")
def test_rows_that_are_not_finite_stay_so() -> None:
    weights = random_rows("Q8_0", 33, 2, np.random.default_rng(0))
    with infuse.compile(network(weights, "Q8_0", True)) as model:
        for bad in (np.nan, np.inf, -np.inf):
            x = np.ones((3, 64), np.float32)
            x[1, 40] = bad
            y = model.run({"x": x, "i": np.zeros(1, np.int64)})["y"]
            assert np.isnan(y[1]).all()
            assert np.isfinite(y[[0, 2]]).all()
        tiny = np.full((1, 64), 1e-42, np.float32)
        np.testing.assert_array_equal(model.run({"x": tiny, "i": np.zeros(1, np.int64)})["y"], 0)
        assert model.run({"x": tiny[:0], "i": np.zeros(0, np.int64)})["y"].shape == (0, 33)


@pytest.mark.row("L6")
@pytest.mark.parametrize("index", [-1, 33, 2**40])
def test_rows_that_do_not_exist_fail(index: int) -> None:
    weights = random_rows("Q4_1", 33, 1, np.random.default_rng(0))
    graph = network(weights, "Q4_1", True)
    feeds = {"x": np.ones((1, 32), np.float32), "i": np.array([3, index])}
    with infuse.compile(graph) as model, pytest.raises(RuntimeFailure, match="GatherBlocks"):
        model.run(feeds)
    with pytest.raises(DataError):
        evaluate(graph, feeds)
