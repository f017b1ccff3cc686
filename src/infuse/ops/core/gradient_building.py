"""Building the nodes of gradients."""

from __future__ import annotations

from abc import ABC
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from infuse.errors import ShapeError
from infuse.ir import dims
from infuse.ir.graph import Graph, Value
from infuse.ops.core.building import GraphBuilder

Gradients = Sequence[Value | None]
"""Of the inputs or the outputs of a node, one each; None where there is none or it is zero."""


class GradientBuilder(GraphBuilder, ABC):
    """Adds the nodes of gradients to a graph."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._needed: Collection[Value] | None = None

    def inside(self, body: Graph) -> GradientBuilder:
        """A builder for the body of a node, in which values of the graph around it can be read."""
        return type(self)(body)

    def needs(self, value: Value | None) -> bool:
        """Whether somebody asks for the gradient of an input."""
        return value is not None and (self._needed is None or value in self._needed)

    @contextmanager
    def needing(self, values: Collection[Value]) -> Iterator[None]:
        """Within, the gradients of these values are asked for."""
        before, self._needed = self._needed, values
        try:
            yield
        finally:
            self._needed = before

    def shape_of(self, value: Value) -> Value:
        """The sizes of a value as a list."""
        shape = value.tensor.shape
        if shape is not None and all(isinstance(size, int) for size in shape):
            return self.ints(*shape)
        return self("Shape", value)

    def zeros_like(self, value: Value) -> Value:
        """Zeros in the shape and type of a value."""
        return self("Expand", self.number(0, value.dtype), self.shape_of(value))

    def like(self, gradient: Value, value: Value) -> Value:
        """`gradient`, whose elements are those of `value` in their order, in the shape of that."""
        if gradient.tensor.shape is not None and gradient.tensor.shape == value.tensor.shape:
            return gradient
        return self("Reshape", gradient, self.shape_of(value), allowzero=1)

    def sum_to(self, gradient: Value | None, value: Value | None) -> Value | None:
        """The gradient of an operand that was broadcast: sums over the axes along which it was
        repeated. ShapeError where only the run knows which these are.
        """
        if gradient is None or value is None or not self.needs(value):
            return None
        lead = gradient.rank - value.rank
        axes = list(range(lead))
        for axis, (size, own) in enumerate(zip(gradient.shape[lead:], value.shape), lead):
            if own == size or dims.always_equal(own, size):
                continue
            if not (isinstance(own, int) and own == 1) and not dims.is_at_most_one(own):
                raise ShapeError(
                    f"whether size {own} of {value.name!r} is repeated to {size} is not known "
                    "before the run, so it has no gradient",
                    hint="fix the sizes of the inputs (set_dims)",
                )
            axes.append(axis)
        if not axes:
            return gradient
        return self.like(self.reduce("ReduceSum", gradient, *axes), value)
