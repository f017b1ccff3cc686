"""Normalizations of sums: one kernel adds, normalizes, and stores the sum where others read it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import infuse
from infuse.build.compile import compile_graph
from infuse.build.staged import generate
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Value
from infuse.options import CompileOptions
from infuse.targets import Target
from tests.native.builder import Builder, planned
from tests.native.foreign import needs_emulator, run_foreign
from tests.native.joined_kernels import SIZES, labels, witnessed
from tests.native.kernel_tools import seldom, targets
from tests.support.lowered import run_lowered

pytestmark = pytest.mark.row("C8")


def agree(results: dict[str, Any], graph: Graph, feeds: dict[str, Any]) -> None:
    """Beside ONNX Runtime and the operators' meaning, up to float32's rounding of sums: a part of
    the largest element.
    """
    for name, expected in witnessed(graph, feeds):
        bound = 1e-5 * float(np.abs(expected).max())
        np.testing.assert_allclose(results[name], expected, 1e-5, bound, err_msg=name)


def normalized(b: Builder, x: Value, kind: str = "LayerNormalization") -> Value:
    width = x.shape[-1]
    assert isinstance(width, int)
    bias = [b.weight(width)] if kind == "LayerNormalization" else []
    return b(kind, x, b.weight(width), *bias, axis=-1)


def rows(b: Builder, width: int, *names: str, symbolic: bool = True) -> list[Value]:
    shape: tuple[Dim | str, ...] = ("n", "length", width) if symbolic else (3, 5, width)
    return [b.input(*shape, name=name) for name in names]


def pre_norm(kind: str, width: int = 37, symbolic: bool = True) -> Graph:
    """x + skip + bias, which is normalized, read again by the sum behind a product, and an
    output.
    """
    b = Builder("pre_norm")
    x, skip = rows(b, width, "x", "skip", symbolic=symbolic)
    total = b("Add", b("Add", x, skip), b.weight(width))
    made = b("MatMul", normalized(b, total, kind), b.weight(width, width))
    b.output(b("Add", made, total), total)
    return b.graph


def embeddings() -> Graph:
    """Three tables added up, of which nobody but the normalization reads the sum."""
    b = Builder("embeddings")
    x, y = rows(b, 24, "x", "y")
    b.output(b("Relu", normalized(b, b("Add", b("Mul", x, y), b.weight(24)))))
    return b.graph


def wide() -> Graph:
    """Rows that the kernel normalizes one by one."""
    b = Builder("wide")
    x, y = rows(b, 2100, "x", "y")
    total = b("Add", x, y)
    b.output(normalized(b, total), total)
    return b.graph


def two_norms() -> Graph:
    """A parallel block: both branches normalize the sum."""
    b = Builder("parallel")
    x, y = rows(b, 20, "x", "y")
    total = b("Add", x, y)
    first = b("MatMul", normalized(b, total), b.weight(20, 20))
    second = b("MatMul", normalized(b, total), b.weight(20, 20))
    b.output(b("Add", b("Add", total, first), second))
    return b.graph


def gated() -> Graph:
    """A mask of booleans and a gate before the norm, whose epilogue reads an operand again."""
    b = Builder("gated")
    x, y = rows(b, 33, "x", "y", symbolic=False)
    x, y = b("Tanh", b("CumSum", x, np.array(1))), b("CumSum", y, np.array(1))
    total = b("Where", b("Greater", x, y), b("Mul", x, b("Sigmoid", y)), y)
    b.output(b("Add", normalized(b, total), x), b("CumSum", total, np.array(0)))
    return b.graph


GRAPHS: dict[str, Callable[[], Graph]] = {
    "layer": partial(pre_norm, "LayerNormalization"),
    "root mean square": partial(pre_norm, "RMSNormalization"),
    "wide": wide,
    "one element": partial(pre_norm, "RMSNormalization", 1),
    "embeddings": embeddings,
    "two norms": two_norms,
    "gated": gated,
}


@pytest.mark.parametrize("kind", ["LayerNormalization", "RMSNormalization"])
@pytest.mark.parametrize("symbolic", [True, False])
def test_a_sum_and_its_normalization_are_one_kernel(kind: str, symbolic: bool) -> None:
    assert labels(pre_norm(kind, symbolic=symbolic)) == [f"Add + Add + {kind}", "MatMul + Add"]


def test_a_sum_that_nobody_else_reads_is_not_stored() -> None:
    program, _ = generate(embeddings(), Target.resolve("native"))
    (step,) = program.steps
    assert step.label == "Mul + Add + LayerNormalization + Relu"
    assert len(step.writes) == 1


def test_the_first_normalization_makes_the_sum() -> None:
    kernels = labels(two_norms())
    assert kernels[0] == "Add + LayerNormalization"
    assert kernels.count("LayerNormalization") == 1


def test_a_sum_in_the_epilogue_of_a_product_stays_there() -> None:
    """A post-norm block: the product adds bias and skip in registers."""
    b = Builder("post_norm")
    x, skip = rows(b, 24, "x", "skip")
    made = b("Add", b("MatMul", x, b.weight(24, 24)), b.weight(24))
    b.output(normalized(b, b("Add", made, skip)))
    assert labels(b.graph) == ["MatMul + Add + Add", "LayerNormalization"]


def test_a_sum_that_is_needed_before_is_a_kernel() -> None:
    b = Builder("before")
    x, y = rows(b, 24, "x", "y")
    total = b("Add", x, y)
    gate = b("ReduceMax", total, [-1])
    b.output(normalized(b, total), gate)
    assert labels(b.graph) == ["Add", "ReduceMax", "LayerNormalization"]


def test_a_large_constant_that_is_added_is_read_by_a_kernel_of_its_own() -> None:
    b = Builder("positions")
    (x,) = rows(b, 24, "x", symbolic=False)
    total = b("Add", x, b.weight(3, 5, 24))
    b.output(b("Add", b("MatMul", normalized(b, total), b.weight(24, 24)), total))
    assert labels(b.graph) == ["Add", "LayerNormalization", "MatMul + Add"]


def test_operands_that_do_not_lie_in_rows_are_added_first() -> None:
    b = Builder("turned")
    x = b.input(2, 24, 5, name="x")
    b.output(normalized(b, b("Relu", b("Transpose", x, perm=(0, 2, 1)))))
    assert labels(b.graph)[-1] == "LayerNormalization"
    with compile_graph(b.graph) as model:
        feeds = b.feeds()
        agree(model.run(feeds), b.graph, feeds)


def test_a_sum_that_a_branch_reads_is_a_kernel() -> None:
    """Bodies of control flow read it where it lies."""
    true, false = (
        helper.make_graph([node], name, [], [output])
        for node, name, output in (
            (helper.make_node("Neg", ["s"], ["a"]), "then", _float("a", None)),
            (helper.make_node("Abs", ["s"], ["b"]), "else", _float("b", None)),
        )
    )
    nodes = [
        helper.make_node("Add", ["x", "y"], ["s"]),
        helper.make_node("LayerNormalization", ["s", "g"], ["n"]),
        helper.make_node("If", ["c"], ["i"], then_branch=true, else_branch=false),
        helper.make_node("Add", ["n", "i"], ["z"]),
    ]
    inputs = [_float("x", ["n", 8]), _float("y", ["n", 8]), _float("g", [8])]
    inputs.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    graph = _loaded(nodes, inputs, [_float("z", ["n", 8])])
    with compile_graph(graph) as model:
        feeds = Builder.feeds(_as_builder(graph), {"n": 3}) | {"c": np.array(True)}
        agree(model.run(feeds), graph, feeds)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("target", [*targets(()), *seldom("x86-64-v4")])
def test_results_are_those_of_witnesses(graph: str, target: str) -> None:
    made = GRAPHS[graph]()
    with compile_graph(made, CompileOptions(target=target, threads=2)) as model:
        sizes = [SIZES, {"n": 1, "length": 1}, {"n": 9, "length": 7}]
        for each in sizes if model.inputs[0].shape[0] == "n" else sizes[:1]:
            feeds = _as_builder(made).feeds(each)
            agree(model.run(feeds), made, feeds)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "x86-64-v4", "aarch64"])
def test_kernels_are_given_what_their_nodes_mean(graph: str, target: str) -> None:
    made = GRAPHS[graph]()
    run_lowered(made, Target.resolve(target), _as_builder(made).feeds(SIZES))


def test_a_plan_with_sums_in_place_is_safe() -> None:
    b = Builder("plan")
    x, y = rows(b, 16, "x", "y", symbolic=False)
    for _ in range(3):
        x = b("Add", x, y)
        y = b("CumSum", normalized(b, x), np.array(1))
    b.output(b("ReduceMax", x, [-1]), b("ReduceMax", y, [-1]))
    planned(b.graph)
    assert labels(b.graph).count("Add + LayerNormalization") == 3


@needs_emulator
def test_a_sum_is_normalized_on_another_machine(tmp_path: Path) -> None:
    graph = pre_norm("LayerNormalization")
    model = compile_graph(graph, CompileOptions(target="aarch64"), output=tmp_path / "model")
    feeds = _as_builder(graph).feeds(SIZES)
    found = run_foreign(model, feeds, tmp_path, 2)  # type: ignore[arg-type]
    agree(found, graph, feeds)


# -- operators of com.microsoft --------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_a_skip_normalization_is_one_kernel(kind: str, bias: bool) -> None:
    """With the sum as its last output."""
    scales = ["gamma", "beta"] if kind == "SkipLayerNormalization" else ["gamma"]
    operands = ["x", "skip", *scales, *(["bias"] if bias else [])]
    node = helper.make_node(
        kind, operands, ["z", "", "", "sum"], domain="com.microsoft", epsilon=1e-5
    )
    shape = ["n", "length", 24]
    inputs = [_float(name, shape if name in ("x", "skip") else [24]) for name in operands]
    graph = _loaded([node], inputs, [_float("z", shape), _float("sum", shape)])
    optimized = infuse.optimize(graph)
    assert len(labels(optimized)) == 1
    with compile_graph(optimized) as model:
        feeds = _as_builder(graph).feeds(SIZES)
        agree(model.run(feeds), graph, feeds)


def _float(name: str, shape: list[Any] | None) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _loaded(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> Graph:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs), opset_imports=opsets, ir_version=8
    )
    return infuse.load(model)


def _as_builder(graph: Graph) -> Builder:
    """What makes random inputs of a graph."""
    b = Builder()
    b.graph = graph
    return b
