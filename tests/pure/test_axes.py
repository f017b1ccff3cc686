"""What operators say of the axes that operands and results share holds for all of their samples."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from infuse import ops
from infuse.dtypes import by_numpy
from infuse.ir.expression import Call
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.types import TensorType
from infuse.ops.core.axes import Axes
from infuse.ops.core.base import REGISTRY, Op
from infuse.ops.core.evaluate import evaluate
from infuse.passes.selection import find_rule
from infuse.rewrite import Driver, explain
from infuse.testing.patterns import graph_of
from infuse.testing.samples import Row, results, rows

Array = np.ndarray[Any, Any]
STATED = [
    *(
        "Add",
        "Clip",
        "Where",
        "Softmax",
        "CumSum",
        "ArgMax",
        "LayerNormalization",
        "RMSNormalization",
    ),
    *("MatMul", "Gemm", "Conv", "MaxPool", "ReduceMax", "Transpose", "Concat", "Slice", "Pad"),
    "Resize",
]


@dataclass
class Case:
    """A sample, what it computes, and the axes that its node states."""

    row: Row
    node: Node
    axes: Axes
    result: Array

    def arrays(self) -> Iterator[tuple[Any, tuple[int, ...] | None]]:
        """The operands, and the numbers of their axes."""
        yield from zip(self.row.inputs, self.axes.operands)


def node_of(row: Row) -> Node:
    graph = Graph("sample")
    inputs: list[Value | None] = []
    for i, array in enumerate(row.inputs):
        if array is None:
            inputs.append(None)
        elif row.fixed[i]:
            inputs.append(constant(array))
        else:
            inputs.append(graph.add_input(f"x{i}", TensorType(by_numpy(array.dtype), array.shape)))
    count = len(results(row))
    outputs = [Value(TensorType(None, None), f"y{i}") for i in range(count)]
    node = graph.add_node(Node(row.op, inputs, outputs))
    row.op.infer_node(node)
    return node


def cases(op: type[Op]) -> list[Case]:
    result = []
    for row in rows(op, np.random.default_rng(2)):
        arrays = [x for x in row.inputs if x is not None]
        if not all(isinstance(x, np.ndarray) and x.dtype != object for x in arrays):
            continue
        node = node_of(row)
        axes = row.op.shared_axes(node) if isinstance(node.output.type, TensorType) else None
        if axes is not None:
            result.append(Case(row, node, axes, np.asarray(results(row)[0])))
    return result


CASES = {op: some for _, op in sorted(REGISTRY.items()) if (some := cases(op))}
by_operator = pytest.mark.parametrize("op", CASES, ids=lambda op: f"{op.domain}::{op.name}")


def same(result: Any, expected: Array) -> None:
    result, expected = np.asarray(result), np.asarray(expected)
    assert result.shape == expected.shape
    if result.dtype.kind in "OUSb":
        np.testing.assert_array_equal(result, expected)
        return
    wide = [array.astype(np.float64) for array in (result, expected)]
    np.testing.assert_allclose(*wide, rtol=1e-5, atol=1e-5)  # sums may run in another order


def computed(call: Any) -> Array:
    """An expression of arrays."""
    return evaluate(graph_of(call), {})["y0"] if isinstance(call, Call) else np.asarray(call)


def along(array: Array, order: tuple[int, ...] | None, number: int, size: int, index: Any) -> Any:
    """These places of an operand along an axis that it may have, and that may be stretched."""
    if order is None or number not in order:
        return array
    at = order.index(number)
    stretched = array.shape[at] == 1 != size
    if stretched:
        return array if np.ndim(index) else array.take(0, axis=at)
    return array.take(index, axis=at)


def test_what_operators_have_axes() -> None:
    names = {op.name for op in CASES}
    assert set(STATED) <= names
    assert len(CASES) > 90


@by_operator
def test_numbers_name_every_axis(op: type[Op]) -> None:
    for case in CASES[op]:
        assert len(case.axes.result) == case.result.ndim
        assert len(case.axes.operands) == len(case.row.inputs)
        for array, order in case.arrays():
            assert order is None or (array.ndim == len(order) == len(set(order)))


@by_operator
def test_some_places_of_the_result_need_the_same_of_the_operands(op: type[Op]) -> None:
    for case in CASES[op]:
        for at, number in enumerate(case.axes.result):
            if number in case.axes.mixed or not case.result.shape[at]:
                continue
            size = case.result.shape[at]
            index = [size - 1, 0] if size > 1 else [0]
            inputs = [along(x, order, number, size, index) for x, order in case.arrays()]
            part = results(replace(case.row, inputs=tuple(inputs)))[0]
            same(part, case.result.take(index, axis=at))


@by_operator
def test_an_axis_may_go(op: type[Op]) -> None:
    for case in CASES[op]:
        for at, number in enumerate(case.axes.result):
            if number in case.axes.mixed or not case.result.shape[at]:
                continue
            size = case.result.shape[at]
            args = [along(x, order, number, size, 0) for x, order in case.arrays()]
            call = case.row.op.with_axes(case.node, args, case.axes.without(number))
            if call is not None:
                same(computed(call), case.result.take(0, axis=at))


@by_operator
def test_axes_may_be_reordered(op: type[Op]) -> None:
    rng = np.random.default_rng(3)
    for case in CASES[op]:
        numbers = {n for order in (case.axes.result, *case.axes.operands) for n in order or ()}
        for _ in range(6):
            after = case.axes.reordered(list(rng.permutation(sorted(numbers))))
            args = [
                x if before is None else x.transpose([before.index(n) for n in order or ()])
                for (x, before), order in zip(case.arrays(), after.operands)
            ]
            call = case.row.op.with_axes(case.node, args, after)
            if call is not None:
                perm = [case.axes.result.index(n) for n in after.result]
                same(computed(call), case.result.transpose(perm))


# -- rules that ask for them -----------------------------------------------------------------------

M = (2, 3, 4)
ONES = np.ones((4, 5), np.float32)
FIRST = [np.array([1]), np.array([2]), np.array([0])]
MOST = [np.array([0]), np.array([2]), np.array([1])]


def turned(x: Any, *perm: int) -> Call:
    return Call("Transpose", (x,), {"perm": perm})


@pytest.mark.parametrize(
    ("rule", "written", "reason"),
    [
        ("CutOperand", ops.slice(ops.relu(M), *FIRST[:2]), ""),
        (
            "CutOperand",
            ops.slice(ops.conv((1, 4, 5, 5), (4, 4, 3, 3)), FIRST[0], FIRST[1], FIRST[0]),
            "it cuts what is computed together",
        ),
        (
            "CutOperand",
            ops.gather(turned(M, 0, 2, 1), np.arange(4), axis=1),
            "it may read everything",
        ),
        (
            "CutOperand",
            ops.gather(ops.gemm((3, 4), ONES), np.array(1), axis=0),
            "Gemm needs its axes as they are",
        ),
        ("CutOperand", ops.slice(ops.slice(M, *FIRST), *FIRST[:2]), "not made for it alone"),
        ("CutOperands", ops.slice(ops.add(ops.relu(M), M), *MOST), "no operand takes work"),
        ("CutOperands", ops.slice(ops.add(ops.mul(M, M), (4,)), *FIRST), "stretched"),
        ("SinkTransposes", ops.concat(turned(M, 1, 0, 2), (3, 1, 4), axis=1), "not transposed"),
        (
            "SinkTransposes",
            ops.concat(turned((1, 2, 3), 0, 2, 1), turned((3, 1, 2), 1, 0, 2), axis=1),
            "the orders differ",
        ),
        (
            "SinkTransposes",
            Call("ReduceSum", (turned(M, 1, 0, 2), np.array([], np.int64))),
            "the axes of ReduceSum are not known",
        ),
        (
            "RemoveTransposesAround",
            turned(turned(M, 2, 1, 0) + np.ones((2, 1, 1, 1), np.float32), 3, 2, 1, 0),
            "Add needs its axes as they are",
        ),
        (
            "RemoveReshapesAround",
            ops.reshape(
                ops.relu(Call("Reshape", ((6, 4), np.array([2, 12]))))
                + np.ones((2, 1), np.float32),
                np.array([6, 4]),
            ),
            "a constant varies over axes that change",
        ),
        (
            "RemoveReshapesAround",
            ops.reshape(
                ops.softmax(Call("Reshape", ((6, 4), np.array([2, 12])))), np.array([6, 4])
            ),
            "the columns are arranged anew",
        ),
    ],
)
def test_what_stays_where_it_is_and_why(rule: str, written: Call, reason: str) -> None:
    said = explain(find_rule(rule), graph_of(written))
    assert any(e.fires for e in said) == (not reason)
    assert any(reason in e.reason for e in said), [e.reason for e in said]


@pytest.mark.parametrize(
    ("rule", "written", "kinds"),
    [
        (
            "CutOperand",
            ops.slice(ops.matmul(M, ONES), np.array([0, 1]), np.array([1, 3]), np.array([1, 2])),
            ["Slice", "MatMul"],
        ),
        (
            "RemoveTransposesAround",
            turned(ops.tanh(turned(M, 2, 1, 0) * 2.0) + turned(M, 2, 1, 0), 2, 1, 0),
            ["Mul", "Tanh", "Add"],
        ),
        (
            "RemoveReshapesAround",
            ops.reshape(
                ops.softmax(ops.matmul(Call("Reshape", (M, np.array([6, 4]))), ONES)),
                np.array([2, 3, 5]),
            ),
            ["MatMul", "Softmax"],
        ),
    ],
)
def test_movement_goes_through_operators_of_many_kinds(
    rule: str, written: Call, kinds: list[str], rng: np.random.Generator
) -> None:
    before, after = graph_of(written), graph_of(written)
    names = {node.name for node in after.nodes}
    for node in after.nodes:
        node.origin = (node.name,)
    Driver([find_rule(rule)]).run(after)
    assert [node.kind for node in after.nodes] == kinds
    assert all(set(node.origin) == names for node in after.nodes)
    feeds = {v.name: rng.random(v.shape, np.float32) for v in before.inputs}
    same(evaluate(after, feeds)["y0"], evaluate(before, feeds)["y0"])


def bent(x: Any) -> Call:
    """Work by elements."""
    return ops.exp(x * 0.3) * ops.tanh(x)


@pytest.mark.parametrize(
    ("rule", "written"),
    [
        ("CutOperand", ops.slice(ops.tanh(M), *FIRST)),
        ("CutOperands", ops.slice(ops.add(ops.mul(M, (4,)), M), *MOST)),
        ("CutOperands", ops.slice(ops.add(ops.relu(M), M), *FIRST)),
        ("SinkTransposes", ops.div(turned(M, 1, 0, 2), turned(M, 1, 0, 2))),
        ("RemoveTransposesAround", turned(bent(turned(M, 2, 1, 0)), 2, 1, 0)),
        (
            "RemoveReshapesAround",
            ops.reshape(bent(Call("Reshape", (M, np.array([6, 4])))), np.array([2, 3, 4])),
        ),
    ],
)
def test_movement_past_work_by_elements_changes_no_bit(
    rule: str, written: Call, rng: np.random.Generator
) -> None:
    before, after = graph_of(written), graph_of(written)
    Driver([find_rule(rule)]).run(after)
    assert [node.kind for node in after.nodes] != [node.kind for node in before.nodes]
    feeds = {v.name: rng.standard_normal(v.shape).astype(np.float32) for v in before.inputs}
    assert evaluate(after, feeds)["y0"].tobytes() == evaluate(before, feeds)["y0"].tobytes()


def test_a_transpose_that_moves_nothing_stays_between_changes_of_shape_or_goes() -> None:
    flat = Call("Reshape", (M, np.array([6, 4])))
    graph = graph_of(ops.reshape(turned(flat, 0, 1), np.array([2, 3, 4])))
    Driver([find_rule("RemoveReshapesAround")]).run(graph)
    assert not any(node.kind == "Transpose" for node in graph.nodes)


def test_a_transpose_of_another_domain_is_no_transpose() -> None:
    foreign = Call("Transpose", (M,), {"perm": (2, 1, 0)}, domain="my")
    graph = graph_of(turned(ops.tanh(foreign), 2, 1, 0))
    assert not Driver([find_rule("RemoveTransposesAround")]).run(graph)
