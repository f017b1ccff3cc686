"""Nodes as a record mentions them: text to read, and enough to find them and to count what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from infuse.ir.graph import Node, Operator
from infuse.ir.types import Type


class Signature(NamedTuple):
    """What a node computed with: its operator and the types of its operands and results."""

    op: Operator
    inputs: tuple[Type | None, ...]
    outputs: tuple[Type, ...]


class Mention(str):
    """`Kind(name)` of a node.

    `serial` finds the node in the graphs before and after. `signature` is None for a node that was gone when it was
    mentioned: either the original graph has it, or the record of its creation tells.
    """

    __slots__ = ("serial", "signature")

    serial: int
    signature: Signature | None


def label(nodes: Iterable[Node]) -> tuple[Mention, ...]:
    """Mentions of nodes and of those in their bodies, with their signatures where they are still there."""
    return tuple(mention(node, None if gone else _signature(node)) for node, gone in _with_bodies(nodes))


def mention(node: Node, signature: Signature | None = None) -> Mention:
    """The mention of one node."""
    text = Mention(f"{node.kind}({node.name})")
    text.serial = node.serial
    text.signature = signature
    return text


def _with_bodies(nodes: Iterable[Node]) -> Iterator[tuple[Node, bool]]:
    for node in nodes:
        gone = node.graph is None
        yield node, gone
        for body in node.subgraphs.values():
            for graph in body.all_graphs():
                yield from ((inner, gone) for inner in graph.unordered_nodes)


def _signature(node: Node) -> Signature:
    inputs = tuple(None if v is None else v.type for v in node.inputs)
    return Signature(node.op, inputs, tuple(v.type for v in node.outputs))
