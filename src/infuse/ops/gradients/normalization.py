"""Gradients of normalizations and of the softmax family."""

from __future__ import annotations

from collections.abc import Sequence

from infuse import dtypes
from infuse.ir.graph import Node, Value
from infuse.ops.core.base import normalize_axis
from infuse.ops.core.differentiation import first, gradient_of, operand, through
from infuse.ops.core.gradient_building import GradientBuilder, Gradients
from infuse.ops.normalization import (
    LRN,
    BatchNormalization,
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
    MeanVarianceNormalization,
    RMSNormalization,
)
from infuse.ops.softmax_family import LogSoftmax, LpNormalization, Softmax


@gradient_of(Softmax)
def softmax_gradient(op: Softmax, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """Y · (g − the sum of g · y along the axis)."""
    y, g = node.output, first(grads)
    axis = normalize_axis(op.axis, y.rank, op.name)
    mean = make.reduce("ReduceSum", make("Mul", g, y), axis)
    return [make("Mul", y, make("Sub", g, mean))]


@gradient_of(LogSoftmax)
def log_softmax_gradient(
    op: LogSoftmax, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """G − softmax · the sum of g along the axis."""
    y, g = node.output, first(grads)
    axis = normalize_axis(op.axis, y.rank, op.name)
    return [make("Sub", g, make("Mul", make("Exp", y), make.reduce("ReduceSum", g, axis)))]


@gradient_of(LpNormalization)
def lp_normalization_gradient(
    op: LpNormalization, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """That of x over its norm."""
    x = operand(node)
    axis = normalize_axis(op.axis, x.rank, op.name)
    norm = make.reduce("ReduceL1" if op.p == 1 else "ReduceL2", x, axis)
    size = make("Where", make("Equal", norm, 0.0), make.number(1, x.dtype), norm)
    return through(make, node, grads, [make("Div", x, size)])


def _per_channel(make: GradientBuilder, vector: Value, rank: int) -> Value:
    """A vector with one element per channel, as it broadcasts against N, C, …"""
    return make("Reshape", vector, make.ints(-1, *(1,) * (rank - 2)))


def _standardized(
    make: GradientBuilder, x: Value, axes: Sequence[int], epsilon: float
) -> tuple[Value, Value, Value]:
    """`x` with mean 0 and variance 1 over `axes`, the mean, and one over the deviation."""
    mean = make.reduce("ReduceMean", x, *axes)
    centered = make("Sub", x, mean)
    variance = make.reduce("ReduceMean", make("Mul", centered, centered), *axes)
    inverse = make("Reciprocal", make("Sqrt", make("Add", variance, epsilon)))
    return make("Mul", centered, inverse), mean, inverse


@gradient_of(BatchNormalization)
def batch_normalization_gradient(
    op: BatchNormalization, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """That of a scale and a shift made of the statistics."""
    x = operand(node)
    scale, bias, mean, variance = (
        _per_channel(make, operand(node, i), x.rank) for i in range(1, 5)
    )
    deviation = make("Sqrt", make("Add", variance, op.epsilon))
    normal = make("Div", make("Sub", x, mean), deviation)
    return through(make, node, grads, [make(normal * scale + bias)])


@gradient_of(InstanceNormalization)
def instance_normalization_gradient(
    op: InstanceNormalization, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """That of the mean and variance of every channel."""
    x = operand(node)
    scale, bias = (_per_channel(make, operand(node, i), x.rank) for i in (1, 2))
    normal, _, _ = _standardized(make, x, range(2, x.rank), op.epsilon)
    return through(make, node, grads, [make(normal * scale + bias)])


@gradient_of(GroupNormalization)
def group_normalization_gradient(
    op: GroupNormalization, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """That of the mean and variance of every group of channels."""
    x = operand(node)
    scale, bias = (_per_channel(make, operand(node, i), x.rank) for i in (1, 2))
    wide = _stashed(make, x, op.stash_type)
    grouped = make("Reshape", wide, make.ints(0, op.num_groups, -1))
    normal = make.like(_standardized(make, grouped, [2], op.epsilon)[0], x)
    result = make(make.cast(normal, x.dtype) * scale + bias)
    return through(make, node, grads, [result])


def _stashed(make: GradientBuilder, x: Value, stash_type: int) -> Value:
    """`x` in the type that statistics are computed in."""
    return x if x.dtype == dtypes.float64 else make.cast(x, dtypes.by_onnx(stash_type))


@gradient_of(LayerNormalization)
def layer_normalization_gradient(
    op: LayerNormalization, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """That of mean and variance over the last axes."""
    x, scale, bias = operand(node), operand(node, 1), node.input(2)
    axes = range(normalize_axis(op.axis, x.rank, op.name), x.rank)
    wide = _stashed(make, x, op.stash_type)
    normal, mean, inverse = _standardized(make, wide, axes, op.epsilon)
    result = make("Mul", make.cast(normal, x.dtype), scale)
    if bias is not None:
        result = make("Add", result, bias)
    return through(make, node, grads, [result, mean, inverse][: len(grads)])


@gradient_of(RMSNormalization)
def rms_normalization_gradient(
    op: RMSNormalization, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """That of the mean of the squares over the last axes."""
    x, scale = operand(node), operand(node, 1)
    axes = range(normalize_axis(op.axis, x.rank, op.name), x.rank)
    wide = _stashed(make, x, op.stash_type)
    mean = make.reduce("ReduceMean", make("Mul", wide, wide), *axes)
    normal = make("Div", wide, make("Sqrt", make("Add", mean, op.epsilon)))
    return through(make, node, grads, [make("Mul", make.cast(normal, scale.dtype), scale)])


@gradient_of(LRN)
def lrn_gradient(op: LRN, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    """That of x over a power of the sum of squares of neighbouring channels."""
    x = operand(node)
    before, after = (op.size - 1) // 2, op.size // 2
    squares = make.pad(make("Mul", x, x), 1, before, after)
    channels = x.shape[1]
    parts = [make.slice(squares, 1, i, i + channels) for i in range(op.size)]
    total = make("Sum", *parts) if len(parts) > 1 else parts[0]
    divisor = make("Pow", make(total * (op.alpha / op.size) + op.bias), op.beta)
    return through(make, node, grads, [make("Div", x, divisor)])


@gradient_of(MeanVarianceNormalization)
def mean_variance_gradient(
    op: MeanVarianceNormalization, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """That of (x − mean) / (deviation + 1e-9)."""
    x = operand(node)
    axes = [normalize_axis(axis, x.rank, op.name) for axis in op.axes]
    centered = make("Sub", x, make.reduce("ReduceMean", x, *axes))
    variance = make.reduce("ReduceMean", make("Mul", centered, centered), *axes)
    deviation = make("Add", make("Sqrt", variance), 1e-9)
    return through(make, node, grads, [make("Div", centered, deviation)])
