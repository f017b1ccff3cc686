"""The graph with gradients: what a loss changes by, for every value that is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse.errors import InputError, ShapeError, TypeMismatchError
from infuse.ir import dims
from infuse.ir.clone import clone
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.operator import Operator
from infuse.ir.types import UNKNOWN, TensorType
from infuse.ops.core.differentiation import pull_back
from infuse.ops.core.gradient_building import GradientBuilder
from infuse.passes.sizes import Places, SizeWriter
from infuse.rewrite.patch import Patch, remove_dead
from infuse.training.unrolling import unroll


class Differentiator(GradientBuilder):
    """Adds nodes whose sizes are computed from the inputs of the graph, where they are symbols."""

    def __init__(
        self, graph: Graph, name: str = "gradient", outermost: Graph | None = None
    ) -> None:
        super().__init__(graph)
        self.name = name
        self.outermost = outermost or graph
        self.made: list[Node] = []

    def inside(self, body: Graph) -> Differentiator:
        """A builder for a body; sizes are those of the inputs of the outermost graph."""
        return Differentiator(body, self.name, self.outermost)

    def apply(self, op: Operator, inputs: Sequence[Value | None], count: int = 1) -> list[Value]:
        """The outputs of a new node with this operator."""
        outputs = [Value(UNKNOWN) for _ in range(count)]
        name = f"{self.name}/{op.name}_{len(self.made)}"
        node = Node(op, inputs, outputs, name=name)
        op.infer_node(node)
        self.made.append(self.graph.add_node(node))
        return outputs

    def ints(self, *values: Dim) -> Value:
        """A list of sizes or axes; symbols are read off the inputs. ShapeError where one cannot
        be.
        """
        if all(isinstance(value, int) for value in values):
            return constant(np.array(values, np.int64))
        places = Places(v for v in self.outermost.inputs if isinstance(v.type, TensorType))
        written = SizeWriter(places).list(list(values))
        if written is None:
            unknown = sorted({s for value in values for s in dims.symbols(value)})
            raise ShapeError(
                f"the sizes {', '.join(unknown)} cannot be computed from the inputs",
                hint="fix the sizes of the inputs (set_dims)",
            )
        patch = Patch(self.graph, name=self.name)
        value = patch.value(written)
        self.made += patch.created
        return value


def differentiate(graph: Graph, loss: str, values: Sequence[str]) -> Graph:
    """A copy of `graph` with the gradients of the output `loss` as further outputs, called
    `gradient.` and the name of the value.

    `values` names inputs, constants or what nodes make; their gradients have their shapes and
    types, and are zeros where the loss does not depend on a value. Only nodes between these and
    the loss are looked at. InputError for a name that is not there, ShapeError for a loss that is
    no scalar, TypeMismatchError for values that are not floats, UnsupportedOperatorError naming
    every operator without a gradient.
    """
    copy = clone(graph)
    named = values_of(copy)
    if loss not in copy.output_names:
        raise InputError(
            f"there is no output {loss!r}", hint=f"outputs: {', '.join(copy.output_names)}"
        )
    unknown = [name for name in values if name not in named]
    if unknown:
        raise InputError(f"there are no values {', '.join(map(repr, unknown))} in the graph")
    result = copy.outputs[copy.output_names.index(loss)]
    make = Differentiator(copy)
    gradients = gradients_of(make, result, [named[name] for name in values])
    for name, gradient in zip(values, gradients):
        copy.add_output(gradient, f"gradient.{name}")
    remove_dead(make.made)
    return copy


def gradients_of(make: Differentiator, loss: Value, values: Sequence[Value]) -> list[Value]:
    """The gradients of a scalar by values, as new nodes of the graph of `make`."""
    require_scalar(loss)
    for value in values:
        require_float(value)
    loss = unroll(make, loss, values)
    one = make.like(make.number(1, loss.dtype), loss) if loss.rank else make.number(1, loss.dtype)
    found = pull_back(make, {loss: one}, values)
    return [make.zeros_like(v) if g is None else g for v, g in zip(values, found)]


def require_scalar(loss: Value) -> None:
    """ShapeError unless a loss is one number, TypeMismatchError unless it is a float."""
    if not isinstance(loss.type, TensorType) or not loss.type.dtype.is_float:
        raise TypeMismatchError(f"the loss {loss.name!r} must be a float, found {loss.type}")
    if loss.type.shape is None or loss.type.size != 1:
        raise ShapeError(
            f"the loss {loss.name!r} must be one number, found {loss.type}",
            hint="reduce it, by ReduceMean for instance",
        )


def require_float(value: Value) -> None:
    """TypeMismatchError unless a value is a tensor of floats."""
    if not isinstance(value.type, TensorType) or not value.type.dtype.is_float:
        raise TypeMismatchError(
            f"only floats have gradients, {value.name!r} is {value.type}",
            hint="choose parameters that are floats",
        )


def values_of(graph: Graph) -> dict[str, Value]:
    """The inputs, constants and other values of a graph, without those of bodies, by name."""
    values = {v.name: v for node in graph.nodes for v in (*node.operands(), *node.outputs)}
    values.update({v.name: v for v in graph.inputs})
    values.pop("", None)
    return values
