"""Bounds and prices for tests of the search, and comparison of what graphs compute."""

from typing import Any

import numpy as np

from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate
from infuse.search import Bounds
from infuse.search.regions import Region

ENOUGH = Bounds(5, 1200)


def region_of(graph: Graph) -> Region:
    return Region(graph, graph.nodes)


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
