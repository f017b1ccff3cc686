"""Activations by the names that Keras has for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from infuse.dtypes import int64
from infuse.errors import UnsupportedOperatorError
from infuse.ir.graph import Value
from infuse.tracing.axes import axes_of
from infuse.tracing.importer import Importer

Function = Callable[..., Value]
FUNCTIONS: Final[dict[str, Function]] = {}
"""By name: functions of the importer, the operand, and options."""


def _function(*names: str) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        for name in names:
            FUNCTIONS[name] = function
        return function

    return register


def _operator(kind: str, **attributes: Any) -> Function:
    def build(g: Importer, x: Value) -> Value:
        return g(kind, x, **attributes)

    return build


FUNCTIONS.update(
    {
        "linear": lambda g, x: x,
        "exponential": _operator("Exp"),
        "mish": _operator("Mish"),
        "relu6": lambda g, x: g("Clip", x, 0.0, 6.0),
        "selu": _operator("Selu"),
        "sigmoid": _operator("Sigmoid"),
        "silu": _operator("Swish"),
        "swish": _operator("Swish"),
        "softplus": _operator("Softplus"),
        "softsign": _operator("Softsign"),
        "tanh": _operator("Tanh"),
        "hard_tanh": lambda g, x: g("Clip", x, -1.0, 1.0),
        "log_sigmoid": lambda g, x: g("Neg", g("Softplus", g("Neg", x))),
        "tanh_shrink": lambda g, x: g("Sub", x, g("Tanh", x)),
        "sparse_sigmoid": lambda g, x: g("HardSigmoid", x, alpha=0.5, beta=0.5),
    }
)


@_function("relu")
def relu(
    g: Importer,
    x: Value,
    negative_slope: float = 0.0,
    max_value: float | None = None,
    threshold: float = 0.0,
) -> Value:
    """X above a threshold, a part of what it lies below it by, no more than a limit."""
    if not threshold and not negative_slope and max_value is None:
        return g("Relu", x)
    if not threshold and not negative_slope and x.dtype.is_float:
        return g("Clip", x, 0.0, max_value)
    if threshold:
        below = g("Mul", g("Sub", x, threshold), negative_slope)
        y = g("Where", g("GreaterOrEqual", x, threshold), x, below)
    else:
        y = g("LeakyRelu", x, alpha=negative_slope)
    return y if max_value is None else g("Min", y, max_value)


@_function("leaky_relu")
def leaky_relu(g: Importer, x: Value, negative_slope: float = 0.2) -> Value:
    """x, or a part of it below zero."""
    return g("LeakyRelu", x, alpha=negative_slope)


@_function("elu")
def elu(g: Importer, x: Value, alpha: float = 1.0) -> Value:
    """x, or alpha · (eˣ - 1) below zero."""
    return g("Elu", x, alpha=alpha)


_function("celu")(lambda g, x, alpha=1.0: g("Celu", x, alpha=alpha))
_function("hard_sigmoid")(lambda g, x: g("HardSigmoid", x, alpha=1 / 6, beta=0.5))
_function("hard_sigmoid-2")(lambda g, x: g("HardSigmoid", x, alpha=0.2, beta=0.5))
_function("hard_silu", "hard_swish")(lambda g, x: g("HardSwish", x))


@_function("gelu")
def gelu(g: Importer, x: Value, approximate: bool = False) -> Value:
    """X · Φ(x)."""
    return g("Gelu", x, approximate="tanh" if approximate else "none")


@_function("glu")
def glu(g: Importer, x: Value, axis: int = -1) -> Value:
    """The first half along an axis, times the sigmoid of the second."""
    a, b = g.several(2, "Split", x, axis=axis, num_outputs=2)
    return g("Mul", a, g("Sigmoid", b))


@_function("hard_shrink")
def hard_shrink(g: Importer, x: Value, threshold: float = 0.5) -> Value:
    """X where it is further from zero than the threshold."""
    return g("Where", g("Greater", g("Abs", x), threshold), x, g.number(0, x.dtype))


@_function("soft_shrink")
def soft_shrink(g: Importer, x: Value, threshold: float = 0.5) -> Value:
    """x, nearer to zero by the threshold."""
    return g("Shrink", x, bias=threshold, lambd=threshold)


@_function("threshold")
def threshold(g: Importer, x: Value, threshold: float, default_value: float) -> Value:
    """X above a threshold, else another number."""
    return g("Where", g("Greater", x, threshold), x, g.number(default_value, x.dtype))


@_function("sparse_plus")
def sparse_plus(g: Importer, x: Value) -> Value:
    """0, (x + 1)² / 4, or x: below -1, between, and from 1 on."""
    shifted = g("Add", x, 1.0)
    middle = g("Mul", g("Mul", shifted, shifted), 0.25)
    upper = g("Where", g("Less", x, 1.0), middle, x)
    return g("Where", g("LessOrEqual", x, -1.0), g.number(0, x.dtype), upper)


@_function("squareplus")
def squareplus(g: Importer, x: Value, b: float = 4) -> Value:
    """(x + √(x² + b)) / 2."""
    return g("Mul", g("Add", x, g("Sqrt", g("Add", g("Mul", x, x), float(b)))), 0.5)


def _over(kind: str) -> Function:
    def build(g: Importer, x: Value, axis: Any = -1) -> Value:
        axes = axes_of(axis, x.rank)
        if len(axes) == 1:
            return g(kind, x, axis=axes[0])
        listed = g.ints(*axes)
        high = g("Sub", x, g("ReduceMax", x, listed, keepdims=1))
        if kind == "LogSoftmax":
            return g("Sub", high, g("ReduceLogSumExp", high, listed, keepdims=1))
        powers = g("Exp", high)
        return g("Div", powers, g("ReduceSum", powers, listed, keepdims=1))

    return build


FUNCTIONS["softmax"] = _over("Softmax")
FUNCTIONS["log_softmax"] = _over("LogSoftmax")


@_function("sparsemax")
def sparsemax(g: Importer, x: Value, axis: int = -1) -> Value:
    """The projection onto the simplex along an axis of known size."""
    axis = axes_of(axis, x.rank)[0]
    count = x.shape[axis]
    if not isinstance(count, int):
        raise UnsupportedOperatorError("sparsemax over an axis of unknown size is not supported")
    ordered = g.several(2, "TopK", x, g.ints(count), axis=axis)[0]
    sums = g("CumSum", ordered, g.number(axis, int64))
    shape = [count if i == axis else 1 for i in range(x.rank)]
    ranks = g.constant(np.arange(1, count + 1).astype(x.dtype.numpy).reshape(shape))
    support = g("Greater", g("Sub", ordered, g("Div", g("Sub", sums, 1.0), ranks)), 0.0)
    listed = g.ints(axis)
    number = g("ReduceSum", g.cast(support, x.dtype), listed, keepdims=1)
    inside = g("Where", support, sums, g.number(0, x.dtype))
    total = g("ReduceSum", inside, listed, keepdims=1)
    return g("Relu", g("Sub", x, g("Div", g("Sub", total, 1.0), number)))
