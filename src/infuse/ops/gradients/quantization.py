"""Gradients of rounding to few bits: as if nothing had been rounded, where the range was not left
(straight-through estimator: Bengio, Léonard, Courville, Estimating or Propagating Gradients Through
Stochastic Neurons), also for the scale (Esser et al., Learned Step Size Quantization).
"""

from __future__ import annotations

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.ir.graph import Node, Value, constant
from infuse.ops.core.base import normalize_axis
from infuse.ops.core.differentiation import first, gradient_of, operand
from infuse.ops.core.gradient_building import GradientBuilder, Gradients
from infuse.ops.gradients.convolution import numbers
from infuse.ops.gradients.movement import scatter_along
from infuse.ops.quantization import DequantizeLinear, QuantizeLinear, limits


@gradient_of(DequantizeLinear)
def dequantize_gradient(
    op: DequantizeLinear, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """G · scale for the integers, as if they were numbers; g · (x − zero point) for the scale."""
    x, scale, zero, g = operand(node), operand(node, 1), node.input(2), first(grads)
    g = make.cast(g, scale.dtype)
    wide = _spread(make, op, scale, x)
    integers = make("Mul", g, wide) if make.needs(x) else None
    steps = None
    if make.needs(scale):
        shifted = make.cast(x, scale.dtype)
        if zero is not None:
            shifted = make("Sub", shifted, make.cast(_spread(make, op, zero, x), scale.dtype))
        steps = _gathered(make, op, make("Mul", g, shifted), scale)
    return [integers, steps, None][: len(node.inputs)]


@gradient_of(QuantizeLinear)
def quantize_gradient(
    op: QuantizeLinear, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """G / scale where the range was not left, and zero where it was; −g · x / scale² for the
    scale.
    """
    x, scale, zero, g = operand(node), operand(node, 1), node.input(2), first(grads)
    if not node.output.dtype.is_integer:
        raise UnsupportedOperatorError(f"rounding to {node.output.dtype} has no gradient")
    low, high = limits(node.output.dtype)
    wide = _spread(make, op, scale, x)
    ratio = make("Div", make.cast(x, scale.dtype), wide)
    place = ratio
    if zero is not None:
        place = make("Add", ratio, make.cast(_spread(make, op, zero, x), scale.dtype))
    inside = make(
        "And", make("GreaterOrEqual", place, float(low)), make("LessOrEqual", place, float(high))
    )
    kept = make("Where", inside, make("Div", g, wide), make.number(0, scale.dtype))
    steps = None
    if make.needs(scale):
        steps = _gathered(make, op, make("Neg", make("Mul", kept, ratio)), scale)
    return [make.cast(kept, x.dtype) if make.needs(x) else None, steps, None][: len(node.inputs)]


def _spread(
    make: GradientBuilder, op: QuantizeLinear | DequantizeLinear, parameter: Value, x: Value
) -> Value:
    """A scale or zero point as it broadcasts against the tensor."""
    if parameter.tensor.size == 1:
        return make("Reshape", parameter, make.ints())
    axis = normalize_axis(op.axis, x.rank, op.name)
    if op.block_size:
        return make("Gather", parameter, _blocks(op, x, axis), axis=axis)
    return make("Reshape", parameter, make.ints(-1, *(1,) * (x.rank - axis - 1)))


def _gathered(
    make: GradientBuilder, op: QuantizeLinear | DequantizeLinear, g: Value, scale: Value
) -> Value:
    """The sums of what belongs to each element of the scale."""
    if scale.tensor.size == 1:
        return make.like(make("ReduceSum", g, keepdims=0), scale)
    own = normalize_axis(op.axis, g.rank, op.name)
    if op.block_size:
        return scatter_along(make, g, own, _blocks(op, g, own), scale.shape[own])
    axes = [axis for axis in range(g.rank) if axis != own]
    return make("ReduceSum", g, make.ints(*axes), keepdims=0) if axes else g


def _blocks(op: QuantizeLinear | DequantizeLinear, x: Value, axis: int) -> Value:
    """The block that each element along the axis belongs to."""
    (size,) = numbers(x.shape[axis : axis + 1], "an axis in blocks")
    return constant(np.arange(size, dtype=np.int64) // op.block_size)
