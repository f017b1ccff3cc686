"""The facts of a graph, for formats whose files have no view of their own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from infuse.doctor.facts import FileFacts, FileNode, FileScope
from infuse.ir.graph import Graph, Node, Value

_PRODUCER, _VERSION = "onnx.producer_name", "onnx.producer_version"


def facts_of_graph(graph: Graph, format: str) -> FileFacts:
    """The facts of a graph; kinds and attributes are those of Infuse's operators."""
    return FileFacts(
        format,
        graph.metadata.get(_PRODUCER, ""),
        graph.metadata.get(_VERSION, ""),
        graph.opsets,
        list(_scopes(graph, None, {})),
    )


def _scopes(graph: Graph, parent: FileScope | None, names: dict[Value, str]) -> Iterator[FileScope]:
    nodes = graph.nodes
    values = [*graph.inputs, *graph.constants(), *(v for node in nodes for v in node.outputs)]
    names |= {value: value.name or f"%{len(names) + n}" for n, value in enumerate(values)}
    arrays: dict[str, Any] = {
        names[v]: partial(_elements, v) for v in values if v.const is not None
    }
    types = {names[value]: value.type for value in values}
    scope = FileScope(types, arrays, frozenset(names[v] for v in graph.outputs), parent)
    for node in nodes:
        scope.nodes.append(_node(node, scope, names))
    yield scope
    for node in nodes:
        for body in node.subgraphs.values():
            yield from _scopes(body, scope, names)


def _elements(value: Value) -> Any:
    return value.const


def _node(node: Node, scope: FileScope, names: dict[Value, str]) -> FileNode:
    domain = node.op.domain
    return FileNode(
        f"{domain}.{node.op.name}" if domain else node.op.name,
        node.name,
        tuple("" if v is None else names.get(v, "") for v in node.inputs),
        tuple(names[v] for v in node.outputs),
        node.op.attributes(),
        scope,
        node.metadata,
    )
