"""Operators with a body: what follows from it."""

import numpy as np
import pytest

from infuse import dtypes
from infuse.errors import ShapeError, TypeMismatchError
from infuse.ir import dims, tensor
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.types import UNKNOWN, TensorType
from infuse.lowering.expand import expand
from infuse.ops.core.evaluate import evaluate
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.domains.microsoft import BiasSoftmax, FusedConv, FusedGemm, FusedMatMul
from infuse.ops.domains.microsoft_attention import Attention, MultiHeadAttention

RNG = np.random.default_rng(0)


def node_of(op: object, *types: TensorType, outputs: int = 1) -> Node:
    inputs = [Value(type, f"x{i}") for i, type in enumerate(types)]
    results = [Value(UNKNOWN, f"y{i}") for i in range(outputs)]
    return Node(op, inputs, results, name="call")  # type: ignore[arg-type]


def test_symbolic_sizes_go_through_the_body() -> None:
    node = node_of(
        FusedMatMul(transA=1), tensor(dtypes.float32, "b", "k", "n"), tensor(dtypes.float32, "k", 5)
    )
    assert str(node.op.infer_types(node)[0]) == "float32[b, n, 5]"


def test_unknown_ranks_give_unknown_ranks() -> None:
    unknown = TensorType(dtypes.float16, None)
    node = node_of(MultiHeadAttention(num_heads=2), unknown, unknown, unknown, outputs=4)
    assert node.op.infer_types(node) == (unknown,) * 4


def test_a_graph_around_is_not_changed() -> None:
    node = node_of(
        BiasSoftmax(is_inner_broadcast=1), tensor(dtypes.float32, 2, 3), tensor(dtypes.float32, 3)
    )
    node.op.infer_types(node)
    assert all(len(value.uses) == 1 for value in node.operands())


def test_errors_name_the_operator() -> None:
    node = node_of(FusedGemm(), tensor(dtypes.float32, 2, 3), tensor(dtypes.float32, 4, 5))
    with pytest.raises(ShapeError, match=r"FusedGemm node 'call': .*Gemm.*3 and 4"):
        node.op.infer_types(node)
    node = node_of(FusedMatMul(), tensor(dtypes.int32, 2, 3), tensor(dtypes.int32, 3, 5))
    with pytest.raises(TypeMismatchError, match="FusedMatMul takes floating"):
        node.op.infer_types(node)


def test_halves_are_rounded_once() -> None:
    x = RNG.normal(size=(1, 4, 6, 6)).astype(np.float16)
    w = RNG.normal(size=(3, 4, 3, 3)).astype(np.float16)
    op = FusedConv(activation="Sigmoid")
    exact = op.eval(x.astype(np.float32), w.astype(np.float32))
    np.testing.assert_array_equal(op.eval(x, w), exact.astype(np.float16))


def test_arithmetic_is_that_of_the_body_for_the_results_asked_for() -> None:
    shapes = [(2, 3, 6), (6, 24)], [dtypes.float32] * 2
    one = Attention(num_heads=2).flops(Shapes(shapes[0], [(2, 3, 8)], shapes[1]))
    assert one is not None
    assert one.macs == 2 * 3 * 6 * 24 + 2 * 2 * 3 * 3 * (4 + 4)
    symbolic = [(dims.symbol("n"), 3), (3, 5)]
    product = FusedMatMul().flops(Shapes(symbolic, [(dims.symbol("n"), 5)], shapes[1]))
    assert product == Flops(dims.symbol("n") * 15, 0)


def test_code_generation_writes_the_body() -> None:
    graph = Graph()
    a, b = (
        graph.add_input("a", tensor(dtypes.float32, 2, 3)),
        graph.add_input("b", tensor(dtypes.float32, 3, 5)),
    )
    node = graph.add_node(Node(FusedGemm(activation="Relu"), [a, b], [Value(UNKNOWN, "y")]))
    node.op.infer_node(node)
    graph.add_output(node.output)
    expanded = expand(graph)[0]
    assert [each.kind for each in expanded.nodes] == ["Gemm", "Relu"]
    feeds = {v.name: RNG.normal(size=v.shape).astype(np.float32) for v in graph.inputs}
    np.testing.assert_array_equal(evaluate(expanded, feeds)["y"], evaluate(graph, feeds)["y"])
