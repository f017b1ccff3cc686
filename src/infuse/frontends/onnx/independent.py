"""Sizes of one name in inputs that never meet: each may have its own value, as in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value, captured
from infuse.ir.types import HOLDERS, TensorType, Type
from infuse.tracing.sizes import Sizes


def separate_sizes(graph: Graph, sizes: Sizes) -> None:
    """Give the symbols that inputs share a name of their own in each group of inputs that have no
    node in common.

    Two inputs are in one group where some node, or its bodies, reads what was made of both: it may
    rely on equal sizes. What was made of a group's inputs is renamed with them. The first group
    keeps the names.
    """
    owners: dict[str, list[int]] = {}
    for number, value in enumerate(graph.inputs):
        for name in _symbols(value.type):
            owners.setdefault(name, []).append(number)
    shared = {name: numbers for name, numbers in owners.items() if len(numbers) > 1}
    if not shared:
        return
    groups = _Groups(graph, {number for numbers in shared.values() for number in numbers})
    renamed: dict[int, dict[str, Dim]] = {}
    for name, numbers in shared.items():
        roots = list(dict.fromkeys(map(groups.root, numbers)))
        for root in roots[1:]:
            renamed.setdefault(root, {})[name] = sizes.twin(name)
    for root, values in groups.values().items():
        for value in values if root in renamed else ():
            value.type = _substituted(value.type, renamed[root])
            if value.content is not None:
                flat = [
                    dims.substitute(d, renamed[root]) for d in value.content.reshape(-1).tolist()
                ]
                content = np.empty(len(flat), dtype=object)
                content[:] = flat
                value.content = content.reshape(value.content.shape)


class _Groups:
    """The inputs of these numbers, in groups that meet in some node."""

    def __init__(self, graph: Graph, numbers: set[int]) -> None:
        self._parent = {number: number for number in numbers}
        self._of: dict[Value, int] = {v: n for n, v in enumerate(graph.inputs) if n in numbers}
        for node in graph.nodes:
            read = {
                self.root(self._of[v]) for v in (*node.operands(), *captured(node)) if v in self._of
            }
            if read:
                first = min(read)
                self._parent.update(dict.fromkeys(read, first))
                self._of.update(dict.fromkeys(_made(node), first))

    def root(self, number: int) -> int:
        """The first input of the group of an input."""
        while self._parent[number] != number:
            self._parent[number] = self._parent[self._parent[number]]
            number = self._parent[number]
        return number

    def values(self) -> Mapping[int, list[Value]]:
        """By group: its inputs, and all that is made of them."""
        made: dict[int, list[Value]] = {}
        for value, number in self._of.items():
            made.setdefault(self.root(number), []).append(value)
        return made


def _made(node: Node) -> Iterator[Value]:
    """The values that a node and its bodies make."""
    yield from node.outputs
    for body in node.subgraphs.values():
        for graph in body.all_graphs():
            yield from graph.inputs
            for inner in graph.unordered_nodes:
                yield from inner.outputs


def _symbols(type: Type) -> set[str]:
    if isinstance(type, HOLDERS):
        return _symbols(type.element)
    assert isinstance(type, TensorType)
    return set().union(*map(dims.symbols, type.shape or ()))


def _substituted(type: Type, values: Mapping[str, Dim]) -> Type:
    return type.substitute(values) if isinstance(type, TensorType) else type
