"""Operators with a body of others, which says what they mean: all else follows from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from infuse.errors import InfuseError, UnsupportedOperatorError
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.operator import Operator
from infuse.ir.types import UNKNOWN, TensorType, Type, UnknownRank
from infuse.ops.core.base import Array, Inferred, Op
from infuse.ops.core.building import GraphBuilder, sizes_of
from infuse.ops.core.differentiation import through
from infuse.ops.core.elementwise import widened
from infuse.ops.core.evaluate import evaluate_node
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.gradient_building import GradientBuilder, Gradients
from infuse.ops.core.traits import Trait

Results = Value | Sequence[Value | None]
"""What a body gives: None for an output that nobody reads."""


class Composite(Op, abstract=True):
    """An operator with a body, which adds simpler operators to a graph.

    A subclass states its attributes and writes `body`; types, evaluation, arithmetic, gradient and
    native code are those of the body. Native code of a kernel's own comes before the body where
    there is one that takes the node.
    """

    inputs_of = "body"
    outputs: ClassVar[int] = 1
    """How many results there are."""
    is_spelling: ClassVar[bool] = False
    """Whether code generation writes out the body before it looks at any other operator."""

    def body(self, make: GraphBuilder, *inputs: Any, **named: Any) -> Results:
        """The results for these inputs, of new nodes. Whatever is wrong with the inputs is an
        error here, but for what is wrong with them for an operator of the body.
        """
        raise NotImplementedError

    def results(self, make: GraphBuilder, inputs: Sequence[Value | None]) -> list[Value | None]:
        """The body's results as a list."""
        with np.errstate(all="ignore"):
            results = self.body(make, *inputs)
        return [results] if isinstance(results, Value) else list(results)

    def unshaped(self, *inputs: Value | None) -> Sequence[Type]:
        """The types of the results where ranks are not known, or there is no body: by default that
        of the first input.
        """
        first = next(v for v in inputs if v is not None)
        return (TensorType(first.dtype, None),) * self.outputs

    def infer(self, *inputs: Any, **named: Any) -> Inferred:
        make = _Tracer()
        try:
            results = self.results(make, [v and _apart(v) for v in inputs])
        except (UnknownRank, UnsupportedOperatorError):
            return tuple(self.unshaped(*inputs))
        except InfuseError as error:
            error.where = None
            raise
        return tuple(v.type for v in results if v is not None)

    def eval(self, *inputs: Any, **named: Any) -> Any:
        arrays = [None if x is None else self._computed(x) for x in inputs]
        values = [None if x is None else constant(x) for x in arrays]
        results = self.results(_Evaluator(), values)
        found = [np.asarray(v.const) for v in results if v is not None]
        if any(a is not x for a, x in zip(arrays, inputs)):
            types = self.infer(*(None if x is None else constant(x) for x in inputs))
            assert isinstance(types, tuple)
            found = [x.astype(Value(t).dtype.numpy) for x, t in zip(found, types)]
        return tuple(found) if self.outputs > 1 else found[0]

    def _computed(self, x: Array) -> Array:
        """An operand in the type in which kernels compute with it."""
        return widened(x) if Trait.FLOAT32 in self.traits else x

    def flops(self, shapes: Shapes) -> Flops | None:
        inputs = [
            None if shape is None or dtype is None else Value(TensorType(dtype, shape))
            for shape, dtype in zip(shapes.inputs, shapes.types)
        ]
        make = _Tracer(lambda output: output < len(shapes.outputs))
        try:
            self.results(make, inputs)
        except UnsupportedOperatorError:
            return None
        return make.flops()

    def gradient(self, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
        return through(make, node, grads, self.results(make, node.inputs))


class _Tracer(GraphBuilder):
    """Infers the types of a body, in a graph of its own."""

    def __init__(self, asks: Callable[[int], bool] | None = None) -> None:
        super().__init__(Graph("body"))
        self._asks = asks

    def asks(self, output: int) -> bool:
        return self._asks is None or self._asks(output)

    def apply(self, op: Operator, inputs: Sequence[Value | None], count: int = 1) -> list[Value]:
        outputs = [Value(UNKNOWN) for _ in range(count)]
        node = Node(op, inputs, outputs, name=op.name)
        op.infer_node(node)
        self.graph.add_node(node)
        return outputs

    def ints(self, *values: Dim) -> Value:
        return sizes_of(values)

    def flops(self) -> Flops | None:
        """The arithmetic of all nodes; None where that of one is not known."""
        macs: Dim = 0
        others: Dim = 0
        for node in self.graph.unordered_nodes:
            shapes = [None if v is None else v.shape for v in node.inputs]
            types = [None if v is None else v.dtype for v in node.inputs]
            assert isinstance(node.op, Op)
            work = node.op.flops(Shapes(shapes, [v.shape for v in node.outputs], types))
            if work is None:
                return None
            macs, others = macs + work.macs, others + work.others
        return Flops(macs, others)


class _Evaluator(GraphBuilder):
    """Computes a body node by node: its values are constants."""

    def __init__(self) -> None:
        super().__init__(Graph("body"))

    def apply(self, op: Operator, inputs: Sequence[Value | None], count: int = 1) -> list[Value]:
        node = Node(op, inputs, [Value(UNKNOWN) for _ in range(count)], name=op.name)
        return [constant(x) for x in evaluate_node(node, [v and v.const for v in inputs])]

    def ints(self, *values: Dim) -> Value:
        return sizes_of(values)


def _apart(value: Value) -> Value:
    """A value that is known to be the same, which the graph around does not see."""
    copy = Value(value.type, value.name, value.const)
    copy.content = value.content
    return copy
