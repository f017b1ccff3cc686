"""Work moved out of bodies: done once before them where it is the same every time."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TypeGuard

from infuse.errors import InfuseError
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.relations import relations
from infuse.ops.core.base import Elementwise, Op
from infuse.ops.core.traits import Trait, has_trait
from infuse.passes.cse import node_key
from infuse.passes.inline import known_truth
from infuse.rewrite import Pass
from infuse.rewrite.node_ref import label
from infuse.rewrite.patch import redirect, remove_dead
from infuse.rewrite.record import Report, Rewrite
from infuse.rewrite.refine import Change, compare_types

PARTIAL = frozenset({"Div", "Mod", "Pow"})
"""Elementwise operators that may stop a run when they compute with integers."""


class HoistLoopInvariants(Pass):
    """What a Loop or Scan computes alike in every iteration is computed once, before it.

    Where a body may run not even once, only what cannot fail is moved.
    """

    level = "basic"
    rows = ("G24",)
    requires = ("EliminateCommonSubexpressions",)

    def run(self, graph: Graph, report: Report) -> None:
        for node in control_nodes(graph, "Loop", "Scan"):
            body, certain = node.subgraphs["body"], _runs(node)
            for inner in body.nodes:
                if _is_invariant(inner, body) and (certain or _cannot_fail(inner)):
                    hoisted = _copied(inner, node)
                    if hoisted is not None:
                        _replace(self, [inner], hoisted, report)


class HoistFromBranches(Pass):
    """What both branches of an If compute alike is computed before it: one of them runs in any
    case.
    """

    level = "basic"
    rows = ("G24", "G10")
    requires = ("EliminateCommonSubexpressions",)

    def run(self, graph: Graph, report: Report) -> None:
        for node in control_nodes(graph, "If"):
            then, other = node.subgraphs["then_branch"], node.subgraphs["else_branch"]
            for inner in then.nodes:
                key = _invariant_key(inner, then)
                twin = None if key is None else _twin(key, inner, other)
                hoisted = _copied(inner, node) if twin is not None else None
                if twin is not None and hoisted is not None:
                    _replace(self, [inner, twin], hoisted, report)


def control_nodes(graph: Graph, *kinds: str) -> Iterator[Node]:
    """The nodes of these kinds in a graph and its bodies, inner ones first: what leaves one body
    can leave the next.
    """
    for inner in reversed(list(graph.all_graphs())):
        nodes = [
            n
            for n in inner.unordered_nodes
            if n.subgraphs and n.kind in kinds and n.op.domain == ""
        ]
        yield from (node for node in nodes if node.graph is not None)


def is_inside(value: Value, body: Graph) -> bool:
    """Whether `value` is an input of `body` or made by one of its nodes."""
    if value.producer is not None:
        return value.producer.graph is body
    return not value.is_const and any(value is v for v in body.inputs)


def _is_invariant(node: Node, body: Graph) -> bool:
    return _may_move(node) and not any(is_inside(v, body) for v in node.operands())


def _may_move(node: Node) -> bool:
    op = node.op
    return isinstance(op, Op) and op.deterministic and not node.subgraphs and op.domain != "host"


def _invariant_key(node: Node, body: Graph) -> Hashable | None:
    return node_key(node) if _is_invariant(node, body) else None


def _twin(key: Hashable, node: Node, other: Graph) -> Node | None:
    """The node of `other` that computes the same as `node`, found among the readers of one of its
    operands.
    """
    operands = [v for v in node.operands() if not v.is_const] or list(node.operands())
    if not operands:
        return None
    fewest = min(operands, key=lambda v: len(v.uses))
    return next(
        (user for user in fewest.users() if user.graph is other and node_key(user) == key), None
    )


def _runs(node: Node) -> bool:
    """Whether the body of a Loop or Scan certainly runs at least once."""
    if node.kind == "Scan":
        count: int = node.op.attributes()["num_scan_inputs"]
        scanned = [v for v in node.inputs[len(node.inputs) - count :] if v is not None]
        axes = node.op.attributes()["scan_input_axes"] or (0,) * count
        shapes = [(v.tensor.shape, axis) for v, axis in zip(scanned, axes)]
        return any(s is not None and dims.compare(">", s[axis], 0) is True for s, axis in shapes)
    first, most = node.input(1), node.input(0)
    counts = known_ints(most)
    enough = most is None or (counts is not None and dims.compare(">", counts[0], 0) is True)
    return enough and (first is None or known_truth(first) is True)


def _cannot_fail(node: Node) -> bool:
    """Whether the node computes something whatever the elements of its operands are, sizes
    included.
    """
    op = node.op
    if not isinstance(op, Elementwise) and not has_trait(node, Trait.TOTAL):
        return False
    if op.name in PARTIAL and not all(v.dtype.is_float for v in node.operands()):
        return False
    with relations() as relied:
        try:
            op.infer_types(node)
        except InfuseError:
            return False
    return not relied and all(_is_ranked(v) for v in (*node.operands(), *node.outputs))


def _is_ranked(value: Value) -> TypeGuard[Value]:
    return getattr(value.type, "shape", None) is not None


def _copied(inner: Node, control: Node) -> Node | None:
    """A copy of a node of a body before the node that the body belongs to; None where it would tell
    less.
    """
    graph = control.graph
    assert graph is not None
    outputs = [Value(v.type, v.name) for v in inner.outputs]
    node = graph.add_node(
        Node(inner.op, inner.inputs, outputs, name=inner.name, origin=inner.origin)
    )
    node.op.infer_node(node)
    for old, new in zip(inner.outputs, outputs):
        if compare_types(old.type, new.type) in (Change.WEAKER, Change.CLASH):
            graph.remove(node)
            return None
        if new.content is None:
            new.content = old.content
    return node


def _replace(each: Pass, inner: list[Node], hoisted: Node, report: Report) -> None:
    for node in inner:
        for old, new in zip(node.outputs, hoisted.outputs):
            redirect(old, new)
    report.add(
        Rewrite(each.name, label(remove_dead(inner)), label([hoisted]), each.level, each.rows)
    )
