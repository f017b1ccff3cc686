"""Quantization as divisions, roundings and conversions, which fuse into one pass; scales are made
to broadcast.
"""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.graph import Array, Node, Value, constant
from infuse.lowering.expand.composer import Composer, Results, expands
from infuse.lowering.kernel_table import kernels_of
from infuse.ops.core.evaluate import evaluate_node
from infuse.ops.core.traits import Trait, has_trait
from infuse.ops.quantization import DequantizeLinear, QuantizeLinear, limits
from infuse.ops.quantizing import is_zero, quantized, rounded_factors


def folded(make: Composer, node: Node) -> Value | None:
    """The result of a node of constants."""
    if any(v is not None and v.const is None for v in node.inputs):
        return None
    (result,) = evaluate_node(node, [None if v is None else v.const for v in node.inputs])
    return constant(np.asarray(result), node.output.name, node.output.dtype)


def per_row(make: Composer, parameter: Value) -> Value:
    """A scale or zero point of the rows of a matrix, as it broadcasts against matrices."""
    if parameter.tensor.size == 1:
        return make.reshape(parameter)
    return make.reshape(parameter, parameter.shape[0], 1) if parameter.rank == 1 else parameter


def per_channel(make: Composer, parameter: Value, rank: int, axis: int = 1) -> Value:
    """A scale or zero point of one axis, as it broadcasts against tensors of a rank."""
    if parameter.tensor.size == 1:
        return make.reshape(parameter)
    return make.reshape(parameter, parameter.shape[0], *(1,) * (rank - 1 - axis % rank))


class _Granularity:
    """How a tensor and its scales are brought into shapes that broadcast, and the result back."""

    def __init__(self, make: Composer, x: Value, scale: Value, axis: int, block: int) -> None:
        self.make, self.shape = make, x.shape
        self.axis = axis % x.rank if x.rank else 0
        self.block = block if scale.tensor.size != 1 else 0
        size = x.shape[self.axis] if x.rank else 1
        self.splits = bool(self.block) and dims.exact_divide(size, self.block) is not None

    def data(self, x: Value) -> Value:
        """The tensor, its blocked axis as two where blocks fill it."""
        if not self.splits:
            return x
        count = dims.floordiv(self.shape[self.axis], self.block)
        return self.make.reshape(
            x, *self.shape[: self.axis], count, self.block, *self.shape[self.axis + 1 :]
        )

    def parameter(self, value: Value | None) -> Value | None:
        """A scale or zero point."""
        make, axis = self.make, self.axis
        if value is None or not self.block:
            return None if value is None else per_channel(make, value, len(self.shape), axis)
        apart = make.reshape(value, *value.shape[: axis + 1], 1, *value.shape[axis + 1 :])
        if self.splits:
            return apart
        shape = (*value.shape[: axis + 1], self.block, *value.shape[axis + 1 :])
        spread = make("Expand", apart, make.ints(*shape))
        whole = make.reshape(
            spread, *shape[:axis], value.shape[axis] * self.block, *shape[axis + 2 :]
        )
        return make.slice(whole, axis, 0, self.shape[axis])

    def back(self, result: Value) -> Value:
        """The result in the shape of the tensor."""
        return self.make.reshape(result, *self.shape) if self.splits else result


@expands("QuantizeLinear")
def quantize_linear(make: Composer, node: Node) -> Results:
    x, scale, zero, op = *_operands(node), node.op
    assert isinstance(op, QuantizeLinear)
    content = folded(make, node)
    if content is not None:
        return content
    form = _Granularity(make, x, scale, op.axis, op.block_size)
    precision = op.division(scale.dtype)
    divisor = form.parameter(scale)
    assert divisor is not None
    steps = _steps(make, make.cast(form.data(x), precision), make.cast(divisor, precision))
    return form.back(
        quantized(make, steps, form.parameter(zero), node.output.dtype, bool(op.saturate))
    )


def _steps(make: Composer, x: Value, scale: Value) -> Value:
    """Numbers in multiples of a scale, which broadcasts: without a division where they are scaled
    sums of integers, as those of QLinearConv.
    """
    if x.dtype != dtypes.float32 or scale.const is None or not _ends_product(x):
        return make("Div", x, scale)
    if not _is_invertible(scale.const):
        return make("Div", x, scale)
    step = scale.const.astype(np.float64)
    divided = _divided(make, x, step) if step.size == 1 else None
    if divided is None:
        return make("Mul", x, constant(np.asarray(1 / step, np.float32)))
    return divided


def _is_invertible(scale: Array) -> bool:
    sizes = np.abs(scale.astype(np.float64))
    return bool(np.all((sizes > 1e-30) & (sizes < 1e30)))


def _divided(make: Composer, x: Value, step: Array) -> Value | None:
    """`x` / step by other constants where x is y · c or y · c + b with known c and b and nobody
    else reads it.
    """
    node = x.producer
    if node is None or len(x.uses) != 1 or node.kind not in ("Add", "Mul"):
        return None
    first, second = node.input(0), node.input(1)
    if first is None or second is None or second.const is None or second.dtype != dtypes.float32:
        return None
    other = constant(np.asarray(second.const / step.reshape(()), np.float32))
    inner = first if node.kind == "Mul" else _divided(make, first, step)
    return None if inner is None else make(node.kind, inner, other)


