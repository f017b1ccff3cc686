"""Nodes as a record mentions them: text to read, and enough to find them and to count what they
cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from infuse.ir.graph import Node
from infuse.ir.operator import Operator
from infuse.ir.types import Type


class Signature(NamedTuple):
    """What a node computed with: its operator and the types of its operands and results."""

    op: Operator
    inputs: tuple[Type | None, ...]
    outputs: tuple[Type, ...]


class NodeRef(str):
    """`Kind(name)` of a node.

    `serial` finds the node in the graphs before and after. `signature` is None for a node that was
    gone when it was
    mentioned: either the original graph has it, or the record of its creation tells.
    """

    __slots__ = ("serial", "signature")

    serial: int
    signature: Signature | None


def label(nodes: Iterable[Node]) -> tuple[NodeRef, ...]:
    """Mentions of nodes and of those in their bodies, with their signatures where they are still
    there.
    """
    refs: list[NodeRef] = []
    for node in nodes:
        gone = node.graph is None
        refs.append(node_ref(node, None if gone else _signature(node)))
        for body in node.subgraphs.values() if node.subgraphs else ():
            for graph in body.all_graphs():
                refs += [
                    node_ref(inner, None if gone else _signature(inner))
                    for inner in graph.unordered_nodes
                ]
    return tuple(refs)


def node_ref(node: Node, signature: Signature | None = None) -> NodeRef:
    """The mention of one node."""
    text = NodeRef(f"{node.op.name}({node.name})")
    text.serial = node.serial
    text.signature = signature
    return text


def _signature(node: Node) -> Signature:
    inputs = [None if value is None else value.type for value in node.inputs]
    return Signature(node.op, tuple(inputs), tuple([value.type for value in node.outputs]))
