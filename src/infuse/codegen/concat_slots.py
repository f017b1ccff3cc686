"""Results that are written where they are wanted: outputs of the graph, operands of a
concatenation.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from infuse.codegen.tensors import Buffer
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value
from infuse.ops.core.base import Elementwise


class ConcatSlots:
    """`outputs`: the buffer of a graph output, by value. `slots`: values that are a part of a
    concatenation's result, with that result, the axis, and where along it they begin; only where
    its size is in `sizes`, available before the run.
    """

    def __init__(self, graph: Graph, nodes: Sequence[Node], sizes: Collection[str]) -> None:
        self.outputs: dict[Value, Buffer] = {}
        self.slots: dict[Value, tuple[Value, int, Dim]] = {}
        for number, value in enumerate(graph.outputs):
            if (
                value not in self.outputs
                and value.producer is not None
                and value.producer.graph is graph
            ):
                self.outputs[value] = Buffer("output", 0, number)
        concats = [
            n
            for n in nodes
            if n.kind == "Concat" and n.op.domain == "" and _is_known(n.output, sizes)
        ]
        self._nest_concats(concats)
        for node in concats:
            self._choose_slots(node)

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
                    self.slots[node.output] = (whole.output, axis, 0)

    def _choose_slots(self, node: Node) -> None:
        if node.output in self.slots:
            return
        axis = node.op.attributes()["axis"] % node.output.rank
        offset: Dim = 0
        for value in node.operands():
            makes = (
                value.producer is not None
                and value.producer.graph is node.graph
                and value.content is None
            )
            if (
                makes
                and value not in self.slots
                and value not in self.outputs
                and self._only_joined(value)
            ):
                self.slots[value] = (node.output, axis, offset)
            offset = offset + value.shape[axis]

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
        roots = {self.slots[u.output][0] if u.output in self.slots else u.output for u in joins}
        return len(roots) == 1 and sum(use.user in joins for use in value.uses) == len(joins)


def _is_known(value: Value, sizes: Collection[str]) -> bool:
    return set().union(*map(dims.symbols, value.shape)) <= set(sizes)
