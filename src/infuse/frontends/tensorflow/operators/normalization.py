"""Normalization, and softmax."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse.errors import ModelFileError
from infuse.frontends.tensorflow.calls import FlowCall, operator
from infuse.frontends.tensorflow.operators.convolutions import finish, image
from infuse.ir.graph import Value


def normalized(
    call: FlowCall, x: Value, parts: Sequence[Value], epsilon: float, first: bool = True
) -> Value:
    """X (NCHW) with this scale, offset, mean and variance of each channel."""
    if not first:
        raise call.unsupported("a normalization of channels that are the last axis")
    g, dtype = call.g, x.dtype
    wide = [g.cast(part, parts[0].dtype) for part in parts]
    if dtype != parts[0].dtype:
        x = g.cast(x, parts[0].dtype)
    return g.cast(g("BatchNormalization", x, *wide, epsilon=epsilon), dtype)


@operator("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "_FusedBatchNormEx")
def batch_norm(call: FlowCall) -> list[Value]:
    """Images normalized by the statistics that are operands, or by their own in training."""
    rank = call.raw(0).rank
    if rank not in (4, 5):
        raise ModelFileError(f"its operand has {rank} axes")
    epsilon = float(call.option("epsilon", 1e-4))
    x, parts = image(call, 0, rank), [call.raw(i) for i in range(1, 5)]
    if call.option("is_training", True):
        parts[2:] = _statistics(call, x)
    y = normalized(call, x, parts, epsilon)
    if call.node.op == "_FusedBatchNormEx":
        if call.option("num_side_inputs", 0):
            raise call.unsupported("an operand that is added")
        kind = call.text("activation_mode", "Identity", "Relu")
        y = call.g(kind, y) if kind == "Relu" else y
    return [finish(call, y), parts[2], parts[3], *[parts[2]] * 3]


def _statistics(call: FlowCall, x: Value) -> list[Value]:
    if call.count > 3 and call.raw(3).tensor.size != 0:
        raise call.unsupported("an average of statistics over several batches")
    g, axes = call.g, [0, *range(2, x.rank)]
    mean = g.reduce("ReduceMean", x, *axes)
    centred = g("Sub", x, mean)
    variance = g("ReduceMean", g("Mul", centred, centred), g.ints(*axes), keepdims=0)
    return [g("Squeeze", mean, g.ints(*axes)), variance]


@operator("BatchNormWithGlobalNormalization")
def old_batch_norm(call: FlowCall) -> Value:
    """The form of the first versions: mean, variance, offset, scale."""
    g, (x, mean, variance, offset, scale) = call.g, [call.raw(i) for i in range(5)]
    spread = g("Sqrt", g("Add", variance, float(call.option("variance_epsilon", 0.0))))
    y = g("Div", g("Sub", x, mean), spread)
    if call.option("scale_after_normalization", False):
        y = g("Mul", y, scale)
    return g("Add", y, offset)


@operator("LRN")
def local_response(call: FlowCall) -> Value:
    """X over a power of the squares of its neighbours along the last axis."""
    size = 2 * int(call.option("depth_radius", 5)) + 1
    alpha = float(call.option("alpha", 1.0)) * size
    beta, bias = float(call.option("beta", 0.5)), float(call.option("bias", 1.0))
    y = call.g("LRN", call.real(0, 0, 3, 1, 2), size=size, alpha=alpha, beta=beta, bias=bias)
    return call.g.permute(y, 0, 2, 3, 1)


@operator("BiasAdd", "BiasAddV1")
def bias_add(call: FlowCall) -> Value:
    """X plus a number for each channel."""
    x, bias = call.raw(0), call.raw(1)
    last = call.text("data_format", "NHWC", "NCHW") == "NHWC"
    if not last and x.rank > 2:
        bias = call.g.reshape(bias, *bias.shape, *[1] * (x.rank - 2))
    return call.g("Add", x, bias)


operator("Softmax")(lambda call: call.g("Softmax", call.raw(0), axis=-1))


@operator("SoftmaxCrossEntropyWithLogits")
def cross_entropy(call: FlowCall) -> list[Value]:
    """The loss of each row, and its gradient."""
    g, logits, labels = call.g, call.raw(0), call.raw(1)
    if logits.shape != labels.shape:  # the row of a softmax is one that has been repeated
        sizes = (g("Shape", value) for value in (logits, labels))
        logits = g("Expand", logits, g("Max", *sizes))
    rows = g("LogSoftmax", logits, axis=-1)
    loss = g("Neg", g("ReduceSum", g("Mul", labels, rows), g.ints(-1), keepdims=0))
    return [loss, g("Sub", g("Exp", rows), labels)]


@operator("SparseSoftmaxCrossEntropyWithLogits")
def sparse_cross_entropy(call: FlowCall) -> list[Value]:
    """The loss of each row, whose class is a number, and its gradient."""
    g, logits, labels = call.g, call.raw(0), call.raw(1)
    depth = g.ints(g.size_of(logits, 1))
    pair = g.constant(np.array([0, 1], logits.dtype.numpy))
    hot = g("OneHot", labels, depth, pair, axis=-1)
    return cross_entropy(call.on(logits, hot))


@operator("L2Loss")
def l2_loss(call: FlowCall) -> Value:
    """Half of the sum of squares."""
    squares = call.g("ReduceSumSquare", call.raw(0), keepdims=0)
    return call.g("Mul", squares, 0.5)
