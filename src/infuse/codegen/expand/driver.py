"""Applying the expansions to a graph until none is left to apply."""

from __future__ import annotations

from infuse.codegen.expand.composer import EXPANSIONS, Composer
from infuse.ir.clone import clone
from infuse.ir.graph import Graph, Node, Value


def expand(graph: Graph) -> Graph:
    """`graph`, or a copy in which operators that need it are expressed in simpler ones."""
    if not any((node.op.domain, node.kind) in EXPANSIONS for node in graph.unordered_nodes):
        return graph
    copy = clone(graph)
    pending = copy.nodes[::-1]
    while pending:
        node = pending.pop()
        for expansion in EXPANSIONS.get((node.op.domain, node.kind), ()):
            make = Composer(copy, node)
            results = expansion(make, node)
            if results is not None:
                _replace(copy, node, [results] if isinstance(results, Value) else list(results))
                pending += reversed(make.made)
                break
    return copy


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
