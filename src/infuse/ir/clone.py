"""Copies of graphs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from infuse.ir.collection import uncollected
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.nesting import room_for


def clone(graph: Graph, values: dict[Value, Value] | None = None) -> Graph:
    """A copy of `graph` and its bodies; operators and the arrays of constants are shared.

    `values` is filled with the copy of every value. What it holds beforehand is taken as it is, so
    a body can be copied with other values in place of those that it captures; captured values that
    are not in it stay shared. Nodes stand in execution order in the copy, each with the serial
    number of what it copies.
    """
    with room_for(graph), uncollected():
        return _Cloning({} if values is None else values).graph(graph)


def clone_exposing(graph: Graph, values: Sequence[Value]) -> tuple[Graph, list[str]]:
    """A copy of a graph that also gives these of its values, and the names under which it does."""
    copies: dict[Value, Value] = {}
    result = clone(graph, copies)
    free = (
        name
        for number in itertools.count()
        if (name := f"inner_{number}") not in graph.output_names
    )
    names = list(itertools.islice(free, len(values)))
    for value, name in zip(values, names):
        result.add_output(copies[value], name)
    return result, names


def clone_nodes(nodes: Iterable[Node], values: dict[Value, Value]) -> list[Node]:
    """Copies of nodes, in this order, that read the values of `values` in place of their own; it is
    filled further.
    """
    cloning = _Cloning(values)
    made = []
    for node in nodes:
        with room_for(*node.subgraphs.values()):
            made.append(cloning.node(node))
    return made


class _Cloning:
    def __init__(self, values: dict[Value, Value]) -> None:
        self.values = values

    def graph(self, graph: Graph) -> Graph:
        copy = Graph(graph.name)
        copy.doc = graph.doc
        copy.metadata = dict(graph.metadata)
        copy.opsets = dict(graph.opsets)
        copy.inputs = [self.define(value) for value in graph.inputs]
        for node in graph.nodes:
            copy.add_node(self.node(node))
        for value, name in zip(graph.outputs, graph.output_names):
            copy.add_output(self.read(value), name)
        return copy

    def node(self, node: Node) -> Node:
        copy_of = self.values.get
        return node.copied(
            [None if v is None else copy_of(v) or self.read(v) for v in node.inputs],
            [self.define(value) for value in node.outputs],
            {name: self.graph(body) for name, body in node.subgraphs.items()},
        )

    def define(self, value: Value) -> Value:
        copy = Value(value.type, value.name, value.const)
        copy.content, copy.default = value.content, value.default
        self.values[value] = copy
        return copy

    def read(self, value: Value) -> Value:
        copy = self.values.get(value)
        if copy is not None:
            return copy
        return self.define(value) if value.is_const else value
