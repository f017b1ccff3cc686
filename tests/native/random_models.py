"""Many random networks in one graph, so that they share one library."""

from collections.abc import Mapping, Sequence
from typing import Any

from infuse.build.staged import generate
from infuse.errors import UnsupportedOperatorError
from infuse.ir.clone import clone
from infuse.ir.graph import Graph, Use
from infuse.targets import Target
from tests.support.generators.builder import Scale
from tests.support.generators.networks import RUNS, Network, random_network
from tests.support.generators.operators import STRAIGHT

SCALE = Scale((1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 33), 20_000)
"""Sizes on both sides of those of vectors."""


def native_network(seed: int, nodes: int, symbolic: bool) -> Network | None:
    """A random network of ordinary numbers, None where some operator or type of it has no native
    code.
    """
    network = random_network(seed, nodes, STRAIGHT, SCALE, RUNS if symbolic else ({},))
    try:
        generate(network.graph, Target.resolve())
    except UnsupportedOperatorError:
        return None
    return None if network.extreme else network


def together(seeds: range, nodes: int) -> tuple[Graph, Sequence[Mapping[str, Any]]]:
    """Networks in one graph, every second one with symbols, and inputs at several sizes. Names
    begin with the seed.
    """
    graph = Graph(f"random_{seeds.start}")
    feeds: list[dict[str, Any]] = [{} for _ in RUNS]
    for seed in seeds:
        network = native_network(seed, nodes, seed % 2 == 1)
        if network is None:
            continue
        for run, each in enumerate(feeds):
            given = network.feeds[run if len(network.feeds) > 1 else 0]
            each.update((f"{seed}_{name}", array) for name, array in given.items())
        _take_in(graph, clone(network.graph), f"{seed}_")
    return graph, feeds


def _take_in(graph: Graph, part: Graph, prefix: str) -> None:
    for value in part.inputs:
        value.name = prefix + value.name
        graph.inputs.append(value)
    for node in part.nodes:
        graph.add_node(node)
    for index, (value, name) in enumerate(zip(part.outputs, part.output_names)):
        del value.uses[Use(part, index)]
        graph.add_output(value, prefix + name)
