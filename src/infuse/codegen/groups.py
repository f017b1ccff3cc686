"""Kernel groups: one anchor (or none) with the elementwise work after it, computed in one pass."""

from __future__ import annotations

from dataclasses import dataclass, field

from infuse import dtypes
from infuse.codegen.kernel_table import has_epilogue
from infuse.dtypes import DType
from infuse.errors import UnsupportedOperatorError
from infuse.ir.graph import Node, Value
from infuse.ops.core.base import Elementwise
from infuse.ops.core.formula import E, Term, inputs
from infuse.targets.cpu.emit.formulas import is_half


@dataclass
class Group:
    """Nodes computed together; `nodes` in order, the last one's output is the result.

    `producers` are groups that this one's kernel computes as it goes. `stored`: further values of
    the nodes, of the result's shape, that others read. `handed_on`: values that only the kernel
    reads that computes this group as it goes.
    """

    nodes: list[Node]
    anchor: Node | None = None
    formulas: dict[Node, Term] = field(default_factory=dict)
    producers: list[Group] = field(default_factory=list)
    stored: list[Value] = field(default_factory=list)
    handed_on: set[Value] = field(default_factory=set)

    @property
    def result(self) -> Value:
        return self.nodes[-1].output

    @property
    def results(self) -> list[Value]:
        """The values that the kernel stores, those of producers aside."""
        return [v for v in (*self.stored, self.result) if v not in self.handed_on]

    @property
    def all_nodes(self) -> list[Node]:
        """The nodes, those of producers before them."""
        return [*(node for group in self.producers for node in group.nodes), *self.nodes]

    @property
    def is_vector(self) -> bool:
        """Whether all formulas run on vectors."""
        return all(map(is_vector_term, self.formulas.values()))

    def operands(self) -> list[Value]:
        """Values that elementwise nodes of the group read from outside, each once."""
        inside = {n.output for n in self.nodes}
        values: dict[Value, None] = {}
        for node in self.nodes:
            values.update((v, None) for v in self.reads(node) if v not in inside)
        return list(values)

    def reads(self, node: Node) -> list[Value]:
        """The operands that the formula of `node` uses; none for the anchor."""
        if node is self.anchor:
            return []
        used = leaves(self.formulas[node])
        return [v for i, v in enumerate(node.inputs) if v is not None and i in used]


def formula(node: Node) -> Term | None:
    """The scalar formula of an elementwise node on leaf terms, None where there is none."""
    op = node.op
    if not isinstance(op, Elementwise) or any(v is None for v in node.inputs[:1]):
        return None
    leaves = inputs(*(v.dtype if v is not None else dtypes.float32 for v in node.inputs))
    arguments = [
        None if v is None else _constant(v) or leaf for leaf, v in zip(leaves, node.inputs)
    ]
    try:
        return op.scalar(E, *arguments)
    except UnsupportedOperatorError:
        return None


def _constant(value: Value) -> Term | None:
    """A single number that is known, None for anything else."""
    if value.const is None or value.const.size != 1 or value.dtype.kind not in "fiub":
        return None
    return E.const(value.const.reshape(-1)[0].item(), value.dtype)


def leaves(term: Term) -> set[int]:
    """The numbers of the inputs that a formula uses."""
    if term.op == "input":
        return {term.value}
    return set().union(*(leaves(a) for a in term.args))


def is_vector_type(dtype: DType) -> bool:
    """Whether elements fit the lanes of a vector of float32: floats of 32 and 16 bits, booleans as
    masks.
    """
    return dtype == dtypes.float32 or dtype.is_bool or is_half(dtype)


def is_lane_integer(dtype: DType) -> bool:
    """Whether elements fit the lanes as int32, to be converted there from and to floats."""
    return dtype == dtypes.int32 or (dtype.is_integer and 8 <= dtype.bits <= 16)


def is_vector_term(term: Term) -> bool:
    """Whether a formula can run on vectors: integers are only converted, from floats or to them."""
    if term.op == "cast" and is_lane_integer(term.args[0].dtype):
        source = term.args[0]
        exact = term.dtype == dtypes.float32 or (is_half(term.dtype) and source.dtype.bits <= 16)
        return exact and (not source.args or is_vector_term(source))
    if is_lane_integer(term.dtype):
        return term.op == "cast" and not term.args[0].dtype.is_bool and is_vector_term(term.args[0])
    return is_vector_type(term.dtype) and all(is_vector_term(a) for a in term.args)


