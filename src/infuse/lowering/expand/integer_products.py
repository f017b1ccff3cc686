"""Products of dequantized operands, computed on the integers: sums in 32 bits, times both scales,
plus the bias.

What follows is elementwise, so that it is done where the sums are, quantizing included. Activations
of 16 bits are two digits to the base 256, each of which is multiplied as bytes are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.immutable import Immutable, replace
from infuse.ir.graph import Array, Node, Value, constant
from infuse.lowering.expand.composer import Composer, Results, expands
from infuse.lowering.expand.quantization import per_channel
from infuse.ops.convolution import Convolving
from infuse.ops.core.evaluate import evaluate_node
from infuse.ops.quantization import DequantizeLinear
from infuse.ops.quantizing import is_zero
from infuse.targets import DotType, Machine

BYTES = (dtypes.int8, dtypes.uint8)
WORDS = {dtypes.int16: dtypes.int8, dtypes.uint16: dtypes.uint8}
"""Types of 16 bits with that of their high digit to the base 256; the low one is unsigned."""
BASE = 256
LARGEST_SUM = 2**31 - 1
TOGETHER = 4
"""Products of bytes that machines add up at once, where they do."""


class Quantized(Immutable):
    """Integers, and the scale and zero point that say what they stand for."""

    integers: Value
    scale: Value
    zero: Value | None


def activation(value: Value | None) -> Quantized | None:
    """What a value was dequantized from, of 8 or 16 bits, with one scale for all elements."""
    quantized = _dequantized(value, (*BYTES, *WORDS))
    return quantized if quantized is not None and quantized.scale.tensor.size == 1 else None


def weights(value: Value | None, axis: int) -> Quantized | None:
    """What known weights were dequantized from, with one scale for all or one for each index of
    `axis`.
    """
    quantized = _dequantized(value, BYTES)
    if (
        quantized is None
        or value is None
        or any(v is not None and v.const is None for v in _parts(quantized))
    ):
        return None
    assert value.producer is not None
    op = value.producer.op
    assert isinstance(op, DequantizeLinear)
    fits = quantized.scale.tensor.size == 1 or op.axis % value.rank == axis
    return quantized if fits else None


def _parts(quantized: Quantized) -> tuple[Value | None, ...]:
    return quantized.integers, quantized.scale, quantized.zero


def _dequantized(value: Value | None, stored: tuple[DType, ...]) -> Quantized | None:
    node = None if value is None else value.producer
    if node is None or not isinstance(node.op, DequantizeLinear) or node.op.block_size:
        return None
    x, scale, zero = node.input(0), node.input(1), node.input(2)
    if x is None or scale is None or x.dtype not in stored:
        return None
    plain = scale.dtype == node.output.dtype == dtypes.float32
    return Quantized(x, scale, zero) if plain else None


def known(value: Value) -> Value:
    """A dequantized constant as a constant."""
    node = value.producer
    if (
        node is None
        or node.kind != "DequantizeLinear"
        or any(v.const is None for v in node.operands())
    ):
        return value
    (result,) = evaluate_node(node, [None if v is None else v.const for v in node.inputs])
    return constant(np.asarray(result), value.name)


Multiply = Callable[[Value, Value | None], Value]
"""The products of bytes less their zero point and weights, in int32."""


def sums(make: Composer, x: Quantized, w: Quantized, multiply: Multiply, axis: int) -> Value | None:
    """The products of an activation less its zero point and weights [.., outputs along `axis`, ..]
    in float32.

    Bytes are multiplied at once. Of 16 bits each digit is, and the sums, which are exact, are added
    as floats, which errs less than a sum of as many floats. None where the processor has no
    products of bytes, with which floats are faster, or where sums of digits could leave 32 bits.
    """
    if x.integers.dtype in BYTES:
        return make.cast(multiply(x.integers, scalar(make, x.zero)), dtypes.float32)
    if not multiplies_bytes(make.machine) or not digits_fit(shifted(w, axis)):
        return None
    high, low = (
        make.cast(multiply(digit.integers, scalar(make, digit.zero)), dtypes.float32)
        for digit in digits(make, x)
    )
    return make("Add", low, make("Mul", high, float(BASE)))


def multiplies_bytes(machine: Machine | None) -> bool:
    """Whether four products of bytes are added up at once: two such sums take less time than one
    of floats.
    """
    unit = None if machine is None else machine.dot(DotType.U8S8)
    return machine is None or (unit is not None and unit.products == TOGETHER)


def shifted(w: Quantized, axis: int) -> Array:
    """Weights less their zero points as a matrix [depth, outputs along `axis`]."""
    integers, zero = w.integers.const, None if w.zero is None else w.zero.const
    assert integers is not None
    matrix = np.moveaxis(integers, axis, -1).reshape(-1, integers.shape[axis]).astype(np.int16)
    return matrix if zero is None else np.asarray(matrix - zero.astype(np.int16).reshape(-1))


def digits_fit(matrix: Array) -> bool:
    """Whether weights [depth, columns] are of 8 bits, and no sum of their products with digits of
    8 bits, less a zero point, leaves 32 bits.
    """
    if not matrix.size:
        return True
    largest = np.abs(matrix).sum(0, dtype=np.int64).max() * (BASE - 1)
    return bool(matrix.min() >= -128 and matrix.max() <= 127 and largest <= LARGEST_SUM)


def digits(make: Composer, x: Quantized) -> tuple[Quantized, Quantized]:
    """The high and the low digit of an activation of 16 bits, made once for all who multiply it;
    the zero point's digits are theirs.
    """
    zero = None if is_zero(x.zero) else x.zero
    parts = _split(make, x.integers)
    zeros = (None, None) if zero is None else _split(make, zero)
    high, low = (replace(x, integers=part, zero=z) for part, z in zip(parts, zeros))
    return high, low


def _split(make: Composer, x: Value) -> tuple[Value, Value]:
    """Both digits of integers of 16 bits."""
    if x.const is not None:
        high, low = x.const >> 8, x.const & (BASE - 1)
        return (
            constant(np.asarray(high, WORDS[x.dtype].numpy)),
            constant(np.asarray(low, np.uint8)),
        )
    shift = constant(np.asarray(8, x.dtype.numpy))
    return _cast(make, _shifted(make, x, shift), WORDS[x.dtype]), _cast(make, x, dtypes.uint8)


def _shifted(make: Composer, x: Value, by: Value) -> Value:
    made = [user for user in x.users() if user.kind == "BitShift" and user.graph is make.graph]
    return made[0].output if made else make("BitShift", x, by, direction="RIGHT")


def _cast(make: Composer, x: Value, to: DType) -> Value:
    made = [user for user in x.users() if user.kind == "Cast" and user.graph is make.graph]
    return next((user.output for user in made if user.output.dtype == to), None) or make.cast(x, to)


def scaled(make: Composer, wide: Value, x: Quantized, scale: Array, alpha: float = 1.0) -> Value:
    """Sums in float32 times the scale of the activation and those of the weights, which
    broadcast.
    """
    factor = np.asarray(scale * np.float32(alpha), np.float32)
    if x.scale.const is not None:
        return make(
            "Mul", wide, constant(np.asarray(factor * x.scale.const.reshape(()), np.float32))
        )
    return make("Mul", wide, make("Mul", make.reshape(x.scale), constant(factor)))


@expands("Conv", early=True)
def conv(make: Composer, node: Node) -> Results:
    x, w, bias, op = activation(node.input(0)), weights(node.input(1), 0), node.input(2), node.op
    if x is None or w is None or w.scale.const is None:
        return None
    assert isinstance(op, Convolving)

    def multiply(image: Value, zero: Value | None) -> Value:
        return make("ConvInteger", image, w.integers, zero, w.zero, **op.attributes())

    total = sums(make, x, w, multiply, 0)
    if total is None:
        return None
    rank = node.output.rank
    scale = w.scale.const.reshape(-1, *(1,) * (rank - 2))
    result = scaled(make, total, x, scale if scale.size > 1 else scale.reshape(()))
    return result if bias is None else make("Add", result, per_channel(make, known(bias), rank))


@expands("MatMul", early=True)
def matmul(make: Composer, node: Node) -> Results:
    a, b = node.input(0), node.input(1)
    if a is None or b is None or a.rank < 2 or b.rank != 2:
        return None
    x, w = activation(a), weights(b, 1)
    if x is None or w is None or w.scale.const is None:
        return None
    total = sums(make, x, w, _by_matrix(make, w.integers, w.zero), 1)
    return None if total is None else scaled(make, total, x, _columns(w.scale.const))


def _by_matrix(make: Composer, matrix: Value, zero: Value | None) -> Multiply:
    return lambda rows, shift: make("MatMulInteger", rows, matrix, shift, zero)


@expands("Gemm", early=True)
def gemm(make: Composer, node: Node) -> Results:
    attributes = node.op.attributes()
    turned = bool(attributes["transB"])
    x, w, c = activation(node.input(0)), weights(node.input(1), 0 if turned else 1), node.input(2)
    if x is None or w is None or w.scale.const is None or attributes["transA"]:
        return None
    matrix = make.permute(w.integers, 1, 0) if turned else w.integers
    multiply = _by_matrix(make, matrix, w.zero)
    total = sums(make, x, w, multiply, 0 if turned else 1)
    if total is None:
        return None
    result = scaled(make, total, x, _columns(w.scale.const), float(attributes["alpha"]))
    if c is None or attributes["beta"] == 0:
        return result
    addend = known(c)
    return make(
        "Add",
        result,
        addend if attributes["beta"] == 1.0 else make("Mul", addend, float(attributes["beta"])),
    )


def scalar(make: Composer, zero: Value | None) -> Value | None:
    return None if zero is None else make.reshape(zero)


def _columns(scale: Array) -> Array:
    return scale if scale.size > 1 else scale.reshape(())
