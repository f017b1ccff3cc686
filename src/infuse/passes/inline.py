"""Control flow whose way is known at compile time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from infuse.ir.clone import clone
from infuse.ir.graph import Graph, Node, Value
from infuse.rewrite import Pass
from infuse.rewrite.node_ref import label
from infuse.rewrite.patch import redirect, remove_dead
from infuse.rewrite.record import Report, Rewrite
from infuse.rewrite.refine import reinfer


class InlineConstantIf(Pass):
    """If with a constant condition → the nodes of the branch that is taken."""

    level = "basic"
    rows = ("C7", "G1")

    def run(self, graph: Graph, report: Report) -> None:
        pending = [graph]
        while pending:
            inner = pending.pop()
            for node in [n for n in inner.unordered_nodes if n.kind == "If" and n.op.domain == ""]:
                self._inline(node, report)
            pending.extend(
                body for node in inner.unordered_nodes for body in node.subgraphs.values()
            )

    def _inline(self, node: Node, report: Report) -> None:
        if node.graph is None:  # it went with another one
            return
        chosen = known_truth(node.inputs[0])
        if chosen is None:
            return
        taken = node.subgraphs["then_branch" if chosen else "else_branch"]
        created, outputs = inlined(taken, node.graph, {})
        replace_outputs(self, node, outputs, created, report)


def inlined(
    body: Graph, graph: Graph, values: Mapping[Value, Value]
) -> tuple[list[Node], list[Value]]:
    """Copies in `graph` of the nodes of `body`, with other values in place of those `values`; what
    the body gives.
    """
    copies = dict(values)
    created = [copied(node, graph, copies) for node in body.nodes]
    if values:
        for node in created:
            node.op.infer_node(node)
    return created, [copies.get(v, v) for v in body.outputs]


def replace_outputs(
    each: Pass, node: Node, results: Sequence[Value], created: Sequence[Node], report: Report
) -> None:
    """Let `results` stand for the outputs of `node`, which goes, and record it."""
    for old, new in zip(node.outputs, results):
        readers = list(old.users())
        redirect(old, new)
        reinfer(readers)
    removed = label(remove_dead([node]))
    report.add(Rewrite(each.name, removed, label(created), each.level, each.rows))


def known_truth(condition: Value | None) -> bool | None:
    """Whether a condition holds, None where only run time tells."""
    if condition is None:
        return None
    if condition.const is not None:
        return bool(condition.const.any())
    elements = None if condition.content is None else condition.content.reshape(-1)
    if (
        elements is None
        or len(elements) != 1
        or not isinstance(elements[0], (int, np.integer, np.bool_))
    ):
        return None
    return bool(elements[0])


def copied(node: Node, graph: Graph, copies: dict[Value, Value]) -> Node:
    """A copy of `node` in `graph`, reading copies of what has been copied before."""
    outputs = []
    for value in node.outputs:
        copy = Value(value.type, value.name)
        copy.content = value.content
        copies[value] = copy
        outputs.append(copy)
    inputs = [None if v is None else copies.get(v, v) for v in node.inputs]
    bodies = {name: clone(body, copies) for name, body in node.subgraphs.items()}
    return graph.add_node(
        Node(node.op, inputs, outputs, name=node.name, origin=node.origin, subgraphs=bodies)
    )
