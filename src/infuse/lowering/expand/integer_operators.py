"""Operators of integers and scales as products and conversions."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Node, Value, constant
from infuse.lowering.expand.composer import Composer, Results, expands
from infuse.lowering.expand.quantization import per_channel, per_row
from infuse.lowering.kernel_table import kernels_of
from infuse.ops.quantizing import dynamically, one_or_each, quantized


@expands("DynamicQuantizeLinear")
def dynamic_quantize_linear(make: Composer, node: Node) -> Results:
    x = node.inputs[0]
    assert x is not None
    y, scale, zero = dynamically(make, x)
    return [y, scale, zero]


@expands("MatMulInteger")
def matmul_integer(make: Composer, node: Node) -> Results:
    a, b, a_zero, b_zero = (node.input(i) for i in range(4))
    assert a is not None
    assert b is not None
    if not kernels_of(make.machine).takes(node):
        left, right = (make.cast(v, dtypes.int32) for v in (a, b))
        if a_zero is not None:
            left = make(left - make.cast(per_row(make, a_zero), dtypes.int32))
        if b_zero is not None:
            right = make(right - make.cast(one_or_each(make, b_zero), dtypes.int32))
        return make("MatMul", left, right)
    if b.rank != 1:
        return None
    zero = None if b_zero is None else make.reshape(b_zero)
    result = make("MatMulInteger", a, make.reshape(b, b.shape[0], 1), a_zero, zero)
    return make.reshape(result, *node.output.shape)


@expands("QLinearMatMul")
def qlinear_matmul(make: Composer, node: Node) -> Results:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = _all(node)
    if a.dtype.is_integer:
        total = make.cast(make("MatMulInteger", a, b, a_zero, b_zero), dtypes.float32)
    else:
        total = make("MatMul", make.cast(a, dtypes.float32), make.cast(b, dtypes.float32))
    factor = _ratio(
        make, per_row(make, a_scale), one_or_each(make, b_scale), per_row(make, y_scale)
    )
    return quantized(make, make("Mul", total, factor), per_row(make, y_zero), node.output.dtype)


@expands("QLinearConv")
def qlinear_conv(make: Composer, node: Node) -> Results:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = _all(node)[:8]
    bias, rank = node.input(8), node.output.rank
    total = make.cast(
        make("ConvInteger", x, w, x_zero, w_zero, **node.op.attributes()), dtypes.float32
    )
    if bias is not None:
        total = make("Add", total, make.cast(per_channel(make, bias, rank), dtypes.float32))
    scales = (make.reshape(x_scale), per_channel(make, w_scale, rank), make.reshape(y_scale))
    steps = make("Mul", total, _ratio(make, *scales))
    return quantized(make, steps, make.reshape(y_zero), node.output.dtype)


def _all(node: Node) -> list[Value]:
    return [v for v in node.inputs if v is not None]


def _ratio(make: Composer, a: Value, b: Value, c: Value) -> Value:
    """A · b / c in float32, at once where they are known."""
    wide = [make.cast(v, dtypes.float32) for v in (a, b, c)]
    if all(v.const is not None for v in wide):
        first, second, third = (np.asarray(v.const) for v in wide)
        return constant(np.asarray(first * second / third, np.float32))
    return make("Div", make("Mul", *wide[:2]), wide[2])
