"""The search beyond rules: its e-graph, its equalities, its choices, and what it does to graphs."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import dtypes, ops
from infuse.errors import OptionError
from infuse.ir.clone import clone
from infuse.ir.expression import Variable
from infuse.ir.graph import Graph
from infuse.ir.printer import print_graph
from infuse.ir.types import tensor
from infuse.ir.verify import verify
from infuse.ops.activations import Relu
from infuse.ops.arithmetic import Add, Mul
from infuse.ops.core.base import Op
from infuse.ops.core.evaluate import evaluate
from infuse.ops.core.samples import Ints
from infuse.passes.verification import relative_difference, tolerance
from infuse.rewrite import Patch
from infuse.search import EQUALITIES, Bounds, improve
from infuse.search.egraph import EGraph
from infuse.search.equalities.base import Equal, Equality
from infuse.search.regions import Region, regions
from infuse.search.saturation import saturate
from infuse.search.terms import Apply, Leaf, Opaque, SliceTerm, Term, folded
from infuse.testing.generators.networks import random_network
from infuse.testing.patterns import graph_of
from tests.cli_tools import Cli
from tests.pure.rewriting import kinds
from tests.pure.search_cases import CASES, X, Y, Z, case_graph, conv, weights

ENOUGH = Bounds(5, 1200)


def region_of(graph: Graph) -> Region:
    return Region(graph, graph.nodes)


def check_sound(g: EGraph) -> None:
    """All terms of each class give the same, on random numbers."""
    rng = np.random.default_rng(0)
    known: dict[int, np.ndarray] = {}
    pending = True
    while pending:
        pending = False
        for number, each in g.classes.items():
            for term in [] if number in known else each.terms:
                value = computed(g, term, known, rng)
                if value is not None:
                    known[number], pending = value, True
                    break
    assert known.keys() == g.classes.keys()
    for number, each in g.classes.items():
        assert known[number].shape == g.shape(number)
        for term in each.terms:
            if not isinstance(term.head, Leaf):
                found = computed(g, term, known, rng)
                assert found is not None
                scale = max(
                    float(np.abs(known[number][np.isfinite(known[number])]).max(initial=0)), 1.0
                )
                np.testing.assert_allclose(
                    found,
                    known[number],
                    rtol=0,
                    atol=1e-9 * scale,
                    err_msg=str(g.reasons.get(term)),
                )


def computed(
    g: EGraph, term: Term, known: dict[int, np.ndarray], rng: np.random.Generator
) -> np.ndarray | None:
    if isinstance(term.head, Leaf):
        value = term.head.value
        if value.const is not None:
            return value.const.astype(np.float64) if value.dtype.is_float else value.const
        return rng.standard_normal(value.shape)  # type: ignore[arg-type]
    if not all(g.find(a) in known for a in term.args):
        return None
    arrays = [known[g.find(a)] for a in term.args]
    if isinstance(term.head, Opaque):
        assert isinstance(term.head.node.op, Op)
        return np.asarray(term.head.node.op.eval(*arrays))
    return folded(term.head, arrays)


# -- the e-graph -----------------------------------------------------------------------------------


def leaves(*names: str) -> tuple[EGraph, list[int]]:
    g = EGraph()
    graph = graph_of(*(ops.relu(Variable(name)) for name in names), **dict.fromkeys(names, (2, 3)))
    return g, [g.add(Leaf(value)) for value in graph.inputs]


def test_equal_terms_are_one() -> None:
    g, (x, y) = leaves("x", "y")
    assert g.add(Add(), (x, y)) == g.add(Add(), (x, y))
    assert g.add(Add(), (x, y)) != g.add(Add(), (y, x))
    assert len(g) == 4


def test_terms_of_equal_operands_are_equal() -> None:
    g, (x, y, z) = leaves("x", "y", "z")
    left, right = g.add(Relu(), (g.add(Add(), (x, z)),)), g.add(Relu(), (g.add(Add(), (y, z)),))
    assert g.find(left) != g.find(right)
    assert g.union(x, y)
    g.rebuild()
    assert g.find(left) == g.find(right)
    assert not g.union(left, right)


def test_what_has_a_reason_tells_the_way() -> None:
    g, (x,) = leaves("x")
    first, second = Term(Relu(), (x,)), Term(Relu(), (1,))
    g.build(Apply(Relu(), (x,)))
    from infuse.search.egraph import Reason

    g.build(Apply(Relu(), (Apply(Relu(), (x,)),)), Reason("one", (first,)))
    g.build(Apply(Mul(), (Apply(Relu(), (1,)), x)), Reason("two", (second,)))
    assert g.proof([first]) == []
    assert g.proof([Term(Mul(), (g.find(2), x))]) == ["one", "two"]


@pytest.mark.parametrize("seed", range(6))
def test_closure_holds_after_any_unions(seed: int) -> None:
    """Against the definition: whenever the operands of two terms are equal, so are the terms."""
    rng = np.random.default_rng(seed)
    g, numbers = leaves("x", "y", "z", "u", "v")
    for _ in range(40):
        a, b = (int(n) for n in rng.choice(numbers, 2))
        numbers.append(g.add(*((Add(), (a, b)) if rng.random() < 0.6 else (Relu(), (a,)))))
    for _ in range(6):
        g.union(*(int(n) for n in rng.choice(numbers, 2)))
    g.rebuild()
    owners: dict[Term, int] = {}
    for number, each in g.classes.items():
        assert g.find(number) == number
        for term in each.terms:
            assert term == g.canonical(term)
            assert owners.setdefault(term, number) == number
            for arg in term.args:
                assert (number, term) in g.parents(arg)


# -- equalities ------------------------------------------------------------------------------------


@pytest.mark.row("G37")
@pytest.mark.parametrize("name", CASES)
def test_all_terms_of_a_class_are_equal(name: str) -> None:
    region = region_of(case_graph(name))
    saturate(region.g, ENOUGH)
    check_sound(region.g)


def test_every_equality_is_found_in_some_case() -> None:
    fired: set[str] = set()
    for name in CASES:
        region = region_of(case_graph(name))
        saturate(region.g, ENOUGH)
        fired |= {reason.equality for reason in region.g.reasons.values()} | joining(name)
    assert fired == set(EQUALITIES)


def joining(name: str) -> set[str]:
    """Equalities that join classes of a case by what is there already."""
    found = set()
    for each in EQUALITIES.values():
        g = region_of(case_graph(name)).g
        before = g.unions
        saturate(g, Bounds(1, 1200), equalities=[each])
        found |= {each.name} if g.unions > before else set()
    return found


def test_every_equality_has_its_equation() -> None:
    assert all("=" in each.about and each.kinds for each in EQUALITIES.values())


def test_integers_are_left_alone() -> None:
    ones = np.ones((3, 3), np.int64)
    graph = graph_of(ops.matmul(ops.matmul(X, ones), Y), x=Ints((2, 3)), y=Ints((3, 3)))
    g = region_of(graph).g
    assert saturate(g, ENOUGH) == "saturated"
    assert not g.reasons


def test_sizes_that_are_symbols_are_kept() -> None:
    graph = Graph()
    x = graph.add_input("x", tensor(dtypes.float32, "batch", "n", 4))
    y = graph.add_input("y", tensor(dtypes.float32, "batch", "m", 4))
    joined = ops.concat(x, y, axis=1)
    patch = Patch(graph)
    graph.add_output(patch.value(ops.matmul(ops.relu(joined), weights(4, 6)) + weights(6)), "sum")
    graph.add_output(patch.value(ops.matmul(ops.relu(joined), weights(4, 2)) + weights(2)), "other")
    region = region_of(graph)
    saturate(region.g, ENOUGH)
    made = [t.head for each in region.g.classes.values() if not each.is_const for t in each.terms]
    assert {head.axis for head in made if isinstance(head, SliceTerm)} == {2}, (
        "only columns are known to be cut"
    )
    original = clone(graph)
    improve(graph, 60, prices=SlowCalls())
    verify(graph)
    feeds = {"x": weights(2, 3, 4), "y": weights(2, 5, 4)}
    agree(original, graph, feeds)


# -- bounds ----------------------------------------------------------------------------------------


def test_bounds_are_kept() -> None:
    for limit in (50, 70, 90):
        g = region_of(case_graph("branches")).g
        assert saturate(g, Bounds(50, limit)) == "terms"
        assert limit <= len(g) < limit + 25
        check_sound(g)
    g = region_of(case_graph("branches")).g
    before = len(g)
    assert saturate(g, Bounds(0, 1000)) == "iterations"
    assert saturate(g, Bounds(5, 1000), expired=lambda: True) == "time"
    assert len(g) == before


def test_the_same_bounds_give_the_same_graph() -> None:
    texts = []
    for _ in range(2):
        graph = case_graph("branches")
        improve(graph, 600)
        texts.append(print_graph(graph))
    assert texts[0] == texts[1]


def test_without_time_nothing_changes() -> None:
    graph = case_graph("branches")
    before = print_graph(graph)
    found = improve(graph, 1e-9)
    assert not found.is_complete
    assert "its time ran out" in str(found)
    assert print_graph(graph) == before
    with pytest.raises(OptionError, match="more than no time"):
        improve(graph, 0)


@pytest.mark.parametrize("seed", range(12))
def test_regions_are_all_nodes_once(seed: int) -> None:
    graph = random_network(seed, 120).graph
    for shift in (0, 1):
        found = [node for group in regions(graph, shift) for node in group]
        assert len(found) == len(set(found))
        left = set(graph.nodes) - set(found)
        assert all(node.subgraphs or not known(node) or not node.op.deterministic for node in left)  # type: ignore[attr-defined]


def known(node: Any) -> bool:
    values = [*node.outputs, *node.operands()]
    return all(getattr(v.type, "shape", None) is not None for v in values) and isinstance(
        node.op, Op
    )


# -- what it does to graphs ------------------------------------------------------------------------


class SlowCalls:
    """Prices by which a call costs much and everything else nothing: whatever saves calls is
    taken.
    """

    def call(self, op: Any, operands: Any, result: Any, size: Any) -> float:
        return 1e-3

    def copy(self, count: float, *, scattered: bool = False) -> float:
        return count * 1e-12


def agree(original: Graph, graph: Graph, feeds: dict[str, np.ndarray]) -> None:
    before, after = evaluate(original, feeds), evaluate(graph, feeds)
    assert list(before) == list(after)
    for name, wanted in before.items():
        scale = float(np.abs(wanted).max(initial=1e-3))
        np.testing.assert_allclose(after[name], wanted, rtol=0, atol=1e-4 * scale)
        assert after[name].dtype == wanted.dtype


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
    better = infuse.optimize(case_graph("residual"), search=600)
    assert better.report.search.is_complete
    assert infuse.optimize(case_graph("residual")).report.search is None
    with pytest.raises(OptionError, match="more than no time"):
        infuse.optimize(case_graph("residual"), search=-1)


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
    assert "more than no time" in cli.refused("optimize", source, "-o", target, "--search", "-1")
