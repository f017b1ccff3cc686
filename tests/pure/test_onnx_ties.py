"""A table that a network reads in two orders of axes lies in the file once."""

import numpy as np
import onnx
import pytest

from infuse import Rules, dtypes, load, optimize
from infuse.exporters.onnx import to_model
from infuse.exporters.onnx.ties import SMALLEST
from infuse.ir.graph import Array, Graph, Node, Value, constant
from infuse.ir.types import UNKNOWN, tensor
from infuse.ops.core.base import REGISTRY
from infuse.ops.core.evaluate import evaluate

ROWS, COLUMNS = 128, 160
TABLE = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS) / 1e4


def _node(graph: Graph, kind: str, *inputs: Value) -> Value:
    node = graph.add_node(Node(REGISTRY["", kind](), inputs, [Value(UNKNOWN)]))
    node.op.infer_node(node)
    return node.output


def _words(*tables: Array) -> Graph:
    """A graph that looks a word up in the first table, and multiplies what it finds by the
    others.
    """
    graph = Graph("words")
    value = _node(
        graph,
        "Gather",
        constant(tables[0], "table"),
        graph.add_input("i", tensor(dtypes.int64, "n")),
    )
    for table in tables[1:]:
        value = _node(graph, "MatMul", value, constant(table, "head"))
    graph.add_output(value, "y")
    return graph


def _kinds(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def test_a_transposed_table_is_made_from_the_stored_one() -> None:
    assert TABLE.nbytes >= SMALLEST
    graph = _words(TABLE, TABLE.T)
    model = to_model(graph)
    onnx.checker.check_model(model, full_check=True)
    assert [w.name for w in model.graph.initializer] == ["table"]
    assert _kinds(model) == ["Gather", "Transpose", "MatMul"]
    indices = {"i": np.array([3, 0, 127])}
    (again,), (before,) = evaluate(load(model), indices).values(), evaluate(graph, indices).values()
    np.testing.assert_array_equal(again, before)


def test_the_tie_survives_reading_optimizing_and_writing() -> None:
    model = to_model(_words(TABLE, TABLE.T))
    better = optimize(load(model), Rules(disable="ComputeInTable"))
    assert [node.kind for node in better.nodes] == ["Gather", "MatMul"]
    assert [w.name for w in to_model(better).graph.initializer] == ["table"]


def test_any_order_of_axes_is_found() -> None:
    table = TABLE.reshape(8, 16, COLUMNS)
    graph = Graph("orders")
    x = graph.add_input("x", tensor(dtypes.float32, COLUMNS, 8, 16))
    graph.add_output(_node(graph, "Add", x, constant(table.transpose(2, 0, 1), "moved")), "y")
    graph.add_output(_node(graph, "Neg", constant(table, "table")), "z")
    (transpose,) = [node for node in to_model(graph).graph.node if node.op_type == "Transpose"]
    assert list(transpose.attribute[0].ints) == [2, 0, 1]


@pytest.mark.parametrize(
    "other",
    [TABLE.T.copy(), TABLE[:8].T, np.broadcast_to(TABLE[0], (COLUMNS, COLUMNS))],
    ids=["another array", "a part", "one row repeated"],
)
def test_other_elements_are_stored(other: Array) -> None:
    model = to_model(_words(TABLE, other))
    assert _kinds(model) == ["Gather", "MatMul"]
    assert len(model.graph.initializer) == 2


def test_a_transposed_table_alone_is_stored_as_it_is_read() -> None:
    graph = Graph("alone")
    x = graph.add_input("x", tensor(dtypes.float32, "n", COLUMNS))
    graph.add_output(_node(graph, "MatMul", x, constant(TABLE.T, "head")), "y")
    model = to_model(graph)
    assert _kinds(model) == ["MatMul"]
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(model.graph.initializer[0]), TABLE.T)
