"""What compressed layers cost on this machine beside the same layers in float32."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from infuse.compression.evaluation import settled
from infuse.compression.layers import Layer
from infuse.data.dataset import Feeds
from infuse.ir.graph import Graph, Value
from infuse.options import CompileOptions
from infuse.profiling.measure import profile_graph

RUNS = 10


@dataclass(frozen=True)
class Region:
    """Layers that cannot be timed apart: they share kernels, or an activation that is rounded."""

    layers: tuple[Layer, ...]
    float_seconds: float
    seconds: float
    """Of the compressed layers."""

    @property
    def is_slower(self) -> bool:
        """Whether compression gains nothing here."""
        return self.seconds >= self.float_seconds


def regions(
    graph: Graph,
    compressed: Graph,
    layers: Sequence[Layer],
    feeds: Feeds,
    threads: int | None = None,
) -> list[Region]:
    """The compressed layers of a graph by regions, with the time of their kernels in both graphs,
    on the inputs `feeds`.
    """
    serials = {layer.node.serial: layer for layer in layers}
    before, after = (steps_of_layers(each, serials, feeds, threads) for each in (graph, compressed))
    together = _Partition(layers)
    readers: dict[Value, list[Layer]] = defaultdict(list)
    for layer in layers:
        readers[layer.activation].append(layer)
    for group in (*readers.values(), *(step for step, _ in (*before, *after))):
        together.join(group)
    float_times, times = together.sums(before), together.sums(after)
    return [
        Region(members, float_times[root], times[root])
        for root, members in together.parts().items()
        if float_times[root] > 0 and times[root] > 0
    ]


Steps = list[tuple[list[Layer], float]]


def steps_of_layers(
    graph: Graph, serials: Mapping[int, Layer], feeds: Feeds, threads: int | None
) -> Steps:
    """The layers of each step of a compiled graph that has any, and its seconds."""
    profile = profile_graph(settled(graph), feeds, CompileOptions(threads=threads), runs=RUNS)
    steps = []
    for nodes, seconds in profile.step_times():
        layers = [serials[node.serial] for node in nodes if node.serial in serials]
        if layers:
            steps.append((list(dict.fromkeys(layers)), seconds))
    return steps


class _Partition:
    """Layers in parts that grow together."""

    def __init__(self, layers: Iterable[Layer]) -> None:
        self._parents = {layer: layer for layer in layers}

    def root(self, layer: Layer) -> Layer:
        """The layer that stands for the part of this one."""
        while self._parents[layer] is not layer:
            self._parents[layer] = self._parents[self._parents[layer]]
            layer = self._parents[layer]
        return layer

    def join(self, layers: Sequence[Layer]) -> None:
        """Put these into one part."""
        for layer in layers[1:]:
            self._parents[self.root(layer)] = self.root(layers[0])

    def parts(self) -> dict[Layer, tuple[Layer, ...]]:
        """The parts by what stands for them."""
        parts: dict[Layer, list[Layer]] = defaultdict(list)
        for layer in self._parents:
            parts[self.root(layer)].append(layer)
        return {root: tuple(members) for root, members in parts.items()}

    def sums(self, steps: Steps) -> dict[Layer, float]:
        """The seconds of each part."""
        sums: dict[Layer, float] = defaultdict(float)
        for layers, seconds in steps:
            sums[self.root(layers[0])] += seconds
        return sums
