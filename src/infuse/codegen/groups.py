"""Kernel groups: one anchor (or none) with the elementwise work after it, computed in one pass."""

from __future__ import annotations

from dataclasses import dataclass, field

from infuse import dtypes
from infuse.errors import UnsupportedOperatorError
from infuse.ir.graph import Node, Value
from infuse.ops.base import Elementwise
from infuse.ops.formula import E, Term, inputs


@dataclass
class Group:
    """Nodes computed together; `nodes` in order, the last one's output is the result."""

    nodes: list[Node]
    anchor: Node | None = None
    formulas: dict[Node, Term] = field(default_factory=dict)

    @property
    def result(self) -> Value:
        return self.nodes[-1].output

    def operands(self) -> list[Value]:
        """Values that elementwise nodes of the group read from outside, each once."""
        inside = {n.output for n in self.nodes}
        found: dict[Value, None] = {}
        for node in self.nodes:
            if node is not self.anchor:
                found.update((v, None) for v in node.operands() if v not in inside)
        return list(found)


def formula(node: Node) -> Term | None:
    """The scalar formula of an elementwise node on leaf terms, None where there is none."""
    op = node.op
    if not isinstance(op, Elementwise) or any(v is None for v in node.inputs[:1]):
        return None
    leaves = inputs(*(v.dtype if v is not None else dtypes.float32 for v in node.inputs))
    given = [leaf if v is not None else None for leaf, v in zip(leaves, node.inputs)]
    try:
        return op.scalar(E, *given)
    except UnsupportedOperatorError:
        return None


def is_vector_term(term: Term) -> bool:
    """Whether a formula can run on vectors of floats: floats throughout, booleans only inside."""
    if term.op == "input":
        return term.dtype == dtypes.float32
    if term.op == "const":
        return term.dtype == dtypes.float32 or term.dtype.is_bool
    return (term.dtype == dtypes.float32 or term.dtype.is_bool) and all(is_vector_term(a) for a in term.args)


def partition(nodes: list[Node]) -> list[Group]:
    """Groups in execution order.

    A node joins the group that makes its operand when nobody else reads that operand, so no cycle can arise.
    """
    member: dict[Node, Group] = {}
    needed = set(nodes)
    for node in nodes:
        term = formula(node)
        group = None
        if term is not None:
            group = _join(node, term, member, needed)
        if group is None:
            group = Group([node], node if term is None else None)
            if term is not None:
                group.formulas[node] = term
        member[node] = group
        for inner in group.nodes:
            member[inner] = group
    position = {node: i for i, node in enumerate(nodes)}
    unique = {id(g): g for g in member.values()}.values()
    return sorted(unique, key=lambda g: position[g.nodes[-1]])


def _join(node: Node, term: Term, member: dict[Node, Group], needed: set[Node]) -> Group | None:
    """The group that `node` extends, with further groups merged into it."""
    chosen: list[Group] = []
    anchored = False
    vector = is_vector_term(term) and term.dtype == dtypes.float32
    for value in reversed(list(dict.fromkeys(node.operands()))):
        producer = value.producer
        if producer is None or producer not in member:
            continue
        group = member[producer]
        if group in chosen or not _extends(group, value, node, needed):
            continue
        if group.anchor is not None and (anchored or not vector):
            continue
        anchored = anchored or group.anchor is not None
        chosen.append(group)
    if not chosen:
        return None
    merged = Group([], next((g.anchor for g in chosen if g.anchor is not None), None))
    for group in reversed(chosen):
        merged.nodes += group.nodes
        merged.formulas |= group.formulas
    if not _allowed(merged, node, term):
        return None
    merged.nodes.append(node)
    merged.formulas[node] = term
    return merged


def _extends(group: Group, value: Value, node: Node, needed: set[Node]) -> bool:
    """Whether `value` is the group's result, is read by `node` alone, and has the shape of `node`'s result."""
    if group.result is not value or value.is_graph_output:
        return False
    if any(user is not node for user in value.users() if user in needed):
        return False
    if group.anchor is not None and not fusible(group.anchor):
        return False
    return value.shape == node.output.shape


def _allowed(merged: Group, node: Node, term: Term) -> bool:
    if merged.anchor is None:
        return True
    terms = [*merged.formulas.values(), term]
    return all(is_vector_term(t) for t in terms) and node.output.dtype == dtypes.float32


_FUSIBLE: set[str] = set()


def register_fusible(kind: str) -> None:
    """State that the kernel of `kind` ends in a sink, so that elementwise work may follow in it."""
    _FUSIBLE.add(kind)


def fusible(node: Node) -> bool:
    """Whether elementwise work may follow `node` inside its kernel."""
    return node.kind in _FUSIBLE and node.output.dtype == dtypes.float32
