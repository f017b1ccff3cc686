"""Where the channels of activations can be turned: values whose channels are those of one space,
and the constants that write and read them. If all are multiplied by one orthogonal matrix that
leaves the vector of ones as it is, the graph computes the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infuse.compression.bases_through import is_norm, through
from infuse.compression.bases_walk import LEAST, Finer, Fixed, Fold, Walk, told
from infuse.compression.layers import Layer
from infuse.ir.graph import Graph, Node, Value


@dataclass(frozen=True, eq=False)
class Basis:
    """A space of `block` channels, which may lie several times along an axis: of what makes and
    reads the values, the constants, the normalizations on the way, and the layers that read.
    """

    block: int
    folds: tuple[Fold, ...]
    norms: tuple[Node, ...]
    readers: tuple[Layer, ...]
    layers: tuple[Layer, ...]
    """Those that write or read."""
    values: tuple[Value, ...] = ()
    """All that have these channels."""


def find_bases(graph: Graph, layers: Sequence[Layer]) -> tuple[list[Basis], dict[Node, str]]:
    """The spaces of a graph that layers read and whose channels can be turned: first those of
    normalizations, then those between layers; and for normalizations along the last axis why
    theirs cannot.
    """
    makers = {layer.node: layer for layer in layers}
    norms = [node for node in graph.nodes if is_norm(node)]
    bases: list[Basis] = []
    known: dict[Value, str] = {}
    refused: dict[Node, str] = {}
    seeds = [(node, node.inputs[0]) for node in norms]
    seeds += [(layer.node, layer.node.output) for layer in layers]
    for node, value in seeds:
        assert value is not None
        why = known.get(value)
        if why is None:
            axis = value.rank - 1 if node.kind not in ("Conv", "ConvTranspose") else 1
            why = _explore(value, axis, makers, layers, bases, known)
        if why and is_norm(node):
            refused[node] = why
    return bases, refused


def _explore(
    seed: Value,
    axis: int,
    makers: Mapping[Node, Layer],
    layers: Sequence[Layer],
    bases: list[Basis],
    known: dict[Value, str],
) -> str:
    """Walk from a value; what is found goes into `bases`, and what is known of the values that
    were met into `known`. Why nothing was found, if so.
    """
    block = seed.shape[axis]
    if not isinstance(block, int) or block < LEAST:
        return "its number of channels is small or not known"
    while True:
        walk = Walk(makers, block)
        try:
            walk.take(seed, axis)
            _follow(walk)
        except Finer as finer:
            block = finer.block
            continue
        except Fixed as fixed:
            known.update(dict.fromkeys(walk.members, str(fixed)))
            return str(fixed)
        known.update(dict.fromkeys(walk.members, ""))
        found = _basis(walk, layers)
        if not found.readers:
            return "no layer reads it"
        bases.append(found)
        return ""


def _follow(walk: Walk) -> None:
    """A walk to its end."""
    while walk.waiting:
        value = walk.waiting.pop()
        axis, norm = walk.members[value]
        assert value.producer is not None
        through(walk, value.producer, ~value.index, axis, norm)
        for user, index in value.uses:
            assert isinstance(user, Node)
            if user.graph is not value.producer.graph:
                raise Fixed(f"a body reads {told(value)}")
            through(walk, user, index, axis, norm)


def _basis(walk: Walk, layers: Sequence[Layer]) -> Basis:
    """What a walk found."""
    nodes = {fold.node for fold in walk.folds.values()}
    touched = [layer for layer in layers if layer.node in nodes]
    readers = [each for each in touched if each.activation in walk.members]
    folds = tuple(walk.folds.values())
    values = tuple(walk.members)
    return Basis(walk.block, folds, tuple(walk.norms), tuple(readers), tuple(touched), values)
