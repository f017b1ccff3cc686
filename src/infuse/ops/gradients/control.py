"""Gradients of operators with bodies."""

from __future__ import annotations

from collections.abc import Sequence

from infuse.ir.clone import clone
from infuse.ir.graph import Graph, Node, Use, Value
from infuse.ir.nesting import captured_outside
from infuse.ir.types import UNKNOWN
from infuse.ops.control import If
from infuse.ops.core.differentiation import flows, gradient_of, pull_back
from infuse.ops.core.gradient_building import GradientBuilder, Gradients


@gradient_of(If)
def if_gradient(op: If, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """Those of the branch that was taken, for what both capture: an If by the same condition, whose
    branches compute those of the node anew.
    """
    every = captured_outside(node)
    wanted = [v for v in every if make.needs(v) and flows(v)]
    if not wanted:
        return [None]
    bodies = {
        name: _pulled_back(make, body, grads, wanted, every)
        for name, body in node.subgraphs.items()
    }
    outputs = [Value(UNKNOWN) for _ in wanted]
    made = Node(If(), node.inputs, outputs, name=f"{node.name}/gradient", subgraphs=bodies)
    If().infer_node(made)
    make.graph.add_node(made)
    gradients = dict(zip(wanted, outputs))
    return [None, *(gradients.get(v) for v in every)]


def _pulled_back(
    make: GradientBuilder,
    body: Graph,
    grads: Gradients,
    wanted: Sequence[Value],
    every: Sequence[Value],
) -> Graph:
    """A body that gives the gradients of the values `wanted`, of `every` one that is captured."""
    result = clone(body)
    inner = make.inside(result)
    seeds: dict[Value, Value] = {}
    for value, gradient in zip(result.outputs, grads):
        if gradient is not None:
            seeds[value] = inner("Add", seeds[value], gradient) if value in seeds else gradient
    found = pull_back(inner, seeds, wanted, leaves=every)
    for number, value in enumerate(result.outputs):
        del value.uses[Use(result, number)]
    result.outputs, result.output_names = [], []
    for number, (value, gradient) in enumerate(zip(wanted, found)):
        given = inner.zeros_like(value) if gradient is None else gradient
        result.add_output(given, f"gradient_{number}")
    return result
