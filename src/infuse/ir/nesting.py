"""Graphs inside of graphs: how deep they may lie, and room on Python's stack to walk them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from infuse.errors import GraphError
from infuse.ir.graph import Graph, Node, Value, captured

DEEPEST = 256
"""Levels of bodies inside of bodies that a graph may have."""
SHALLOW = 8
"""Levels for which there is always room."""
FRAMES = 24
"""Calls that a recursion over graphs makes per level, at most."""


def depth(*graphs: Graph) -> int:
    """How many levels of bodies lie inside of graphs; GraphError for more than `DEEPEST`."""
    level = list(graphs)
    for number in range(DEEPEST + 1):
        level = [
            body
            for inner in level
            for node in inner.unordered_nodes
            for body in node.subgraphs.values()
        ]
        if not level:
            return number
    raise GraphError(f"graphs are nested more than {DEEPEST} deep", where=graphs[0].name)


def captured_outside(node: Node) -> list[Value]:
    """The values from around a node that its bodies read or give, each once."""
    if not node.subgraphs:
        return []
    inner = [graph for body in node.subgraphs.values() for graph in body.all_graphs()]
    inside = {v for graph in inner for v in graph.inputs}
    inside |= {v for graph in inner for each in graph.unordered_nodes for v in each.outputs}
    return [v for v in dict.fromkeys(captured(node)) if v not in inside]


_inside: ContextVar[bool] = ContextVar("inside", default=False)


@contextmanager
def room_for(*graphs: Graph) -> Iterator[None]:
    """Within, a recursion over the bodies in `graphs` does not end at Python's own limit;
    GraphError for graphs that are nested more than `DEEPEST` deep. Without effect inside itself.
    """
    if _inside.get():
        yield
        return
    with room(depth(*graphs)):
        yield


@contextmanager
def room(levels: int) -> Iterator[None]:
    """The same for a number of levels."""
    if levels <= SHALLOW:
        yield
        return
    limit = sys.getrecursionlimit()
    raised = limit + levels * FRAMES
    sys.setrecursionlimit(raised)
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)
        if sys.getrecursionlimit() == raised:
            sys.setrecursionlimit(limit)
