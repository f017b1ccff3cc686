"""Groups that the kernel of a later one computes as it goes, so that what they make need not go
through memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from infuse.ir.graph import Graph, Node, Value
from infuse.lowering.groups import Group
from infuse.lowering.readers import Readers


class Producers:
    """Which group makes a value, and who reads it."""

    def __init__(self, graph: Graph, groups: Sequence[Group], readers: Readers) -> None:
        self.graph, self._readers = graph, readers
        self._groups = {g.result: g for g in groups if len(g.nodes[-1].outputs) == 1}
        self._positions = {node: i for i, g in enumerate(groups) for node in g.nodes}

    def alone(self, value: Value) -> Group | None:
        """The group that makes a value, where only one node reads that value, once."""
        return (
            self._groups.get(value)
            if len(self._readers.of(value)) == 1 and self._stays(value)
            else None
        )

    def first(self, value: Value, reader: Node) -> Group | None:
        """The group that makes a value, where no other node needs that value before `reader`
        does.
        """
        own = self._positions[reader]
        others = [user for user in self._readers.of(value) if user is not reader]
        return self._groups.get(value) if all(self._comes_after(u, own) for u in others) else None

    def handed_on(self, group: Group, reader: Group) -> set[Value]:
        """The results of a group that only `reader` needs."""
        nodes = {*group.nodes, *reader.nodes}
        return {v for v in group.results if all(user in nodes for user in self._readers.of(v))}

    def _comes_after(self, user: Node | Graph, position: int) -> bool:
        """Whether a value is not needed before the groups up to a position ran."""
        if not isinstance(user, Node):
            return user is self.graph
        return user.graph is self.graph and self._positions[user] > position

    def _stays(self, value: Value) -> bool:
        """Whether only nodes of this graph read a value."""
        return all(
            isinstance(user, Node) and user.graph is self.graph for user in self._readers.of(value)
        )


Choose = Callable[[Group, Producers], list[Group]]
"""The groups, in order, that the kernel of a group's anchor can compute itself and gains by it."""


def fuse_producers(
    graph: Graph, groups: Sequence[Group], readers: Readers, choose: Choose
) -> list[Group]:
    """The groups without those that the kernel of another one computes; those are in its
    `producers`.
    """
    producers = Producers(graph, groups, readers)
    fused: set[int] = set()
    for group in reversed(groups):
        if group.anchor is None or id(group) in fused:
            continue
        chosen = choose(group, producers)
        if fused.isdisjoint(map(id, chosen)):
            group.producers = chosen
            for inner in chosen:
                if inner.anchor is None:
                    inner.handed_on = producers.handed_on(inner, group)
            fused.update(map(id, chosen))
    return [group for group in groups if id(group) not in fused]
