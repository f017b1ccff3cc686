"""What graphs cost: parameters, arithmetic and memory access, of one node, of all nodes by kind,
and in total.

A FLOP is one operation on one element; a multiplication that is added up counts two (`macs` counts
it once). Memory access is what goes to and from memory when every node reads its operands and
writes its results, nothing fused or
kept: views cost nothing, selections read only what they take. Costs are numbers where sizes are,
and expressions of the symbols otherwise, until these are given.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Operator, Value
from infuse.ir.types import Shape, TensorType, Type
from infuse.ops.core.base import Op
from infuse.ops.core.feeds import default_size, input_symbols
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.traits import Trait


@dataclass(frozen=True)
class Cost:
    """Arithmetic and memory access; with `is_known` False for what is not known, which counts
    nothing.
    """

    macs: Dim = 0
    flops: Dim = 0
    read: Dim = 0
    """Bytes of operands, constants among them."""
    written: Dim = 0
    """Bytes of results."""
    is_known: bool = True

    @property
    def bytes(self) -> Dim:
        """Memory access: bytes read and written."""
        return self.read + self.written

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.macs + other.macs,
            self.flops + other.flops,
            self.read + other.read,
            self.written + other.written,
            self.is_known and other.is_known,
        )

    def __sub__(self, other: Cost) -> Cost:
        return self + replace(other * -1, is_known=other.is_known)

    def __mul__(self, times: Dim) -> Cost:
        return Cost(
            self.macs * times,
            self.flops * times,
            self.read * times,
            self.written * times,
            self.is_known,
        )

    def to_dict(self) -> dict[str, int | str]:
        """Plain data: numbers, or text where symbols remain."""
        parts = {"macs": self.macs, "flops": self.flops, "read": self.read, "written": self.written}
        return {name: size if isinstance(size, int) else str(size) for name, size in parts.items()}


NOTHING = Cost()


class Sizes:
    """Numbers for symbolic sizes: what is given, usual sizes for the other symbols of the inputs,
    one for the rest.

    `assumed` tells the sizes that were not given.
    """

    def __init__(self, graph: Graph, values: Mapping[str, int] | None = None) -> None:
        self.values: dict[str, int] = dict(values or {})
        self.assumed: dict[str, int] = {}
        self._known: dict[Dim, int] = {}
        for name in input_symbols(graph):
            if name not in self.values:
                self._assume(name, default_size(name))

    def _assume(self, name: str, size: int) -> None:
        self.values[name] = self.assumed[name] = size

    def __call__(self, dim: Dim) -> int:
        if isinstance(dim, int):
            return dim
        if dim not in self._known:
            for name in sorted(dims.symbols(dim) - self.values.keys()):
                self._assume(name, 1)
            self._known[dim] = max(dims.evaluate(dim, self.values), 0)
        return self._known[dim]


def node_cost(node: Node, sizes: Sizes | None = None) -> Cost:
    """The cost of one run of a node, without its bodies."""
    return cost_of(
        node.op,
        [None if v is None else v.type for v in node.inputs],
        [v.type for v in node.outputs],
        sizes,
    )


def cost_of(
    op: Operator, inputs: Sequence[Type | None], outputs: Sequence[Type], sizes: Sizes | None = None
) -> Cost:
    """The cost of an operator applied to operands of these types (None: absent)."""
    tensors = [t for t in (*inputs, *outputs) if t is not None]
    if any(not isinstance(t, TensorType) or t.shape is None for t in tensors):
        return Cost(is_known=False)
    shapes = [None if t is None else _shape(t, sizes) for t in inputs]
    made = [_shape(t, sizes) for t in outputs]
    kinds = [t.dtype if isinstance(t, TensorType) else None for t in inputs]
    work = op.flops(Shapes(shapes, made, kinds)) if isinstance(op, Op) else None
    weights = [kind.bytes if kind is not None else 0 for kind in kinds]
    taken = [dims.product(s) * w if s is not None else 0 for s, w in zip(shapes, weights)]
    written = [
        dims.product(s) * t.dtype.bytes for s, t in zip(made, outputs) if isinstance(t, TensorType)
    ]
    read, stored = _access(op, taken, written)
    count = work or Flops()
    return Cost(count.macs, count.macs * 2 + count.others, read, stored, work is not None)


def _shape(type: Type, sizes: Sizes | None) -> Shape:
    assert isinstance(type, TensorType)
    assert type.shape is not None
    return type.shape if sizes is None else tuple(sizes(d) for d in type.shape)


def _access(op: Operator, taken: Sequence[Dim], written: Sequence[Dim]) -> tuple[Dim, Dim]:
    """Bytes read and written."""
    made = _sum(written)
    traits = op.traits if isinstance(op, Op) else Trait.NONE
    if traits & (Trait.VIEW | Trait.RESHAPE):
        return 0, 0
    if Trait.SIZES in traits:
        return 0, made
    if Trait.SELECTION in traits:
        return made + _sum(taken[1:]), made
    return _sum(taken), made


def _sum(parts: Sequence[Dim]) -> Dim:
    total: Dim = 0
    for part in parts:
        total = total + part
    return total


# -- graphs ----------------------------------------------------------------------------------------


@dataclass
class Totals:
    """The cost of a graph: in total, and by kind of operator with the number of nodes."""

    nodes: int = 0
    cost: Cost = NOTHING
    parameters: int = 0
    """Floating-point elements of constants; constants that share their memory count once."""
    weight_bytes: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    costs: dict[str, Cost] = field(default_factory=dict)
    assumed: dict[str, int] = field(default_factory=dict)
    """Sizes of symbols that were taken for granted."""
    notes: list[str] = field(default_factory=list)
    """What is not counted, or only once."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        kinds = {
            kind: {"nodes": n, **self.costs[kind].to_dict()} for kind, n in self.kinds.most_common()
        }
        return {
            "nodes": self.nodes,
            **self.cost.to_dict(),
            "parameters": self.parameters,
            "weight_bytes": self.weight_bytes,
            "operators": kinds,
            "assumed": dict(self.assumed),
            "notes": list(self.notes),
        }


