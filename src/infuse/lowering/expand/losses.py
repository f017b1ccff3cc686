"""Losses as selections and sums."""

from __future__ import annotations

from infuse.ir.graph import Node, Value
from infuse.lowering.expand.composer import Composer, Results, expands


@expands("NegativeLogLikelihoodLoss")
def negative_log_likelihood(make: Composer, node: Node) -> Results:
    logs = node.inputs[0]
    assert logs is not None
    return _loss(make, node, logs)


@expands("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(make: Composer, node: Node) -> Results:
    scores = node.inputs[0]
    assert scores is not None
    logs = make("LogSoftmax", scores, axis=1)
    return [_loss(make, node, logs), logs]


def _loss(make: Composer, node: Node, logs: Value) -> Value:
    classes, weights, attributes = node.inputs[1], node.input(2), node.op.attributes()
    assert classes is not None
    ignore, reduction, dtype = attributes["ignore_index"], attributes["reduction"], logs.dtype
    zero = make.number(0, dtype)
    ignored = None if ignore is None else make("Equal", classes, ignore)
    places = (
        classes
        if ignored is None
        else make("Where", ignored, make.number(0, classes.dtype), classes)
    )
    column = make("Unsqueeze", places, make.ints(1))
    picked = make(
        "Neg", make("Squeeze", make("GatherElements", logs, column, axis=1), make.ints(1))
    )
    shares: Value | None = None
    if weights is not None:
        shares = make("Gather", weights, places, axis=0)
        picked = make(picked * shares)
    if ignored is not None:
        picked = make("Where", ignored, zero, picked)
        shares = make("Where", ignored, zero, make.number(1, dtype) if shares is None else shares)
    if reduction == "none":
        return picked
    if reduction == "mean" and shares is None:
        return make("ReduceMean", picked, keepdims=0)
    total = make("ReduceSum", picked, keepdims=0)
    return total if reduction == "sum" else make(total / make("ReduceSum", shares, keepdims=0))
