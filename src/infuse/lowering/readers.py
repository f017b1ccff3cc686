"""Who reads the values of a graph."""

from __future__ import annotations

from collections.abc import Collection

from infuse.ir.graph import Graph, Node, Value


class Readers:
    """The readers of the values of a graph whose `needed` nodes are computed; those in bodies
    count, too.
    """

    def __init__(self, graph: Graph, needed: Collection[Node]) -> None:
        self._graph, self._needed = graph, needed
        self._of: dict[Value, list[Node | Graph]] = {}

    def of(self, value: Value) -> list[Node | Graph]:
        """Who reads a value, one for each use."""
        readers = self._of.get(value)
        if readers is None:
            readers = self._of[value] = [
                use.user
                for use in value.uses
                if not isinstance(use.user, Node)
                or use.user in self._needed
                or use.user.graph is not self._graph
            ]
        return readers
