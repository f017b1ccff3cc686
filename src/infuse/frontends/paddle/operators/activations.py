"""Activations, and losses of elements."""

from __future__ import annotations

import math
from typing import Any

from infuse.frontends.paddle.calls import PaddleCall, front, operator
from infuse.ir.graph import Value


def _with(name: str, kind: str, **attributes: tuple[str, Any]) -> None:
    """An activation whose attributes are numbers under other names, with defaults."""

    @operator(name)
    def build(call: PaddleCall) -> Value:
        numbers = {to: call.attribute(of, default) for to, (of, default) in attributes.items()}
        return call.g(kind, call("x"), **numbers)


_with("leaky_relu", "LeakyRelu", alpha=("negative_slope", 0.02))
_with("elu", "Elu", alpha=("alpha", 1.0))
_with("celu", "Celu", alpha=("alpha", 1.0))
_with("selu", "Selu", alpha=("alpha", 1.6732632423543772), gamma=("scale", 1.0507009873554805))
_with("hardsigmoid", "HardSigmoid", alpha=("slope", 0.2), beta=("offset", 0.5))
_with("softmax", "Softmax", axis=("axis", -1))
_with("log_softmax", "LogSoftmax", axis=("axis", -1))
_with("silu", "Swish", alpha=("beta", 1.0))
_with("swish", "Swish", alpha=("beta", 1.0))


@operator("relu6")
def relu6(call: PaddleCall) -> Value:
    """Elements from 0 to 6."""
    x = call("x")
    high = call.g.number(float(call.attribute("threshold", 6.0)), x.dtype)
    return call.g("Clip", x, call.g.number(0, x.dtype), high)


@operator("hardtanh")
def hardtanh(call: PaddleCall) -> Value:
    """Elements within limits."""
    x = call("x")
    limits = (float(call.attribute(n, d)) for n, d in (("t_min", 0.0), ("t_max", 24.0)))
    return call.g("Clip", x, *(call.g.number(limit, x.dtype) for limit in limits))


@operator("hardswish")
def hardswish(call: PaddleCall) -> Value:
    """X · clip(x + offset, 0, threshold) / scale."""
    g, x = call.g, call("x")
    offset, threshold, divisor = (
        float(call.attribute(n, d))
        for n, d in (("offset", 3.0), ("threshold", 6.0), ("scale", 6.0))
    )
    if (offset, threshold, divisor) == (3.0, 6.0, 6.0):
        return g("HardSwish", x)
    limits = (g.number(limit, x.dtype) for limit in (0.0, threshold))
    return g("Div", g("Mul", x, g("Clip", g("Add", x, offset), *limits)), divisor)


@operator("gelu")
def gelu(call: PaddleCall) -> Value:
    """The Gaussian error linear unit."""
    tanh = bool(call.attribute("approximate", False))
    return call.g("Gelu", call("x"), approximate="tanh" if tanh else "none")


@operator("mish")
def mish(call: PaddleCall) -> Value:
    """X · tanh(softplus(x)); above the threshold both forms are one."""
    call.require("threshold", 20.0)
    call.require("lambda", 20.0)
    return call.g("Mish", call("x"))


@operator("softplus")
def softplus(call: PaddleCall) -> Value:
    """Log(1 + exp(beta x)) / beta, and x itself beyond a threshold."""
    g, x = call.g, call("x")
    beta, threshold = (float(call.attribute(n, d)) for n, d in (("beta", 1.0), ("threshold", 20.0)))
    wide = g("Mul", x, beta)
    smooth = g("Div", g("Softplus", wide), beta)
    return g("Where", g("Greater", wide, threshold), x, smooth)


@operator("hardshrink")
def hardshrink(call: PaddleCall) -> Value:
    """Zero near zero, but not at the threshold itself."""
    g, x = call.g, call("x")
    near = g("Less", g("Abs", x), float(call.attribute("threshold", 0.5)))
    return g("Where", near, g.number(0, x.dtype), x)


