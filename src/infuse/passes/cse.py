"""Common subexpressions: what computes the same is computed once, equal constants are stored
once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Array, Graph, Node, Value
from infuse.ir.types import TensorType, Type
from infuse.ops.core.base import Op
from infuse.rewrite import Pass
from infuse.rewrite.node_ref import label, node_ref
from infuse.rewrite.patch import redirect, remove_dead
from infuse.rewrite.record import Report, Rewrite

PREFIX = 4096
"""Bytes of the largest constants that are told apart by all of them at once."""
FIRST = 64
"""Bytes at the beginning by which larger ones are looked up."""
SAMPLE = 1024
"""Bytes at the beginning, in the middle and at the end by which larger ones are told apart before
all are compared.
"""


class EliminateCommonSubexpressions(Pass):
    """One node for all that compute the same; linear time by hashing.

    Equal are nodes with equal operators and inputs, and integers that are known to be the same
    sizes, however they are computed; a body reads what the graphs around it compute. Equal
    constants become one.
    """

    level = "basic"
    rows = ("G10",)

    def run(self, graph: Graph, report: Report) -> None:
        constants: dict[Hashable, Value] = {}
        for inner in graph.all_graphs():
            _merge_constants(inner, constants)
        seen: dict[Graph, dict[Hashable, Node]] = {}
        names = _Names()
        for inner in graph.all_graphs():
            seen[inner] = {}
            around = [seen[g] for g in _enclosing(inner) if g in seen]
            self._merge_nodes(inner, seen[inner], around, names, report)
        names.apply(graph)

    def _merge_nodes(
        self,
        graph: Graph,
        seen: dict[Hashable, Node],
        around: list[dict[Hashable, Node]],
        names: _Names,
        report: Report,
    ) -> None:
        for node in graph.nodes:
            if node.graph is None:
                continue
            for key, outer in ((node_key(node), around), (_content_key(node), [])):
                if key is None:
                    continue
                first = seen.get(key)
                if first is None:
                    first = next((each[key] for each in outer if key in each), None)
                if first is None or first.graph is None:
                    seen[key] = node
                    continue
                if first is node or _both_given(node, first):
                    continue
                for old, new in zip(node.outputs, first.outputs):
                    names.learn(old.type, new.type)
                    redirect(old, new)
                removed = label(remove_dead([node]))
                same = f"same as {first.name}"
                report.add(
                    Rewrite(self.name, removed, (), self.level, self.rows, same, (node_ref(first),))
                )
                break


def _both_given(node: Node, first: Node) -> bool:
    """Whether a graph gives results of both that are no tensors: a file has a second name for such
    only in late opsets.
    """
    return any(
        not isinstance(old.type, TensorType)
        and any(old is v for v in node.graph.outputs)
        and any(new is v for v in first.graph.outputs)
        for old, new in zip(node.outputs, first.outputs)
        if node.graph is not None and first.graph is not None
    )


class _Names:
    """Names of sizes that only the run tells, of nodes that are gone: what they are called now."""

    def __init__(self) -> None:
        self.now: dict[str, Dim] = {}

    def learn(self, old: Type, new: Type) -> None:
        """Both are types of the same value, and the new one stays."""
        if not isinstance(old, TensorType) or not isinstance(new, TensorType):
            return
        for a, b in zip(old.shape or (), new.shape or ()):
            was, size = dims.substitute(a, self.now), dims.substitute(b, self.now)
            name = str(was)
            if (
                was == size
                or not name.startswith("_")
                or was != dims.symbol(name)
                or name in dims.symbols(size)
            ):
                continue
            self.now = {
                other: dims.substitute(dim, {name: size}) for other, dim in self.now.items()
            } | {name: size}

    def apply(self, graph: Graph) -> None:
        """Rename in all types and known elements."""
        if not self.now:
            return
        for inner in graph.all_graphs():
            for value in (
                *inner.inputs,
                *(v for node in inner.unordered_nodes for v in node.outputs),
            ):
                if isinstance(value.type, TensorType):
                    value.type = value.type.substitute(self.now)
                if value.content is not None:
                    elements = [
                        dims.substitute(size, self.now) for size in value.content.reshape(-1)
                    ]
                    value.content = np.array(elements, object).reshape(value.content.shape)


def _enclosing(graph: Graph) -> Iterator[Graph]:
    """The graphs around a body, the nearest first."""
    while graph.parent is not None and graph.parent.graph is not None:
        graph = graph.parent.graph
        yield graph


def node_key(node: Node) -> Hashable | None:
    """What makes two nodes the same; None where nothing does."""
    op = node.op
    if node.subgraphs or not isinstance(op, Op) or not op.deterministic:
        return None
    inputs = [0 if v is None else id(v) for v in node.inputs]
    if op.commutative:
        inputs.sort()
    return (op, tuple(inputs), len(node.outputs))


def _content_key(node: Node) -> Hashable | None:
    """The known elements of a node that computes sizes."""
    value = node.outputs[0]
    content = value.content
    if content is None or len(node.outputs) > 1 or not isinstance(node.op, Op):
        return None
    return (value.dtype, content.shape, tuple(content.reshape(-1).tolist()))


# -- constants -------------------------------------------------------------------------------------


def _merge_constants(graph: Graph, seen: dict[Hashable, Value]) -> None:
    read = [v for node in graph.unordered_nodes for v in node.operands()]
    for value in dict.fromkeys([*read, *graph.outputs]):
        if value.const is None:
            continue
        first = seen.setdefault(_constant_key(value.const), value)
        if first is not value:
            redirect(value, first)


def _constant_key(array: Array) -> Hashable:
    if array.dtype == object:
        return (array.shape, tuple(array.reshape(-1).tolist()))
    if array.nbytes <= PREFIX:
        return (array.dtype, array.shape, array.tobytes())
    if not array.flags.c_contiguous:
        return (array.__array_interface__["data"][0], array.strides, array.dtype, array.shape)
    return _Large(array)


class _Large:
    """A key for a large array: by its first bytes, by some of it where these agree, and by all of
    it only where those do.
    """

    __slots__ = ("bytes", "key")

    def __init__(self, array: Array) -> None:
        self.bytes: Array = array.reshape(-1).view(np.uint8)
        self.key = (array.dtype, array.shape, self.bytes[:FIRST].tobytes())

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Large) or self.key != other.key:
            return False
        if _address(self.bytes) == _address(other.bytes):
            return True
        return self._sample() == other._sample() and _same_bytes(self.bytes, other.bytes)

    def _sample(self) -> tuple[bytes, ...]:
        middle = len(self.bytes) // 2
        parts = (self.bytes[:SAMPLE], self.bytes[middle : middle + SAMPLE], self.bytes[-SAMPLE:])
        return tuple(part.tobytes() for part in parts)


def _address(array: Array) -> Any:
    return array.__array_interface__["data"][0]


def _same_bytes(a: Array, b: Array, step: int = 1 << 20) -> bool:
    return all(np.array_equal(a[i : i + step], b[i : i + step]) for i in range(0, len(a), step))
