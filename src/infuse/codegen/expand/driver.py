"""Applying the expansions to a graph until none is left to apply."""

from __future__ import annotations

from collections.abc import Mapping

from infuse.codegen.expand.composer import EARLY, EXPANSIONS, Composer, Expansion
from infuse.errors import UnsupportedOperatorError
from infuse.ir.clone import clone
from infuse.ir.graph import Graph, Node, Value


def expand(graph: Graph) -> Graph:
    """`graph`, or a copy in which operators that need it are expressed in simpler ones, also in its bodies."""
    graphs = graph.all_graphs()
    if not any((n.op.domain, n.kind) in EXPANSIONS for inner in graphs for n in inner.unordered_nodes):
        return graph
    copy = clone(graph)
    for inner in copy.all_graphs():
        _expand(inner, EARLY)
        _expand(inner, EXPANSIONS)
    return copy


def _expand(graph: Graph, table: Mapping[tuple[str, str], list[Expansion]]) -> None:
    pending = graph.nodes[::-1]
    wide: dict[Value, Value] = {}
    while pending:
        node = pending.pop()
        for expansion in table.get((node.op.domain, node.kind), ()):
            try:
                results = expansion(make := Composer(graph, node, wide), node)
            except UnsupportedOperatorError as error:
                error.serial = _outermost(graph, node).serial
                raise
            if results is not None:
                _replace(graph, node, [results] if isinstance(results, Value) else list(results))
                pending += reversed(make.made)
                break


def _outermost(graph: Graph, node: Node) -> Node:
    """The node of the outermost graph that holds `node`, or is it."""
    while graph.parent is not None and graph.parent.graph is not None:
        node, graph = graph.parent, graph.parent.graph
    return node


def _replace(graph: Graph, node: Node, results: list[Value | None]) -> None:
    for old, new in zip(node.outputs, results):
        assert new is not None or not old.uses, f"{node.kind} gives no output {old.index}"
        if new is None:
            continue
        assert new.dtype == old.dtype, f"{node.kind} became {new.dtype} in place of {old.dtype}"
        if new.producer is not None and new.shape != old.shape:
            new.type = old.type
        old.replace_by(new)
    graph.remove(node)
