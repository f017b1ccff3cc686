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
from typing import Any, NamedTuple

from infuse.errors import OptionError
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.operator import Operator
from infuse.ir.types import Shape, TensorType, Type
from infuse.ops.core.base import Op
from infuse.ops.core.feeds import default_size, input_symbols
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.traits import Trait
from infuse.options.data import require_symbols


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


def checked_sizes(graph: Graph, values: Mapping[str, int] | None) -> Sizes:
    """The sizes of a graph's symbols; OptionError for symbols that the graph does not have, and
    for sizes below zero.
    """
    require_symbols(values or {}, input_symbols(graph))
    negative = [f"{name} = {size}" for name, size in (values or {}).items() if size < 0]
    if negative:
        raise OptionError(f"no size is less than zero: {', '.join(negative)}")
    return Sizes(graph, values)


def node_cost(node: Node, sizes: Sizes | None = None) -> Cost:
    """The cost of one run of a node, without its bodies."""
    return cost_of(
        node.op,
        [None if v is None else v.type for v in node.inputs],
        [v.type for v in node.outputs],
        sizes,
    )


def cost_of(
    op: Operator,
    inputs: Sequence[Type | None],
    outputs: Sequence[Type],
    sizes: Sizes | None = None,
    stored: Mapping[int, int] | None = None,
) -> Cost:
    """The cost of an operator applied to operands of these types (None: absent).

    `stored` has the bytes that operands take in memory, by their place, where these are not those
    of their elements: of weights that are kept quantized.
    """
    tensors = [t for t in (*inputs, *outputs) if t is not None]
    if any(not isinstance(t, TensorType) or t.shape is None for t in tensors):
        return Cost(is_known=False)
    shapes = [None if t is None else _shape(t, sizes) for t in inputs]
    results = [_shape(t, sizes) for t in outputs]
    kinds = [t.dtype if isinstance(t, TensorType) else None for t in inputs]
    work = op.flops(Shapes(shapes, results, kinds)) if isinstance(op, Op) else None
    weights = [kind.bytes if kind is not None else 0 for kind in kinds]
    whole = [dims.product(s) * w if s is not None else 0 for s, w in zip(shapes, weights)]
    taken = [(stored or {}).get(place, size) for place, size in enumerate(whole)]
    written = [
        dims.product(s) * t.dtype.bytes
        for s, t in zip(results, outputs)
        if isinstance(t, TensorType)
    ]
    selected = _sum(written)
    if stored and 0 in stored:
        selected = selected * stored[0] // max(number(whole[0]), 1)
    read, made = _access(op, taken, written, selected)
    count = work or Flops()
    return Cost(count.macs, count.macs * 2 + count.others, read, made, work is not None)


def number(size: Dim) -> int:
    """A size that is known to be no expression of symbols."""
    assert isinstance(size, int)
    return size


def _shape(type: Type, sizes: Sizes | None) -> Shape:
    assert isinstance(type, TensorType)
    assert type.shape is not None
    return type.shape if sizes is None else tuple(sizes(d) for d in type.shape)


def _access(
    op: Operator, taken: Sequence[Dim], written: Sequence[Dim], selected: Dim
) -> tuple[Dim, Dim]:
    """Bytes read and written; `selected` are those that a selection reads of its first operand."""
    made = _sum(written)
    traits = op.traits if isinstance(op, Op) else Trait.NONE
    if traits & (Trait.VIEW | Trait.RESHAPE):
        return 0, 0
    if Trait.SIZES in traits:
        return 0, made
    if Trait.SELECTION in traits:
        return selected + _sum(taken[1:]), made
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
    entries, notes = count_nodes(graph, sizes)
    costs: dict[str, Cost] = defaultdict(Cost)
    unknown: Counter[str] = Counter()
    for node, _, cost in entries:
        sums.kinds[node.kind] += 1
        costs[node.kind] = costs[node.kind] + replace(cost, is_known=True)
        if not cost.is_known and not node.subgraphs:
            unknown[node.kind] += 1
    sums.costs = dict(costs)
    sums.cost = sum(costs.values(), NOTHING)
    sums.nodes = len(entries)
    sums.parameters, sums.weight_bytes = _constants(graph)
    sums.assumed = dict(sizes.assumed)
    sums.notes = unknown_notes(unknown) + notes
    return sums


def unknown_notes(unknown: Mapping[str, int]) -> list[str]:
    """What to say of so many nodes of these kinds whose cost is not known."""
    return [f"{n} × {kind}: its cost is not known and not counted" for kind, n in unknown.items()]


class Counted(NamedTuple):
    """A node, how often it runs in one run of the graph, and what these runs cost."""

    node: Node
    runs: int
    cost: Cost


def count_nodes(graph: Graph, sizes: Sizes) -> tuple[list[Counted], list[str]]:
    """All nodes of a graph and its bodies in execution order, a body after the node that has it;
    and what to know of the counts.

    A Loop or Scan counts as often as it runs where that is known, else once; of an If, the nodes of
    the dearer branch count, the others run 0 times.
    """
    counting = _Counting(sizes)
    counting.graph(graph)
    return counting.entries, counting.notes


class _Counting:
    """Adds up nodes and their costs, `times` over."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.entries: list[Counted] = []
        self.notes: list[str] = []

    def graph(self, graph: Graph, times: int = 1) -> Cost:
        total = NOTHING
        for node in graph.nodes:
            cost = node_cost(node, self.sizes) * times
            self.entries.append(Counted(node, times, cost))
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
        for place, branch in enumerate(branches):
            taken = place == dearest
            self.entries += branch.entries if taken else map(_never, branch.entries)
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


def _never(counted: Counted) -> Counted:
    """The node in a branch that is not taken."""
    return Counted(counted.node, 0, counted.cost * 0)


def body_of(node: Node) -> str:
    """The control-flow body that a node stands in, as `If name / then_branch`; empty in the main
    graph.
    """
    graph = node.graph
    parent = None if graph is None else graph.parent
    if parent is None:
        return ""
    name = next(name for name, body in parent.subgraphs.items() if body is graph)
    return f"{parent.kind} {parent.name} / {name}"


def _constants(graph: Graph) -> tuple[int, int]:
    """Floating-point elements, and bytes, of all constants."""
    arrays: dict[int, Value] = {}
    for inner in graph.all_graphs():
        read = [v for node in inner.unordered_nodes for v in node.operands()]
        arrays.update((id(v.const), v) for v in (*read, *inner.outputs) if v.const is not None)
    floats = sum(v.const.size for v in arrays.values() if v.const is not None and v.dtype.is_float)
    return floats, sum(stored_bytes(value) for value in arrays.values())


def stored_bytes(value: Value) -> int:
    """Bytes of a constant in a file: elements of few bits lie side by side."""
    assert value.const is not None
    bits = value.dtype.bits
    return -(-value.const.size * bits // 8) if 0 < bits < 8 else value.const.nbytes
