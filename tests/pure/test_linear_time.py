"""An optimization takes twice the work for a network that is twice as deep: no pass, no rule, and
nothing that they call looks at the whole graph for each node.

Work is counted in lines of Python, and never timed.
"""

from __future__ import annotations

import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import infuse
from infuse.ir.clone import clone
from infuse.ir.graph import Graph
from infuse.passes.run import optimize_in_place
from infuse.passes.selection import Selection
from infuse.rewrite import Rule, require
from tests.support.chains import CHAINS, Chain, attention

ROOT = str(Path(infuse.__file__).parent)
DEPTHS = (3, 6, 12)
GROWTH = 2.3
"""Times the work for twice the network."""
SLACK = 2000
"""Lines that a function may run besides: some look at so many nodes at most, which are all of a
small network.
"""

pytestmark = pytest.mark.row("G39")


def lines_run(graph: Graph, options: Selection) -> Counter[str]:
    """Lines of Python that each function of Infuse runs in an optimization."""
    counts: Counter[CodeType] = Counter()

    def inside(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            counts[frame.f_code] += 1
        return inside

    def entered(frame: FrameType, *_: Any) -> Any:
        return inside if frame.f_code.co_filename.startswith(ROOT) else None

    copy, before = clone(graph), sys.gettrace()
    sys.settrace(entered)
    try:
        optimize_in_place(copy, options)
    finally:
        sys.settrace(before)
    total: Counter[str] = Counter()
    for code, count in counts.items():
        total[f"{Path(code.co_filename).stem}.{code.co_name}:{code.co_firstlineno}"] += count
    return total


def steep(chain: Chain, options: Selection) -> list[str]:
    """The functions whose work grows faster than the network."""
    optimize_in_place(chain(DEPTHS[-1]), options)  # so that nothing is made for the first time
    counts = [lines_run(chain(depth), options) for depth in DEPTHS]
    faster = [
        f"{name}: {' → '.join(str(count[name]) for count in counts)} lines"
        for name in sorted(counts[-1])
        if any(b[name] > GROWTH * a[name] + SLACK for a, b in pairwise(counts))
    ]
    totals = [count.total() for count in counts]
    if any(b > GROWTH * a for a, b in pairwise(totals)):
        faster.append(f"all together: {totals}")
    return faster


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: chain.__name__)
def test_work_grows_no_faster_than_the_network(chain: Chain) -> None:
    assert steep(chain, Selection("all")) == []


def test_work_grows_no_faster_with_the_rules_for_a_runtime() -> None:
    assert steep(attention, Selection("all", runtime="onnxruntime")) == []


def test_a_rule_that_looks_at_the_whole_graph_for_each_node_is_noticed() -> None:
    class Rescans(Rule):
        """Add(x, y) → itself, after a look at everything"""

        def match(self, x: Any, y: Any) -> Any:
            return x + y

        def when(self, root: Any) -> None:
            for node in root.graph.unordered_nodes:
                require(node.kind, "it has no kind")
            require(False, "it never fits")

        def build(self, x: Any, y: Any) -> Any:
            return x + y

    faster = steep(attention, Selection("basic", extra=(Rescans(),)))
    assert any("require" in line for line in faster), faster
