"""A graph put into other surroundings that mean the same: a branch, a loop, and a file with
Constant nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from infuse import dtypes
from infuse.exporters.onnx import to_model
from infuse.exporters.onnx.schemas import NEWEST
from infuse.frontends.onnx import load
from infuse.ir.clone import clone
from infuse.ir.graph import Graph, Node, Use, Value, constant
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN, tensor

CONDITION = "the condition"
"""Name of the input that chooses a branch."""


def in_branches(graph: Graph) -> Graph:
    """The graph as both branches of an If, reading the inputs from outside."""
    around, inputs = _around(graph)
    condition = around.add_input(CONDITION, tensor(dtypes.bool_))
    bodies = {name: _capturing(graph, inputs, name) for name in ("then_branch", "else_branch")}
    return _finish(around, "If", [condition], bodies, graph.output_names)


def around_branch(graph: Graph, root: Node) -> Graph:
    """The graph with `root` alone inside the branches of an If, and what it reads outside."""
    copies: dict[Value, Value] = {}
    around = clone(graph, copies)
    inner = copies[root.output].producer
    assert inner is not None
    condition = around.add_input(CONDITION, tensor(dtypes.bool_))
    bodies = {}
    for name in ("then_branch", "else_branch"):
        body = Graph(name)
        outputs = [Value(v.type, v.name) for v in inner.outputs]
        body.add_node(Node(inner.op, inner.inputs, outputs, name=inner.name))
        for value in outputs:
            body.add_output(value)
        bodies[name] = body
    node = Node(
        make_operator("", "If", {}),
        [condition],
        [Value(UNKNOWN) for _ in inner.outputs],
        subgraphs=bodies,
    )
    around.add_node(node)
    node.op.infer_node(node)
    for old, new in zip(inner.outputs, node.outputs):
        old.replace_by(new)
    around.remove(inner)
    return around


def in_loop(graph: Graph, carried: bool) -> Graph:
    """The graph as the body of a Loop of two iterations, which carries the inputs or reads them
    from outside.
    """
    around, inputs = _around(graph)
    body = clone(graph) if carried else _capturing(graph, inputs, "body")
    going = Value(tensor(dtypes.bool_), "going")
    states = list(body.inputs)
    body.inputs = [Value(tensor(dtypes.int64), "number"), going, *states]
    results = list(zip(body.outputs, body.output_names))
    _drop_outputs(body)
    for value, name in [(going, "going_on"), *((v, f"{v.name}_next") for v in states), *results]:
        body.add_output(value, name)
    operands = [constant(np.array(2)), None, *(inputs if carried else [])]
    finals = [f"{v.name}_last" for v in states]
    return _finish(
        around, "Loop", operands, {"body": body}, [*finals, *graph.output_names], skip=len(finals)
    )


def reread(graph: Graph, nodes: bool) -> Graph:
    """The graph written to ONNX and read again, its constants as initializers or as Constant
    `nodes`.
    """
    model = to_model(graph, NEWEST)
    if nodes:
        held = list(model.graph.initializer)
        rest = list(model.graph.node)
        del model.graph.initializer[:], model.graph.node[:]
        for one in held:
            node = model.graph.node.add(
                op_type="Constant", output=[one.name], name=f"constant {one.name}"
            )
            attribute = node.attribute.add(name="value", type=4)
            attribute.t.CopyFrom(one)
        model.graph.node.extend(rest)
    return load(model)


def _around(graph: Graph) -> tuple[Graph, list[Value]]:
    around = Graph("around")
    return around, [around.add_input(v.name, v.type) for v in graph.inputs]


def _capturing(graph: Graph, inputs: Sequence[Value], name: str) -> Graph:
    """A copy without inputs, which reads these values in their place."""
    body = clone(graph)
    body.name = name
    for own, outer in zip(body.inputs, inputs):
        own.replace_by(outer)
    body.inputs = []
    return body


def _drop_outputs(body: Graph) -> None:
    for index, value in enumerate(body.outputs):
        value.uses.pop(Use(body, index), None)
    body.outputs, body.output_names = [], []


def _finish(
    around: Graph,
    kind: str,
    operands: Sequence[Value | None],
    bodies: Mapping[str, Graph],
    names: Sequence[str],
    skip: int = 0,
) -> Graph:
    """`around` with a node of these bodies, whose results but the first `skip` are given out under
    their names.
    """
    node = Node(
        make_operator("", kind, {}),
        operands,
        [Value(UNKNOWN) for _ in names],
        name="around",
        subgraphs=bodies,
    )
    around.add_node(node)
    node.op.infer_node(node)
    for value, name in list(zip(node.outputs, names))[skip:]:
        around.add_output(value, name)
    return around
