"""Names and what they stand for, graph by graph, and the order in which nodes can be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from onnx import AttributeProto, GraphProto, NodeProto, ValueInfoProto

from infuse.errors import GraphError
from infuse.ir.graph import Graph, Value

_ONE_NAME: Final = "every value of an ONNX graph must have one name and one producer"


@dataclass
class Scope:
    """The names of one graph or function, and of the graphs around it.

    `opsets` are those of the model or function that the nodes belong to, `bindings` the attributes
    that a function was called with, `prefix` stands before the names of nodes and values that come
    from a function, `functions` are the functions being inlined, outermost first. `typed` says
    whether types are known here: a body is typed by the node that it belongs to, once it is built.
    A name stands for None where a function's caller gives no input.
    """

    graph: Graph
    opsets: Mapping[str, int]
    nodes: Sequence[NodeProto]
    outputs: Sequence[str]
    hints: Sequence[ValueInfoProto] = ()
    parent: Scope | None = None
    prefix: str = ""
    bindings: Mapping[str, AttributeProto] = field(default_factory=dict)
    functions: tuple[tuple[str, str, str], ...] = ()
    typed: bool = True
    values: dict[str, Value | None] = field(default_factory=dict)

    def knows(self, name: str) -> bool:
        """Whether the name stands for something, here or around."""
        scope: Scope | None = self
        while scope is not None and name not in scope.values:
            scope = scope.parent
        return scope is not None

    def find(self, name: str) -> Value | None:
        """The value of this name, here or around; None for an absent one; GraphError when nothing
        has that name.
        """
        if not name:
            return None
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.parent
        raise GraphError(f"the name {name!r} is read, but nothing makes it")

    def define(self, name: str, value: Value | None) -> None:
        """Let `name` stand for `value`; GraphError when it already stands for one in this graph."""
        if name in self.values:
            raise GraphError(f"the name {name!r} is given to two values", hint=_ONE_NAME)
        self.values[name] = value

    def reads(self, name: str) -> bool:
        """Whether anyone reads this name."""
        return name in self._read

    @cached_property
    def _read(self) -> frozenset[str]:
        return names_read(self.nodes, self.outputs)

    @cached_property
    def declared(self) -> Mapping[str, ValueInfoProto]:
        """The types that the file states for values inside."""
        return {info.name: info for info in self.hints}


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs among the attributes of a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def names_read(nodes: Sequence[NodeProto], outputs: Sequence[str]) -> frozenset[str]:
    """All names that nodes, their subgraphs or outputs read."""
    names: set[str] = set(outputs)
    for node in nodes:
        names.update(node.input)
        for graph in subgraphs(node):
            names |= names_read(graph.node, [v.name for v in graph.output])
    return frozenset(names)


def free_names(graph: GraphProto) -> set[str]:
    """The names that a subgraph reads from around it."""
    own = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    own |= {t.values.name for t in graph.sparse_initializer}
    own |= {name for node in graph.node for name in node.output}
    free = {v.name for v in graph.output}
    for node in graph.node:
        free.update(node.input)
        for inner in subgraphs(node):
            free |= free_names(inner)
    return free - own


def in_order(scope: Scope) -> Sequence[NodeProto]:
    """The nodes of a graph, each after those that it reads; the given order where that is one.

    GraphError for a name that nobody makes, for one that is made twice, and for a cycle.
    """
    nodes, outer = scope.nodes, scope.knows
    _check_made_once(scope)
    captured = [set[str]().union(*map(free_names, subgraphs(node))) for node in nodes]
    needs = [
        [n for n in (*node.input, *names) if n and not outer(n)]
        for node, names in zip(nodes, captured)
    ]
    made: set[str] = set()
    for node, names in zip(nodes, needs):
        if not made.issuperset(names):
            return _sorted(nodes, needs)
        made.update(node.output)
    return nodes


def _check_made_once(scope: Scope) -> None:
    taken = set(scope.values)
    for node in scope.nodes:
        for name in filter(None, node.output):
            if name in taken:
                raise GraphError(
                    f"the name {name!r} is given to two values", where=label(node), hint=_ONE_NAME
                )
            taken.add(name)


def _sorted(nodes: Sequence[NodeProto], needs: Sequence[Sequence[str]]) -> list[NodeProto]:
    """Depth first; 0: not seen, 1: waits for what it reads, 2: placed."""
    maker = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    order: list[NodeProto] = []
    state = [0] * len(nodes)
    for root in range(len(nodes)):
        stack = [root]
        while stack:
            index = stack[-1]
            if state[index] == 0:
                state[index] = 1
                stack += [
                    m for m in _makers(nodes[index], needs[index], maker, state) if state[m] == 0
                ]
                continue
            if state[index] == 1:
                state[index] = 2
                order.append(nodes[index])
            stack.pop()
    return order


def _makers(
    node: NodeProto, names: Sequence[str], maker: Mapping[str, int], state: Sequence[int]
) -> Iterator[int]:
    where = label(node)
    for name in names:
        if name not in maker:
            raise GraphError(f"it reads {name!r}, which nothing makes", where=where)
        if state[maker[name]] == 1:
            raise GraphError(
                f"it reads {name!r}, which depends on what it makes: the graph has a cycle",
                where=where,
            )
        yield maker[name]


def label(node: NodeProto) -> str:
    """How an error names a node."""
    return f"{node.op_type} node {label_name(node)!r}"


def label_name(node: NodeProto) -> str:
    """The name of a node, or of what it makes."""
    return node.name or next(filter(None, node.output), node.op_type)
