"""What operators rely on is stated beside `infer`, and code generation makes checks of it."""

from typing import Any

import numpy as np
import pytest

import infuse.targets.cpu.lower  # noqa: F401  registers the lowerings
from infuse import dtypes, ops
from infuse.build.staged import lower_graph
from infuse.errors import ShapeError
from infuse.ir import dims
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.relations import Relation, must_equal, must_hold, relations
from infuse.ir.types import TensorType, tensor
from infuse.lowering.liveness import relations_of
from infuse.ops.core.base import Op
from infuse.targets import Target
from infuse.testing.samples import rows
from tests.support.hostile import cases, unchecked

OPS = [op for _, op in sorted(ops.REGISTRY.items()) if op.samples]
AT_RUN_TIME = {
    "AffineGrid": "sizes are elements",
    "Col2Im": "sizes are elements",
    "Compress": "elements say how many are taken",
    "Expand": "sizes are elements",
    "GroupQueryAttention": "elements say how many keys there are",
    "MaxRoiPool": "the image of a region is an element",
    "MaxUnpool": "sizes are elements",
    "PagedAttention": "rows and pages of sequences are elements",
    "Reshape": "sizes are elements",
    "RotaryEmbedding": "places in the tables are elements",
    "STFT": "the step and the length are elements",
    "Split": "sizes are elements",
    "Squeeze": "axes are elements",
}
"""Operators whose kernels, or the steps before them, check at run time what elements say about
sizes.
"""

n, m = dims.symbol("n"), dims.symbol("m")


def name(op: type[Op]) -> str:
    return f"{op.domain}::{op.name}" if op.domain else op.name


@pytest.mark.row("R1")
@pytest.mark.parametrize("op", OPS, ids=name)
def test_sizes_that_an_operator_refuses_break_a_relation(op: type[Op]) -> None:
    for row in rows(op, np.random.default_rng(1))[:6]:
        for case in cases(row):
            refused = next(unchecked(case, np.random.default_rng(3)), None)
            if refused is not None and op.name not in AT_RUN_TIME:
                shapes = {key: x.shape for key, x in refused.items()}
                stated = ", ".join(map(str, case.relations))
                pytest.fail(f"{case}: nothing refuses {shapes}; stated are: {stated}")


def test_the_list_of_what_is_checked_at_run_time_is_needed() -> None:
    """An operator whose sizes are all checked beforehand leaves the list."""
    for op in OPS:
        if op.name not in AT_RUN_TIME or op.domain:
            continue
        every = (case for row in rows(op, np.random.default_rng(1)) for case in cases(row))
        assert (
            any(any(unchecked(case, np.random.default_rng(3))) for case in every)
            or op.name == "RotaryEmbedding"
        )


def scatter(indices: tuple[Any, ...], axis: int = 0) -> Node:
    graph = Graph("one")
    shapes = ((n, m), indices, indices)
    kinds = (dtypes.float32, dtypes.int64, dtypes.float32)
    values = [
        graph.add_input(f"x{i}", tensor(k, *s)) for i, (k, s) in enumerate(zip(kinds, shapes))
    ]
    op = ops.REGISTRY["", "ScatterElements"](axis=axis)
    node = graph.add_node(Node(op, values, [Value(TensorType(dtypes.float32, None))], name="write"))
    node.op.infer_node(node)
    graph.add_output(node.output, "y")
    return node


def test_indices_may_be_longer_along_their_own_axis_only() -> None:
    rows_, columns = dims.symbol("rows"), dims.symbol("columns")
    assert Relation("<=", columns, m) in relations_of(scatter((rows_, columns), axis=0))
    assert Relation("<=", rows_, n) in relations_of(scatter((rows_, columns), axis=1))
    assert Relation("<=", columns, m) not in relations_of(scatter((rows_, columns), axis=1))


def test_relations_become_checks_before_the_run() -> None:
    node = scatter((dims.symbol("rows"), dims.symbol("columns")))
    assert node.graph is not None
    program = lower_graph(node.graph, Target.resolve("native"))
    assert [text for _, text in program.checks] == [
        "ScatterElements node 'write' needs columns <= m"
    ]


def test_what_an_expanded_operator_relied_on_is_checked_still() -> None:
    graph = Graph("loss")
    scores = graph.add_input("scores", tensor(dtypes.float32, n, 5))
    classes = graph.add_input("classes", tensor(dtypes.int64, m))
    op = ops.REGISTRY["", "NegativeLogLikelihoodLoss"](reduction="none")
    node = graph.add_node(
        Node(op, [scores, classes], [Value(TensorType(dtypes.float32, None))], name="loss")
    )
    node.op.infer_node(node)
    graph.add_output(node.output, "y")
    checks = lower_graph(graph, Target.resolve("native")).checks
    assert any(text.startswith("NegativeLogLikelihoodLoss node 'loss' needs") for _, text in checks)


def test_relations_are_collected_where_types_leave_them_open() -> None:
    with relations() as collected:
        assert must_equal(n, m)
        assert must_hold(3, "<=", n)
        assert must_hold(0, "<=", n)  # every size is
        assert not must_hold(n + 1, "<=", n)
        assert not must_equal(2, 3)
    assert collected == [Relation("==", n, m), Relation("<=", 3, n)]


def test_a_relation_reads_as_one_would_say_it() -> None:
    assert str(Relation("==", n, dims.minimum(512, n))) == "n <= 512"
    assert str(Relation("==", dims.maximum(n, m), n)) == "n >= m"
    assert str(Relation("==", n, m)) == "n = m"
    assert str(Relation("<=", n, m + 1)) == "n <= m + 1"


def test_sizes_that_cannot_be_are_refused_at_once() -> None:
    with pytest.raises(ShapeError, match="ScatterElements at axis 1"):
        scatter((2, m + 1))
