"""Common subexpressions: equal operators on equal inputs are computed once, equal constants are stored once."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from infuse.ir.graph import Graph, Node, Value
from infuse.ops.base import Op
from infuse.rewrite import Pass
from infuse.rewrite.patch import redirect
from infuse.rewrite.record import Report, Rewrite, label

SMALL = 4096


class EliminateCommonSubexpressions(Pass):
    """One node for all that compute the same; linear time by hashing."""

    level = "basic"
    rows = ("G10",)

    def run(self, graph: Graph, context: Report) -> None:
        for inner in graph.all_graphs():
            _constants(inner)
            _nodes(inner, context)


def _constants(graph: Graph) -> None:
    """Let equal constants be one value; large ones are compared by identity of their memory, then by hash."""
    seen: dict[Any, Value] = {}
    for value in graph.constants():
        assert value.const is not None
        key = _constant_key(value.const)
        first = seen.setdefault(key, value)
        if first is not value and not value.is_graph_output:
            redirect(value, first)


def _constant_key(array: Any) -> Any:
    if array.dtype == object:
        return id(array)
    if array.nbytes <= SMALL:
        return (array.dtype.str, array.shape, array.tobytes())
    sample = np.ascontiguousarray(array.reshape(-1)[:: max(1, array.size // 512)])
    if not array.flags.c_contiguous:
        return id(array)
    quick = (array.dtype.str, array.shape, sample.tobytes())
    return _Lazy(quick, array)


class _Lazy:
    """A key for a large array: compared by a sample first, and by full content only when samples agree."""

    __slots__ = ("array", "hash", "quick")

    def __init__(self, quick: Any, array: Any) -> None:
        self.quick, self.array = quick, array
        self.hash = int.from_bytes(hashlib.blake2b(quick[2], digest_size=8).digest(), "little")

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Lazy) or self.quick != other.quick:
            return False
        return self.array is other.array or memoryview(self.array).cast("B") == memoryview(other.array).cast("B")


def _nodes(graph: Graph, report: Report) -> None:
    seen: dict[Any, Node] = {}
    for node in graph.nodes:
        op = node.op
        if node.subgraphs or not isinstance(op, Op) or not op.deterministic:
            continue
        key = (type(op), op, tuple(None if v is None else id(v) for v in node.inputs), len(node.outputs))
        first = seen.setdefault(key, node)
        if first is node:
            continue
        for old, new in zip(node.outputs, first.outputs):
            redirect(old, new)
        removed = label([node])
        graph.remove(node)
        report.add(Rewrite("EliminateCommonSubexpressions", removed, (), rows=("G10",), note=f"same as {first.name}"))
