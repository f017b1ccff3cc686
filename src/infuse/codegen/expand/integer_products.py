"""Products of dequantized operands, computed on the integers: sums in 32 bits, times both scales,
plus the bias.

What follows is elementwise, so that it is done where the sums are, quantizing included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from infuse import dtypes
from infuse.codegen.expand.composer import Composer, Results, expands
from infuse.codegen.expand.quantization import per_channel
from infuse.ir.graph import Array, Node, Value, constant
from infuse.ops.convolution import Convolving
from infuse.ops.core.evaluate import evaluate_node
from infuse.ops.quantization import DequantizeLinear

BYTES = (dtypes.int8, dtypes.uint8)


@dataclass(frozen=True)
class Quantized:
    """Integers, and the scale and zero point that say what they stand for."""

    integers: Value
    scale: Value
    zero: Value | None


def activation(value: Value | None) -> Quantized | None:
    """What a value was dequantized from, with one scale for all elements."""
    quantized = _dequantized(value)
    return quantized if quantized is not None and quantized.scale.tensor.size == 1 else None


def weights(value: Value | None, axis: int) -> Quantized | None:
    """What known weights were dequantized from, with one scale for all or one for each index of
    `axis`.
    """
    quantized = _dequantized(value)
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


def _dequantized(value: Value | None) -> Quantized | None:
    node = None if value is None else value.producer
    if node is None or not isinstance(node.op, DequantizeLinear) or node.op.block_size:
        return None
    x, scale, zero = node.input(0), node.input(1), node.input(2)
    if x is None or scale is None or x.dtype not in BYTES:
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


def scaled(make: Composer, total: Value, x: Quantized, scale: Array, alpha: float = 1.0) -> Value:
    """Sums as float32 times the scale of the activation and those of the weights, which
    broadcast.
    """
    wide = make("Cast", total, to=dtypes.float32)
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
    total = make(
        "ConvInteger", x.integers, w.integers, scalar(make, x.zero), w.zero, **op.attributes()
    )
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
    total = make("MatMulInteger", x.integers, w.integers, scalar(make, x.zero), w.zero)
    return scaled(make, total, x, _columns(w.scale.const))


@expands("Gemm", early=True)
def gemm(make: Composer, node: Node) -> Results:
    attributes = node.op.attributes()
    turned = bool(attributes["transB"])
    x, w, c = activation(node.input(0)), weights(node.input(1), 0 if turned else 1), node.input(2)
    if x is None or w is None or w.scale.const is None or attributes["transA"]:
        return None
    matrix = make.permute(w.integers, 1, 0) if turned else w.integers
    total = make("MatMulInteger", x.integers, matrix, scalar(make, x.zero), w.zero)
    result = scaled(make, total, x, _columns(w.scale.const), float(attributes["alpha"]))
    if c is None:
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
