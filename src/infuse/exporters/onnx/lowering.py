"""A graph in a chosen opset: every node spelled, or decomposed into nodes that are."""

from __future__ import annotations

import logging

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.exporters.onnx import (  # noqa: F401  (each registers its steps)
    older_forms,
    scalars,
)
from infuse.exporters.onnx.attending import wide_mask
from infuse.exporters.onnx.decompose import DECOMPOSITIONS, OWN, Inputs, build, decompose
from infuse.exporters.onnx.spelling import NotExpressible, Spelling, spell
from infuse.exporters.onnx.ties import keep_ties
from infuse.exporters.onnx.trees import part_trees
from infuse.ir.clone import clone
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.registry import make_operator
from infuse.ir.types import TensorType
from infuse.ops.reduction import REDUCTIONS

_log = logging.getLogger(__name__)
LOWEST = 13
LISTS = {
    **dict.fromkeys(
        ("Expand", "Reshape", "Split", "Squeeze", "Tile", "TopK", "Unsqueeze", *REDUCTIONS), (1,)
    ),
    "ReduceSum": (1,),
    "Slice": (1, 2, 3, 4),
    "Pad": (1, 3),
    "ConstantOfShape": (0,),
}
"""Inputs that ONNX wants as lists, by operator."""
SCALARS = {
    **dict.fromkeys(("CumSum", "Dropout", "Loop", "OneHot", "Trilu"), (1,)),
    "Clip": (1, 2),
    "If": (0,),
    "Range": (0, 1, 2),
}
"""Inputs that ONNX wants without axes, by operator."""
USUAL = 17


class Lowered:
    """A copy of a graph that can be written in `opset`: `spellings` says how each of its nodes
    is.
    """

    def __init__(self, graph: Graph, opset: int) -> None:
        self.opset = opset
        self.graph = clone(graph)
        keep_ties(self.graph)
        for inner in list(self.graph.all_graphs()):
            part_trees(inner)
        self.spellings: dict[Node, Spelling] = {}
        self._masks: dict[tuple[Value, Dim, Graph], Value] = {}
        for inner in list(self.graph.all_graphs()):
            _settle_outputs(inner)
            for node in inner.nodes:
                self._node(node, inner)

    def _node(self, node: Node, graph: Graph) -> None:
        for index, target in _reshaped(node):
            self._reshape(node, index, target, graph)
        try:
            if node.op.domain == OWN and node.kind in DECOMPOSITIONS:
                raise NotExpressible("ONNX does not have it")
            self.spellings[node] = spell(node, self.opset)
            if node.kind == "Attention":
                self._widen_mask(node, graph)
        except NotExpressible as reason:
            self._decompose(node, graph, reason)

    def _reshape(self, node: Node, index: int, target: tuple[int, ...], graph: Graph) -> None:
        """Give an input of one node another shape."""
        value = node.inputs[index]
        assert value is not None
        if value.const is not None:
            node.set_operand(index, constant(value.const.reshape(target), value.name, value.dtype))
            return
        shaped = Value(TensorType(value.dtype, target), f"{value.name}/{node.kind}")
        operands = [value, constant(np.array(target, np.int64))]
        new = Node(make_operator("", "Reshape", {}), operands, [shaped], name=shaped.name)
        graph.add_node(new)
        node.set_operand(index, shaped)
        self._node(new, graph)

    def _widen_mask(self, node: Node, graph: Graph) -> None:
        """Give the mask of an Attention all its rows, once for all that read it."""
        expression = wide_mask(Inputs(node))
        mask, query = node.input(3), node.inputs[0]
        if expression is None or mask is None or query is None:
            return
        key = (mask, query.shape[-2], graph)
        if key not in self._masks:
            self._masks[key], created = build(expression, node, graph)
            for new in created:
                self._node(new, graph)
        node.set_operand(3, self._masks[key])
        self.spellings[node] = spell(node, self.opset)

    def _decompose(self, node: Node, graph: Graph, reason: NotExpressible) -> None:
        """Put nodes that can be spelled in place of `node`, which cannot be for `reason`."""
        try:
            results, created = decompose(node, graph)
        except NotExpressible as other:
            what = f"{node.kind} cannot be written in opset {self.opset}: {reason}; {other}"
            raise _Refused(what, f"{node.kind} node {node.name!r}", reason.needs) from other
        for value, result in zip(node.outputs, results):
            if result is not None:
                value.replace_by(result)
                if result.producer in created:
                    result.name = value.name
        makers = dict.fromkeys(
            v.producer
            for v in node.operands()
            if v.producer is not None and v.producer.graph is graph
        )
        graph.remove(node)
        for maker in makers:
            if not any(value.uses for value in maker.outputs):
                graph.remove(maker)
        for new in created:
            self._node(new, graph)


def _reshaped(node: Node) -> list[tuple[int, tuple[int, ...]]]:
    """Inputs that Infuse takes in any shape, and the shape of one or no axis that ONNX asks of
    them.
    """
    if node.op.domain:
        return []
    places = [(i, (-1,)) for i in LISTS.get(node.kind, ())] + [
        (i, ()) for i in SCALARS.get(node.kind, ())
    ]
    shapes = ((index, target, node.input(index)) for index, target in places)
    odd = [
        (i, t, v)
        for i, t, v in shapes
        if v is not None and v.tensor.shape is not None and v.rank != len(t)
    ]
    return [(i, t) for i, t, v in odd if t or v.tensor.size == 1]


class _Refused(Exception):
    def __init__(self, what: str, where: str, needs: int | None) -> None:
        super().__init__(what)
        self.what, self.where, self.needs = what, where, needs


def lower(graph: Graph, opset: int | None) -> Lowered:
    """`graph` in `opset`, or when that is None in the lowest one that can express it, from the
    model's own (or 17) on.

    UnsupportedOperatorError when a node has no form there. A raised opset is logged with the
    reason.
    """
    own = graph.opsets.get("", USUAL)
    tried = opset if opset is not None else max(own, LOWEST)
    reason = f"the oldest that is written is {LOWEST}"
    while True:
        try:
            lowered = Lowered(graph, tried)
            if opset is None and tried != own:
                _log.warning(
                    "%s is written in opset %d in place of %d: %s", graph.name, tried, own, reason
                )
            if alone := sorted({node.kind for node in lowered.spellings if node.op.domain == OWN}):
                _log.warning(
                    "%s has operators that only Infuse runs: %s", graph.name, ", ".join(alone)
                )
            return lowered
        except _Refused as refusal:
            if opset is not None or refusal.needs is None:
                hint = f"opset {refusal.needs} may have it" if refusal.needs else None
                raise UnsupportedOperatorError(
                    refusal.what, where=refusal.where, hint=hint
                ) from refusal
            tried, reason = refusal.needs, f"{refusal.where}: {refusal.what}"


def _settle_outputs(graph: Graph) -> None:
    """Let every output be made by a node of this graph, and only one output be that value: ONNX
    names them so.
    """
    seen: set[Value] = set()
    for index, (value, name) in enumerate(zip(graph.outputs, graph.output_names)):
        passed = (
            graph.parent is None
            and value in graph.inputs
            and value.name == name
            and value not in seen
        )
        made = value.producer is not None and value.producer.graph is graph and value not in seen
        if not made and not passed:
            copy = Value(value.type, name)
            node = Node(make_operator("", "Identity", {}), [value], [copy], name=f"{name}/Identity")
            graph.add_node(node)
            graph.set_operand(index, copy)
        seen.add(graph.outputs[index])
