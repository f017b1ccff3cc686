"""Graphs as plain data, without cycles: what pickle and `copy.deepcopy` take of one, and the graph
from it again. A deep copy shares nothing with the original, weights and operators included.
"""

from __future__ import annotations

import copyreg
from typing import Any, NamedTuple

from infuse.errors import GraphError
from infuse.ir.graph import Array, Graph, Node, Value
from infuse.ir.nesting import room_for
from infuse.ir.operator import SERIALS, Operator
from infuse.ir.types import Type


class FlatValue(NamedTuple):
    """All of a value but who makes it and who reads it."""

    type: Type
    name: str
    const: Array | None
    content: Array | None
    default: Array | None


class FlatNode(NamedTuple):
    """A node whose operands and results are places in the list of values."""

    op: Operator
    name: str
    serial: int
    origin: tuple[str, ...]
    doc: str
    metadata: dict[str, str]
    inputs: list[int | None]
    outputs: list[int]
    subgraphs: dict[str, FlatGraph]


class FlatGraph(NamedTuple):
    """A graph whose values are places in the list of values; nodes in the order of execution."""

    name: str
    doc: str
    metadata: dict[str, str]
    opsets: dict[str, int]
    report: Any
    compression: Any
    inputs: list[int]
    nodes: list[FlatNode]
    outputs: list[int]
    output_names: list[str]


def flattened(graph: Graph) -> tuple[list[FlatValue], FlatGraph]:
    """The values of a graph and its bodies, each once, and the graph; GraphError for a body, which
    may read values of the graph around it.
    """
    if graph.parent is not None:
        raise GraphError(
            "a body cannot be pickled without the graph around it",
            where=f"graph {graph.name!r}",
            hint="pickle the outermost graph",
        )
    writer = _Writer()
    with room_for(graph):
        flat = writer.graph(graph)
    return writer.values, flat


def restored(values: list[FlatValue], flat: FlatGraph) -> Graph:
    """The graph that `flattened` was called with."""
    made = []
    for each in values:
        value = Value(each.type, each.name, each.const)
        value.content, value.default = each.content, each.default
        made.append(value)
    return _graph(flat, made)


class _Writer:
    def __init__(self) -> None:
        self.values: list[FlatValue] = []
        self._places: dict[Value, int] = {}

    def place(self, value: Value) -> int:
        if value not in self._places:
            self._places[value] = len(self.values)
            self.values.append(
                FlatValue(value.type, value.name, value.const, value.content, value.default)
            )
        return self._places[value]

    def graph(self, graph: Graph) -> FlatGraph:
        return FlatGraph(
            graph.name,
            graph.doc,
            graph.metadata,
            graph.opsets,
            graph.report,
            graph.compression,
            [self.place(value) for value in graph.inputs],
            [self.node(node) for node in graph.nodes],
            [self.place(value) for value in graph.outputs],
            graph.output_names,
        )

    def node(self, node: Node) -> FlatNode:
        return FlatNode(
            node.op,
            node.name,
            node.serial,
            node.origin,
            node.doc,
            node.metadata,
            [None if value is None else self.place(value) for value in node.inputs],
            [self.place(value) for value in node.outputs],
            {name: self.graph(body) for name, body in node.subgraphs.items()},
        )


def _graph(flat: FlatGraph, values: list[Value]) -> Graph:
    graph = Graph(flat.name)
    graph.doc, graph.metadata, graph.opsets = flat.doc, flat.metadata, flat.opsets
    graph.report, graph.compression = flat.report, flat.compression
    graph.inputs = [values[place] for place in flat.inputs]
    for each in flat.nodes:
        graph.add_node(_node(each, values))
    for place, name in zip(flat.outputs, flat.output_names):
        graph.add_output(values[place], name)
    return graph


def _node(flat: FlatNode, values: list[Value]) -> Node:
    node = Node(
        flat.op,
        [None if place is None else values[place] for place in flat.inputs],
        [values[place] for place in flat.outputs],
        name=flat.name,
        subgraphs={name: _graph(body, values) for name, body in flat.subgraphs.items()},
    )
    node.serial, node.origin = flat.serial, flat.origin
    node.doc, node.metadata = flat.doc, flat.metadata
    SERIALS.reserve(flat.serial)
    return node


def _reduce(graph: Graph) -> tuple[Any, ...]:
    return restored, flattened(graph)


copyreg.pickle(Graph, _reduce)
