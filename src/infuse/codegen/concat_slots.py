"""Results that are written where they are wanted: outputs of the graph, operands of a
concatenation, and what these are only views of.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from infuse.codegen.tensors import Buffer, Tensor, dense
from infuse.codegen.view_chains import chain_to, place_before
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value
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
    """

    def __init__(self, graph: Graph, nodes: Sequence[Node], sizes: Collection[str]) -> None:
        self.graph = graph
        self.outputs: dict[Value, list[Tensor]] = {}
        self.slots: dict[Value, Slot] = {}
        homes = [
            (value, dense(Buffer("output", 0, number), value.dtype, value.shape))
            for number, value in enumerate(graph.outputs)
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
        self._nest_concats(concats)
        for node in concats:
            self._choose_slots(node)

    def _makes(self, value: Value) -> bool:
        """Whether a node of the graph makes a value, whose elements are not known before."""
        return value.producer is not None and value.producer.graph is self.graph

    def _choose_home(self, value: Value, home: Tensor) -> None:
        """What an output is a view of is written to its memory."""
        source, views = chain_to(value, lambda v: self._makes(v) and v.content is None)
        place = place_before(views, home)
        if views and place is not None:
            self.outputs.setdefault(source, []).append(place)

    def _nest_concats(self, concats: list[Node]) -> None:
        """A concatenation whose operands are the first ones of a larger one is a part of that one's
        result.
        """
        by_first: dict[tuple[Value | None, int], list[Node]] = {}
        for node in concats:
            axis = node.op.attributes()["axis"] % node.output.rank
            by_first.setdefault((node.inputs[0], axis), []).append(node)
        for (_, axis), family in by_first.items():
            family.sort(key=lambda n: len(n.inputs), reverse=True)
            whole = family[0]
            for node in family[1:]:
                if (
                    node.output not in self.outputs
                    and node.inputs == whole.inputs[: len(node.inputs)]
                ):
                    self.slots[node.output] = Slot(whole.output, axis, node.output.shape[axis])

    def _choose_slots(self, node: Node) -> None:
        if node.output in self.slots:
            return
        axis = node.op.attributes()["axis"] % node.output.rank
        offset: Dim = 0
        for value in node.operands():
            size = value.shape[axis]
            source, views = chain_to(value, self._is_seen_alone)
            if views and len(value.uses) > 1:
                source, views = value, []
            if (
                self._makes(source)
                and source.content is None
                and source not in self.slots
                and source not in self.outputs
                and (self._is_seen_alone(source) if views else self._only_joined(source))
            ):
                self.slots[source] = Slot(node.output, axis, size, offset, tuple(views))
            offset = offset + size

    def _is_seen_alone(self, value: Value) -> bool:
        """Whether one node reads a value that the graph makes, and nobody else."""
        return self._makes(value) and len(value.uses) == 1 and not value.is_graph_output

    def _only_joined(self, value: Value) -> bool:
        """Whether concatenations that share their memory read the value, each once, and otherwise
        elementwise work.
        """
        users = list(value.users())
        joins = [u for u in users if u.kind == "Concat"]
        if value.is_graph_output or not all(
            u in joins or isinstance(u.op, Elementwise) for u in users
        ):
            return False
        if any(u.graph is not joins[0].graph for u in users):
            return False
        roots = {self.slots[u.output].whole if u.output in self.slots else u.output for u in joins}
        return len(roots) == 1 and sum(use.user in joins for use in value.uses) == len(joins)


def _is_known(value: Value, sizes: Collection[str]) -> bool:
    return set().union(*map(dims.symbols, value.shape)) <= set(sizes)