_COSTLY = frozenset(
    [
        "exp",
        "expm1",
        "log",
        "log1p",
        "tanh",
        "erf",
        "sigmoid",
        "softplus",
        "pow",
        "sin",
        "cos",
        "tan",
    ]
)


def cost(term: Term) -> int:
    """The price of a formula in cheap operations."""
    own = 10 if term.op in _COSTLY else 4 if term.op in ("div", "sqrt") else int(bool(term.args))
    return own + sum(map(cost, term.args))


MOST_NODES = 64
"""Nodes of one group: a longer chain gains nothing from one loop and compiles slowly."""


def partition(nodes: list[Node]) -> list[Group]:
    """Groups in execution order.

    A node joins the group that makes its operand when nobody else reads that operand, so no cycle
    can arise.
    """
    member: dict[Value, Group] = {}
    needed = set(nodes)
    groups: dict[int, Group] = {}
    for node in nodes:
        term = formula(node)
        group = Group([node], node if term is None else None)
        if term is not None:
            joined = _joinable(node, term, member, needed)
            group = _merge(joined, groups) if joined else Group([])
            group.nodes.append(node)
            group.formulas[node] = term
        groups[id(group)] = group
        member.update((v, group) for v in node.outputs)
    position = {node: i for i, node in enumerate(nodes)}
    return sorted(groups.values(), key=lambda g: position[g.nodes[-1]])


def _merge(joined: list[Group], groups: dict[int, Group]) -> Group:
    """One group of several: the anchored one, else the largest, takes in the others."""
    whole = max(joined, key=lambda g: (g.anchor is not None, len(g.nodes)))
    for other in joined:
        if other is not whole:
            whole.nodes += other.nodes
            whole.formulas |= other.formulas
            del groups[id(other)]
    return whole


def _joinable(node: Node, term: Term, member: dict[Value, Group], needed: set[Node]) -> list[Group]:
    """The groups that `node` can extend: at most one of them anchored."""
    chosen: list[Group] = []
    size = 1
    for value in reversed(list(dict.fromkeys(node.operands()))):
        group = member.get(value)
        if group is None or group in chosen or not _extends(group, value, node, needed):
            continue
        anchored = group.anchor is not None and any(g.anchor is not None for g in chosen)
        if anchored or size + len(group.nodes) > MOST_NODES or not _fits(group, term):
            continue
        size += len(group.nodes)
        chosen.append(group)
    if any(g.anchor is not None for g in chosen) and not all(g.is_vector for g in chosen):
        return [g for g in chosen if g.is_vector]
    return chosen


def _fits(group: Group, term: Term) -> bool:
    """Whether a formula may follow those of a group: work on vectors does not become work on single
    elements.
    """
    if group.anchor is not None:
        return is_vector_term(term)
    if group.is_vector == is_vector_term(term):
        return True
    return (
        sum(map(cost, group.formulas.values())) < CHEAP if group.is_vector else cost(term) < CHEAP
    )


CHEAP = 8
"""Operations that may run element by element to save a pass over memory."""


def _extends(group: Group, value: Value, node: Node, needed: set[Node]) -> bool:
    """Whether `value` is the group's result, is read by `node` alone, and has the shape of `node`'s
    result.
    """
    if group.result is not value or value.is_graph_output:
        return False
    if any(
        user is not node for user in value.users() if user in needed or user.graph is not node.graph
    ):
        return False
    if group.anchor is not None and (not has_epilogue(group.anchor) or _widens(node)):
        return False
    return value.shape == node.output.shape


def _widens(node: Node) -> bool:
    """Whether a node only makes floats of narrow integers, which are better kept in memory as they
    are.
    """
    narrow = [v for v in node.operands() if v.dtype.is_integer and v.dtype.bits <= 16]
    return node.kind == "Cast" and bool(narrow) and node.output.dtype == dtypes.float32
