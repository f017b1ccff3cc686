"""The interpreter, whole-graph inference and unknown operators."""

import gc
import weakref
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

from infuse import dtypes
from infuse.errors import (
    GraphError,
    InputError,
    RuntimeFailure,
    ShapeError,
    UnsupportedOperatorError,
)
from infuse.ir import Graph, Node, OptionalType, SequenceType, TensorType, Value, constant, tensor
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN
from infuse.ops.arithmetic import Add, Max, Mul
from infuse.ops.core.base import Array, Inferred, Op
from infuse.ops.core.evaluate import (
    evaluate,
    evaluate_again,
    evaluate_node,
    evaluate_values,
)
from infuse.ops.core.inference import infer_graph
from infuse.ops.core.opaque import Opaque
from infuse.ops.indexing import Gather
from infuse.ops.movement import Concat
from infuse.ops.padding import Pad
from infuse.ops.ranking import TopK
from infuse.ops.selection import NonZero
from infuse.ops.sequences import ConcatFromSequence, Optional, OptionalHasElement, SequenceConstruct
from infuse.ops.shaping import Reshape, Shape

F = np.float32
X = tensor(dtypes.float32, "n", 3)


def add(graph: Graph, op: Any, *inputs: Value | None, name: str = "", outputs: int = 1) -> Value:
    """The first output of a new node."""
    names = [name, *(f"{name}{i}" for i in range(1, outputs))]
    node = Node(op, inputs, [Value(UNKNOWN, n) for n in names], name=f"node {name}")
    graph.add_node(node)
    return node.output


def sums() -> Graph:
    """y = 2·x + 1, z = y·x, and an inner value `double`."""
    graph = Graph()
    x = graph.add_input("x", X)
    double = add(graph, Mul(), x, constant(F(2)), name="double")
    y = add(graph, Add(), double, constant(F(1)), name="y")
    graph.add_output(y)
    graph.add_output(add(graph, Mul(), y, x, name="z"), "product")
    infer_graph(graph)
    return graph


ROWS = np.arange(6, dtype=F).reshape(2, 3)


def test_outputs_come_by_name() -> None:
    found = evaluate(sums(), {"x": ROWS})
    assert list(found) == ["y", "product"]
    assert np.array_equal(found["y"], 2 * ROWS + 1)
    assert np.array_equal(found["product"], (2 * ROWS + 1) * ROWS)


def test_fetched_values_may_lie_inside() -> None:
    graph = sums()
    found = evaluate(graph, {"x": ROWS}, fetch=["double", "x", "product"])
    assert list(found) == ["double", "x", "product"]
    assert np.array_equal(found["double"], 2 * ROWS)
    with pytest.raises(InputError, match=r"no value 'other' to fetch.*outputs: y, product"):
        evaluate(graph, {"x": ROWS}, fetch=["other"])


def test_only_what_is_fetched_runs() -> None:
    graph = sums()
    strange = Node(
        Opaque("com.example", "Strange"), [graph.outputs[0]], [Value(X, "s")], name="strange"
    )
    graph.add_node(strange)
    graph.add_output(strange.output)
    assert np.array_equal(evaluate(graph, {"x": ROWS}, fetch=["y"])["y"], 2 * ROWS + 1)
    with pytest.raises(
        UnsupportedOperatorError,
        match=r"node 'strange': operator com\.example::Strange is not known",
    ):
        evaluate(graph, {"x": ROWS})


def test_inputs_and_constants_may_be_outputs() -> None:
    graph = Graph()
    graph.add_output(graph.add_input("x", X), "same")
    graph.add_output(constant(F([7])), "seven")
    found = evaluate(graph, {"x": ROWS})
    assert found["same"] is ROWS
    assert found["seven"].tolist() == [7]


class Watched(Op, abstract=True):
    """Passes a copy on and counts the copies that are still alive."""

    name = "Watched"
    alive: ClassVar[list[weakref.ref[Array]]] = []
    most: ClassVar[list[int]] = []

    def infer(self, x: Value) -> Inferred:
        return x.type

    def eval(self, x: Array) -> Array:
        gc.collect()
        copy = x.copy()
        self.alive.append(weakref.ref(copy))
        self.most.append(sum(ref() is not None for ref in self.alive))
        return copy


def test_intermediates_are_freed_after_their_last_use() -> None:
    graph = Graph()
    value = graph.add_input("x", X)
    for index in range(9):
        value = add(graph, Watched(), value, name=str(index))
    graph.add_output(value)
    evaluate(graph, {"x": ROWS})
    assert len(Watched.most) == 9
    assert max(Watched.most) == 2


