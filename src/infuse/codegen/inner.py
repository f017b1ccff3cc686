"""Groups that the kernel of a later one computes as it goes, so that what they make need not go through memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infuse.codegen.groups import Group
from infuse.ir.graph import Graph, Node, Value

if TYPE_CHECKING:
    from infuse.codegen.lowering import Lower, Lowering


class Makers:
    """Which group makes a value, and who reads it."""

    def __init__(self, graph: Graph, groups: Sequence[Group], needed: Collection[Node]) -> None:
        self.graph, self._needed = graph, needed
        self._makers = {g.result: g for g in groups if len(g.nodes[-1].outputs) == 1}
        self._positions = {node: i for i, g in enumerate(groups) for node in g.nodes}

    def alone(self, value: Value) -> Group | None:
        """The group that makes a value, where only one node reads that value, once."""
        return self._makers.get(value) if len(self._readers(value)) == 1 and self._stays(value) else None

    def first(self, value: Value, reader: Node) -> Group | None:
        """The group that makes a value, where no other node needs that value before `reader` does."""
        own = self._positions[reader]
        others = [user for user in self._readers(value) if isinstance(user, Node) and user is not reader]
        fits = self._stays(value) and all(self._positions[user] > own for user in others)
        return self._makers.get(value) if fits else None

    def _readers(self, value: Value) -> list[Node | Graph]:
        return [use.user for use in value.uses if use.user in self._needed or not isinstance(use.user, Node)]

    def _stays(self, value: Value) -> bool:
        """Whether only nodes of this graph read a value."""
        return all(isinstance(user, Node) and user.graph is self.graph for user in self._readers(value))


Choose = Callable[["Lowering", Group, Makers], list[Group]]
"""The groups, in order, that the kernel of a group's anchor can compute itself and gains by it."""


@dataclass(frozen=True)
class _Rule:
    choose: Choose
    lower: Lower


_RULES: dict[str, _Rule] = {}


def takes_in(kind: str, choose: Choose) -> Callable[[Lower], Lower]:
    """Register how operators become steps that compute what they read themselves, and when they do."""

    def register(function: Lower) -> Lower:
        _RULES[kind] = _Rule(choose, function)
        return function

    return register


def lower_with_inner(node: Node) -> Lower:
    """What makes steps of the group of `node` where it has inner groups."""
    return _RULES[node.kind].lower


def take_in(low: Lowering, groups: list[Group]) -> list[Group]:
    """The groups without those that others take in; those are in their `inner`."""
    makers = Makers(low.graph, groups, set(low.needed))
    taken: set[int] = set()
    for group in reversed(groups):
        node = group.anchor
        if node is None or id(group) in taken or node.op.domain or node.kind not in _RULES:
            continue
        inner = _RULES[node.kind].choose(low, group, makers)
        if taken.isdisjoint(map(id, inner)):
            group.inner = inner
            taken.update(map(id, inner))
    return [g for g in groups if id(g) not in taken]
