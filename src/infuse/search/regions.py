"""Regions: neighbouring nodes whose terms one e-graph holds, cut where few values cross."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from infuse.errors import InfuseError
from infuse.ir.contents import known_ints
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.types import Shape, TensorType
from infuse.ops.arithmetic import Add
from infuse.ops.contraction import Gemm, MatMul
from infuse.ops.convolution import Conv
from infuse.ops.core.base import Op
from infuse.ops.indexing import Gather
from infuse.ops.movement import Concat, Slice, Split, bounds
from infuse.ops.pooling import AveragePool, GlobalAveragePool
from infuse.ops.shaping import Flatten, Reshape, Squeeze, Transpose, Unsqueeze
from infuse.passes.rules.cleanup.merging import require_addend, require_factors, require_sum
from infuse.passes.rules.common import wide
from infuse.rewrite import Refusal
from infuse.search.egraph import EGraph
from infuse.search.terms import (
    ConcatTerm,
    GatherTerm,
    Head,
    Leaf,
    Opaque,
    ReshapeTerm,
    SliceTerm,
    Term,
    TransposeTerm,
    is_pointwise,
)

LEAST, MOST = 24, 60
"""Nodes of a region, where the model has as many."""


def regions(graph: Graph, shift: int = 0) -> list[list[Node]]:
    """The nodes of a graph in groups of neighbours, cut where the fewest values cross; `shift`
    moves the first cut.

    Nodes with bodies, and those whose results are no tensors of known rank, are in none.
    """
    nodes = graph.nodes
    live = _live(graph, nodes)
    result: list[list[Node]] = []
    start = 0
    while start < len(nodes):
        if not _is_usable(nodes[start]):
            start += 1
            continue
        least, most = (LEAST, MOST) if result or not shift else (LEAST // 2, MOST // 2)
        end = start
        while end < len(nodes) and end - start < most and _is_usable(nodes[end]):
            end += 1
        places = range(min(start + least, end), end + 1)
        stop = min(places, key=lambda i: (live[i - 1], -i)) if end < len(nodes) else end
        result.append(nodes[start:stop])
        start = stop
    return result


def _live(graph: Graph, nodes: Sequence[Node]) -> list[int]:
    """How many values made before are read after each node."""
    position = {node: i for i, node in enumerate(nodes)}
    changes = [0] * (len(nodes) + 2)
    for index, node in enumerate(nodes):
        for value in node.outputs:
            last = max(
                (position.get(u.user, len(nodes)) for u in value.uses if isinstance(u.user, Node)),
                default=index,
            )
            last = len(nodes) if value.is_graph_output else last
            changes[index] += 1
            changes[last] -= 1
    live, live_nodes = 0, []
    for change in changes[: len(nodes)]:
        live += change
        live_nodes.append(live)
    return live_nodes


def _meet(one: Shape, other: Shape) -> bool:
    """Whether constants of these shapes broadcast together."""
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(one), reversed(other)))


def _is_usable(node: Node) -> bool:
    usable = all(
        isinstance(v.type, TensorType) and v.type.shape is not None
        for v in (*node.outputs, *node.operands())
    )
    return usable and not node.subgraphs and isinstance(node.op, Op) and node.op.deterministic


@dataclass
class Region:
    """The terms of some nodes: the class of each value, the terms of the model, and the values that
    others read.
    """

    graph: Graph
    nodes: Sequence[Node]
    g: EGraph = field(default_factory=EGraph)
    classes: dict[Value, int] = field(default_factory=dict)
    first: dict[int, Term] = field(default_factory=dict)
    values: dict[int, Value] = field(default_factory=dict)
    """The value of the model for a class."""
    _constants: dict[int, int] = field(default_factory=dict)
    """The class of an array of constants."""
    _addends: list[tuple[Value, int]] = field(default_factory=list)
    """Constants that are added (1) or subtracted (-1)."""

    def __post_init__(self) -> None:
        for node in self.nodes:
            self._take(node)
        inside = set(self.nodes)
        self.roots = [
            value
            for node in self.nodes
            for value in node.outputs
            if value.uses and any(use.user not in inside for use in value.uses)
        ]
        self.g.rebuild()

    @property
    def root_classes(self) -> list[int]:
        return list(dict.fromkeys(self.g.find(self.classes[v]) for v in self.roots))

    def original(self) -> dict[int, Term]:
        """The terms of the model by class, as the classes are numbered now."""
        terms: dict[int, Term] = {}
        for number, term in self.first.items():
            terms.setdefault(self.g.find(number), self.g.canonical(term))
        return terms

    def is_shared(self, term: Term) -> bool:
        """Whether a leaf cannot be written straight into the one concatenation that reads it."""
        assert isinstance(term.head, Leaf)
        value = term.head.value
        return value.producer is None or len(list(value.users())) > 1 or value.is_graph_output

    # -- nodes -------------------------------------------------------------------------------------

    def _add(self, head: Head, *args: int) -> int:
        number = self.g.add(head, args)
        self.first.setdefault(number, Term(head, tuple(map(self.g.find, args))))
        return number

    def _operand(self, value: Value) -> int:
        if value not in self.classes:
            same = self._constants.get(id(value.const)) if value.const is not None else None
            self.classes[value] = self._add(Leaf(value)) if same is None else same
            if value.const is not None:
                self._constants[id(value.const)] = self.classes[value]
            self.values.setdefault(self.classes[value], value)
        return self.classes[value]

    def _take(self, node: Node) -> None:
        floats = all(v.dtype.is_float for v in node.outputs)
        try:
            taken = self._terms(node) if floats else None
        except (InfuseError, Refusal):
            taken = None
        if taken is not None and any(self.g[n].type != v.type for n, v in zip(taken, node.outputs)):
            taken = None
        if taken is None:
            args = [self._operand(v) for v in node.operands()]
            taken = [self._add(Opaque(node, i), *args) for i in range(len(node.outputs))]
        for value, number in zip(node.outputs, taken):
            self.classes[value] = number
            self.values.setdefault(number, value)

    def _terms(self, node: Node) -> list[int] | None:
        """The classes of a node's results, None where it is opaque."""
        op, operands = node.op, [v for v in node.inputs if v is not None]
        if len(operands) < len(node.inputs) or (
            len(node.outputs) > 1 and not isinstance(op, Split)
        ):
            return None
        x = operands[0] if operands else None
        if x is None or not x.dtype.is_float:
            return None
        if isinstance(op, (Conv, Gemm, MatMul)):
            return self._product(node, operands)
        if isinstance(op, (AveragePool, GlobalAveragePool)):
            return [self._add(op, self._operand(x))]
        if isinstance(op, Concat):
            return [self._add(ConcatTerm(op.axis % x.rank), *map(self._operand, operands))]
        if isinstance(op, Transpose):
            return [
                self._add(
                    TransposeTerm(tuple(op.perm) if op.perm else tuple(range(x.rank))[::-1]),
                    self._operand(x),
                )
            ]
        if isinstance(op, (Reshape, Flatten, Squeeze, Unsqueeze)):
            return [self._add(ReshapeTerm(node.output.shape), self._operand(x))]
        if isinstance(op, Split):
            return self._split(node, op, x)
        if isinstance(op, Slice):
            return self._slice(node, x)
        if isinstance(op, Gather):
            return self._gather(node, op, x)
        if is_pointwise(op) and all(v.dtype == node.output.dtype for v in operands):
            assert isinstance(op, Op)
            self._require_harmless(node, operands)
            return [self._add(op, *map(self._operand, operands))]
        return None

    def _require_harmless(self, node: Node, operands: Sequence[Value]) -> None:
        """Refusal where a sum or product with constants has to stay where it is, for the sake of
        its rounding.
        """
        for c in (v for v in operands if v.is_const):
            if node.kind in ("Mul", "Div"):
                require_factors(c.dtype, c)
            if node.kind in ("Add", "Sub"):
                self._require_addend(c, -1 if node.kind == "Sub" and c is operands[1] else 1)

    def _require_addend(self, c: Value, sign: int = 1) -> None:
        """Refusal where adding the constant may be meant to round, or takes off another that was
        added.
        """
        require_addend(wide(c), c.dtype)
        for other, before in self._addends:
            if other.dtype == c.dtype and _meet(c.shape, other.shape):
                require_sum(before * wide(other), sign * wide(c), c.dtype)
        self._addends.append((c, sign))

    def _product(self, node: Node, operands: Sequence[Value]) -> list[int] | None:
        op, (x, w) = node.op, operands[:2]
        bias = operands[2] if len(operands) > 2 else None
        for factor in (v for v in (x, w) if v.is_const):
            require_factors(factor.dtype, factor)
        if bias is not None and bias.is_const:
            self._require_addend(bias)
        if isinstance(op, Conv):
            made = self._add(op.replace(kernel_shape=()), self._operand(x), self._operand(w))
            shape = None if bias is None else (1, bias.shape[0], *(1,) * (x.rank - 2))
        elif isinstance(op, Gemm):
            if (op.alpha, op.beta, op.transA) != (1.0, 1.0, 0):
                return None
            weights = self._operand(w)
            weights = self._add(TransposeTerm((1, 0)), weights) if op.transB else weights
            made = self._add(MatMul(), self._operand(x), weights)
            shape = None if bias is None else bias.shape
        else:
            return [self._add(MatMul(), self._operand(x), self._operand(w))]
        if bias is None or shape is None:
            return [made]
        addend = self._operand(bias)
        return [
            self._add(
                Add(),
                made,
                addend if shape == bias.shape else self._add(ReshapeTerm(shape), addend),
            )
        ]

    def _split(self, node: Node, op: Split, x: Value) -> list[int] | None:
        axis = op.axis % x.rank
        sizes = [v.shape[axis] for v in node.outputs]
        pieces, begin = [], 0
        for size in sizes:
            if not isinstance(size, int):
                return None
            pieces.append(self._add(SliceTerm(axis, begin, begin + size), self._operand(x)))
            begin += size
        return pieces

    def _slice(self, node: Node, x: Value) -> list[int] | None:
        starts, ends = known_ints(node.input(1)), known_ints(node.input(2))
        axes = known_ints(node.input(3)) or tuple(range(len(starts or ())))
        steps = known_ints(node.input(4)) or (1,) * len(axes)
        number = self._operand(x)
        for axis, start, end, step in zip(axes, starts or (), ends or (), steps):
            parts = [n for n in (axis, start, end, step) if isinstance(n, int)]
            size = x.shape[parts[0]] if parts else None
            if len(parts) < 4 or not isinstance(size, int) or parts[3] < 1:
                return None
            begin, stop = bounds(size, parts[1], parts[2], parts[3])
            if stop <= begin:
                return None
            number = self._add(SliceTerm.to(parts[0] % x.rank, begin, stop, parts[3]), number)
        return [number] if starts and ends else None

    def _gather(self, node: Node, op: Gather, x: Value) -> list[int] | None:
        places = node.inputs[1]
        axis = op.axis % x.rank
        size = x.shape[axis]
        if (
            places is None
            or places.const is None
            or places.const.ndim != 1
            or not isinstance(size, int)
        ):
            return None
        chosen = tuple(int(p) % size for p in places.const)
        return [self._add(GatherTerm(axis, chosen), self._operand(x))] if chosen else None
