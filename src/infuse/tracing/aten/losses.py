"""Losses, for programs that keep them as one call."""

from __future__ import annotations

from typing import Final

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter, aten

_NONE, _MEAN, _SUM = range(3)
_REDUCTIONS: Final = (_NONE, _MEAN, _SUM)


@aten("cross_entropy_loss")
def cross_entropy_loss(
    g: TorchImporter,
    x: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = _MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Value:
    """−Σ target · log(softmax(x)) over the classes (axis 1, or 0 of one row), for targets that are
    classes or probabilities.
    """
    if reduction not in _REDUCTIONS:
        raise g.unsupported(f"reduction {reduction}")
    axis = 1 if x.rank > 1 else 0
    scores = g("LogSoftmax", x, axis=axis)
    if weight is not None:
        shape = [1] * x.rank
        shape[axis] = -1
        weight = g.shaped(g.cast(weight, x.dtype), *shape)
    classes = g.cast(g.tensor(g.size_of(x, axis), dtypes.int64), x.dtype)
    share = g("Div", g.number(label_smoothing, x.dtype), classes)
    rest = g.number(1 - label_smoothing, x.dtype)
    if target.dtype.is_float:
        spread = g("Add", g("Mul", target, rest), share)
        count = g("Div", g.cast(g("Size", x), x.dtype), classes)
        return _reduced(g, _entropy(g, scores, spread, weight, axis), reduction, count)
    target = g.cast(target, dtypes.int64)
    ignored = g("Equal", target, g.number(ignore_index, dtypes.int64))
    index = g("Unsqueeze", g("Where", ignored, g.number(0, dtypes.int64), target), g.ints(axis))

    def at_target(values: Value) -> Value:
        """The values of the targets' classes, 0 where a target is ignored."""
        chosen = g("Squeeze", g("GatherElements", values, index, axis=axis), g.ints(axis))
        return g("Where", ignored, g.number(0, x.dtype), chosen)

    one = g.number(1, x.dtype)
    weights = at_target(g.expand(one if weight is None else weight, g("Shape", x)))
    count = g("ReduceSum", weights, keepdims=0)
    losses = _reduced(g, g("Neg", g("Mul", at_target(scores), weights)), reduction, count)
    if not label_smoothing:
        return losses
    every = g("Where", ignored, g.number(0, x.dtype), _entropy(g, scores, one, weight, axis))
    return g("Add", g("Mul", losses, rest), g("Mul", _reduced(g, every, reduction, count), share))


def _entropy(
    g: TorchImporter, scores: Value, spread: Value, weight: Value | None, axis: int
) -> Value:
    """−Σ spread · weight · scores over the classes."""
    products = g("Mul", spread, scores)
    if weight is not None:
        products = g("Mul", products, weight)
    return g("Neg", g("ReduceSum", products, g.ints(axis), keepdims=0))


def _reduced(g: TorchImporter, losses: Value, reduction: int, count: Value) -> Value:
    """All losses, their sum, or the sum over `count`."""
    if reduction == _NONE:
        return losses
    total = g("ReduceSum", losses, keepdims=0)
    return total if reduction == _SUM else g("Div", total, count)
