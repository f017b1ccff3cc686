"""Losses of classifiers: how far the scores of classes lie from the classes that are wanted."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.errors import ShapeError, TypeMismatchError
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op, Rounding, Sample
from infuse.ops.core.elementwise import f32, require_kind, widened
from infuse.ops.core.flops import SOFTMAX, Flops, Shapes
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import agree, agree_shapes, nonempty, require_rank
from infuse.ops.core.traits import Trait

_SUMS = Rounding(ulp=8, abs=1e-5, why="terms of both signs cancel in the sum")


class Loss(Op, abstract=True):
    """A loss of scores (N, C, …) for the classes (N, …); `ignore_index` is a class that counts
    nothing.
    """

    ignore_index: int | None = None
    reduction: str = "mean"

    accuracy = _SUMS

    def check(self, scores: Value, classes: Value, weights: Value | None) -> TensorType:
        """The type of the loss."""
        dtype = require_kind(self.name, scores.dtype, "f")
        if classes.dtype not in (dtypes.int32, dtypes.int64):
            raise TypeMismatchError(
                f"the classes of {self.name} must be int32 or int64, found {classes.dtype}"
            )
        if self.reduction not in ("none", "mean", "sum"):
            raise TypeMismatchError(
                f"{self.name} has no reduction {self.reduction!r}", hint="none, mean or sum"
            )
        if weights is not None:
            require_rank(weights, 1, self.name, "the weights")
            if weights.dtype != dtype:
                raise TypeMismatchError(
                    f"the weights of {self.name} must be {dtype}, found {weights.dtype}"
                )
        shape, sizes = scores.tensor.shape, classes.tensor.shape
        if shape is not None and len(shape) < 2:
            raise ShapeError(f"{self.name} takes scores of several classes, found {scores.type}")
        if shape is not None and weights is not None and weights.tensor.shape is not None:
            agree(
                weights.shape[0], shape[1], f"the number of weights and of classes of {self.name}"
            )
        if shape is not None and sizes is not None:
            sizes = agree_shapes(
                sizes, (shape[0], *shape[2:]), f"the classes and the scores of {self.name}"
            )
        return TensorType(dtype, () if self.reduction != "none" else sizes)

    def loss(self, logs: Array, classes: Array, weights: Array | None) -> Array:
        """The loss of logarithms of probabilities, in a type that holds sums."""
        ignored = (
            np.zeros(classes.shape, bool)
            if self.ignore_index is None
            else classes == self.ignore_index
        )
        places = np.where(ignored, 0, classes).astype(np.int64)
        count = logs.shape[1]
        if places.size and (places.min() < -count or places.max() >= count):
            raise ShapeError(f"a class of {self.name} is none of {count}")
        picked = -np.take_along_axis(logs, np.expand_dims(places, 1), 1).squeeze(1)
        shares = (
            np.ones(classes.shape, logs.dtype)
            if weights is None
            else weights[places].astype(logs.dtype)
        )
        shares = np.where(ignored, 0, shares)
        losses = np.where(ignored, 0, picked * shares)
        if self.reduction == "none":
            return losses
        total = losses.sum()
        return np.asarray(total / shares.sum() if self.reduction == "mean" else total)


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

    def infer(self, input: Value, target: Value, weight: Value | None = None) -> Inferred:
        return self.check(input, target, weight)

    def eval(self, input: Array, target: Array, weight: Array | None = None) -> Array:
        return self.loss(widened(input), target, weight).astype(input.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.size(1) * 3)


class SoftmaxCrossEntropyLoss(Loss):
    """Minus the logarithm of the softmax at the wanted classes, weighed and reduced; and the
    logarithms of all.
    """

    traits = Trait.FLOAT32
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

    def infer(self, scores: Value, labels: Value, weights: Value | None = None) -> Inferred:
        if scores.tensor.shape is not None and scores.rank > 1:
            nonempty(scores.shape[1], self.name)
        return self.check(scores, labels, weights), scores.type

    def eval(
        self, scores: Array, labels: Array, weights: Array | None = None
    ) -> tuple[Array, Array]:
        wide = widened(scores)
        shifted = wide - wide.max(axis=1, keepdims=True)
        logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return self.loss(logs, labels, weights).astype(scores.dtype), logs.astype(scores.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.size(0) * SOFTMAX + shapes.size(1) * 3)
