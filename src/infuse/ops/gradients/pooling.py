"""Gradients of poolings."""

from __future__ import annotations

import math

import numpy as np

from infuse.ir.graph import Node, Value, constant
from infuse.ir.types import UNKNOWN
from infuse.ops.core.base import Op
from infuse.ops.core.differentiation import first, gradient_of, operand, through
from infuse.ops.core.gradient_building import GradientBuilder, Gradients
from infuse.ops.gradients.convolution import numbers, transposed
from infuse.ops.pooling import (
    AveragePool,
    GlobalAveragePool,
    GlobalLpPool,
    GlobalMaxPool,
    LpPool,
    MaxPool,
)


def with_outputs(node: Node, count: int) -> list[Value]:
    """The first `count` outputs of a node, which gives those from now on that it did not give."""
    while len(node.outputs) < count:
        value = Value(UNKNOWN, f"{node.output.name}:{len(node.outputs)}")
        value.producer, value.index = node, len(node.outputs)
        node.outputs.append(value)
        node.op.infer_node(node)
    return node.outputs[:count]


@gradient_of(MaxPool)
def max_pool_gradient(
    op: MaxPool, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """The gradient of each window at its largest element."""
    x, g = operand(node), first(grads)
    if op.storage_order:
        places = make.apply(op.replace(storage_order=0), [x], 2)[1]
    else:
        places = with_outputs(node, 2)[1]
    zeros = make("Reshape", make.zeros_like(x), make.ints(-1))
    flat = [make("Reshape", v, make.ints(-1)) for v in (places, g)]
    total = make("ScatterElements", zeros, *flat, axis=0, reduction="add")
    return [make.like(total, x)]


@gradient_of(AveragePool)
def average_pool_gradient(
    op: AveragePool, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """A share of the gradient of each window at its elements."""
    x = operand(node)
    shares = make("Div", first(grads), _counts(op, x))
    return [_spread(make, op, x, shares)]


def _counts(op: AveragePool, x: Value) -> Value:
    """How many elements each window counts."""
    pads = op.padding(x.shape[2:], op.kernel_shape)
    is_whole = not op.ceil_mode and (
        op.count_include_pad or all(p == 0 for pair in pads for p in pair)
    )
    if is_whole:
        return constant(np.array(math.prod(op.kernel_shape), x.dtype.numpy))
    return constant(op.counted(numbers(x.shape[2:], "an image")).astype(x.dtype.numpy))


def _spread(make: GradientBuilder, op: AveragePool | LpPool, x: Value, g: Value) -> Value:
    """The sum of `g` over the windows that see each element."""
    (channels,) = numbers(x.shape[1:2], "channels")
    ones = constant(np.ones((channels, 1, *op.kernel_shape), x.dtype.numpy))
    pads = op.padding(x.shape[2:], op.kernel_shape)
    return transposed(make, op, g, ones, x.shape[2:], op.kernel_shape, pads, channels)


@gradient_of(LpPool)
def lp_pool_gradient(op: LpPool, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """sign(x) · |x|^(p−1) · g / y^(p−1), zero where the norm is."""
    x = operand(node)
    shares = _norm_shares(make, node.output, first(grads), op.p)
    return [make("Mul", _slope(make, x, op.p), _spread(make, op, x, shares))]


def _norm_shares(make: GradientBuilder, norm: Value, g: Value, p: int) -> Value:
    """G / norm^(p−1), zero's norm counted as one."""
    divisor = make("Where", make("Equal", norm, 0.0), make.number(1, norm.dtype), norm)
    return make("Div", g, make("Pow", divisor, float(p - 1)))


def _slope(make: GradientBuilder, x: Value, p: int) -> Value:
    """sign(x) · |x|^(p−1)."""
    return make("Mul", make("Sign", x), make("Pow", make("Abs", x), float(p - 1)))


def _spatial(make: GradientBuilder, x: Value) -> Value:
    return make.ints(*range(2, x.rank))


@gradient_of(GlobalAveragePool)
def global_average_gradient(
    op: Op, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """That of the mean of each channel."""
    x = operand(node)
    return through(make, node, grads, [make("ReduceMean", x, _spatial(make, x))])


@gradient_of(GlobalMaxPool)
def global_max_gradient(op: Op, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """That of the largest element of each channel."""
    x = operand(node)
    return through(make, node, grads, [make("ReduceMax", x, _spatial(make, x))])


@gradient_of(GlobalLpPool)
def global_lp_gradient(
    op: GlobalLpPool, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """sign(x) · |x|^(p−1) · g / y^(p−1), zero where the norm is."""
    shares = _norm_shares(make, node.output, first(grads), op.p)
    return [make("Mul", _slope(make, operand(node), op.p), shares)]
