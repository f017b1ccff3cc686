"""The search beyond rules: what it does to graphs, and how it is asked for."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import ops
from infuse.errors import OptionError
from infuse.ir.clone import clone
from infuse.ir.graph import Graph
from infuse.ir.printer import print_graph
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate
from infuse.passes.verification import relative_difference, tolerance
from infuse.search import EQUALITIES, Bounds, improve
from infuse.search.egraph import EGraph
from infuse.search.equalities.base import Equal, Equality
from infuse.search.saturation import saturate
from infuse.search.terms import Term
from infuse.testing.patterns import graph_of
from tests.cli_tools import Cli
from tests.pure.rewriting import kinds
from tests.pure.search_cases import CASES, X, Y, Z, case_graph, conv, weights
from tests.pure.searched import ENOUGH, SlowCalls, agree, region_of
from tests.support.generators.networks import random_network

# -- what it does to graphs ------------------------------------------------------------------------


def improved(name: str, prices: Any = None) -> tuple[Graph, Any]:
    graph = infuse.optimize(case_graph(name))
    original = clone(graph)
    found = improve(graph, 600, prices=prices)
    verify(graph)
    agree(original, graph, {v.name: weights(*v.shape) for v in graph.inputs})  # type: ignore[arg-type]
    return graph, found


@pytest.mark.row("G37")
def test_products_of_one_image_become_one_past_a_pooling() -> None:
    before = kinds(infuse.optimize(case_graph("branches")))
    graph, found = improved("branches", SlowCalls())
    assert before.count("Conv") == 4
    assert kinds(graph).count("Conv") == 2
    assert "AveragePool" in kinds(graph)
    (improvement,) = found.improvements
    assert {"pool_before_product", "products_at_once", "pointwise_at_once"} <= set(
        improvement.equalities
    )
    assert improvement.after < improvement.before
    assert improvement.difference < 1e-6
    assert {name.split("(")[0] for name in improvement.removed} >= {"Conv", "AveragePool"}


@pytest.mark.row("G37")
def test_a_sum_of_products_becomes_a_product_of_both() -> None:
    graph, found = improved("residual", SlowCalls())
    assert kinds(graph).count("Conv") == 1
    assert "sum_of_products" in found.improvements[0].equalities


@pytest.mark.row("G37")
def test_a_chain_is_multiplied_the_cheaper_way() -> None:
    low, high = weights(64, 2), weights(2, 64, seed=1)
    graph = graph_of(ops.matmul(X, ops.matmul(Y, Z)), x=(1, 64), y=(64, 64), z=(64, 64))
    found = improve(graph, 600)
    assert len(found.improvements) == 1
    first, second = graph.nodes
    assert first.inputs[0] is graph.inputs[0]
    assert second.inputs[0] is first.output
    graph = graph_of(ops.matmul(ops.matmul(X, low), high), x=(256, 64))
    assert not improve(graph, 600).improvements, "one matrix of both costs more"


def test_what_costs_more_is_refused() -> None:
    """A 1×1 convolution as a 3×3 one beside another: nine times the work."""
    results = (conv(X, 64, 64, 1, 1), conv(X, 64, 64, 3, 3, pads=(1, 1, 1, 1)))
    graph = graph_of(ops.concat(*results, axis=1), x=(1, 64, 32, 32))
    before = print_graph(graph)
    region = region_of(graph)
    saturate(region.g, ENOUGH)
    assert "points_as_windows" in {reason.equality for reason in region.g.reasons.values()}
    found = improve(graph, 600)
    assert (found.improvements, found.is_complete) == ([], True)
    assert print_graph(graph) == before
    assert graph.report.search is found
    assert not graph.report.rewrites


def test_what_is_found_is_reported() -> None:
    graph, found = improved("residual", SlowCalls())
    facts = graph.report.to_dict()
    assert facts["search"]["improvements"][0]["equalities"] == found.improvements[0].equalities
    (rewrite,) = [r for r in facts["rewrites"] if r["rule"] == "Search"]
    assert "sum_of_products" in rewrite["note"]
    assert "µs" in rewrite["note"]
    assert rewrite["removed"]
    assert rewrite["created"]
    assert "1 improvement" in str(found)
    assert sum(graph.report.after.values()) == len(graph)


def test_a_wrong_equality_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(g: EGraph, at: int, term: Term) -> Iterator[Equal]:
        yield Equal(at, term.args[0])

    monkeypatch.setitem(
        EQUALITIES, "wrong", Equality("wrong", "x · w = x", frozenset(["MatMul"]), wrong)
    )
    graph = infuse.optimize(graph_of(ops.relu(ops.matmul(X, weights(4, 4)) - weights(4)), x=(3, 4)))
    before = print_graph(graph)
    with pytest.warns(RuntimeWarning, match="by wrong was dropped: value .* differs by"):
        found = improve(graph, 600, prices=SlowCalls(), bounds=Bounds(3, 100))
    assert not found.improvements
    assert "wrong" in found.notes[0]
    assert print_graph(graph) == before


@pytest.mark.row("G37")
@pytest.mark.parametrize("seed", range(24))
def test_random_networks_compute_the_same(seed: int) -> None:
    network = random_network(seed, 30)
    if network.extreme:
        network = random_network(seed + 1000, 30)
    graph = infuse.optimize(network.graph)
    original = clone(graph)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        improve(graph, 600, prices=SlowCalls(), bounds=Bounds(4, 600))
    verify(graph)
    for feeds in network.feeds:
        before, after = evaluate(original, feeds), evaluate(graph, feeds)
        for name, wanted in before.items():
            if isinstance(wanted, np.ndarray):
                assert (
                    relative_difference(after[name], wanted) <= 100 * tolerance(wanted)
                    or network.extreme
                )


@pytest.mark.parametrize("name", CASES)
def test_cases_compute_the_same_by_any_prices(name: str) -> None:
    improved(name)
    improved(name, SlowCalls())


# -- the public surface ----------------------------------------------------------------------------


def test_optimize_takes_seconds() -> None:
    better = infuse.optimize(case_graph("residual"), infuse.Rules(search=600))
    assert better.report.search.is_complete
    assert infuse.optimize(case_graph("residual")).report.search is None
    with pytest.raises(OptionError, match="search is -1"):
        infuse.optimize(case_graph("residual"), infuse.Rules(search=-1))


def test_the_command_line_takes_seconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli = Cli(capsys)
    source, target = tmp_path / "small.onnx", tmp_path / "better.onnx"
    infuse.save(
        graph_of(ops.matmul(X, ops.matmul(Y, Z)), x=(1, 64), y=(64, 64), z=(64, 64)), source
    )
    facts = cli("optimize", source, "-o", target, "--search", "600", "--json").json
    assert facts["search"]["improvements"][0]["equalities"] == ["associate"]
    assert facts["verification"]["checked"]
    text = cli("optimize", source, "-o", target, "--search", "600", "--explain").out
    assert "associate" in text
    assert "1 improvement" in text
    assert "search" not in cli("optimize", source, "-o", target, "--json").json
    assert "search is -1" in cli.refused("optimize", source, "-o", target, "--search", "-1")
