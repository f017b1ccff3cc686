"""What each layer of a graph costs: seconds of its kernels, or bytes of its weights."""

from __future__ import annotations

from collections.abc import Sequence

from infuse.analysis.dataset import Feeds
from infuse.compression.layers import Layer
from infuse.compression.speed import steps_of_layers
from infuse.ir.graph import Graph

Costs = dict[Layer, float]


def bytes_of_layers(graph: Graph, layers: Sequence[Layer]) -> Costs:
    """The bytes of the constants of each layer, in whatever form it has in this graph."""
    serials = {layer.node.serial: layer for layer in layers}
    costs = dict.fromkeys(layers, 0.0)
    for node in graph.nodes:
        layer = serials.get(node.serial)
        if layer is not None:
            costs[layer] += sum(
                value.const.size * value.dtype.bits / 8
                for value in node.operands()
                if value.const is not None
            )
    return costs


def seconds_of_layers(
    graph: Graph, layers: Sequence[Layer], feeds: Feeds, threads: int | None
) -> Costs:
    """The seconds of the kernels of each layer. Those of a kernel that several layers share are
    theirs by the elements of their weights.
    """
    serials = {layer.node.serial: layer for layer in layers}
    costs = dict.fromkeys(layers, 0.0)
    for members, seconds in steps_of_layers(graph, serials, feeds, threads):
        total = sum(layer.weights.size for layer in members)
        for layer in members:
            costs[layer] += seconds * layer.weights.size / total
    return costs
