"""The dependency graph of a network: groups of channels that can be removed, and the axes that
stay, with the reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from infuse.analysis.cost import node_cost
from infuse.compression.pruning.links import (
    Bools,
    Contraction,
    Ints,
    Links,
    Place,
    tensors_of,
)
from infuse.compression.pruning.rules import link
from infuse.ir.graph import Graph, Node, Value


@dataclass(frozen=True, eq=False)
class Member:
    """An axis that loses indices with the channels of a group: the number of the channel of each
    index, -1 for indices that are of none.
    """

    value: Value
    axis: int
    channels: Ints

    @property
    def per_channel(self) -> int:
        """Indices of a channel."""
        return int(np.count_nonzero(self.channels == 0))


@dataclass(frozen=True, eq=False)
class Group:
    """Channels that lie along the same axes, each of which can be removed from all of them."""

    labels: Ints
    """The label of each channel in the dependency graph."""
    members: tuple[Member, ...]
    nodes: tuple[Node, ...]
    """The nodes with weights that make the channels, in order."""
    is_hidden: bool = False
    """Whether a normalization joins the channels, so that without some of them the others are near
    what they were, and not the same.
    """

    @property
    def size(self) -> int:
        """How many channels there are."""
        return len(self.labels)

    @property
    def name(self) -> str:
        """The first of the nodes that make it, by name, and how many others do."""
        first = self.nodes[0].name or self.nodes[0].kind
        return first if len(self.nodes) == 1 else f"{first} and {len(self.nodes) - 1} more"

    @cached_property
    def constants(self) -> tuple[Member, ...]:
        """The members that are axes of constants."""
        return tuple(member for member in self.members if member.value.is_const)


@dataclass(frozen=True)
class Closed:
    """A node whose channels stay, and why."""

    node: Node
    channels: int
    reason: str


class Dependencies:
    """What of a graph can be removed.

    `groups` stand in the order of the nodes that make them; `closed` are the nodes with weights
    whose channels stay. With `opens_norms`, channels are among them that LayerNormalization and
    RMSNormalization join, such as the hidden size of a transformer.
    """

    def __init__(self, graph: Graph, opens_norms: bool = False) -> None:
        self.graph = graph
        links = Links(opens_norms)
        for value in tensors_of(graph):
            for axis in range(value.rank):
                links.atoms(value, axis)
        for value in graph.inputs:
            links.close_value(value, "it is an axis of an input")
        for node in graph.nodes:
            link(node, links)
        for value in graph.outputs:
            if value.tensor.shape is not None:
                links.close_value(value, "it is an axis of an output")
        links.decide()
        self.places = links.places()
        self.labels = links.labels()
        self.contractions: list[Contraction] = links.contractions
        self._reasons = links.reasons(self.labels)
        self._normed = {label for atoms in links.normed for label in self.labels[atoms].tolist()}
        self._made = self._makers()
        self.groups = self._groups()
        self.closed = self._closed()

    def alive(self, removed: Mapping[Group, Bools]) -> Bools:
        """Of each atom whether it stays; `removed` tells of each channel whether it goes."""
        gone = np.zeros(len(self.labels), np.bool_)
        for group, which in removed.items():
            gone[group.labels[which]] = True
        result: Bools = ~gone[self.labels]
        return result

    def _makers(self) -> dict[Node, Place]:
        """The axis of channels that each node that multiplies by weights makes: one of its result
        that goes with one of the weights.
        """
        made: dict[Node, Place] = {}
        for node in self.graph.nodes:
            if node.subgraphs or node_cost(node).macs == 0:
                continue
            weights = [v for v in node.operands() if v.is_const and v.dtype.is_float and v.rank > 1]
            for value in weights:
                own = {
                    label
                    for axis in range(value.rank)
                    for label in self._labels((value, axis)).tolist()
                }
                for axis in range(len(node.output.tensor.shape or ())):
                    labels = self._labels((node.output, axis))
                    if len(labels) > 1 and own.issuperset(labels.tolist()):
                        made.setdefault(node, (node.output, axis))
        return made

    def _labels(self, place: Place) -> Ints:
        atoms = self.places.get(place)
        return np.zeros(0, np.int64) if atoms is None else self.labels[atoms]

    def _groups(self) -> list[Group]:
        """Open channels by the places that they lie at."""
        where: dict[int, list[int]] = defaultdict(list)
        places = list(self.places)
        for number, place in enumerate(places):
            for label in np.unique(self._labels(place)).tolist():
                if label not in self._reasons:
                    where[label].append(number)
        together: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for label, numbers in where.items():
            if any(places[number][0].is_const for number in numbers):
                together[tuple(numbers)].append(label)
        groups = (
            self._group(np.array(labels), [places[number] for number in numbers])
            for numbers, labels in together.items()
            if len(labels) > 1
        )
        order = {node: number for number, node in enumerate(self.graph.nodes)}
        return sorted((g for g in groups if g is not None), key=lambda g: order[g.nodes[0]])

    def _group(self, labels: Ints, places: list[Place]) -> Group | None:
        labels = np.sort(labels)
        members = []
        for value, axis in places:
            own = self._labels((value, axis))
            at = np.searchsorted(labels, own).clip(max=len(labels) - 1)
            members.append(Member(value, axis, np.where(labels[at] == own, at, -1)))
        lying = set(places)
        nodes = tuple(node for node, place in self._made.items() if place in lying)
        is_hidden = not self._normed.isdisjoint(labels.tolist())
        return Group(labels, tuple(members), nodes, is_hidden) if nodes else None

    def _closed(self) -> list[Closed]:
        closed = []
        for node, place in self._made.items():
            labels = self._labels(place)
            reasons = [self._reasons[one] for one in labels.tolist() if one in self._reasons]
            if reasons:
                closed.append(Closed(node, len(labels), reasons[0]))
        return closed
