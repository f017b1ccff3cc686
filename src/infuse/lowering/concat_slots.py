"""Results that are written where they are wanted: outputs of the graph, operands of a
concatenation, and what these are only views of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Use, Value
from infuse.ir.states import results_of
from infuse.lowering.kernel_table import ReadsParts
from infuse.lowering.tensors import Buffer, Tensor, dense
from infuse.lowering.view_chains import chain_to, place_before
from infuse.ops.core.base import Elementwise


class Slot(NamedTuple):
    """A part of a concatenation's result: where it begins along the axis, and the views between
    what is written there and the operand.
    """

    whole: Value
    axis: int
    size: Dim
    offset: Dim = 0
    views: tuple[Node, ...] = ()


class ConcatSlots:
    """`outputs`: where values may lie that are an output of the graph, or that one is a view of.
    `slots`: values that are a part of a concatenation's result, or that such a part is a view of.

    Both only where the sizes of the whole are in `sizes`, available before the run, but for outputs
    themselves.

    The result of a concatenation may be a part of a larger one itself, so that a chain of them,
    each of the one before and something new, needs the memory of the last and no copy. Who else
    reads a part must do with its strides, or nothing is gained: that is asked of `reads_parts`.
    """

    def __init__(
        self,
        graph: Graph,
        nodes: Sequence[Node],
        sizes: Collection[str],
        reads_parts: ReadsParts,
    ) -> None:
        self.graph = graph
        self.outputs: dict[Value, list[Tensor]] = {}
        self.slots: dict[Value, Slot] = {}
        self._roots: dict[Value, Value] = {}
        """The outermost result of which a result in a slot is a part."""
        self._reads_parts = reads_parts
        homes = [
            (value, dense(Buffer("output", 0, number), value.dtype, value.shape))
            for number, (_, value) in enumerate(results_of(graph))
            if self._makes(value)
        ]
        for value, home in homes:
            self.outputs.setdefault(value, []).append(home)
        for value, home in homes:
            if _is_known(value, sizes):
                self._choose_home(value, home)
        concats = [
            n
            for n in nodes
            if n.kind == "Concat" and n.op.domain == "" and _is_known(n.output, sizes)
        ]
        self._parts = {node: _parts(node) for node in concats}
        self._joined: dict[Value, list[Node]] = {}
        """The concatenations by what is a part of their results, as often as it is one."""
        for node, parts in self._parts.items():
            for value in parts:
                self._joined.setdefault(value, []).append(node)
        self._nest_concats(concats)
        for node in reversed(concats):
            self._choose_slots(node)

    def _makes(self, value: Value) -> bool:
        """Whether a node of the graph makes a value."""
        return value.producer is not None and value.producer.graph is self.graph

    def _choose_home(self, value: Value, home: Tensor) -> None:
        """What an output is a view of is written to its memory."""
        source, views = chain_to(value, lambda v: self._makes(v) and v.content is None)
        place = place_before(views, home)
        if views and place is not None:
            self.outputs.setdefault(source, []).append(place)

    def _root(self, node: Node) -> Value:
        return self._roots.get(node.output, node.output)

    def _put(self, value: Value, node: Node, size: Dim, offset: Dim, views: Sequence[Node]) -> None:
        self.slots[value] = Slot(node.output, _axis(node), size, offset, tuple(views))
        self._roots[value] = self._root(node)

    def _nest_concats(self, concats: list[Node]) -> None:
        """A concatenation whose operands are the first ones of a larger one is a part of that one's
        result.
        """
        by_first: dict[tuple[Value | None, int], list[Node]] = {}
        for node in concats:
            by_first.setdefault((node.inputs[0], _axis(node)), []).append(node)
        for (_, axis), family in by_first.items():
            family.sort(key=lambda n: len(n.inputs), reverse=True)
            whole = family[0]
            for node in family[1:]:
                if (
                    node.output not in self.outputs
                    and node.inputs == whole.inputs[: len(node.inputs)]
                ):
                    self._put(node.output, whole, node.output.shape[axis], 0, ())

    def _choose_slots(self, node: Node) -> None:
        axis = _axis(node)
        offset: Dim = 0
        for value in self._parts[node]:
            size = value.shape[axis]
            source, views = chain_to(value, self._is_seen_alone)
            if views and len(value.uses) > 1:
                source, views = value, []
            if (
                self._makes(source)
                and source.content is None
                and source not in self.slots
                and source not in self.outputs
                and (self._is_seen_alone(source) if views else self._fits(value, node))
            ):
                self._put(source, node, size, offset, views)
            offset = offset + size

    def _is_seen_alone(self, value: Value) -> bool:
        """Whether one node reads a value that the graph makes, and nobody else."""
        return self._makes(value) and len(value.uses) == 1 and not value.is_graph_output

    def _fits(self, value: Value, node: Node) -> bool:
        """Whether concatenations that share their memory have the value as a part, each once, and
        all others read it where it lies.
        """
        joins = self._joined[value]
        return (
            len(joins) == len(set(joins))
            and len({self._root(join) for join in joins}) == 1
            and all(self._fits_use(use, node, joins) for use in _uses_of_parts(value, node))
        )

    def _fits_use(self, use: Use, node: Node, joins: Collection[Node]) -> bool:
        user, axis = use.user, _axis(node)
        if not isinstance(user, Node) or user.graph is not node.graph:
            return False
        if user in joins or isinstance(user.op, Elementwise):
            return True
        # Parts along an outermost axis have no gaps; images of one lie with their channels last.
        shape = node.output.shape
        whole = all(size == 1 for size in shape[:axis]) and (axis == 0 or len(shape) < 4)
        return whole or (use.index == 0 and self._reads_parts(user, axis))


def _uses_of_parts(value: Value, node: Node) -> Iterator[Use]:
    """Who reads a value, or a part of it that a split made along the axis of `node`."""
    for use in value.uses:
        if isinstance(use.user, Node) and _splits(use.user, _axis(node)):
            for output in use.user.outputs:
                yield from output.uses
        else:
            yield use


def _parts(node: Node) -> list[Value]:
    """The operands of a concatenation; what a split along its axis took apart as one."""
    parts: list[Value] = []
    operands = list(node.operands())
    while operands:
        first, count = operands[0], 1
        split = first.producer
        if split is not None and split.graph is node.graph and _splits(split, _axis(node)):
            whole = split.inputs[0]
            if whole is not None and operands[: len(split.outputs)] == list(split.outputs):
                first, count = whole, len(split.outputs)
        parts.append(first)
        del operands[:count]
    return parts


def _splits(node: Node, axis: int) -> bool:
    if node.kind != "Split" or node.op.domain != "":
        return False
    return int(node.op.attributes()["axis"]) % node.outputs[0].rank == axis


def _axis(node: Node) -> int:
    """The axis of a concatenation, counted from the front."""
    return int(node.op.attributes()["axis"]) % node.output.rank


def _is_known(value: Value, sizes: Collection[str]) -> bool:
    return set().union(*map(dims.symbols, value.shape)) <= set(sizes)
