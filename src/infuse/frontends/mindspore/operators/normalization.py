"""Normalization."""

from __future__ import annotations

from typing import Any

from infuse.errors import ModelFileError
from infuse.frontends.mindspore.calls import MindCall, primitive
from infuse.frontends.mindspore.operators.linear import CHANNELS_SECOND
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import handler_of


@primitive("BatchNorm", "FusedBatchNorm", "BatchNormWithActivation")
def batch_norm(call: MindCall) -> list[Any]:
    """Normalization by stored statistics of each channel; no other result is read."""
    g = call.g
    x, scale, bias, mean, variance = (call.value(i) for i in range(5))
    training = call.item(5, call.attribute("is_training", False))
    epsilon = call.number(6, call.attribute("epsilon", 1e-5))
    layout = call.item(8, call.attribute("format", call.attribute("data_format", 0)))
    call.ignore(7, "momentum")
    if training:
        raise call.unsupported("batch normalization in training mode")
    if layout not in CHANNELS_SECOND and x.rank > 2:
        raise call.unsupported(f"data format {layout!r}")
    y = g("BatchNormalization", x, scale, bias, mean, variance, epsilon=float(epsilon))
    return [y, None, None, None, None]


@primitive("LayerNorm", "LayerNormV3")
def layer_norm(call: MindCall) -> list[Any]:
    """Normalization over the last axes; the mean and the spread are not read."""
    g, x, scale, bias = call.g, call.value(0), call.value(1), call.value(2)
    norm, params = (int(call.number(i, 1)) % max(x.rank, 1) for i in (3, 4))
    epsilon = float(call.number(5, 1e-7))
    if x.rank - params != scale.rank:
        raise ModelFileError(f"its scale has {scale.rank} axes, and x {x.rank} from {params} on")
    if norm == params:
        y = g("LayerNormalization", x, scale, bias, axis=norm, epsilon=epsilon)
    else:
        axes = list(range(norm, x.rank))
        apart = g("Sub", x, g.reduce("ReduceMean", x, *axes))
        variance = g.reduce("ReduceMean", g("Mul", apart, apart), *axes)
        normal = g("Div", apart, g("Sqrt", g("Add", variance, epsilon)))
        y = g("Add", g("Mul", normal, scale), bias)
    return [y, None, None]


@primitive("GroupNorm")
def group_norm(call: MindCall) -> list[Any]:
    """Normalization over groups of channels; the mean and the spread are not read."""
    handler = handler_of("aten.group_norm")
    assert handler is not None
    y = handler(call.g, *(call.item(i) for i in range(len(call.items))))
    return [y, None, None]


@primitive("RmsNorm")
def rms_norm(call: MindCall) -> list[Any]:
    """X by the root of the mean of its squares along the last axes."""
    g, x, scale = call.g, call.value(0), call.value(1)
    axes = range(x.rank - scale.rank, x.rank)
    mean = g.reduce("ReduceMean", g("Mul", x, x), *axes)
    y = g("Div", x, g("Sqrt", g("Add", mean, float(call.number(2, 1e-6)))))
    return [g("Mul", y, scale), None]


@primitive("LRN")
def local_response(call: MindCall) -> Value:
    """X by the squares of the channels around."""
    g, x = call.g, call.value(0)
    if call.attribute("norm_region", "ACROSS_CHANNELS") != "ACROSS_CHANNELS":
        raise call.unsupported("a norm_region other than ACROSS_CHANNELS")
    size = 2 * int(call.attribute("depth_radius")) + 1
    bias, alpha, beta = (float(call.attribute(n)) for n in ("bias", "alpha", "beta"))
    return g("LRN", x, size=size, bias=bias, alpha=alpha * size, beta=beta)