def totals(graph: Graph, values: Mapping[str, int] | None = None) -> Totals:
    """The cost of a graph with these sizes for its symbols, and usual ones for those that are not
    given.

    A Loop or Scan counts as often as it runs where that is known, else once; of an If, the dearer
    branch counts. The numbers of nodes count every body once.
    """
    sums = Totals()
    sizes = Sizes(graph, values)
    counting = _Counting(sizes)
    sums.cost = counting.graph(graph)
    sums.costs = dict(counting.costs)
    sums.kinds = Counter(
        node.kind for inner in graph.all_graphs() for node in inner.unordered_nodes
    )
    sums.nodes = sums.kinds.total()
    for kind in sums.kinds:
        sums.costs.setdefault(kind, NOTHING)
    sums.parameters, sums.weight_bytes = _constants(graph)
    sums.assumed = dict(sizes.assumed)
    sums.notes = [
        f"{n} × {kind}: its cost is not known and not counted"
        for kind, n in counting.unknown.items()
    ]
    sums.notes += counting.notes
    return sums


class _Counting:
    """Adds up costs by kind, `times` over."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.costs: dict[str, Cost] = defaultdict(Cost)
        self.unknown: Counter[str] = Counter()
        self.notes: list[str] = []

    def graph(self, graph: Graph, times: int = 1) -> Cost:
        total = NOTHING
        for node in graph.unordered_nodes:
            cost = node_cost(node, self.sizes)
            if not cost.is_known and not node.subgraphs:
                self.unknown[node.kind] += 1
            cost = replace(cost, is_known=True) * times
            self.costs[node.kind] = self.costs[node.kind] + cost
            total = total + cost
            if node.subgraphs:
                total = total + self._bodies(node, times)
        return total

    def _bodies(self, node: Node, times: int) -> Cost:
        if node.kind != "If":
            runs = times * self._runs(node)
            return sum((self.graph(body, runs) for body in node.subgraphs.values()), NOTHING)
        branches = [_Counting(self.sizes) for _ in node.subgraphs]
        costs = [
            branch.graph(body, times) for branch, body in zip(branches, node.subgraphs.values())
        ]
        dearest = max(
            range(len(costs)),
            key=lambda i: (self.sizes(costs[i].flops), self.sizes(costs[i].bytes)),
        )
        for kind, cost in branches[dearest].costs.items():
            self.costs[kind] = self.costs[kind] + cost
        for branch in branches:
            self.unknown.update(branch.unknown)
            self.notes += branch.notes
        return costs[dearest]

    def _runs(self, node: Node) -> int:
        """How often the body of a loop runs."""
        if node.kind == "Loop":
            most = known_ints(node.input(0))
            if most:
                return self.sizes(most[0])
        if node.kind == "Scan":
            scanned = node.inputs[-1]
            axes = node.op.attributes().get("scan_input_axes")
            if (
                scanned is not None
                and isinstance(scanned.type, TensorType)
                and scanned.tensor.shape
            ):
                return self.sizes(scanned.shape[axes[-1] if axes else 0])
        self.notes.append(
            f"{node.kind} {node.name!r}: how often it runs is not known; its body counts once"
        )
        return 1


def _constants(graph: Graph) -> tuple[int, int]:
    """Floating-point elements, and bytes, of all constants."""
    arrays: dict[int, Value] = {}
    for inner in graph.all_graphs():
        read = [v for node in inner.unordered_nodes for v in node.operands()]
        arrays.update((id(v.const), v) for v in (*read, *inner.outputs) if v.const is not None)
    floats = sum(v.const.size for v in arrays.values() if v.const is not None and v.dtype.is_float)
    return floats, sum(v.const.nbytes for v in arrays.values() if v.const is not None)
