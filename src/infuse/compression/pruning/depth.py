"""In which order residual blocks are dropped: by what that changes in the outputs for each
multiplication that it saves, measured on data with those that went before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from infuse.analysis.cost import Sizes, node_cost
from infuse.build.compile import compile_graph
from infuse.compression.evaluation import settled
from infuse.compression.forms import Writer
from infuse.compression.pruning.blocks import Block
from infuse.compression.sensitivity import add_switches, change
from infuse.data.dataset import Feeds
from infuse.data.metrics import Outputs
from infuse.ir.clone import clone
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.options import CompileOptions

SECONDS = 20.0
"""The seconds that the measuring may take; then fewer examples tell."""


@dataclass(frozen=True, eq=False)
class Dropped:
    """A block that is dropped after others, and the change of the outputs without all of these."""

    block: Block
    change: float


def order_of_dropping(
    graph: Graph,
    blocks: Sequence[Block],
    runs: Sequence[Feeds],
    exact: Sequence[Outputs],
    powers: Mapping[str, float],
    macs: float,
    most: float,
    *,
    threads: int | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Dropped]:
    """Blocks in the order in which they are dropped, until so many multiplications (`macs`) are
    saved, and never more than `most`: each time the one with the least change of the outputs,
    beside the `exact` ones of these runs, for what it saves; that of the ones before is not counted
    again.
    """
    costs = _costs(graph)
    order: list[Dropped] = []
    gone: set[Node] = set()
    switched, name = with_switches(graph, blocks)
    switches = np.zeros(len(blocks), np.bool_)
    with compile_graph(settled(switched), CompileOptions(threads=threads)) as model:

        def changed(which: np.ndarray, count: int) -> float:
            pairs = list(zip(runs, exact))[:count]
            outputs = (model.run({**feeds, name: which}) for feeds, _ in pairs)
            changes = [change(one, right, powers) for one, (_, right) in zip(outputs, pairs)]
            return float(np.mean(changes))

        changed(switches, 1)
        begin = clock()
        changed(switches, 1)
        steps = len(blocks) * (len(blocks) + 1) / 2
        count = max(1, min(len(runs), int(SECONDS / max(steps * (clock() - begin), 1e-9))))
        before = changed(switches, count)
        while (total := sum(costs[node] for node in gone)) < macs:
            saved = {
                number: sum(costs[node] for node in set(block.nodes) - gone)
                for number, block in enumerate(blocks)
                if block.sum not in gone
            }
            offered = [number for number, own in saved.items() if 0 < own <= most - total]
            if not offered:
                break
            rates = {}
            for number in offered:
                without = switches.copy()
                without[number] = True
                value = changed(without, count)
                rates[number] = max(value - before, 0.0) / saved[number], value
            best = min(rates, key=rates.__getitem__)
            before, switches[best] = rates[best][1], True
            gone |= {*blocks[best].nodes, blocks[best].sum}
            order.append(Dropped(blocks[best], before))
    return order


def with_switches(graph: Graph, blocks: Sequence[Block]) -> tuple[Graph, str]:
    """A copy of a graph with one input more, and its name: of each block, in order, whether its
    skip takes the place of its sum.
    """
    values: dict[Value, Value] = {}
    copy = clone(graph, values)
    switches = add_switches(copy, len(blocks))
    for number, block in enumerate(blocks):
        total = values[block.sum.output]
        node = total.producer
        assert node is not None
        write = Writer(copy, node, f"{node.name}/switch")
        switch = write("Gather", switches, constant(np.asarray(number, np.int64)), axis=0)
        readers = list(total.uses)
        chosen = write("Where", switch, node.inputs[block.skip], total)
        for user, index in readers:
            user.set_operand(index, chosen)
    return copy, switches.name


def macs_of_blocks(graph: Graph, blocks: Sequence[Block]) -> list[int]:
    """The multiplications of each block."""
    costs = _costs(graph)
    return [sum(costs[node] for node in block.nodes) for block in blocks]


def _costs(graph: Graph) -> dict[Node, int]:
    sizes = Sizes(graph)
    return {node: sizes(node_cost(node, sizes).macs) for node in graph.nodes}
