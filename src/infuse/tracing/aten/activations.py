"""Activation functions."""

from __future__ import annotations

import math
from typing import Any, Final

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter, aten, axis_of

_PLAIN: Final = {
    "silu": "Swish", "mish": "Mish", "hardswish": "HardSwish", "selu": "Selu",
    "softsign": "Softsign",
}  # fmt: skip
_LAMBDA: Final = 0.5


def _plain(kind: str) -> Any:
    return lambda g, x: g(kind, x)


for _name, _kind in _PLAIN.items():
    aten(_name)(_plain(_kind))


aten("gelu")(lambda g, x, *, approximate="none": g("Gelu", x, approximate=approximate))
aten("hardsigmoid")(lambda g, x: g("HardSigmoid", x, alpha=1 / 6, beta=0.5))
aten("leaky_relu")(lambda g, x, negative_slope=0.01: g("LeakyRelu", x, alpha=float(negative_slope)))
aten("celu")(lambda g, x, alpha=1.0: g("Celu", x, alpha=float(alpha)))


@aten("hardtanh")
def hardtanh(g: TorchImporter, x: Value, min_val: float = -1.0, max_val: float = 1.0) -> Value:
    """X within two limits."""
    return g("Clip", x, *(g.tensor(limit, x.dtype) for limit in (min_val, max_val)))


@aten("prelu", "_prelu_kernel")
def prelu(g: TorchImporter, x: Value, weight: Value) -> Value:
    """X where positive, else a part of it that each channel has for itself."""
    if weight.rank == 1 and x.rank > 1:
        weight = g.shaped(weight, -1, *[1] * (x.rank - 2))
    elif weight.rank == 1 and x.rank == 0:
        weight = g.shaped(weight)
    return g("PRelu", x, weight)


@aten("elu")
def elu(
    g: TorchImporter, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1
) -> Value:
    """X where positive, else alpha · (exp(x) - 1)."""
    if input_scale == 1 and scale == 1:
        return g("Elu", x, alpha=float(alpha))
    zero = g.number(0, x.dtype)
    inner = x if input_scale == 1 else g("Mul", x, input_scale)
    positive = g("Greater", x, zero)
    low = g("Elu", g("Min", inner, zero), alpha=float(alpha))
    return g("Mul", g("Where", positive, x, low), scale)


@aten("glu")
def glu(g: TorchImporter, x: Value, dim: int = -1) -> Value:
    """The first half of an axis, times the sigmoid of the second."""
    axis = axis_of(dim, x.rank)
    first, second = g.several(2, "Split", x, axis=axis, num_outputs=2)
    return g("Mul", first, g("Sigmoid", second))


@aten("softplus")
def softplus(g: TorchImporter, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    """Log(1 + exp(beta · x)) / beta; x itself from a threshold on."""
    if beta != 1:
        (x,) = g.operands(x, steps=True)
    inner = x if beta == 1 else g("Mul", x, beta)
    smooth = g("Softplus", inner)
    if beta != 1:
        smooth = g("Div", smooth, beta)
    if beta == 1 and threshold >= 20 and x.dtype != dtypes.float64:
        return smooth  # the two differ by less than a rounding
    return g.cast(g("Where", g("Greater", inner, threshold), x, smooth), g.dtype)


@aten("log_sigmoid", "log_sigmoid_forward")
def log_sigmoid(g: TorchImporter, x: Value) -> Any:
    """Log of the sigmoid."""
    result = g("Neg", g("Softplus", g("Neg", x)))
    return [result, None] if len(g.results) > 1 else result


@aten("hardshrink")
def hardshrink(g: TorchImporter, x: Value, lambd: Any = _LAMBDA) -> Value:
    """X, and 0 near 0."""
    near = g("LessOrEqual", g("Abs", x), g.number(lambd, x.dtype))
    return g("Where", near, g.number(0, x.dtype), x)


@aten("softshrink")
def softshrink(g: TorchImporter, x: Value, lambd: Any = _LAMBDA) -> Value:
    """X moved towards 0."""
    (x,) = g.operands(x, steps=True)
    limit = g.number(lambd, x.dtype)
    inside = g("Clip", x, g("Neg", limit), limit)
    return g.cast(g("Sub", x, inside), g.dtype)


@aten("tanhshrink")
def tanhshrink(g: TorchImporter, x: Value) -> Value:
    """X - tanh(x)."""
    x = g.cast(x, g.dtype)
    return g("Sub", x, g("Tanh", x))


@aten("threshold")
def threshold(g: TorchImporter, x: Value, threshold: Any, value: Any) -> Value:
    """X where above a threshold, else a number."""
    low = g("LessOrEqual", x, g.number(threshold, x.dtype))
    return g("Where", low, g.number(value, x.dtype), x)


@aten("logit", "special_logit")
def logit(g: TorchImporter, x: Value, eps: float | None = None) -> Value:
    """Log(x / (1 - x))."""
    x = g.cast(x, g.dtype)
    if eps is not None:
        x = g("Clip", x, g.number(eps, x.dtype), g.number(1 - eps, x.dtype))
    return g("Log", g("Div", x, g("Sub", g.number(1, x.dtype), x)))


def _softmax(kind: str) -> Any:
    def build(g: TorchImporter, x: Value, dim: int, dtype: Any = None) -> Value:
        x = g.cast(x, g.dtype)
        if x.rank:
            return g(kind, x, axis=axis_of(dim, x.rank))
        return g.shaped(g(kind, g.shaped(x, 1), axis=0))

    return build


aten("softmax.int", "_softmax", "special_softmax")(_softmax("Softmax"))
aten("log_softmax.int", "_log_softmax", "special_log_softmax")(_softmax("LogSoftmax"))


@aten("softmin")
def softmin(g: TorchImporter, x: Value, dim: int) -> Value:
    """The softmax of -x."""
    return g("Softmax", g("Neg", g.cast(x, g.dtype)), axis=axis_of(dim, x.rank))


@aten("_safe_softmax")
def safe_softmax(g: TorchImporter, x: Value, dim: int, dtype: Any = None) -> Value:
    """Softmax, and zeros where all elements are -∞."""
    x = g.cast(x, g.dtype)
    axis = axis_of(dim, x.rank)
    highest = g("ReduceMax", x, g.ints(axis), keepdims=1)
    blind = g("Equal", highest, g.number(-math.inf, x.dtype))
    return g("Where", blind, g.number(0, x.dtype), g("Softmax", x, axis=axis))


aten("relu6")(lambda g, x: hardtanh(g, x, 0, 6))