@operator("softshrink")
def softshrink(call: PaddleCall) -> Value:
    """Zero near zero, all else closer by as much; NaN of what is not finite, as Paddle multiplies
    by 0 and 1.
    """
    g, x = call.g, call("x")
    threshold = float(call.attribute("threshold", 0.5))
    odd = g("Or", g("IsNaN", x), g("IsInf", x))
    nothing = g.number(math.nan, x.dtype)
    return g("Where", odd, nothing, g("Shrink", x, lambd=threshold, bias=threshold))


@operator("thresholded_relu")
def thresholded_relu(call: PaddleCall) -> Value:
    """Elements above a threshold, and a value for all others; NaN of -∞, as Paddle multiplies by 0
    and 1.
    """
    g, x = call.g, call("x")
    above = g("Greater", x, float(call.attribute("threshold", 1.0)))
    y = g("Where", above, x, g.number(float(call.attribute("value", 0.0)), x.dtype))
    odd = g("Or", g("IsNaN", x), g("Equal", x, g.number(-math.inf, x.dtype)))
    return g("Where", odd, g.number(math.nan, x.dtype), y)


@operator("stanh")
def stanh(call: PaddleCall) -> Value:
    """B · tanh(a · x)."""
    inner = call.g("Mul", call("x"), float(call.attribute("scale_a", 0.67)))
    return call.g("Mul", call.g("Tanh", inner), float(call.attribute("scale_b", 1.7159)))


@operator("logit")
def logit(call: PaddleCall) -> Value:
    """Log(x / (1 - x)), of elements brought into (eps, 1 - eps)."""
    g, x = call.g, call("x")
    eps = float(call.attribute("eps", 1e-6))
    if eps:
        x = g("Clip", x, *(g.number(limit, x.dtype) for limit in (eps, 1 - eps)))
    return g("Log", g("Div", x, g("Sub", g.number(1, x.dtype), x)))


@operator("prelu")
def prelu(call: PaddleCall) -> Value:
    """X, and alpha · x below zero; alpha is for all, a channel or an element."""
    g, x, alpha = call.g, call("x"), call("alpha")
    mode, last = call.attribute("mode", "all"), call.attribute("data_format", "NCHW") == "NHWC"
    if mode == "all":
        return g("PRelu", x, g("Reshape", alpha, g.ints(1)))
    if mode == "channel":
        sizes = [-1] if last else [-1, *[1] * (x.rank - 2)]
        return g("PRelu", x, g("Reshape", alpha, g.ints(*sizes)))
    if mode != "element":
        raise call.unsupported(f"mode={mode!r}")
    extents = [g.size_of(x, axis) for axis in range(1, x.rank)]
    return g("PRelu", x, g("Reshape", alpha, g.ints(1, *extents)))


@operator("maxout")
def maxout(call: PaddleCall) -> Value:
    """The largest of the channels of a group."""
    g, x = call.g, call("x")
    axis, groups = front(int(call.attribute("axis", 1)), x.rank), int(call.attribute("groups", 1))
    sizes = [g.size_of(x, i) for i in range(axis + 1, x.rank)]
    grouped = g("Reshape", x, g.ints(*[0] * axis, -1, groups, *sizes))
    return g("ReduceMax", grouped, g.ints(axis + 1), keepdims=0)


@operator("label_smooth")
def label_smooth(call: PaddleCall) -> Value:
    """(1 - epsilon) · label + epsilon · prior, which is uniform where it is not there."""
    g, x = call.g, call("label")
    epsilon = float(call.attribute("epsilon", 0.0))
    kept = g("Mul", x, 1 - epsilon)
    if call.has("prior_dist"):
        return g("Add", kept, g("Mul", call("prior_dist"), epsilon))
    size = x.shape[-1]
    if not isinstance(size, int):
        raise call.unsupported("a number of classes that is not fixed")
    return g("Add", kept, epsilon / size)


@operator("bce_loss")
def bce_loss(call: PaddleCall) -> Value:
    """The binary cross entropy, with logarithms from -100 on."""
    g, x, label = call.g, call("input"), call("label")
    one = g.number(1, x.dtype)

    def part(weight: Value, chance: Value) -> Value:
        limits = (g.number(-100, x.dtype), g.number(math.inf, x.dtype))
        return g("Mul", weight, g("Clip", g("Log", chance), *limits))

    return g("Neg", g("Add", part(label, x), part(g("Sub", one, label), g("Sub", one, x))))
