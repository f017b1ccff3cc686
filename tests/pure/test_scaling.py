"""Large graphs: the work grows with the number of nodes and no faster, and depth does no harm."""

import cProfile
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import dtypes, ops
from infuse.errors import GraphError
from infuse.ir.clone import clone
from infuse.ir.equality import equal
from infuse.ir.expression import Call
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.parser import parse
from infuse.ir.printer import big_constants, print_graph
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN, TensorType
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate
from infuse.ops.core.inference import infer_graph
from infuse.passes.run import optimize_in_place
from infuse.passes.selection import Selection
from infuse.rewrite import Pass, Patch, Report
from tests.support.large import FAMILIES, node_count

SMALL, LARGE = 300, 2400
GROWTH = 1.15


def calls(run: Callable[[], Any]) -> int:
    """How many functions are called, built-in ones and steps of generators among them: the work,
    without its time.
    """
    profile = cProfile.Profile()
    profile.runcall(run)
    return sum(entry.callcount for entry in profile.getstats())


def work_per_node(graph: Graph) -> float:
    nodes = node_count(graph)
    return calls(lambda: optimize_in_place(graph)) / nodes


@pytest.mark.parametrize("family", FAMILIES)
def test_the_work_per_node_does_not_grow_with_the_graph(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFUSE_CHECK", "0")
    optimize_in_place(FAMILIES[family](SMALL))  # what is worked out once per process
    small, large = (work_per_node(FAMILIES[family](size)) for size in (SMALL, LARGE))
    assert large < GROWTH * small


@pytest.mark.parametrize("family", FAMILIES)
def test_a_second_run_finds_nothing_left(family: str) -> None:
    graph = FAMILIES[family](SMALL)
    optimize_in_place(graph)
    assert not optimize_in_place(clone(graph)).rewrites


# -- depth -----------------------------------------------------------------------------------------

LEVELS = 200
LONG = 100_000


def nested_branches(levels: int) -> Graph:
    """An If inside of an If inside of an If; the innermost branch that is taken is relu(x), with a
    tanh per level.
    """
    graph = Graph("nested")
    x = graph.add_input("x", TensorType(dtypes.float32, (2,)))
    condition = graph.add_input("condition", TensorType(dtypes.bool_, ()))

    def other(operation: Callable[[Value], Call]) -> Graph:
        body = Graph("other")
        body.add_output(Patch(body).value(operation(x)), "y")
        return body

    inner = other(ops.relu)
    for level in range(levels):
        outer = graph if level == levels - 1 else Graph(f"level{level}")
        bodies = {"then_branch": inner, "else_branch": other(ops.neg)}
        node = Node(
            make_operator("", "If", {}),
            [condition],
            [Value(x.type)],
            name=f"if{level}",
            subgraphs=bodies,
        )
        outer.add_node(node)
        outer.add_output(Patch(outer).value(ops.tanh(node.output)), "y")
        inner = outer
    infer_graph(graph)
    return graph


def long_chain(nodes: int) -> Graph:
    graph = Graph("chain")
    value = graph.add_input("x", TensorType(dtypes.float32, (2,)))
    for number in range(nodes):
        op = make_operator("", ("Tanh", "Neg", "Abs")[number % 3], {})
        node = graph.add_node(
            Node(op, [value], [Value(value.type, f"v{number}")], name=f"n{number}")
        )
        value = node.output
    graph.add_output(value, "y")
    return graph


def held(graph: Graph, feeds: dict[str, Any], folder: Path, onnx: bool) -> None:
    """Everything that walks over graphs does its work on this one, before and after
    optimization.
    """
    expected = evaluate(graph, feeds)["y"]
    verify(graph)
    assert equal(graph, clone(graph)) is None
    assert equal(graph, parse(print_graph(graph), big_constants(graph)), annotations=False) is None
    better = infuse.optimize(graph)
    for each in (graph, better):
        for name in ["g.infuse", *["g.onnx"] * onnx]:
            infuse.save(each, folder / name)
            assert np.allclose(evaluate(infuse.load(folder / name), feeds)["y"], expected)


def test_bodies_may_lie_deep_in_one_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFUSE_CHECK", "0")
    feeds = {"x": np.array([0.5, -2], np.float32), "condition": np.array(True)}
    limit = sys.getrecursionlimit()
    held(nested_branches(30), feeds, tmp_path, onnx=True)
    held(nested_branches(LEVELS), feeds, tmp_path, onnx=False)
    assert sys.getrecursionlimit() == limit
    with pytest.raises(GraphError, match=f"nested {LEVELS} deep; an ONNX file holds 31 levels"):
        infuse.save(nested_branches(LEVELS), tmp_path / "deep.onnx")
    assert not (tmp_path / "deep.onnx").exists()


@pytest.mark.parametrize("walk", [clone, verify, print_graph, optimize_in_place, infer_graph])
def test_bodies_in_bodies_without_end_are_refused(walk: Callable[[Graph], Any]) -> None:
    graph = nested_branches(250)
    for _ in range(10):
        outer = Graph("outer")
        condition = outer.add_input("condition", TensorType(dtypes.bool_, ()))
        bodies = {"then_branch": graph, "else_branch": clone(nested_branches(1))}
        node = outer.add_node(
            Node(make_operator("", "If", {}), [condition], [Value(UNKNOWN)], subgraphs=bodies)
        )
        outer.add_output(node.output, "y")
        graph = outer
    with pytest.raises(GraphError, match="nested more than 256 deep"):
        walk(graph)


def test_chains_may_be_longer_than_the_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFUSE_CHECK", "0")
    held(
        long_chain(3 * sys.getrecursionlimit()),
        {"x": np.array([0.5, -2], np.float32)},
        tmp_path,
        onnx=True,
    )


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_chains_of_a_hundred_thousand_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFUSE_CHECK", "0")
    held(long_chain(LONG), {"x": np.array([0.5, -2], np.float32)}, tmp_path, onnx=True)


# -- what is not done twice ------------------------------------------------------------------------


def test_what_found_nothing_runs_again_only_after_a_rewrite() -> None:
    runs: list[int] = []

    class Counting(Pass):
        def run(self, graph: Graph, report: Report) -> None:
            runs.append(len(report.rewrites))

    graph = FAMILIES["transformer"](SMALL)
    optimize_in_place(graph, Selection(extra=(Counting(),)))
    assert len(runs) > 1
    assert runs == sorted(set(runs))


def test_values_with_many_readers_are_looked_at_once() -> None:
    """Operations without effect on one value: its readers must not be gone through for each of
    them.
    """

    def shared(readers: int) -> Graph:
        graph = Graph("shared")
        x = graph.add_input("x", TensorType(dtypes.float32, (2,)))
        for number in range(readers):
            graph.add_output(
                Patch(graph).value(ops.tanh(ops.identity(x)) * np.float32(number + 2)), f"y{number}"
            )
        return graph

    small, large = work_per_node(shared(100)), work_per_node(shared(1600))
    assert large < GROWTH * small


def test_garbage_is_collected_again_afterwards() -> None:
    class Failing(Pass):
        def run(self, graph: Graph, report: Report) -> None:
            assert not gc.isenabled()
            raise GraphError("on purpose")

    assert gc.isenabled()
    with pytest.raises(GraphError, match="on purpose"):
        optimize_in_place(FAMILIES["chain"](20), Selection(extra=(Failing(),)))
    assert gc.isenabled()
