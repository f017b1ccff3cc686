"""What each layer of a graph costs: seconds of its kernels, or bytes of its weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse.analysis.cost import totals
from infuse.compression.layers import Layer
from infuse.compression.speed import steps_of_layers
from infuse.data.dataset import Feeds
from infuse.ir.coding.weights import coded_size
from infuse.ir.graph import Graph, Value

Costs = dict[Layer, float]


def bytes_of_weights(graph: Graph, is_coded: bool) -> int:
    """The bytes of the constants of a graph, or of their coded forms."""
    if not is_coded:
        return totals(graph).weight_bytes
    arrays = {id(v.const): v for g in graph.all_graphs() for v in g.constants()}
    return round(sum(_bytes(value, True) for value in arrays.values()))


def _bytes(value: Value, is_coded: bool) -> float:
    if value.const is None:
        return 0.0
    if is_coded and value.dtype.kind != "s":
        return coded_size(np.ascontiguousarray(value.const))
    return value.const.size * value.dtype.bits / 8


def bytes_of_layers(graph: Graph, layers: Sequence[Layer], is_coded: bool = False) -> Costs:
    """The bytes of the constants of each layer, in whatever form it has in this graph, or of their
    coded forms.
    """
    serials = {layer.node.serial: layer for layer in layers}
    costs = dict.fromkeys(layers, 0.0)
    for node in graph.nodes:
        layer = serials.get(node.serial)
        if layer is not None:
            costs[layer] += sum(_bytes(value, is_coded) for value in node.operands())
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
