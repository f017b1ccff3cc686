"""Normalizations."""

from __future__ import annotations

import numpy as np

from infuse.errors import ModelFileError
from infuse.frontends.paddle.calls import PaddleCall, operator
from infuse.frontends.paddle.operators.convolutions import as_image, image
from infuse.ir.graph import Value


def _ones(call: PaddleCall, x: Value, value: float) -> Value:
    size = x.shape[1]
    if not isinstance(size, int) or size > 1 << 24:
        raise call.unsupported("a number of channels that is not fixed")
    return call.g.constant(np.full(size, value, x.dtype.numpy))


def _scale_and_bias(call: PaddleCall, x: Value) -> tuple[Value, Value]:
    scale, bias = call.maybe("scale"), call.maybe("bias")
    return (
        _ones(call, x, 1) if scale is None else scale,
        _ones(call, x, 0) if bias is None else bias,
    )


@operator("batch_norm", "sync_batch_norm")
def batch_norm(call: PaddleCall) -> Value:
    """Channels scaled by the mean and the variance of the training."""
    if not (call.attribute("is_test", False) or call.attribute("use_global_stats", False)):
        raise call.unsupported("batch_norm as in training")
    x = image(call, "x")
    operands = (*_scale_and_bias(call, x), call("mean"), call("variance"))
    epsilon = float(call.attribute("epsilon", 1e-5))
    return as_image(call, call.g("BatchNormalization", x, *operands, epsilon=epsilon))


@operator("layer_norm")
def layer_norm(call: PaddleCall) -> Value:
    """The axes from one on with the mean 0 and the variance 1, scaled."""
    g, x = call.g, call("x")
    axis = int(call.attribute("begin_norm_axis", 1))
    if not 0 < axis < x.rank:
        raise ModelFileError(f"begin_norm_axis is {axis}, and the rank {x.rank}")
    sizes = [g.size_of(x, i) for i in range(axis, x.rank)]
    scale, bias = call.maybe("scale"), call.maybe("bias")
    if scale is None:
        scale = g("Expand", g.number(1, x.dtype), g.ints(*sizes))
    elif len(sizes) > 1:
        scale = g("Reshape", scale, g.ints(*sizes))
    if bias is not None and len(sizes) > 1:
        bias = g("Reshape", bias, g.ints(*sizes))
    epsilon = float(call.attribute("epsilon", 1e-5))
    return g("LayerNormalization", x, scale, bias, axis=axis, epsilon=epsilon)


@operator("group_norm")
def group_norm(call: PaddleCall) -> Value:
    """Groups of channels with the mean 0 and the variance 1, scaled."""
    x = image(call, "x")
    groups, epsilon = int(call.attribute("groups", 1)), float(call.attribute("epsilon", 1e-5))
    operands = _scale_and_bias(call, x)
    made = call.g("GroupNormalization", x, *operands, num_groups=groups, epsilon=epsilon)
    return as_image(call, made)


@operator("instance_norm")
def instance_norm(call: PaddleCall) -> Value:
    """Each channel of an image with the mean 0 and the variance 1, scaled."""
    x = image(call, "x")
    epsilon = float(call.attribute("epsilon", 1e-5))
    return as_image(
        call, call.g("InstanceNormalization", x, *_scale_and_bias(call, x), epsilon=epsilon)
    )
