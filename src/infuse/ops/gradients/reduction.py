"""Gradients of reductions: what came of many elements is spread over them again."""

from __future__ import annotations

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.ir import dims
from infuse.ir.graph import Node, Value
from infuse.ops.core.differentiation import first, gradient_of, operand
from infuse.ops.core.gradient_building import GradientBuilder, Gradients
from infuse.ops.core.sizes import known_axes
from infuse.ops.reduction import (
    ReduceL1,
    ReduceL2,
    ReduceLogSum,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
    Reduction,
)


class Spread:
    """What the gradient of a reduction is made of: the operand, the axes that became one, and
    result and gradient with these axes.
    """

    def __init__(self, op: Reduction, make: GradientBuilder, node: Node, grads: Gradients) -> None:
        self.make, self.op = make, op
        self.x = operand(node)
        numbers = node.input(1)
        axes = () if numbers is None else known_axes(numbers, self.x.rank, op.name)
        if axes is None:
            raise UnsupportedOperatorError("axes that are computed have no gradient")
        every = () if op.noop_with_empty_axes else tuple(range(self.x.rank))
        self.axes = tuple(sorted(axes or every))
        self.y, self.g = self._with_axes(node.output), self._with_axes(first(grads))

    def _with_axes(self, value: Value) -> Value:
        if self.op.keepdims or not self.axes:
            return value
        return self.make("Unsqueeze", value, self.make.ints(*self.axes))

    def over(self, value: Value) -> Value:
        """A value with the axes of the result, repeated to the shape of the operand."""
        return self.make("Expand", value, self.make.shape_of(self.x))

    def count(self) -> Value:
        """How many elements became one."""
        count = dims.product(self.x.shape[axis] for axis in self.axes)
        if isinstance(count, int):
            return self.make.number(count, self.x.dtype)
        x, y = (self.make("Size", v) for v in (self.x, self.y))
        return self.make.cast(self.make("Div", x, y), self.x.dtype)


@gradient_of(ReduceSum)
def sum_gradient(op: Reduction, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """The gradient at every element."""
    spread = Spread(op, make, node, grads)
    return [spread.over(spread.g), None][: len(node.inputs)]


@gradient_of(ReduceMean)
def mean_gradient(op: Reduction, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """A share of the gradient at every element."""
    spread = Spread(op, make, node, grads)
    return [spread.over(make("Div", spread.g, spread.count())), None][: len(node.inputs)]


@gradient_of(ReduceMax, ReduceMin)
def extreme_gradient(
    op: Reduction, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """Equal shares of the gradient at all elements that are the extreme."""
    spread = Spread(op, make, node, grads)
    best = make.cast(make("Equal", spread.x, spread.y), spread.x.dtype)
    count = make.reduce("ReduceSum", best, *spread.axes) if spread.axes else best
    return [make("Mul", best, make("Div", spread.g, count)), None][: len(node.inputs)]


@gradient_of(ReduceProd)
def product_gradient(
    op: Reduction, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """At every element the product of the others, which stays right where elements are zero."""
    spread = Spread(op, make, node, grads)
    x, rank = spread.x, spread.x.rank
    others = tuple(axis for axis in range(rank) if axis not in spread.axes)
    order = (*others, *spread.axes)
    lines = make.permute(x, *order)
    flat = make("Flatten", lines, axis=len(others))
    before = make("CumProd", flat, make.ints(1), exclusive=1)
    after = make("CumProd", flat, make.ints(1), exclusive=1, reverse=1)
    rest = make.like(make("Mul", before, after), lines)
    rest = make.permute(rest, *np.argsort(order).tolist())
    return [make("Mul", rest, spread.g), None][: len(node.inputs)]


@gradient_of(ReduceSumSquare)
def square_gradient(
    op: Reduction, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """2 · x."""
    spread = Spread(op, make, node, grads)
    return [make("Mul", make("Mul", spread.x, 2.0), spread.g), None][: len(node.inputs)]


@gradient_of(ReduceL1)
def magnitude_gradient(
    op: Reduction, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """The sign."""
    spread = Spread(op, make, node, grads)
    return [make("Mul", make("Sign", spread.x), spread.g), None][: len(node.inputs)]


@gradient_of(ReduceL2)
def norm_gradient(op: Reduction, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """X over the norm, zero where that is zero."""
    spread = Spread(op, make, node, grads)
    is_zero = make("Equal", spread.y, 0.0)
    norm = make("Where", is_zero, make.number(1, spread.x.dtype), spread.y)
    return [make("Mul", spread.x, make("Div", spread.g, norm)), None][: len(node.inputs)]


@gradient_of(ReduceLogSum)
def log_sum_gradient(
    op: Reduction, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """One over the sum."""
    spread = Spread(op, make, node, grads)
    return [spread.over(make("Div", spread.g, make("Exp", spread.y))), None][: len(node.inputs)]


@gradient_of(ReduceLogSumExp)
def log_sum_exp_gradient(
    op: Reduction, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """The softmax over the axes."""
    spread = Spread(op, make, node, grads)
    powers = make("Exp", make("Sub", spread.x, spread.y))
    return [make("Mul", powers, spread.g), None][: len(node.inputs)]