# -- inputs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({}, "'a', 'b' missing"),
        ({"a": ROWS, "b": ROWS, "c": ROWS}, "'c' not known"),
        ({"a": ROWS.astype(np.float64), "b": ROWS}, "'a' takes float32, found float64"),
        ({"a": ROWS[0], "b": ROWS}, "'a' takes .* found rank 1"),
        ({"a": ROWS[:, :2], "b": ROWS}, "must be 3 = 3, found 2"),
        ({"a": ROWS, "b": np.ones((2, 5), F)}, r"must be 2\*n = 4, found 5"),
    ],
)
def test_inputs_that_do_not_fit(feeds: Mapping[str, Any], message: str) -> None:
    graph = Graph()
    graph.add_input("a", X)
    graph.add_input("b", tensor(dtypes.float32, "m", "2*n"))
    graph.add_output(graph.inputs[0], "y")
    with pytest.raises(InputError, match=message):
        evaluate(graph, feeds)
    assert evaluate(graph, {"a": ROWS, "b": np.ones((7, 4), F)})["y"] is ROWS


def test_sequences_and_absent_values_are_fed_as_lists_and_none() -> None:
    graph = Graph()
    parts = graph.add_input("parts", SequenceType(tensor(dtypes.float32, "k")))
    choice = graph.add_input("choice", OptionalType(X))
    graph.add_output(add(graph, ConcatFromSequence(axis=0), parts), "joined")
    graph.add_output(add(graph, OptionalHasElement(), choice), "there")
    infer_graph(graph)
    found = evaluate(graph, {"parts": [F([1]), F([2, 3])], "choice": None})
    assert found["joined"].tolist() == [1, 2, 3]
    assert not found["there"]
    assert evaluate(graph, {"parts": [F([1])], "choice": ROWS})["there"]
    with pytest.raises(InputError, match="is a sequence and takes a list"):
        evaluate(graph, {"parts": ROWS, "choice": None})
    with pytest.raises(InputError, match="found rank 2"):
        evaluate(graph, {"parts": [ROWS], "choice": None})


# -- single nodes ----------------------------------------------------------------------------------


def run(op: Any, *arrays: Any, outputs: int = 1) -> tuple[Any, ...]:
    inputs = [None if a is None else Value(UNKNOWN) for a in arrays]
    return evaluate_node(
        Node(op, inputs, [Value(UNKNOWN) for _ in range(outputs)], name="n"), arrays
    )


def test_a_node_gives_as_many_outputs_as_it_has() -> None:
    values, places = run(TopK(), F([3, 9, 4]), np.array([2]), outputs=2)
    assert (values.tolist(), places.tolist()) == ([9, 4], [1, 2])
    assert len(run(TopK(), F([3, 9, 4]), np.array([2]))) == 1
    ((first, second),) = run(SequenceConstruct(), F([1]), F([2]))
    assert (first.tolist(), second.tolist()) == ([1], [2])
    assert run(Optional(), None) == (None,)
    with pytest.raises(GraphError, match="gives 1 outputs, 2 are asked for"):
        run(Add(), F(1), F(2), outputs=2)


def test_absent_inputs_are_none() -> None:
    (padded,) = run(Pad(), F([[1, 2]]), np.array([0, 1]), None, np.array([1]))
    assert padded.tolist() == [[1, 2, 0]]


def test_errors_carry_the_node() -> None:
    with pytest.raises(
        ShapeError, match="Gather node 'n': an index of Gather lies outside"
    ) as refused:
        run(Gather(), F([1]), np.array(1))
    assert refused.value.where == "Gather node 'n'"
    with pytest.raises(
        RuntimeFailure, match=r"Reshape node 'n': cannot be evaluated: cannot reshape"
    ) as failed:
        run(Reshape(), F([1, 2]), np.array([3]))
    assert isinstance(failed.value.__cause__, ValueError)


# -- whole-graph inference -------------------------------------------------------------------------


def test_types_are_inferred_in_order_and_with_contents() -> None:
    graph = Graph()
    x = graph.add_input("x", tensor(dtypes.float32, "batch", "seq", 768))
    sizes = add(graph, Shape(), x)
    pieces = [add(graph, Gather(), sizes, constant(np.array([i]))) for i in (0, 1)]
    target = add(graph, Concat(axis=0), *pieces, constant(np.array([12, -1])))
    graph.add_output(add(graph, Reshape(), x, target), "y")
    infer_graph(graph)
    assert str(graph.outputs[0].type) == "float32[batch, seq, 12, 64]"


