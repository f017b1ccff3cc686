"""What a training makes small: functions of a network's results and of what they should be.

A loss adds its nodes and the inputs for its targets to the graph. Every loss is the mean over the
batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.errors import InputError, OptionError, ShapeError
from infuse.ir.graph import Array, Value
from infuse.ir.types import TensorType
from infuse.ops.core.building import GraphBuilder

TARGET: Final = "target"
"""The name of the only targets of a training."""


@dataclass(frozen=True)
class Loss(ABC):
    """A loss of the value called `result` (the first output where it is empty) for targets that
    have the name `target`.
    """

    result: str = ""
    target: str = TARGET

    @abstractmethod
    def target_type(self, result: Value) -> TensorType:
        """The type of the targets of a batch."""

    @abstractmethod
    def build(self, make: GraphBuilder, result: Value, target: Value) -> Value:
        """The loss, one number."""

    def check(self, targets: Array, result: Value) -> None:
        """InputError where targets of all examples are not what the loss takes."""
        expected = self.target_type(result)
        if dtypes.by_numpy(targets.dtype) != expected.dtype:
            raise InputError(f"{self.target!r} takes {expected.dtype}, found {targets.dtype}")
        rest = expected.shape[1:] if expected.shape is not None else targets.shape[1:]
        if targets.ndim != len(rest) + 1 or any(
            isinstance(a, int) and a != b for a, b in zip(rest, targets.shape[1:])
        ):
            raise InputError(
                f"{self.target!r} takes {expected} with an example in each row, found the shape "
                f"{targets.shape}"
            )
        if targets.dtype.kind == "f" and not np.isfinite(targets).all():
            raise InputError(f"{self.target!r} has elements that are not finite")


@dataclass(frozen=True)
class CrossEntropy(Loss):
    """Minus the logarithm of the softmax at the labels (int64, 0 … classes − 1); the classes are
    axis 1 of the result.
    """

    def target_type(self, result: Value) -> TensorType:
        if result.rank < 2:
            raise ShapeError(f"cross entropy takes scores (N, classes, …), found {result.type}")
        return TensorType(dtypes.int64, (result.shape[0], *result.shape[2:]))

    def build(self, make: GraphBuilder, result: Value, target: Value) -> Value:
        return make("SoftmaxCrossEntropyLoss", result, target)

    def check(self, targets: Array, result: Value) -> None:
        super().check(targets, result)
        classes = result.shape[1]
        low, high = targets.min(initial=0), targets.max(initial=0)
        if low < 0 or (isinstance(classes, int) and high >= classes):
            raise InputError(
                f"labels lie between {low} and {high}, the network tells {classes} classes apart",
                hint="labels count from 0",
            )


@dataclass(frozen=True)
class MeanSquaredError(Loss):
    """The mean of the squares of the differences from targets of the result's shape."""

    def target_type(self, result: Value) -> TensorType:
        return TensorType(result.dtype, result.shape)

    def build(self, make: GraphBuilder, result: Value, target: Value) -> Value:
        apart = make("Sub", result, target)
        return make("ReduceMean", make("Mul", apart, apart), keepdims=0)


@dataclass(frozen=True)
class Distillation(Loss):
    """temperature² · the divergence (Kullback and Leibler) of the softmax of scores / temperature
    from that of a teacher's scores, over axis 1 (Hinton, Vinyals, Dean: Distilling the Knowledge in
    a Neural Network).
    """

    temperature: float = 1.0

    def __post_init__(self) -> None:
        """OptionError for a temperature that is not positive."""
        if not self.temperature > 0:
            raise OptionError(f"the temperature must be positive, found {self.temperature}")

    def target_type(self, result: Value) -> TensorType:
        if result.rank < 2:
            raise ShapeError(f"distillation takes scores (N, classes, …), found {result.type}")
        return TensorType(result.dtype, result.shape)

    def build(self, make: GraphBuilder, result: Value, target: Value) -> Value:
        own, teacher = (
            make("LogSoftmax", make("Div", scores, self.temperature), axis=1)
            for scores in (result, target)
        )
        apart = make("Mul", make("Exp", teacher), make("Sub", teacher, own))
        rows = make("ReduceSum", apart, make.ints(1), keepdims=0)
        return make("Mul", make("ReduceMean", rows, keepdims=0), self.temperature**2)


NAMED: Final[Mapping[str, type[Loss]]] = {
    "cross_entropy": CrossEntropy,
    "mse": MeanSquaredError,
}

Losses = str | Loss | Sequence[tuple[float, Loss]]
"""A loss by its name or itself, or losses with the weights of their sum."""


def weighted(loss: Losses) -> list[tuple[float, Loss]]:
    """The losses with their weights; OptionError where there are none or a name is not known."""
    if isinstance(loss, str):
        if loss not in NAMED:
            raise OptionError(f"there is no loss {loss!r}", hint=f"one of {', '.join(NAMED)}")
        return [(1.0, NAMED[loss]())]
    if isinstance(loss, Loss):
        return [(1.0, loss)]
    if not loss:
        raise OptionError("a training needs a loss")
    return list(loss)


def targets_of(losses: Sequence[tuple[float, Loss]], labels: Any) -> dict[str, Array]:
    """The targets by name; InputError unless they are those that the losses take."""
    given = labels if isinstance(labels, Mapping) else {TARGET: labels}
    names = {loss.target for _, loss in losses}
    if names != set(given):
        raise InputError(
            f"the losses take the targets {', '.join(sorted(names))}, found "
            f"{', '.join(sorted(given)) or 'none'}"
        )
    return {name: np.asarray(array) for name, array in given.items()}
