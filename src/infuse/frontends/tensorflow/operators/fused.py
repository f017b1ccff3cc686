"""Operators with others fused to them, as Grappler and TensorFlow.js write them."""

from __future__ import annotations

from infuse.errors import ModelFileError
from infuse.frontends.tensorflow.calls import FlowCall, operator
from infuse.frontends.tensorflow.operators.convolutions import channels_last, convolution, finish
from infuse.frontends.tensorflow.operators.linear import matmul
from infuse.frontends.tensorflow.operators.normalization import normalized
from infuse.ir.graph import Value


def _fused(call: FlowCall, y: Value, first: bool) -> Value:
    """`y` after what is fused to its operator. `first`: whether its channels come first."""
    names = [
        bytes(name).decode("utf-8", "replace") for name in call.option("fused_ops", None) or ()
    ]
    place = 2
    g = call.g

    def operand() -> Value:
        nonlocal place
        place += 1
        return call.raw(place - 1)

    for name in names:
        if name == "BiasAdd":
            y = g("Add", y, by_channel(call, operand(), y.rank, first))
        elif name == "FusedBatchNorm":
            parts = [operand() for _ in range(4)]
            y = normalized(call, y, parts, float(call.option("epsilon", 1e-4)), first)
        elif name == "Prelu":
            y = g("PRelu", y, by_channel(call, operand(), y.rank, first))
        elif name in ("Relu", "Elu", "Sigmoid", "Tanh"):
            y = g(name, y)
        elif name == "Relu6":
            y = g("Clip", y, g.number(0, y.dtype), g.number(6, y.dtype))
        elif name == "LeakyRelu":
            y = g("LeakyRelu", y, alpha=float(call.option("leakyrelu_alpha", 0.2)))
        elif name in ("GeluApproximate", "GeluExact"):
            y = g("Gelu", y, approximate="tanh" if name == "GeluApproximate" else "none")
        else:
            raise call.unsupported(f"{name} fused to it")
    if place != call.count:
        raise ModelFileError(f"it has {call.count} operands, of which {place} are for {names}")
    return y


def by_channel(call: FlowCall, value: Value, rank: int, first: bool) -> Value:
    """One number for each channel, or for each element behind the batch, beside a tensor."""
    if not first:
        return value
    if value.rank == 1:
        return call.g.reshape(value, *value.shape, *[1] * (rank - 2))
    if 1 < value.rank < rank:
        value = call.g.reshape(value, *[1] * (rank - value.rank), *value.shape)
    if not value.rank:
        return value
    return call.g.permute(value, 0, rank - 1, *range(1, rank - 1))


def _convolution(call: FlowCall, depthwise: bool) -> Value:
    y = convolution(call, depthwise)
    if not channels_last(call, y.rank) and any(call.raw(i).rank > 1 for i in range(2, call.count)):
        raise call.unsupported("a fused operand of several axes beside channels that come first")
    return finish(call, _fused(call, y, first=True))


operator("_FusedConv2D")(lambda call: _convolution(call, depthwise=False))
operator("_FusedMatMul")(lambda call: _fused(call, matmul(call), first=False))


@operator("FusedDepthwiseConv2dNative", "_FusedDepthwiseConv2dNative")
def fused_depthwise(call: FlowCall) -> Value:
    """A depthwise convolution and what follows it."""
    return _convolution(call, depthwise=True)
