"""Losses of classifiers: how far the scores of classes lie from the classes that are wanted."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.errors import ShapeError, TypeMismatchError
from infuse.ir.graph import Value
from infuse.ops.core.base import Rounding, Sample
from infuse.ops.core.building import GraphBuilder
from infuse.ops.core.composite import Composite, Results
from infuse.ops.core.elementwise import f32, require_kind
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import agree, agree_shapes, nonempty, require_rank
from infuse.ops.core.traits import Trait

_SUMS = Rounding(ulp=8, abs=1e-5, why="terms of both signs cancel in the sum")


class Loss(Composite, abstract=True):
    """A loss of scores (N, C, …) for the classes (N, …); `ignore_index` is a class that counts
    nothing.
    """

    ignore_index: int | None = None
    reduction: str = "mean"

    accuracy = _SUMS

    def check(self, scores: Value, classes: Value, weights: Value | None) -> None:
        """ShapeError or TypeMismatchError unless classes and weights fit the scores."""
        dtype = require_kind(self.name, scores.dtype, "f")
        if classes.dtype not in (dtypes.int32, dtypes.int64):
            raise TypeMismatchError(
                f"the classes of {self.name} must be int32 or int64, found {classes.dtype}"
            )
        if self.reduction not in ("none", "mean", "sum"):
            raise TypeMismatchError(
                f"{self.name} has no reduction {self.reduction!r}", hint="none, mean or sum"
            )
        if weights is not None and weights.dtype != dtype:
            raise TypeMismatchError(
                f"the weights of {self.name} must be {dtype}, found {weights.dtype}"
            )
        if scores.rank < 2:
            raise ShapeError(f"{self.name} takes scores of several classes, found {scores.type}")
        if weights is not None:
            require_rank(weights, 1, self.name, "the weights")
            classes_of = f"the number of weights and of classes of {self.name}"
            agree(weights.shape[0], scores.shape[1], classes_of)
        expected = (scores.shape[0], *scores.shape[2:])
        agree_shapes(classes.shape, expected, f"the classes and the scores of {self.name}")

    def loss(self, make: GraphBuilder, logs: Value, classes: Value, weights: Value | None) -> Value:
        """The loss of logarithms of probabilities."""
        zero, one = (make.number(n, logs.dtype) for n in (0, 1))
        places, ignored, shares = classes, None, None
        if self.ignore_index is not None:
            ignored = make("Equal", classes, self.ignore_index)
            places = make("Where", ignored, make.number(0, classes.dtype), classes)
        column = make("Unsqueeze", places, make.ints(1))
        picked = make("Squeeze", make("GatherElements", logs, column, axis=1), make.ints(1))
        losses = make("Neg", picked)
        if weights is not None:
            shares = make("Gather", weights, places, axis=0)
            losses = make(losses * shares)
        if ignored is not None:
            losses = make("Where", ignored, zero, losses)
            shares = make("Where", ignored, zero, one if shares is None else shares)
        if self.reduction == "none":
            return losses
        if self.reduction == "mean" and shares is None:
            return make("ReduceMean", losses, keepdims=0)
        total = make("ReduceSum", losses, keepdims=0)
        if self.reduction == "sum":
            return total
        return make(total / make("ReduceSum", shares, keepdims=0))


_CLASSES = (Ints((3,), 0, 5), Ints((2, 4), 0, 3, dtypes.int32), Ints((2, 3, 2), 0, 4))
_ROWS = (
    cases(
        input=[(3, 5), (2, 3, 4), (2, 4, 3, 2)], target=_CLASSES, reduction=["mean", "sum", "none"]
    ),
    cases(
        input=[(3, 5), (2, 3, 4), (2, 4, 3, 2)],
        target=_CLASSES,
        weight=[f32(1, 2, 0.5, 3, 0.25), f32(0.3, 0.2, 0.1), f32(1, 1, 2, 0.5)],
        reduction=["mean", "sum", "none"],
        ignore_index=[None, 1],
    ),
    Sample({"input": (2, 3), "target": np.array([1, -100], np.int64)}, {"ignore_index": -100}),
    Sample(
        {"input": (2, 3, 2), "target": np.array([[7, 2], [0, 7]], np.int64)}, {"ignore_index": 7}
    ),
)


class NegativeLogLikelihoodLoss(Loss):
    """Minus the given logarithms of probabilities at the wanted classes, weighed and reduced."""

    traits = Trait.FLOAT32
    since = 13
    samples = _ROWS

    def body(
        self, make: GraphBuilder, input: Value, target: Value, weight: Value | None = None
    ) -> Value:
        self.check(input, target, weight)
        return self.loss(make, input, target, weight)


class SoftmaxCrossEntropyLoss(Loss):
    """Minus the logarithm of the softmax at the wanted classes, weighed and reduced; and the
    logarithms of all.
    """

    traits = Trait.FLOAT32
    outputs = 2
    since = 13
    samples = tuple(
        cases(scores=[(3, 5), (2, 3, 4), (2, 4, 3, 2)], labels=_CLASSES, weights=weights, **options)
        for weights, options in (
            ([None, None, None], {"reduction": ["mean", "sum", "none"]}),
            (
                [f32(1, 2, 0.5, 3, 0.25), f32(0.3, 0.2, 0.1), f32(1, 1, 2, 0.5)],
                {"reduction": ["mean", "none"], "ignore_index": [None, 1]},
            ),
        )
    )

    def body(
        self, make: GraphBuilder, scores: Value, labels: Value, weights: Value | None = None
    ) -> Results:
        self.check(scores, labels, weights)
        nonempty(scores.shape[1], self.name)
        logs = make("LogSoftmax", scores, axis=1)
        return self.loss(make, logs, labels, weights), logs
