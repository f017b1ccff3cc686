"""Neighbouring slices of one tensor taken apart at once."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from infuse.ir.contents import known_ints
from infuse.ir.graph import Graph, Node, Value
from infuse.ops.movement import Slice, Split, bounds
from infuse.rewrite import Pass
from infuse.rewrite.node_ref import label
from infuse.rewrite.patch import Patch, redirect, remove_dead
from infuse.rewrite.record import Report, Rewrite

Part = tuple[int, int, Node]


class SlicesAsSplit(Pass):
    """Slices that cut one axis of a tensor into pieces without gap or overlap → Split"""

    level = "basic"
    rows = ("G8", "G9")
    requires = ("EliminateCommonSubexpressions",)

    def run(self, graph: Graph, report: Report) -> None:
        for inner in graph.all_graphs():
            slices: dict[tuple[Value, int], list[Part]] = defaultdict(list)
            for node in inner.unordered_nodes:
                cut = _cut(node)
                if cut is not None:
                    value, axis, start, end = cut
                    slices[value, axis].append((start, end, node))
            for (value, axis), parts in slices.items():
                if len(parts) > 1:
                    self._split(inner, value, axis, sorted(parts, key=lambda p: p[:2]), report)

    def _split(
        self, graph: Graph, value: Value, axis: int, parts: list[Part], report: Report
    ) -> None:
        borders = [0, *(end for _, end, _ in parts)]
        if [start for start, _, _ in parts] != borders[:-1] or borders[-1] != value.shape[axis]:
            return
        nodes = [node for _, _, node in parts]
        patch = Patch(graph, [name for node in nodes for name in node.origin], nodes[0].name)
        sizes = patch.value(np.diff(borders))
        split = patch.add(Split(axis=axis), [value, sizes], len(parts))
        for node, output in zip(nodes, split.outputs):
            redirect(node.output, output)
        removed = label(remove_dead(nodes))
        report.add(Rewrite(self.name, removed, label([split]), self.level, self.rows))


def _cut(node: Node) -> tuple[Value, int, int, int] | None:
    """The value, axis and range of a Slice along one axis of known size, None for any other
    node.
    """
    if not isinstance(node.op, Slice) or node.inputs[0] is None or node.inputs[0].is_const:
        return None
    value = node.inputs[0]
    starts, ends = known_ints(node.input(1)), known_ints(node.input(2))
    axes = (0,) if node.input(3) is None else known_ints(node.input(3))
    steps = (1,) if node.input(4) is None else known_ints(node.input(4))
    if (
        value.tensor.shape is None
        or not starts
        or len(starts) != 1
        or not ends
        or not axes
        or steps != (1,)
    ):
        return None
    if not all(isinstance(n, int) for n in (starts[0], ends[0], axes[0])):
        return None
    axis = int(axes[0]) % value.rank
    size = value.shape[axis]
    if not isinstance(size, int):
        return None
    start, end = bounds(size, int(starts[0]), int(ends[0]), 1)
    return (value, axis, start, end) if end > start else None
