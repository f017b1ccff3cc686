"""Scales of channels that move between layers: an activation is divided, channel by channel, where
it is made, and the weights that read it are multiplied. The graph computes the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from infuse import dtypes
from infuse.compression.forms import bias_of
from infuse.compression.layers import Floats, Layer, along_depth
from infuse.compression.scratch import ScratchArrays
from infuse.ir.clone import clone
from infuse.ir.graph import Array, Graph, Node, Value, constant
from infuse.ir.scales import ChannelScales, note_scales
from infuse.mapped import give_back
from infuse.ops.core.traits import Trait, has_trait

NORMALIZATIONS = ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
"""Operators that multiply by their second operand at the end, and then add the third."""


@dataclass(frozen=True)
class Fold:
    """A constant operand of a node that is divided by the scales of channels, which lie before its
    last `behind` axes; `divided` are the values from there on that are divided with it.
    """

    node: Node
    operand: int
    behind: int
    divided: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Site:
    """An activation whose channels can be divided by any positive scales, in `folds`; all that
    read it are `layers`, whose weights are then multiplied.
    """

    activation: Value
    layers: tuple[Layer, ...]
    folds: tuple[Fold, ...]

    @property
    def divided(self) -> tuple[Value, ...]:
        """All values whose channels are divided."""
        return tuple(dict.fromkeys(value for fold in self.folds for value in fold.divided))

    @property
    def behind(self) -> int:
        """How many axes of these lie behind that of the channels."""
        return _behind(self.layers[0])


def find_sites(layers: Sequence[Layer]) -> list[Site]:
    """The activations of layers whose channels can be scaled, in order."""
    readers: dict[Value, list[Layer]] = defaultdict(list)
    for layer in layers:
        readers[layer.activation].append(layer)
    makers = {layer.node: layer for layer in layers}
    sites = []
    for value, users in readers.items():
        nodes = {layer.node for layer in users}
        behind = {_behind(layer) for layer in users}
        if len(behind) > 1 or any(use.user not in nodes for use in value.uses):
            continue
        folds = _folds(value, behind.pop(), makers)
        if folds:
            sites.append(Site(value, tuple(users), tuple(folds)))
    return sites


def _behind(layer: Layer) -> int:
    """The axes of a layer's activation behind that of its channels."""
    return layer.activation.rank - 2 if layer.is_convolution else 0


def rescaled(graph: Graph, scales: Mapping[Site, Floats], scratch: ScratchArrays) -> Graph:
    """A copy of a graph in which the activations of sites are divided by scales [channels], and the
    weights that read them are multiplied; what is new lies in `scratch`. Its nodes have the serial
    numbers of the graph's, and its metadata say what was divided (`infuse.ir.scales`).
    """
    values: dict[Value, Value] = {}
    copy = clone(graph, values)
    copy.report = graph.report
    for site, each in scales.items():
        for fold in site.folds:
            factor = (1 / each).reshape(-1, *(1,) * fold.behind)
            _multiply(_copy_of(fold.node, values), fold.operand, factor, scratch)
        for layer in site.layers:
            spread = np.broadcast_to(along_depth(layer, each)[:, :, None], layer.sizes)
            _multiply(_copy_of(layer.node, values), 1, layer.in_layout(spread), scratch)
    divided = {
        value.name: ChannelScales(value.rank - 1 - site.behind, each)
        for site, each in scales.items()
        for value in site.divided
    }
    note_scales(copy, divided)
    return copy


def _copy_of(node: Node, values: Mapping[Value, Value]) -> Node:
    copy = values[node.output].producer
    assert copy is not None
    return copy


def _multiply(node: Node, operand: int, factor: Array, scratch: ScratchArrays) -> None:
    """Multiply a constant operand of a node, which nobody else then shares."""
    value = node.inputs[operand]
    assert value is not None
    assert value.const is not None
    product = np.asarray(value.const * factor, np.float32)
    give_back(value.const)
    node.set_operand(operand, constant(scratch.store(product)))


# -- where scales go -------------------------------------------------------------------------------


def _folds(value: Value, behind: int, makers: Mapping[Node, Layer]) -> list[Fold]:
    """The constants that divide `value` where they are divided; none where there are no such. Its
    channels lie before its last `behind` axes.
    """
    folds = _folds_of(value, behind, makers)
    return [replace(fold, divided=(*fold.divided, value)) for fold in folds]


def _folds_of(value: Value, behind: int, makers: Mapping[Node, Layer]) -> list[Fold]:
    node = value.producer
    if node is None or any(other.uses for other in node.outputs if other is not value):
        return []
    if node in makers:
        return _in_layer(makers[node])
    if node.kind in NORMALIZATIONS:
        constants = [index for index in (1, 2) if node.input(index) is not None]
        return _in_constants(node, constants, behind)
    if has_trait(node, Trait.HOMOGENEOUS):
        is_channel = value.rank - 1 - behind == 1 or not has_trait(node, Trait.PER_CHANNEL)
        return _through(node, 0, behind, makers) if is_channel else []
    if node.kind in ("Add", "Mul") and not node.op.domain:
        return _in_sum_or_product(node, behind, makers)
    return []


def _in_layer(layer: Layer) -> list[Fold]:
    node = layer.node
    weights = Fold(node, 1, layer.weights.ndim - 1 - layer.channel_axis)
    if node.input(2) is None:
        return [weights]
    return [weights, Fold(node, 2, 0)] if bias_of(layer) is not None else []


def _in_constants(node: Node, operands: Sequence[int], behind: int) -> list[Fold]:
    values = [node.inputs[index] for index in operands]
    are_constant = all(v and v.is_const and v.dtype == dtypes.float32 for v in values)
    return [Fold(node, index, behind) for index in operands] if are_constant else []


def _through(node: Node, operand: int, behind: int, makers: Mapping[Node, Layer]) -> list[Fold]:
    """The folds of an operand that nobody else reads, and that has the channels of the result."""
    value, result = node.inputs[operand], node.output
    if value is None or len(value.uses) != 1 or value.tensor.shape is None:
        return []
    axis = value.rank - 1 - behind
    if value.rank != result.rank or value.shape[axis] != result.shape[axis]:
        return []
    return _folds(value, behind, makers)


def _in_sum_or_product(node: Node, behind: int, makers: Mapping[Node, Layer]) -> list[Fold]:
    """A constant factor takes the scales alone, else one of the factors does; of a sum both
    operands.
    """
    constants = [index for index, value in enumerate(node.inputs) if value and value.is_const]
    parts = [_in_constants(node, constants, behind)] if constants else []
    if node.kind == "Mul" and constants:
        return parts[0]
    for operand in (0, 1):
        if operand not in constants:
            parts.append(_through(node, operand, behind, makers))
    if node.kind == "Mul":
        return next((part for part in parts if part), [])
    return [fold for part in parts for fold in part] if all(parts) else []