@expands("QuantizeLinear", early=True)
def quantize_sum(make: Composer, node: Node) -> Results:
    """The sum of two dequantized values of known scales: products that are rounded before they are
    added, whatever a compiler would put together.
    """
    x, scale, zero = _operands(node)
    total, op = x.producer, node.op
    assert isinstance(op, QuantizeLinear)
    if total is None or total.kind != "Add" or len(x.uses) != 1 or scale.tensor.size != 1:
        return None
    known = op.division(scale.dtype) == scale.dtype == x.dtype == dtypes.float32
    terms = [_term(make, v) for v in total.inputs if v is not None] if known else [None]
    if None in terms:
        return None
    steps = make("Div", make("Add", *terms), make.reshape(scale))
    form = None if zero is None else make.reshape(zero)
    return quantized(make, steps, form, node.output.dtype, bool(op.saturate))


@expands("DequantizeLinear", early=True)
def rounded_product(make: Composer, node: Node) -> Results:
    """A product of integers that is quantized only to be dequantized again: rounded and limited, in
    floats.
    """
    q, scale, zero = _operands(node)
    maker = q.producer
    if (
        maker is None
        or not isinstance(maker.op, QuantizeLinear)
        or not q.dtype.is_integer
        or len(q.uses) != 1
        or not _is_known(scale)
    ):
        return None
    x, weight, shift = _operands(maker)
    if not (_same(weight, scale) and _same(zero, shift) and _ends_product(x)):
        return None
    if any(map(_stays_quantized, _readers(node))) or scale.dtype != dtypes.float32:
        return None
    start = (
        0.0
        if zero is None or zero.const is None
        else float(zero.const.astype(np.float32).reshape(()))
    )
    low, high = limits(q.dtype)
    limited = make(
        "Clip", make("Round", _steps(make, x, make.reshape(scale))), low - start, high - start
    )
    return make("Mul", limited, make.reshape(scale))


def _same(a: Value | None, b: Value | None) -> bool:
    """Whether two scales or zero points are known and equal, or both absent."""
    if a is None or b is None or a.const is None or b.const is None:
        return a is b is None
    return np.array_equal(a.const, b.const)


def _readers(node: Node) -> list[tuple[Node, Value | None]]:
    """Who reads the result of a node, and the other operand there."""
    return [
        (user, next((v for v in user.inputs if v is not node.output), None))
        for user in node.output.users()
    ]


def _stays_quantized(reader: tuple[Node, Value | None]) -> bool:
    """Whether bytes serve a reader better: one that multiplies integers, or adds another product to
    this one.
    """
    user, other = reader
    maker = None if other is None else other.producer
    if user.kind in ("Conv", "ConvTranspose", "MatMul", "Gemm"):
        return (
            maker is not None
            and isinstance(maker.op, DequantizeLinear)
            and _is_constant(maker.input(0))
        )
    return user.kind == "Add" and _ends_product(other)


def _is_constant(value: Value | None) -> bool:
    return value is not None and value.const is not None


def _ends_product(x: Value | None, depth: int = 16) -> bool:
    """Whether a value is a product of integers with little elementwise work after it: no NaN."""
    node = None if x is None else x.producer
    if node is None or depth == 0:
        return False
    if node.kind in ("ConvInteger", "ConvTransposeInteger", "MatMulInteger"):
        return True
    others = node.inputs[1:]
    constant = all(v is None or v.const is not None for v in others)
    return constant and has_trait(node, Trait.FINITE) and _ends_product(node.input(0), depth - 1)


def _is_known(scale: Value) -> bool:
    return scale.const is not None and scale.const.size == 1 and _is_invertible(scale.const)


def _term(make: Composer, value: Value) -> Value | None:
    """What integers of one scale stand for, or a product by a known number."""
    node = value.producer
    if node is not None and node.kind == "Mul":
        first, second = node.inputs[:2]
        if first is None or second is None or second.const is None or second.const.size != 1:
            return None
        return rounded_factors(make, first, make.reshape(second))
    if node is None or not isinstance(node.op, DequantizeLinear) or value.dtype != dtypes.float32:
        return None
    x, scale, zero = _operands(node)
    if x.const is not None or not x.dtype.is_integer or not _is_known(scale):
        return None
    wide = make.cast(x, dtypes.float32)
    if zero is not None and not is_zero(zero):
        wide = make("Sub", wide, make.cast(make.reshape(zero), dtypes.float32))
    return rounded_factors(make, wide, make.cast(make.reshape(scale), dtypes.float32))


@expands("DequantizeLinear")
def dequantize_linear(make: Composer, node: Node) -> Results:
    x, scale, zero, op = *_operands(node), node.op
    assert isinstance(op, DequantizeLinear)
    if kernels_of(make.machine).takes(node):
        return None
    content = folded(make, node)
    if content is not None:
        return content
    form = _Granularity(make, x, scale, op.axis, op.block_size)
    computed = dtypes.float64 if scale.dtype == dtypes.float64 else dtypes.float32
    wide = make.cast(form.data(x), computed)
    shift = form.parameter(zero)
    if shift is not None and not is_zero(shift):
        wide = make("Sub", wide, make.cast(shift, computed))
    factor = form.parameter(scale)
    assert factor is not None
    result = make("Mul", wide, make.cast(factor, computed))
    return form.back(make.cast(result, node.output.dtype))


def _operands(node: Node) -> tuple[Value, Value, Value | None]:
    x, scale = node.inputs[:2]
    assert x is not None
    assert scale is not None
    return x, scale, node.input(2)
