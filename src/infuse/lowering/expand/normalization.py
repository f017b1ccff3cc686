"""Normalizations in arithmetic and reductions, where their kernels do not reach."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse import dtypes, ops
from infuse.ir import dims
from infuse.ir.graph import Node, Value, constant
from infuse.ir.types import Shape
from infuse.lowering.expand.composer import Composer, Results, expands


def _operands(node: Node) -> list[Value]:
    return [v for v in node.inputs if v is not None]


def _is_float32(node: Node) -> bool:
    return all(v.dtype == dtypes.float32 for v in (*node.operands(), *node.outputs))


def _per_channel(make: Composer, vector: Value, rank: int) -> Value:
    return make.reshape(vector, vector.shape[0], *(1,) * (rank - 2))


def _standardized(
    make: Composer, x: Value, axes: Sequence[int], epsilon: float
) -> tuple[Value, Value, Value]:
    """`x` with mean 0 and variance 1 over `axes`, the mean, and one over the deviation."""
    mean = make.reduce("ReduceMean", x, *axes)
    centered = make(x - mean)
    variance = make.reduce("ReduceMean", centered * centered, *axes)
    inverse = make("Reciprocal", make("Sqrt", variance + epsilon))
    return make(centered * inverse), mean, inverse


@expands("BatchNormalization")
def batch_normalization(make: Composer, node: Node) -> Results:
    x, scale, bias, mean, variance = _operands(node)
    epsilon = node.op.attributes()["epsilon"]
    statistics = (scale, bias, mean, variance)
    if all(v.is_const for v in statistics):
        gain, shift, center, spread = (
            v.const.astype(np.float64) for v in statistics if v.const is not None
        )
        factor = gain / np.sqrt(spread + epsilon)
        weights = [constant(w.astype(x.dtype.numpy)) for w in (factor, shift - center * factor)]
        one, other = (_per_channel(make, w, x.rank) for w in weights)
        return make(x * one + other)
    gain_, shift_, center_, spread_ = (
        _per_channel(make, make.cast(v, x.dtype), x.rank) for v in (scale, bias, mean, variance)
    )
    factor_ = make(gain_ / make("Sqrt", spread_ + epsilon))
    return make((x - center_) * factor_ + shift_)


@expands("LayerNormalization")
def layer_normalization(make: Composer, node: Node) -> Results:
    x, scale, bias = node.inputs[0], node.inputs[1], node.input(2)
    assert x is not None
    assert scale is not None
    attributes = node.op.attributes()
    axis = attributes["axis"] % x.rank
    plain = make.has_kernel and _is_float32(node) and not any(v.uses for v in node.outputs[1:])
    if plain and _is_row(axis, x, scale, bias):
        return None
    if plain and all(v is None or v.shape == x.shape[axis:] for v in (scale, bias)):
        return _flat_rows(make, node, x, axis, [scale, bias])
    normal, mean, inverse = _standardized(make, x, range(axis, x.rank), attributes["epsilon"])
    result = make(normal * scale)
    statistics = dtypes.by_onnx(attributes["stash_type"])
    results = [result if bias is None else make(result + bias), mean, inverse]
    return [results[0], *(make.cast(v, statistics) for v in results[1 : len(node.outputs)])]


@expands("RMSNormalization")
def rms_normalization(make: Composer, node: Node) -> Results:
    x, scale = _operands(node)
    attributes = node.op.attributes()
    axis = attributes["axis"] % x.rank
    plain = make.has_kernel and _is_float32(node)
    if plain and _is_row(axis, x, scale):
        return None
    if plain and scale.shape == x.shape[axis:]:
        return _flat_rows(make, node, x, axis, [scale])
    wide = dtypes.float64 if dtypes.float64 in (x.dtype, scale.dtype) else dtypes.float32
    value = make.cast(x, wide)
    square = make.reduce("ReduceMean", value * value, *range(axis, x.rank))
    root = make("Sqrt", square + attributes["epsilon"])
    return make.cast(make(value / root * make.cast(scale, wide)), node.output.dtype)


def _is_row(axis: int, x: Value, *vectors: Value | None) -> bool:
    """Whether the last axis alone is normalized and every vector has one element for each of its
    elements.
    """
    return axis == x.rank - 1 and all(v is None or v.shape == x.shape[-1:] for v in vectors)


def _flat_rows(
    make: Composer, node: Node, x: Value, axis: int, vectors: Sequence[Value | None]
) -> Value:
    """The same with all normalized axes seen as one."""
    width = dims.product(x.shape[axis:])
    rows = make.reshape(x, *x.shape[:axis], width)
    flat = [None if v is None else make.reshape(v, width) for v in vectors]
    op = node.op.replace(axis=-1)  # type: ignore[attr-defined]
    return make.reshape(make.apply(op, [rows, *flat])[0], *x.shape)


@expands("InstanceNormalization", "GroupNormalization")
def group_normalization(make: Composer, node: Node) -> Results:
    x, scale, bias = _operands(node)
    if make.has_kernel and _is_float32(node):
        return None
    attributes = node.op.attributes()
    grouped: Shape = x.shape
    if "num_groups" in attributes:
        count = attributes["num_groups"]
        grouped = (x.shape[0], count, dims.floordiv(dims.product(x.shape[1:]), count))
    normal = _standardized(
        make, make.reshape(x, *grouped), range(2, len(grouped)), attributes["epsilon"]
    )[0]
    one, other = (_per_channel(make, v, x.rank) for v in (scale, bias))
    return make(make.reshape(normal, *x.shape) * one + other)


@expands("MeanVarianceNormalization")
def mean_variance_normalization(make: Composer, node: Node) -> Results:
    (x,) = _operands(node)
    axes = [a % x.rank for a in node.op.attributes()["axes"]]
    centered = make(x - make.reduce("ReduceMean", x, *axes))
    variance = make.reduce("ReduceMean", centered * centered, *axes)
    return make(centered / (ops.sqrt(variance) + 1e-9))


@expands("LpNormalization")
def lp_normalization(make: Composer, node: Node) -> Results:
    (x,) = _operands(node)
    if make.has_kernel and x.dtype == dtypes.float32:
        return None
    attributes = node.op.attributes()
    norm = make.reduce(f"ReduceL{attributes['p']}", x, attributes["axis"] % x.rank)
    zero = make("Equal", norm, 0.0)
    return make(x / make("Where", zero, make.number(1, x.dtype), norm))


@expands("Softmax", "LogSoftmax")
def softmax(make: Composer, node: Node) -> Results:
    (x,) = _operands(node)
    if make.has_kernel and x.dtype == dtypes.float32:
        return None
    axis = node.op.attributes()["axis"] % x.rank
    shifted = make(x - make.reduce("ReduceMax", x, axis))
    powers = make("Exp", shifted)
    total = make.reduce("ReduceSum", powers, axis)
    return make(powers / total) if node.kind == "Softmax" else make(shifted - ops.log(total))


@expands("Hardmax")
def hardmax(make: Composer, node: Node) -> Results:
    (x,) = _operands(node)
    axis = node.op.attributes()["axis"] % x.rank
    best = make("ArgMax", x, axis=axis, keepdims=1)
    zeros = make("ConstantOfShape", make.ints(*x.shape), value=0, dtype=x.dtype)
    ones = make("Expand", make.number(1, x.dtype), make.ints(*best.shape))
    return make("ScatterElements", zeros, best, ones, axis=axis, reduction="none")


@expands("LRN")
def lrn(make: Composer, node: Node) -> Results:
    (x,) = _operands(node)
    attributes = node.op.attributes()
    size = attributes["size"]
    squares = make.pad(make(x * x), 1, (size - 1) // 2, size // 2)
    total = make.slice(squares, 1, 0, x.shape[1])
    for i in range(1, size):
        total = make(total + make.slice(squares, 1, i, x.shape[1] + i))
    base = make(total * (attributes["alpha"] / size) + attributes["bias"])
    if attributes["bias"] > 0:
        return make(x * ops.exp(ops.log(base) * -attributes["beta"]))
    return make(x / base ** attributes["beta"])


@expands("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(make: Composer, node: Node) -> Results:
    (x,) = _operands(node)
    axes = range(2, x.rank)
    if node.kind != "GlobalLpPool":
        if make.has_kernel and x.dtype == dtypes.float32:
            return None
        return make.reduce(
            "ReduceMean" if node.kind == "GlobalAveragePool" else "ReduceMax", x, *axes
        )
    p = node.op.attributes()["p"]
    if p in (1, 2):
        return make.reduce(f"ReduceL{p}", x, *axes)
    total = make.reduce("ReduceSum", ops.abs(x) ** float(p), *axes)
    return make(total ** (1 / p))
