"""Kernel groups: one anchor (or none) with the elementwise work after it, computed in one pass."""

from __future__ import annotations

from dataclasses import dataclass, field

from infuse import dtypes
from infuse.dtypes import DType, is_half
from infuse.errors import UnsupportedOperatorError
from infuse.ir.graph import Node, Value
from infuse.ops.core.base import Elementwise
from infuse.ops.core.formula import E, Term, inputs


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
