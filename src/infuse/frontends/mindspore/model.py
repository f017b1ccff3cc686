"""A MindIR file: its graphs, primitives, parameters and constants, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.files import ExternalFiles
from infuse.frontends.mindspore.items import Item
from infuse.frontends.mindspore.tensors import array_of, item_of
from infuse.ir.graph import constant

FIRST_ONLY: Final = ("Depend", "Load")
"""Primitives whose result is their first operand; the others say only when."""
_PREFIX: Final = "REF::"


class MindNode:
    """A node: what it applies, which is a primitive unless `primitive` is empty, and to what."""

    def __init__(self, proto: Any, primitives: Mapping[str, Any]) -> None:
        self.inputs: list[str] = list(proto.input)
        if len(proto.output) != 1:
            raise ModelFileError(f"a node has {len(proto.output)} outputs, not one")
        self.name: str = proto.output[0]
        self.scope: str = proto.domain
        self.shape = next((a for a in proto.attribute if a.name == "shape"), None)
        reference = proto.op_type.removeprefix(_PREFIX)
        primitive = primitives.get(reference) if reference != proto.op_type else None
        self.callee = ""
        self.primitive: str = proto.op_type
        self._attributes = [a for a in proto.attribute if a.name != "shape"]
        if primitive is not None:
            self.primitive = primitive.op_type or primitive.name
            self._attributes = list(primitive.attribute)
        elif reference != proto.op_type:
            self.callee, self.primitive = reference, ""

    def attributes(self, files: ExternalFiles) -> dict[str, Item]:
        """The attributes, by name."""
        return {proto.name: item_of(proto, files) for proto in self._attributes}

    @property
    def operands(self) -> list[str]:
        """The names that the result is made of."""
        if self.primitive == "UpdateState":
            return []
        if self.primitive in FIRST_ONLY:
            return self.inputs[:1]
        return ([self.callee] if self.callee else []) + self.inputs


class GraphOf:
    """A graph: its inputs, nodes by name, and the name of its output."""

    def __init__(self, proto: Any, primitives: Mapping[str, Any]) -> None:
        self.name: str = proto.name
        self.inputs = list(proto.input)
        self.constants = [n for n in proto.node if n.op_type == "Constant"]
        nodes = [MindNode(n, primitives) for n in proto.node if n.op_type != "Constant"]
        self.nodes = {node.name: node for node in nodes}
        if len(self.nodes) != len(nodes):
            raise ModelFileError(f"two nodes of the graph {self.name!r} have one name")
        if len(proto.output) != 1:
            raise ModelFileError(f"the graph {self.name!r} has {len(proto.output)} outputs")
        self.output: str = proto.output[0].name


class MindModel:
    """A MindIR file; `files` are those that its parameters may lie in."""

    def __init__(self, proto: Any, files: ExternalFiles) -> None:
        self.files = files
        primitives = {primitive.name: primitive for primitive in proto.primitives}
        self.top = GraphOf(proto.graph, primitives)
        graphs = [self.top, *(GraphOf(f, primitives) for f in proto.functions)]
        self.graphs = {graph.name: graph for graph in graphs}
        if len(self.graphs) != len(graphs):
            raise ModelFileError("two graphs have one name")
        protos = [proto.graph, *proto.functions]
        if any(p.map_parameter for p in protos):
            raise UnsupportedOperatorError("a parameter that is a table (MapParameter)")
        self._parameters = {tensor.name: tensor for p in protos for tensor in p.parameter}
        self._constants = {n.output[0]: n for graph in graphs for n in graph.constants if n.output}
        self._made: dict[str, Item] = {}

    def named(self, name: str) -> Item:
        """A constant or a parameter; KeyError where there is none of this name."""
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def has(self, name: str) -> bool:
        """Whether there is a constant or a parameter of this name."""
        return name in self._constants or name in self._parameters

    def _make(self, name: str) -> Item:
        if name in self._parameters:
            array = array_of(self._parameters[name], self.files)
            return constant(array, short(name))
        proto = self._constants[name]
        value = next((a for a in proto.attribute if a.name == "value"), None)
        if value is None:
            raise ModelFileError(f"the constant {name!r} has no value")
        return item_of(value, self.files)

    # -- which graphs call which -------------------------------------------------------------------

    @cached_property
    def _calls(self) -> dict[str, set[str]]:
        return {
            graph.name: {
                name
                for node in graph.nodes.values()
                for name in node.operands
                if name in self.graphs
            }
            for graph in self.graphs.values()
        }

    def reaches(self, start: str, goal: str, around: tuple[str, ...] = ()) -> bool:
        """Whether a graph calls another one, by way of any but those of `around`."""
        return goal in self.reachable(start, around)

    def reachable(self, start: str, around: tuple[str, ...] = ()) -> set[str]:
        """The graphs that one calls, by way of any but those of `around`."""
        reached: set[str] = set()
        pending = [start]
        while pending:
            for name in self._calls[pending.pop()]:
                if name not in reached:
                    reached.add(name)
                    if name not in around:
                        pending.append(name)
        return reached

    def nodes(self) -> Iterator[MindNode]:
        """All nodes of the graphs that the model runs."""
        for name in (self.top.name, *sorted(self.reachable(self.top.name))):
            yield from self.graphs[name].nodes.values()


def short(name: str) -> str:
    """A name without the graph that it is of."""
    return name.rpartition(":")[2]
