"""Random well-typed networks over all operators, to hold whole optimizations to their meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Array, Graph
from infuse.ir.types import TensorType
from infuse.ops.core.inference import symbols_of
from infuse.ops.core.sizes import numbering
from tests.support.generators.builder import SYMBOLS, NetworkBuilder, Scale, Sizes
from tests.support.generators.control import Generator
from tests.support.generators.operators import WAYS

Feeds = Mapping[str, Array]
RUNS: tuple[Sizes, ...] = ({"n": 3, "m": 2}, {"n": 1, "m": 4}, {"n": 4, "m": 1})
"""Sizes that a network with symbols runs at."""
NOTHING: Sizes = {"n": 0, "m": 3}
DTYPES = (*(dtypes.float32,) * 5, dtypes.float64, dtypes.float64, dtypes.float16, dtypes.bfloat16)
TRIES = 6


@dataclass(frozen=True)
class Network:
    """A graph and inputs on which it runs; with symbols, one set of inputs for each assignment of
    sizes.

    `extreme` tells that some inputs hold NaN, infinities, and the largest and smallest numbers.
    """

    graph: Graph
    feeds: Sequence[Feeds]
    extreme: bool = False


def random_network(
    seed: int,
    nodes: int | None = None,
    ways: Sequence[Generator] = WAYS,
    scale: Scale | None = None,
    runs: Sequence[Sizes] | None = None,
) -> Network:
    """A network of about that many nodes (a few to 25 where none is said), the same one for the
    same seed.

    `runs` are the sizes of the symbols n and m for each set of inputs; `({},)` is a network without
    symbols. Without it, four in ten have symbols. Outputs are what nobody reads, and some values in
    the middle.
    """
    rng = np.random.default_rng(seed)
    if runs is None:
        runs = ({},)
        if rng.random() < 0.4:
            runs = (*RUNS[:2], NOTHING) if rng.random() < 0.15 else RUNS
    with numbering(SYMBOLS), np.errstate(all="ignore"):
        return _grown(rng, f"random_{seed}", nodes, ways, scale or Scale(), runs)


def _grown(
    rng: np.random.Generator,
    name: str,
    nodes: int | None,
    ways: Sequence[Generator],
    scale: Scale,
    runs: Sequence[Sizes],
) -> Network:
    count = int(rng.integers(3, 26)) if nodes is None else nodes
    graph = Graph(name)
    g = NetworkBuilder(rng, graph, runs, DTYPES[int(rng.integers(len(DTYPES)))], scale=scale)
    g.extreme = bool(rng.random() < 0.1)
    for _ in range(g.number(1, 2)):
        g.input(TensorType(g.dtype, g.shape(1)))
    if g.chance(0.3):
        g.input(
            TensorType(g.one((dtypes.int64, dtypes.int32, dtypes.bool_, dtypes.uint8)), g.shape())
        )
    for _ in range(TRIES * count):
        if len(graph) >= count:
            break
        g.step(g.one(ways))
    _finish(g)
    feeds = [{v.name: g.arrays[v][run] for v in graph.inputs} for run in range(len(runs))]
    return Network(graph, feeds, g.extreme)


def _finish(g: NetworkBuilder) -> None:
    """Outputs, names and origins; inputs that nobody reads go away, but for the first."""
    graph = g.graph
    made = [v for v in g.values if v.producer is not None] or g.values
    outputs = [v for v in made if not v.uses] or made[-1:]
    outputs += [v for v in made if v.uses and g.chance(0.05)]
    for number, value in enumerate(outputs):
        graph.add_output(value, f"y{number}")
    graph.inputs = [v for i, v in enumerate(graph.inputs) if v.uses or not i]
    taken: set[str] = set()
    for inner in graph.all_graphs():
        for node in inner.nodes:
            node.name = f"n{len(taken)}"
            taken.add(node.name)
            node.origin = (node.name,)
            for index, value in enumerate(node.outputs):
                value.name = f"{node.name}.{index}"


def network_of(graph: Graph, seed: int = 0) -> Network:
    """A graph with random inputs, for several assignments of sizes to its symbols where it has
    any.
    """
    symbols = sorted(set().union(*(symbols_of(v.type) for v in graph.inputs)))
    sizes = [dict(zip(symbols, numbers)) for numbers in ((3, 2, 4), (1, 4, 2), (4, 1, 3))][
        : 3 if symbols else 1
    ]
    g = NetworkBuilder(np.random.default_rng(seed), Graph(), sizes, dtypes.float32)
    copies = [(v.name, g.input(v.tensor)) for v in graph.inputs]
    return Network(
        graph, [{name: g.arrays[copy][run] for name, copy in copies} for run in range(len(sizes))]
    )
