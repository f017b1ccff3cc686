"""What became of the channels of a graph over several rounds of pruning and tuning."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from infuse.compression.pruning.groups import Dependencies
from infuse.compression.pruning.links import Bools, Ints, Place
from infuse.compression.report import GroupReport
from infuse.ir.graph import Graph, Value


class Lineage:
    """For each axis of a constant of the original graph, the constant that has come of it and which
    of the indices are left; and the latter for what nodes make, by their names and the axis.
    """

    def __init__(
        self,
        original: Dependencies,
        left: Mapping[Place, tuple[Value, Ints]] | None = None,
        remaining: Mapping[tuple[str, int], Ints] | None = None,
    ) -> None:
        self._original = original
        self._left = (
            dict(left)
            if left is not None
            else {
                (value, axis): (value, np.arange(len(atoms)))
                for (value, axis), atoms in original.places.items()
                if value.is_const
            }
        )
        self.remaining = (
            dict(remaining)
            if remaining is not None
            else {
                (value.producer.name, axis): np.arange(len(atoms))
                for (value, axis), atoms in original.places.items()
                if value.producer is not None and value.index == 0
            }
        )

    def narrowed(
        self, dependencies: Dependencies, alive: Bools, values: Mapping[Value, Value]
    ) -> Lineage:
        """After a removal from the graph as it is now; `values` are the copies of its values."""
        left = {}
        for (origin, axis), (value, indices) in self._left.items():
            atoms = dependencies.places.get((value, axis))
            if atoms is not None:
                left[origin, axis] = values[value], indices[alive[atoms]]
        made = {node.name: node.outputs[0] for node in dependencies.graph.nodes if node.outputs}
        remaining = {
            (name, axis): indices[alive[dependencies.places[made[name], axis]]]
            for (name, axis), indices in self.remaining.items()
            if (made[name], axis) in dependencies.places
        }
        return Lineage(self._original, left, remaining)

    def copied(self, values: Mapping[Value, Value], graph: Graph) -> Lineage:
        """The same for a graph of copies of these values, some of which it may lack."""
        own = set(graph.constants())
        left = {
            place: (values[value], indices)
            for place, (value, indices) in self._left.items()
            if values.get(value) in own
        }
        names = {node.name for node in graph.nodes}
        remaining = {
            (name, axis): indices
            for (name, axis), indices in self.remaining.items()
            if name in names
        }
        return Lineage(self._original, left, remaining)

    def followed(self, graph: Graph, copy: Graph) -> Lineage:
        """The same for a copy of the graph as it is now."""
        copies = dict(zip(graph.constants(), copy.constants()))
        left = {
            place: (copies[value], indices)
            for place, (value, indices) in self._left.items()
            if value in copies
        }
        return Lineage(self._original, left, self.remaining)

    def groups(self) -> list[GroupReport]:
        """The groups of the original, and how many of their channels are left; none where nothing
        is left of the nodes that had them.
        """
        reports = []
        for group in self._original.groups:
            counts = [
                len(np.setdiff1d(member.channels[self._left[place][1]], [-1]))
                for member in group.constants
                if (place := (member.value, member.axis)) in self._left
            ]
            nodes = [node.name for node in group.nodes]
            reports.append(GroupReport(nodes, group.size, min(counts, default=0)))
        return reports
