"""Rules about linear operators at work together, on blocks of well-known networks."""

from typing import Any

import numpy as np
import pytest

from infuse import dtypes, ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Graph
from infuse.ir.types import tensor
from infuse.ops.core.evaluate import evaluate
from infuse.ops.core.sizes import int64s
from infuse.passes.run import optimize_in_place
from infuse.passes.selection import Selection
from infuse.rewrite import Report
from infuse.testing.patterns import graph_of

X = Variable("x")
SAME = {"pads": (1, 1, 1, 1)}


def weights(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def statistics(channels: int, seed: int = 0) -> list[Any]:
    """Scale, shift, mean and variance of a BatchNormalization."""
    return list(np.random.default_rng(seed).uniform(0.5, 1.5, (4, channels)).astype(np.float32))


def optimized(graph: Graph, level: str = "extended") -> Report:
    """The report of an optimization that did not change the result."""
    rng = np.random.default_rng(1)
    shapes = {v.name: [d if isinstance(d, int) else 3 for d in v.shape] for v in graph.inputs}
    feeds = {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    before = evaluate(graph, feeds)["y0"]
    report = optimize_in_place(graph, Selection(level))
    np.testing.assert_allclose(evaluate(graph, feeds)["y0"], before, rtol=1e-4, atol=1e-4)
    return report


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.nodes]


@pytest.mark.row("G26")
def test_the_three_branches_of_a_repvgg_block_are_one_convolution() -> None:
    large = ops.batch_normalization(Call("Conv", (X, weights(8, 8, 3, 3)), SAME), *statistics(8))
    small = ops.batch_normalization(Call("Conv", (X, weights(8, 8, 1, 1))), *statistics(8, 1))
    graph = graph_of(
        ops.relu((large + small) + ops.batch_normalization(X, *statistics(8, 2))), x=(1, 8, 6, 6)
    )
    optimized(graph)
    assert kinds(graph) == ["Conv", "Relu"]


@pytest.mark.row("G14", "G25")
def test_a_transition_of_densenet_pools_first() -> None:
    inner = Call("Conv", (ops.relu(X), weights(4, 8, 1, 1)))
    graph = graph_of(ops.average_pool(inner, kernel_shape=(2, 2), strides=(2, 2)), x=(1, 8, 6, 6))
    report = optimized(graph, "basic")
    assert kinds(graph) == ["Relu", "AveragePool", "Conv"]
    assert "32 multiplications for each pixel of AveragePool" in report.rewrites[0].note


@pytest.mark.row("G14", "G21")
@pytest.mark.parametrize("columns", [2, 40])
def test_a_head_is_one_product_where_that_is_cheaper(columns: int) -> None:
    pooled = Call("Conv", (ops.global_average_pool(X), weights(4, 8, 1, 1), weights(4)))
    graph = graph_of(
        ops.gemm(ops.flatten(pooled), weights(4, columns, seed=1), weights(columns)),
        x=tensor(dtypes.float32, "n", 8, 5, 5),
    )
    report = optimized(graph, "basic")
    assert kinds(graph).count("Conv") == 1
    assert kinds(graph).count("Gemm") == (0 if columns == 2 else 1)
    assert any("40 multiplications a row became 16" in r.note for r in report.rewrites) is (
        columns == 2
    )


@pytest.mark.row("G21")
def test_a_low_rank_product_stays_factored() -> None:
    graph = graph_of(ops.matmul(ops.matmul(X, weights(64, 4)), weights(4, 64)), x=(2, 3, 64))
    assert not optimized(graph).fired["MergeMatMuls"]
    wide = graph_of(ops.matmul(ops.matmul(X, weights(8, 64)), weights(64, 8)), x=(2, 3, 8))
    report = optimized(wide)
    assert kinds(wide) == ["MatMul"]
    assert report.rewrites[0].note == "1024 multiplications a row became 64"


@pytest.mark.row("G16")
def test_the_layer_scale_of_a_convnext_block_goes_into_its_last_product() -> None:
    product = ops.matmul(X, weights(4, 6)) + weights(6)
    graph = graph_of(ops.transpose(product, perm=(0, 3, 1, 2)) * weights(6, 1, 1), x=(1, 5, 5, 4))
    optimized(graph, "basic")
    assert kinds(graph) == ["MatMul", "Add", "Transpose"]


@pytest.mark.row("G23")
def test_the_focus_of_a_detector_is_one_rearrangement() -> None:
    rows = [ops.slice(X, int64s(i), int64s(99), int64s(2), int64s(2)) for i in (0, 1)]
    parts = [
        ops.slice(row, int64s(j), int64s(99), int64s(3), int64s(2)) for j in (0, 1) for row in rows
    ]
    graph = graph_of(
        Call("Conv", (ops.concat(*parts, axis=1), weights(4, 12, 3, 3)), SAME), x=(1, 3, 8, 8)
    )
    optimized(graph, "basic")
    assert kinds(graph) == ["SpaceToDepth", "Conv"]


@pytest.mark.row("G23")
def test_a_channel_shuffle_before_a_convolution_costs_nothing() -> None:
    cut = ops.reshape(X, int64s(1, 2, 4, 5, 5))
    shuffled = ops.reshape(ops.transpose(cut, perm=(0, 2, 1, 3, 4)), int64s(1, 8, 5, 5))
    graph = graph_of(Call("Conv", (shuffled, weights(4, 8, 1, 1))), x=(1, 8, 5, 5))
    optimized(graph, "basic")
    assert kinds(graph) == ["Conv"]


@pytest.mark.row("G28")
@pytest.mark.parametrize(
    ("slopes", "level", "kind"), [((1,), "basic", "LeakyRelu"), ((4, 1, 1), "all", "PRelu")]
)
def test_a_prelu_of_keras_is_one_operator(slopes: tuple[int, ...], level: str, kind: str) -> None:
    graph = graph_of(ops.relu(X) + ops.relu(-X) * -np.abs(weights(*slopes)), x=(2, 4, 3, 3))
    optimized(graph, level)
    assert kinds(graph) == [kind]


@pytest.mark.row("G26")
@pytest.mark.parametrize("expression", [X - X, X / X, X * 0.0])
def test_what_is_not_the_same_for_nan_is_left_alone(expression: Call) -> None:
    graph = graph_of(expression, x=(3,))
    optimize_in_place(graph, Selection("all"))
    special = np.array([np.nan, np.inf, 1], dtype=np.float32)
    found = evaluate(graph, {"x": special})["y0"]
    assert np.isnan(found[:2]).all()
    assert found[2] in (0, 1)
