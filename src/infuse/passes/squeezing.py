"""Squeeze of whatever has size one: a choice of axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse.ir import dims
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.types import UNKNOWN
from infuse.ops.comparison import Equal
from infuse.ops.control import If
from infuse.ops.shaping import Shape, Squeeze
from infuse.passes.branches import branch_name
from infuse.passes.inline import replace_outputs
from infuse.rewrite import Pass
from infuse.rewrite.patch import Patch
from infuse.rewrite.record import Report

MOST_OPEN = 2
"""Sizes that only the run tells, up to which there is a branch for every choice of axes."""


class ChooseSqueezedAxes(Pass):
    """Squeeze of all axes of size one, some of them of unknown size → If by each of those sizes."""

    level = "all"
    rows = ("C7", "G24")

    def run(self, graph: Graph, report: Report) -> None:
        for inner in list(graph.all_graphs()):
            for node in list(inner.unordered_nodes):
                if node.kind == "Squeeze" and node.op.domain == "" and node.input(1) is None:
                    self._choose(node, inner, report)

    def _choose(self, node: Node, graph: Graph, report: Report) -> None:
        x = node.inputs[0]
        if x is None or x.tensor.shape is None:
            return
        equal = [dims.compare("==", size, 1) for size in x.shape]
        ones = [axis for axis, is_one in enumerate(equal) if is_one is True]
        open_ = [axis for axis, is_one in enumerate(equal) if is_one is None]
        if 1 <= len(open_) <= MOST_OPEN:
            patch = Patch(graph, node.origin, node.name)
            result = _squeezed(patch, x, ones, open_)
            replace_outputs(self, node, [result], patch.created, report)


def _squeezed(patch: Patch, x: Value, ones: Sequence[int], open_: Sequence[int]) -> Value:
    """`x` without the axes `ones`, and those of `open_` whose size is one."""
    if not open_:
        axes = constant(np.array(sorted(ones)))
        return patch.add(Squeeze(), [x, axes]).output if ones else x
    axis, *others = open_
    size = patch.add(Shape(start=axis, end=axis + 1), [x]).output
    condition = patch.add(Equal(), [size, constant(np.array([1]))]).output
    bodies = {}
    for truth in (True, False):
        body = Graph(f"{patch.name}/{branch_name(truth)}")
        inner = Patch(body, patch.origin, patch.name)
        chosen = [*ones, axis] if truth else ones
        body.add_output(_squeezed(inner, x, chosen, others), f"{patch.name}/{len(chosen)}")
        bodies[branch_name(truth)] = body
    result = Value(UNKNOWN, patch.name)
    node = Node(If(), [condition], [result], name=patch.name, origin=patch.origin, subgraphs=bodies)
    node.op.infer_node(patch.graph.add_node(node))
    patch.created.append(node)
    return result
