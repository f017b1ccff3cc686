"""Computed sizes in their shortest form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from infuse import dtypes, ops
from infuse.ir import dims
from infuse.ir.dims import Atom, Dim, Expr
from infuse.ir.expression import Call
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.types import TensorType
from infuse.rewrite import Pass
from infuse.rewrite.node_ref import label
from infuse.rewrite.patch import Patch, redirect, remove_dead
from infuse.rewrite.record import Report, Rewrite

REACH = 64
"""Nodes above a list of sizes that are looked at."""
CHOICES = 8
"""Values that are considered for one size."""


class ShortenSizes(Pass):
    """Sizes computed in roundabout ways → Shape of what has them, and the arithmetic that is left,
    where that is fewer nodes
    """

    level = "basic"
    rows = ("G1", "G6")
    requires = ("EliminateCommonSubexpressions",)

    def run(self, graph: Graph, report: Report) -> None:
        for inner in graph.all_graphs():
            inputs = Places(_inputs_around(inner))
            for node in inner.nodes:
                if node.graph is inner and _is_wanted(node):
                    self._shorten(node, inputs, report)

    def _shorten(self, node: Node, inputs: Places, report: Report) -> None:
        value, graph = node.output, node.graph
        assert graph is not None
        above = _above(node)
        if len(above) < 2:
            return
        writer = SizeWriter(
            inputs, Places(v for n in above if n.kind == "Shape" for v in n.operands())
        )
        written = writer.value(value)
        if written is None or writer.count >= _alone(node, written):
            return
        patch = Patch(graph, [name for n in reversed(above) for name in n.origin], node.name)
        new = patch.value(written)
        new.content = value.content
        if new.type != value.type:
            patch.undo()
            return
        redirect(value, new)
        patch.created[-1].name = node.name or patch.created[-1].name
        removed = label(remove_dead([node]))
        report.add(Rewrite(self.name, removed, label(patch.created), self.level, self.rows))


def _inputs_around(graph: Graph) -> list[Value]:
    """The inputs of a graph and of those around it that have shapes, the outermost first."""
    values: list[Value] = []
    inner: Graph | None = graph
    while inner is not None:
        ranked = [v for v in inner.inputs if isinstance(v.type, TensorType) and v.type.shape]
        values = [*ranked, *values]
        inner = inner.parent.graph if inner.parent is not None else None
    return values


def _is_wanted(node: Node) -> bool:
    """Whether a node computes sizes of which others than sizes are made."""
    value = node.output
    if (
        value.content is None
        or len(node.outputs) > 1
        or value.dtype not in (dtypes.int64, dtypes.int32)
    ):
        return False
    if value.content.ndim > 1 or not any(isinstance(d, Expr) for d in value.content.reshape(-1)):
        return False
    return any(
        not isinstance(use.user, Node) or use.user.output.content is None for use in value.uses
    )


def _above(node: Node) -> list[Node]:
    """The node and those that compute the sizes it is made of, no more than `REACH`."""
    above = {node: None}
    pending = [node]
    while pending and len(above) < REACH:
        for value in pending.pop().operands():
            producer = value.producer
            if producer is not None and value.content is not None and producer not in above:
                above[producer] = None
                pending.append(producer)
    return list(above)


def _alone(node: Node, written: Any) -> int:
    """How many nodes, from `node` upwards, would serve nobody where `written` took its place."""
    sources = set(_sources(written))
    own = {node}
    pending = [node]
    while pending and len(own) < REACH:
        for value in pending.pop().operands():
            producer = value.producer
            if producer is None or producer in own or not sources.isdisjoint(producer.outputs):
                continue
            if all(use.user in own for v in producer.outputs for use in v.uses):
                own.add(producer)
                pending.append(producer)
    return len(own)


def _sources(written: Any) -> Iterator[Value]:
    """The values that an expression reads."""
    if isinstance(written, Value):
        yield written
    elif isinstance(written, Call):
        for argument in written.args:
            yield from _sources(argument)


class Places:
    """Where sizes are found among the shapes of values."""

    def __init__(self, values: Iterable[Value]) -> None:
        self._found: dict[Dim, list[tuple[Value, int]]] = {}
        for value in dict.fromkeys(values):
            for axis, size in enumerate(value.tensor.shape or ()):
                self._found.setdefault(size, []).append((value, axis))

    def of(self, size: Dim) -> list[tuple[Value, int]]:
        """Some values and axes that have this size."""
        return self._found.get(size, [])[:CHOICES]


class SizeWriter:
    """Writes sizes as expressions over values that have them; `count` nodes are needed."""

    def __init__(self, *places: Places) -> None:
        self.places = places
        self.count = 0
        self.written: dict[Any, Any] = {}

    def places_of(self, size: Dim) -> list[tuple[Value, int]]:
        return [place for places in self.places for place in places.of(size)]

    def value(self, value: Value) -> Any:
        """An expression of the type and content of `value`; None where a size has no source."""
        assert value.content is not None
        sizes = value.content.reshape(-1).tolist()
        written = self.list(sizes)
        if written is None or isinstance(written, np.ndarray):
            return None
        if value.content.ndim == 0:
            written = self.made(ops.squeeze(written, np.array([0])))
        if value.dtype != dtypes.int64:
            written = self.made(ops.cast(written, to=value.dtype))
        return written

    def made(self, call: Call) -> Call:
        self.count += 1
        return call

    def list(self, sizes: Sequence[Dim]) -> Any:
        parts: list[Any] = []
        place = 0
        while place < len(sizes):
            length, part = self.run(sizes[place:])
            if part is None:
                return None
            if parts and isinstance(part, np.ndarray) and isinstance(parts[-1], np.ndarray):
                parts[-1] = np.concatenate([parts[-1], part])
            else:
                parts.append(part)
            place += length
        return parts[0] if len(parts) == 1 else self.made(ops.concat(*parts, axis=0))

    def run(self, sizes: Sequence[Dim]) -> tuple[int, Any]:
        """The first sizes, as many as one expression gives, and that."""
        if not isinstance(sizes[0], Expr):
            return 1, np.array([sizes[0]])
        candidates = [
            (_agreeing(sizes, v.shape[axis:]), axis, v) for v, axis in self.places_of(sizes[0])
        ]
        if not candidates:
            return 1, self.size(sizes[0])
        length, axis, source = max(candidates, key=lambda each: each[0])
        key = (id(source), axis, length)
        if key not in self.written:
            whole = axis == 0 and length == source.rank
            self.written[key] = self.made(
                ops.shape(source) if whole else ops.shape(source, start=axis, end=axis + length)
            )
        return length, self.written[key]

    def size(self, dim: Dim) -> Any:
        """One size as a list of one number; None where it cannot be written."""
        if not isinstance(dim, Expr):
            return np.array([dim])
        if dim not in self.written:
            self.written[dim] = self.run([dim])[1] if self.places_of(dim) else self.polynomial(dim)
        return self.written[dim]

    def polynomial(self, dim: Expr) -> Any:
        total: Any = None
        for monomial, coefficient in sorted(
            dim.terms.items(), key=lambda term: (term[1] < 0, dims.term_key(term))
        ):
            factors = [self.atom(atom) for atom, power in monomial for _ in range(power)]
            if any(f is None for f in factors):
                return None
            if abs(coefficient) != 1 or not factors:
                factors.append(np.array([abs(coefficient)]))
            term = factors[0]
            for factor in factors[1:]:
                term = self.made(ops.mul(term, factor))
            if total is None and coefficient < 0:
                return None
            total = (
                term
                if total is None
                else self.made((ops.sub if coefficient < 0 else ops.add)(total, term))
            )
        return total

    def atom(self, atom: Atom) -> Any:
        alone = Expr({((atom, 1),): 1})
        if self.places_of(alone):
            return self.size(alone)
        if atom.kind == "symbol":
            return None
        a, b = atom.args
        exact = dims.is_nonnegative(a) and dims.compare(">", b, 0) is True
        if atom.kind in ("div", "mod") and not exact:
            return None
        first, second = self.size(a), self.size(b)
        if first is None or second is None:
            return None
        if atom.kind == "broadcast":
            is_one = self.made(ops.equal(first, np.array([1])))
            return self.made(ops.where(is_one, second, first))
        function = {"div": ops.div, "mod": ops.mod, "max": ops.max, "min": ops.min}[atom.kind]
        return self.made(function(first, second))


def _agreeing(sizes: Sequence[Dim], shape: Sequence[Dim]) -> int:
    """How many sizes agree from the beginning; numbers alone at the end do not count."""
    length = 0
    for place, (a, b) in enumerate(zip(sizes, shape), 1):
        if a != b:
            break
        length = place if isinstance(a, Expr) else length
    return length
