"""Products of one tensor with several weights become one product, where that is fewer nodes."""

from typing import Any

import numpy as np
import pytest

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Graph, constant
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate
from infuse.passes import products
from infuse.passes.products import MergeProducts
from infuse.rewrite import Report
from infuse.testing.patterns import graph_of
from tests.pure.rewriting import kinds, with_branch

X = Variable("x")
RNG = np.random.default_rng(7)


def weights(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def merged(*results: Call, x: Any = (2, 3, 4)) -> tuple[list[str], Report]:
    """Operators after the pass, which computes the same."""
    graph = graph_of(*results, x=x)
    feeds = {"x": weights(*x)}
    before = evaluate(graph, feeds)
    report = Report()
    MergeProducts().run(graph, report)
    verify(graph)
    after = evaluate(graph, feeds)
    for name, wanted in before.items():
        np.testing.assert_allclose(after[name], wanted, rtol=1e-5, atol=1e-5)
    return sorted(kinds(graph)), report


@pytest.mark.row("G15")
@pytest.mark.row("G33")
def test_three_products_are_one() -> None:
    found, report = merged(*(ops.matmul(X, weights(4, n)) for n in (5, 5, 2)))
    assert found == ["MatMul", "Split"]
    assert report.rewrites[0].saved == 1


def test_biases_are_added_at_once() -> None:
    found, _ = merged(
        ops.matmul(X, weights(4, 5)) + weights(5), weights(1, 3) + ops.matmul(X, weights(4, 3))
    )
    assert found == ["Add", "MatMul", "Split"]


def test_a_product_without_bias_gets_zeros() -> None:
    found, _ = merged(
        *(ops.matmul(X, weights(4, 5)) for _ in "ab"), ops.matmul(X, weights(4, 5)) + weights(5)
    )
    assert found == ["Add", "MatMul", "Split"]


@pytest.mark.parametrize("transposed", [0, 1])
def test_matrices_with_biases_are_one(transposed: int) -> None:
    shapes = [(6, 4), (2, 4), (3, 4)] if transposed else [(4, 6), (4, 2), (4, 3)]
    biases = [weights(6), weights(2), None]
    calls = [
        ops.gemm(X, weights(*shape), *([] if bias is None else [bias]), transB=transposed)
        for shape, bias in zip(shapes, biases)
    ]
    assert merged(*calls, x=(3, 4))[0] == ["Gemm", "Split"]


@pytest.mark.parametrize(
    "results",
    [
        (ops.matmul(X, weights(4, 5)), ops.matmul(X, weights(4, 5))),
        (ops.matmul(X, weights(4, 5)), ops.matmul(X, weights(4, 5)) + weights(5)),
        (
            ops.matmul(X, weights(4, 5)) + weights(3, 1),
            ops.matmul(X, weights(4, 5)) + weights(3, 1),
        ),
        tuple(ops.matmul(ops.relu(X), weights(4, 5)) for _ in "abc"),
        tuple(ops.gemm(ops.relu(X), weights(4, 5), alpha=0.5) for _ in "abc"),
    ],
    ids=["two", "one bias", "biases of rows", "three tensors", "scaled"],
)
def test_what_saves_nothing_stays(results: tuple[Call, ...]) -> None:
    found, report = merged(*results, x=(3, 4))
    assert not report.rewrites, found


def test_shared_and_large_weights_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = constant(weights(4, 5))
    monkeypatch.setattr(products, "SHARED_LIMIT", 16)
    assert not merged(*(ops.matmul(X, shared) for _ in "abc"))[1].rewrites
    monkeypatch.setattr(products, "MERGED_LIMIT", 100)
    assert not merged(*(ops.matmul(X, weights(4, 5)) for _ in "abc"))[1].rewrites


def test_the_limit_counts_all_weights_of_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "TOTAL_LIMIT", 400)
    other = ops.relu(X)
    found, report = merged(*(ops.matmul(x, weights(4, 5)) for x in (X, other) for _ in "abc"))
    assert found.count("MatMul") == 1 + 3
    assert len(report.rewrites) == 1


def test_the_limit_holds_over_several_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "TOTAL_LIMIT", 400)
    other = ops.relu(X)
    graph = graph_of(
        *(ops.matmul(x, weights(4, 5)) for x in (X, other) for _ in "abc"), x=(2, 3, 4)
    )
    report, merge = Report(), MergeProducts()
    for _ in range(3):
        merge.run(graph, report)
    assert len(report.rewrites) == 1


def test_products_inside_a_branch_are_merged_there() -> None:
    outer, body = with_branch(lambda x: ops.sum(*(ops.matmul(x, weights(3, 2)) for _ in "abc")))
    MergeProducts().run(outer, Report())
    verify(outer)
    assert sorted(kinds(body)) == ["MatMul", "Split", "Sum"]
    assert isinstance(outer, Graph)
