"""Gradients of losses."""

from __future__ import annotations

from infuse.ir.graph import Node, Value
from infuse.ops.core.differentiation import gradient_of, operand, through
from infuse.ops.core.gradient_building import GradientBuilder, Gradients
from infuse.ops.losses import Loss, NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss


@gradient_of(NegativeLogLikelihoodLoss)
def negative_log_likelihood_gradient(
    op: NegativeLogLikelihoodLoss, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """Minus the shares of the classes."""
    loss = likelihood_loss(op, make, operand(node), operand(node, 1), node.input(2))
    return through(make, node, grads, [loss])


@gradient_of(SoftmaxCrossEntropyLoss)
def softmax_cross_entropy_gradient(
    op: SoftmaxCrossEntropyLoss, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """That of the logarithms of the softmax and of their loss."""
    logs = make("LogSoftmax", operand(node), axis=1)
    loss = likelihood_loss(op, make, logs, operand(node, 1), node.input(2))
    return through(make, node, grads, [loss, logs][: len(grads)])


def likelihood_loss(
    op: Loss, make: GradientBuilder, logs: Value, classes: Value, weights: Value | None
) -> Value:
    """The loss of logarithms of probabilities, in operators that have gradients."""
    one, zero = make.number(1, logs.dtype), make.number(0, logs.dtype)
    places, ignored = classes, None
    if op.ignore_index is not None:
        ignored = make("Equal", classes, op.ignore_index)
        places = make("Where", ignored, make.number(0, classes.dtype), classes)
    picked = make("GatherElements", logs, make("Unsqueeze", places, make.ints(1)), axis=1)
    losses = make("Neg", make("Squeeze", picked, make.ints(1)))
    shares = None if weights is None else make("Gather", weights, places)
    if ignored is not None:
        shares = make("Where", ignored, zero, one if shares is None else shares)
    if shares is not None:
        losses = make("Mul", losses, shares)
    if op.reduction == "none":
        return losses
    if op.reduction == "mean" and shares is None:
        return make("ReduceMean", losses, keepdims=0)
    total = make("ReduceSum", losses, keepdims=0)
    if op.reduction == "sum":
        return total
    return make("Div", total, make("ReduceSum", shares, keepdims=0))
