"""Transposed convolutions of dequantized operands, computed on the integers."""

from __future__ import annotations

from typing import Final

import numpy as np

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.graph import Node, Value, constant
from infuse.ir.types import TensorType
from infuse.lowering.expand.composer import Composer, Results, expands
from infuse.lowering.expand.integer_products import (
    BYTES,
    Quantized,
    activation,
    known,
    scalar,
    scaled,
    sums,
    weights,
)
from infuse.lowering.expand.ml_kernels import KERNELS
from infuse.lowering.expand.quantization import per_channel
from infuse.lowering.expand.transposed import Integers, expanded
from infuse.lowering.phases import kernel_phases, leaves_gaps
from infuse.ops.convolution import ConvTranspose
from infuse.ops.core.base import Array, Inferred
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.integers import sum_in_32_bits

LEAST_DEPTH: Final = 16
"""Channels of a group from which its products of integers are faster."""
DEPTHWISE_WIDTHS: Final = (3, 5, 7)
"""Of windows that kernels/integer_depthwise.hpp has as constants."""


class ConvTransposeInteger(ConvTranspose, abstract=True):
    """The transposed convolution of x − its zero point with filters of 8 bits, in int32; it only
    stands before kernels, and no graph of a user has it.
    """

    domain = KERNELS
    name = "ConvTransposeInteger"

    def infer(self, x: Value, w: Value, zero: Value | None = None) -> Inferred:
        wide = (Value(TensorType(dtypes.float32, v.tensor.shape)) for v in (x, w))
        result = super().infer(*wide)
        assert isinstance(result, TensorType)
        return TensorType(dtypes.int32, result.shape)

    def eval(self, x: Array, w: Array, zero: Array | None = None) -> Array:
        shift = 0.0 if zero is None else float(zero.reshape(()))
        return sum_in_32_bits(super().eval(x - np.float64(shift), w.astype(np.float64)))

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(super().flops(shapes).macs)


@expands("ConvTranspose", early=True)
def conv_transpose(make: Composer, node: Node) -> Results:
    """One that kernels compute, and its scales; or other operators, where few channels are scaled
    before the pixels come to their places. Nothing where products of floats are faster.
    """
    x, w, op = activation(node.input(0)), weights(node.input(1), 1), node.op
    filters = None if w is None else _without_zero(w)
    if x is None or w is None or w.scale.const is None or filters is None:
        return None
    assert isinstance(op, ConvTranspose)
    bias, rank = node.input(2), node.output.rank
    bias = None if bias is None else known(bias)
    scale = w.scale.const.reshape(-1)
    scale = np.tile(scale, op.group) if scale.size > 1 else scale
    integers = ConvTransposeInteger(**op.attributes())
    are_bytes = x.integers.dtype in BYTES
    image = x.integers if are_bytes else Value(TensorType(dtypes.int8, x.integers.tensor.shape))
    inputs = [image, filters, scalar(make, x.zero)]
    alone = Node(integers, inputs, [Value(node.output.type, node.output.name)])
    try:
        if not _is_faster(alone):
            return None
        if kernel_phases(alone) is None:
            if not are_bytes:
                return None
            channels = np.resize(scale, int(str(node.output.shape[1])))
            factors = _of_both(make, x, channels)
            return expanded(make, alone, bias, Integers(factors, inputs[2]))
    finally:
        alone.set_inputs(())

    def multiply(image: Value, zero: Value | None) -> Value:
        return make.apply(integers, [image, filters, zero])[0]

    total = sums(make, x, w, multiply, 1)
    if total is None:
        return None
    column = scale.reshape(-1, *(1,) * (rank - 2)) if scale.size > 1 else scale.reshape(())
    result = scaled(make, total, x, column)
    return result if bias is None else make("Add", result, per_channel(make, bias, rank))


def _of_both(make: Composer, x: Quantized, channels: Array) -> Value:
    """The scales of channels times that of the image."""
    if x.scale.const is not None:
        return constant(np.asarray(channels * x.scale.const.reshape(()), np.float32))
    return make("Mul", make.reshape(x.scale), constant(np.asarray(channels, np.float32)))


def _is_faster(node: Node) -> bool:
    """Whether integers gain anything: kernels of floats alone write windows with gaps between them
    to their places, and take windows of any width of channels that do not mix.
    """
    op, x, w = node.op, node.inputs[0], node.inputs[1]
    assert isinstance(op, ConvTranspose)
    assert x is not None
    assert w is not None
    if leaves_gaps(node):
        return False
    if op.group == 1:
        return True
    depth, per_group = w.shape[:2]
    if depth != op.group or per_group != 1:
        return dims.compare("<=", LEAST_DEPTH * op.group, depth) is True
    phases = kernel_phases(node)
    return phases is not None and all(
        len(p.taps) in DEPTHWISE_WIDTHS and p.apart == 1 for p in phases[-1]
    )


def _without_zero(w: Quantized) -> Value | None:
    """Filters of a transposed convolution less their zero points; None where these are not of 8
    bits.
    """
    filters, zero = w.integers.const, None if w.zero is None else w.zero.const
    assert filters is not None
    if zero is None or not zero.any():
        return w.integers
    shift = zero.astype(np.int16).reshape(1, -1, *(1,) * (filters.ndim - 2))
    shifted = filters.astype(np.int16) - shift
    fits = not shifted.size or (shifted.min() >= -128 and shifted.max() <= 127)
    return constant(shifted.astype(np.int8), w.integers.name) if fits else None
