"""ONNX Runtime's own quantized operators: what bytes stand for, the operator, bytes again; products
of integers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.graph import Array, Node, Value, constant
from infuse.lowering.expand.composer import Composer, Results, expands
from infuse.lowering.expand.integer_operators import dynamically
from infuse.lowering.expand.quantization import (
    at_once,
    is_zero,
    quantized,
    quantized_sum,
    rounded_factors,
)
from infuse.lowering.kernel_table import kernels_of
from infuse.ops.arithmetic import Div, Mul
from infuse.ops.domains.microsoft import DOMAIN
from infuse.ops.domains.microsoft_bits import MatMulNBits
from infuse.ops.domains.microsoft_integers import (
    QGemm,
    RuntimeDequantizeLinear,
    RuntimeQuantizeLinear,
)
from infuse.ops.domains.microsoft_quantized import (
    QLinearAveragePool,
    QLinearGlobalAveragePool,
    QLinearSoftmax,
)


def _operand(node: Node, index: int) -> Value:
    value = node.inputs[index]
    assert value is not None
    return value


def _shifted(make: Composer, x: Value, zero: Value | None) -> Value:
    """Quantized elements as multiples of their scale."""
    wide = make.cast(x, dtypes.float32)
    return wide if zero is None or is_zero(zero) else make("Sub", wide, _single(make, zero))


def _single(make: Composer, x: Value) -> Value:
    """A scale or a zero point as a scalar of float32."""
    return make.reshape(make.cast(x, dtypes.float32))


def _real(make: Composer, x: Value, scale: Value, zero: Value | None) -> Value:
    """What quantized elements stand for."""
    return make("Mul", _shifted(make, x, zero), _single(make, scale))


def _stored(make: Composer, y: Value, scale: Value, zero: Value | None, like: Value) -> Value:
    """Numbers as quantized elements of the type of `like`."""
    steps = make("Div", y, _single(make, scale))
    return quantized(make, steps, None if zero is None else make.reshape(zero), like.dtype)


def _first(make: Composer, node: Node) -> Value:
    return _real(make, _operand(node, 0), _operand(node, 1), node.input(2))


def _last(make: Composer, node: Node, y: Value, index: int) -> Value:
    return _stored(make, y, _operand(node, index), node.input(index + 1), _operand(node, 0))


@expands("QLinearSigmoid", "QLinearLeakyRelu", domain=DOMAIN)
def qlinear_unary(make: Composer, node: Node) -> Results:
    y = make(node.kind.removeprefix("QLinear"), _first(make, node), **node.op.attributes())
    return _last(make, node, y, 3)


def _from_zero(make: Composer, steps: Value, zero: Value | None) -> Value:
    """Steps from the zero point on, which is added before they are rounded, unlike elsewhere."""
    return steps if is_zero(zero) or zero is None else make("Add", steps, _single(make, zero))


@expands("QLinearAdd", "QLinearMul", domain=DOMAIN)
def qlinear_binary(make: Composer, node: Node) -> Results:
    a_scale, b_scale, to = (_single(make, _operand(node, i)) for i in (1, 4, 6))
    if node.kind == "QLinearMul":
        a, b = (_shifted(make, _operand(node, i), node.input(i + 2)) for i in (0, 3))
        steps = rounded_factors(
            make, make("Mul", a, b), make("Div", make("Mul", a_scale, b_scale), to)
        )
        steps = _from_zero(make, steps, node.input(7))
    else:
        zeros = [None if z is None else _single(make, z) for z in map(node.input, (2, 5, 7))]
        first = _operand(node, 0), a_scale, zeros[0]
        second = _operand(node, 3), b_scale, zeros[1]
        steps = quantized_sum(make, first, second, (to, zeros[2]))
    return quantized(make, steps, None, _operand(node, 0).dtype)


@expands("QLinearSoftmax", domain=DOMAIN)
def qlinear_softmax(make: Composer, node: Node) -> Results:
    x, op = _first(make, node), node.op
    assert isinstance(op, QLinearSoftmax)
    axis = op.axis % x.rank
    if op.opset >= 13:
        return _last(make, node, make("Softmax", x, axis=axis), 3)
    flat = make("Softmax", make("Flatten", x, axis=axis), axis=-1)
    return _last(make, node, make.reshape(flat, *x.shape), 3)


@expands("QLinearConcat", domain=DOMAIN)
def qlinear_concat(make: Composer, node: Node) -> Results:
    scale, zero, *inputs = (_operand(node, i) for i in range(len(node.inputs)))
    parts = [
        _stored(make, _real(make, *inputs[i : i + 3]), scale, zero, zero)
        for i in range(0, len(inputs), 3)
    ]
    return make("Concat", *parts, axis=node.op.attributes()["axis"])


@expands("QLinearGlobalAveragePool", domain=DOMAIN)
def qlinear_global_average_pool(make: Composer, node: Node) -> Results:
    assert isinstance(node.op, QLinearGlobalAveragePool)
    return _means_of_images(make, node, node.op)


def _means_of_images(make: Composer, node: Node, op: QLinearGlobalAveragePool) -> Value:
    x, zero = _shifted(make, _operand(node, 0), node.input(2)), node.input(4)
    axes = op.axes(x.rank)
    pixels = make.ints(dims.product([x.shape[axis] for axis in axes]))
    scale, to = (_single(make, _operand(node, i)) for i in (1, 3))
    ratio = at_once(make, Div(), scale, at_once(make, Mul(), to, _single(make, pixels)))
    steps = make("Mul", make.reduce("ReduceSum", x, *axes), ratio)
    zero = None if zero is None else make.reshape(zero)
    return quantized(make, steps, zero, _operand(node, 0).dtype)


@expands("QLinearAveragePool", domain=DOMAIN)
def qlinear_average_pool(make: Composer, node: Node) -> Results:
    (scale, to), op = (_single(make, _operand(node, i)) for i in (1, 3)), node.op
    assert isinstance(op, QLinearAveragePool)
    whole = op.of_images(_operand(node, 0).shape)
    if whole is not None:
        return _means_of_images(make, node, whole)
    x = rounded_factors(make, _shifted(make, _operand(node, 0), node.input(2)), scale)
    if op.channels_last:
        x = make.permute(x, 0, x.rank - 1, *range(1, x.rank - 1))
    y = make.apply(op.plain(), [x])[0]
    if op.channels_last:
        y = make.permute(y, 0, *range(2, y.rank), 1)
    steps = _from_zero(make, make("Div", y, to), node.input(4))
    return quantized(make, steps, None, _operand(node, 0).dtype)


# -- products --------------------------------------------------------------------------------------


@expands("QuantizeLinear", domain=DOMAIN)
@expands("QuantizeLinear", domain=DOMAIN, early=True)
def quantize_linear(make: Composer, node: Node) -> Results:
    assert isinstance(node.op, RuntimeQuantizeLinear)
    return make.apply(node.op.plain(), node.inputs)


@expands("DequantizeLinear", domain=DOMAIN)
@expands("DequantizeLinear", domain=DOMAIN, early=True)
def dequantize_linear(make: Composer, node: Node) -> Results:
    assert isinstance(node.op, RuntimeDequantizeLinear)
    return make.apply(node.op.plain(), node.inputs)


@expands("MatMulIntegerToFloat", domain=DOMAIN)
def matmul_integer_to_float(make: Composer, node: Node) -> Results:
    a, b, a_scale, b_scale, *_ = (node.input(i) for i in range(7))
    assert a is not None
    assert b is not None
    assert a_scale is not None
    assert b_scale is not None
    result = _scaled(make, (a, b, node.input(4), node.input(5)), a_scale, b_scale, node.input(6))
    return make.cast(result, node.output.dtype)


@expands("QGemm", domain=DOMAIN)
def qgemm(make: Composer, node: Node) -> Results:
    a, a_scale, a_zero, b, b_scale, b_zero = (_operand(node, i) for i in range(6))
    op, (c, y_scale, y_zero) = node.op, (node.input(i) for i in (6, 7, 8))
    assert isinstance(op, QGemm)
    a, b = (
        make.permute(v, 1, 0) if turned else v for v, turned in ((a, op.transA), (b, op.transB))
    )
    total = make.cast(make("MatMulInteger", a, b, make.reshape(a_zero), b_zero), dtypes.float32)
    total = total if c is None else make("Add", total, make.cast(c, dtypes.float32))
    scale = make("Mul", make("Mul", make.reshape(a_scale), op.alpha), _flat(make, b_scale))
    if y_scale is None or y_zero is None:
        return make("Mul", total, scale)
    steps = make("Mul", total, make("Div", scale, make.reshape(y_scale)))
    return quantized(make, steps, make.reshape(y_zero), node.output.dtype)


def _flat(make: Composer, parameter: Value) -> Value:
    return make.reshape(parameter) if parameter.tensor.size == 1 else parameter


@expands("DynamicQuantizeMatMul", domain=DOMAIN)
def dynamic_quantize_matmul(make: Composer, node: Node) -> Results:
    a, b, b_scale = (_operand(node, i) for i in range(3))
    y, scale, zero = dynamically(make, make.cast(a, dtypes.float32))
    return make.cast(
        _scaled(make, (y, b, zero, node.input(3)), scale, b_scale, node.input(4)), a.dtype
    )


def _scaled(
    make: Composer,
    product: Sequence[Value | None],
    a_scale: Value,
    b_scale: Value,
    bias: Value | None,
) -> Value:
    """A product of integers in float32, times both scales, plus the bias."""
    total = make.cast(make("MatMulInteger", *product), dtypes.float32)
    scales = [make.cast(v, dtypes.float32) for v in (a_scale, b_scale)]
    left, right = (_flat(make, v) for v in scales)
    result = make("Mul", total, make("Mul", left, right))
    return result if bias is None else make("Add", result, make.cast(bias, dtypes.float32))


@expands("MatMulNBits", domain=DOMAIN)
def matmul_n_bits(make: Composer, node: Node) -> Results:
    a, bias, op = _operand(node, 0), node.input(5), node.op
    assert isinstance(op, MatMulNBits)
    if kernels_of(make.machine).takes(node):
        return None
    result = make("MatMul", make.cast(a, dtypes.float32), _matrix(make, node, op))
    if bias is not None:
        result = make("Add", result, make.cast(bias, dtypes.float32))
    return make.cast(result, a.dtype)


def _matrix(make: Composer, node: Node, op: MatMulNBits) -> Value:
    """The matrix (K, N) in float32: at once where it is known."""
    b, scales, zeros, groups = _operand(node, 1), _operand(node, 2), node.input(3), node.input(4)
    is_constant = all(v is None or v.const is not None for v in (b, scales, zeros, groups))
    if is_constant and b.const is not None and scales.const is not None:
        wide = scales.const.astype(np.float32)
        matrix = op.matrix(b.const, wide, _known(zeros), None if groups is None else groups.const)
        return constant(np.ascontiguousarray(matrix.T))
    if groups is not None:
        make.refuse("rows in an order of their own, where weights are computed")
    codes = _unpacked(make, make.reshape(b, op.N, op.blocks, b.shape[-1]), op.bits)
    codes = make.slice(codes, 2, 0, op.block_size)
    if zeros is None:
        wide_codes = make("Sub", codes, float(1 << (op.bits - 1)))
    elif zeros.dtype == dtypes.uint8:
        packed = _unpacked(
            make, make.reshape(zeros, op.N, 1, -(-op.blocks * op.bits // 8)), op.bits
        )
        shifts = make.slice(packed, 2, 0, op.blocks)
        wide_codes = make("Sub", codes, make.reshape(shifts, op.N, op.blocks, 1))
    else:
        wide_codes = make(
            "Sub", codes, make.reshape(make.cast(zeros, dtypes.float32), op.N, op.blocks, 1)
        )
    factors = make.reshape(make.cast(scales, dtypes.float32), op.N, op.blocks, 1)
    whole = make.reshape(make("Mul", wide_codes, factors), op.N, op.blocks * op.block_size)
    return make.permute(make.slice(whole, 1, 0, op.K), 1, 0)


def _known(zeros: Value | None) -> Array | None:
    if zeros is None or zeros.const is None:
        return None
    return zeros.const if zeros.dtype == dtypes.uint8 else zeros.const.astype(np.float32)


def _unpacked(make: Composer, x: Value, bits: int) -> Value:
    """Bytes (…, n) as float32 numbers of few bits each, lowest first: (…, n · 8 / bits)."""
    parts = []
    for shift in range(0, 8, bits):
        moved = (
            make("BitShift", x, make.number(shift, dtypes.uint8), direction="RIGHT") if shift else x
        )
        low = make("BitwiseAnd", moved, make.number((1 << bits) - 1, dtypes.uint8))
        parts.append(make.reshape(low, *x.shape, 1))
    whole = make("Concat", *parts, axis=-1) if len(parts) > 1 else parts[0]
    return make.cast(make.reshape(whole, *x.shape[:-1], x.shape[-1] * (8 // bits)), dtypes.float32)