def test_fresh_sizes_have_the_same_names_every_time() -> None:
    graph = Graph()
    x = graph.add_input("x", tensor(dtypes.float32, "_nonzero_1"))
    for name in ("y", "z"):
        graph.add_output(add(graph, NonZero(), x), name)
    for _ in range(2):
        infer_graph(graph)
        assert [str(v.type) for v in graph.outputs] == [
            "int64[1, _nonzero_2]",
            "int64[1, _nonzero_3]",
        ]


def test_inference_errors_carry_the_node() -> None:
    graph = Graph()
    x = graph.add_input("x", tensor(dtypes.float32, 4))
    add(graph, Add(), x, constant(np.ones(3, F)), name="sum")
    with pytest.raises(ShapeError, match="Add node 'node sum': sizes 4 and 3 do not broadcast"):
        infer_graph(graph)


# -- unknown operators -----------------------------------------------------------------------------


def test_unknown_operators_keep_what_they_came_with() -> None:
    weights = np.arange(3, dtype=F)
    op = Opaque("com.example", "Strange", {"w": weights, "k": (1, 2), "mode": "x"}, version=3)
    assert op.attributes() == {"w": weights, "k": (1, 2), "mode": "x"}
    same = Opaque(
        "com.example", "Strange", {"mode": "x", "k": (1, 2), "w": weights.copy()}, version=3
    )
    assert op == same
    assert hash(op) == hash(same)
    for other in (
        Opaque("com.example", "Strange", {"w": weights + 1, "k": (1, 2), "mode": "x"}, version=3),
        Opaque(
            "com.example",
            "Strange",
            {"w": weights.astype(np.float64), "k": (1, 2), "mode": "x"},
            version=3,
        ),
        Opaque("com.example", "Strange", {"w": weights, "k": (1, 2)}, version=3),
        Opaque("com.example", "Strange", {"w": weights, "k": (1, 2), "mode": "x"}, version=4),
        Opaque("com.example", "Other", {"w": weights, "k": (1, 2), "mode": "x"}, version=3),
    ):
        assert op != other


def test_unknown_operators_leave_given_types() -> None:
    graph = Graph()
    graph.opsets["com.example"] = 5
    x = graph.add_input("x", X)
    op = make_operator("com.example", "Strange", {"k": 1})
    assert isinstance(op, Opaque)
    node = Node(
        op,
        [x],
        [Value(tensor(dtypes.int64, "m"), "s"), Value(TensorType(dtypes.float32, None), "u")],
        name="n",
    )
    graph.add_node(node)
    graph.add_output(add(graph, Max(), node.output, constant(np.array(0))), "y")
    infer_graph(graph)
    assert str(graph.outputs[0].type) == "int64[m]"
    assert str(node.outputs[1].type) == "float32[?]"
    with pytest.raises(UnsupportedOperatorError) as caught:
        evaluate(graph, {"x": ROWS})
    assert str(caught.value) == (
        "[INF-102] node 'n': operator com.example::Strange of opset 5 is not known and cannot be "
        "run. "
        "Hint: define it as an infuse.ops.Op, or export the model without it."
    )


def test_only_what_depends_on_a_change_is_evaluated_again() -> None:
    graph = Graph("g")
    x = graph.add_input("x", X)
    left = add(graph, Mul(), x, constant(F([2, 2, 2])), name="left")
    right = add(graph, Add(), x, constant(F([1, 1, 1])), name="right")
    graph.add_output(add(graph, Mul(), left, right, name="y"), "y")
    graph.add_output(right, "right")
    infer_graph(graph)
    feeds = {"x": np.ones((1, 3), F)}
    values = evaluate_values(graph, feeds)
    changed, other = left.producer, right.producer
    assert changed is not None
    assert other is not None
    changed.set_inputs([x, add(graph, Add(), x, constant(F([2, 2, 2])), name="new")])
    other.set_inputs([x, constant(F([9, 9, 9]))])
    found = evaluate_again(graph, values, [changed])
    np.testing.assert_array_equal(found["right"], F([[2, 2, 2]]))
    np.testing.assert_array_equal(found["y"], F([[6, 6, 6]]))
    found = evaluate_again(graph, values, [changed, other])
    assert {name: array.tolist() for name, array in found.items()} == {
        name: array.tolist() for name, array in evaluate(graph, feeds).items()
    }
