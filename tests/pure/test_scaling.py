"""Large graphs: the work grows with the number of nodes and no faster, and depth does no harm."""

import cProfile
from collections.abc import Callable
from typing import Any

import pytest

from infuse.ir.clone import clone
from infuse.ir.graph import Graph
from infuse.passes.pipeline import optimize_in_place
from infuse.testing.large import FAMILIES, node_count

SMALL, LARGE = 300, 2400
GROWTH = 1.15


def calls(run: Callable[[], Any]) -> int:
    """How many functions are called, built-in ones and steps of generators among them: the work, without its time."""
    profile = cProfile.Profile()
    profile.runcall(run)
    return sum(entry.callcount for entry in profile.getstats())


def work_per_node(graph: Graph) -> float:
    nodes = node_count(graph)
    return calls(lambda: optimize_in_place(graph)) / nodes


@pytest.mark.parametrize("family", FAMILIES)
def test_the_work_per_node_does_not_grow_with_the_graph(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFUSE_CHECK", "0")
    optimize_in_place(FAMILIES[family](SMALL))  # what is worked out once per process
    small, large = (work_per_node(FAMILIES[family](size)) for size in (SMALL, LARGE))
    assert large < GROWTH * small


@pytest.mark.parametrize("family", FAMILIES)
def test_a_second_run_finds_nothing_left(family: str) -> None:
    graph = FAMILIES[family](SMALL)
    optimize_in_place(graph)
    assert not optimize_in_place(clone(graph)).rewrites
