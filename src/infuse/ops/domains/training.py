"""Steps of optimizers (domain ai.onnx.preview.training): new values of tensors from their
gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from infuse import dtypes
from infuse.errors import ShapeError, TypeMismatchError, UnsupportedOperatorError
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op, Rounding, Sample
from infuse.ops.core.elementwise import require_kind, widened
from infuse.ops.core.samples import Floats
from infuse.ops.core.sizes import agree_shapes, known_one, scalar
from infuse.ops.core.traits import Trait

DOMAIN = "ai.onnx.preview.training"
_TERMS = Rounding(ulp=8, abs=1e-6, why="terms may cancel")


class _Step(Op, abstract=True):
    """A step for n tensors: inputs are the rate, the number of steps so far, and `groups` groups of
    n tensors.

    Outputs are the new tensors of the first and of all groups after the gradients.
    """

    domain = DOMAIN
    groups: ClassVar[int] = 3
    accuracy = _TERMS

    def infer(self, R: Value, T: Value, *inputs: Value) -> Inferred:
        require_kind(self.name, R.dtype, "f")
        for value in (R, T):
            known_one(value, self.name)
        if T.dtype != dtypes.int64:
            raise TypeMismatchError(f"the count of {self.name} must be int64, found {T.dtype}")
        count = len(inputs) // self.groups
        if not count or len(inputs) % self.groups:
            raise ShapeError(
                f"{self.name} takes {self.groups} groups of tensors, found {len(inputs)} tensors"
            )
        for i, value in enumerate(inputs):
            require_kind(self.name, value.dtype, "f")
            first = inputs[i % count]
            if value.dtype != first.dtype:
                raise TypeMismatchError(
                    f"{self.name} needs tensors of one element type, found {value.dtype}"
                )
            if value.tensor.shape is not None and first.tensor.shape is not None:
                agree_shapes(
                    value.shape,
                    first.shape,
                    f"the shapes of a tensor and its gradient in {self.name}",
                )
        return tuple(
            TensorType(v.dtype, v.tensor.shape) for v in [*inputs[:count], *inputs[2 * count :]]
        )

    def eval(self, R: Array, T: Array, *inputs: Array) -> tuple[Array, ...]:
        count = len(inputs) // self.groups
        rate, steps = float(scalar(R)), int(scalar(T))
        rows = []
        for i in range(count):
            tensors = inputs[i::count]
            results = self.step(rate, steps, *map(widened, tensors))
            rows.append([np.asarray(y).astype(tensors[0].dtype) for y in results])
        return tuple(row[k] for k in range(self.groups - 1) for row in rows)

    def step(self, rate: float, steps: int, *tensors: Array) -> Sequence[Any]:
        """The new tensors, in the type that they are computed in: float32, or a wider one."""
        raise NotImplementedError


def _rows(groups: int, **options: float | str) -> tuple[Sample, ...]:
    """One tensor, and two; before the first step and later. Sums of squares are not negative."""
    positive = Floats((2, 3), 0, 4)

    def sample(count: int, steps: int, shapes: list[tuple[int, ...]]) -> Sample:
        last = [Floats(s, positive.low, positive.high) for s in shapes]
        tensors = [s for _ in range(groups - 1) for s in shapes]
        inputs = {
            "R": np.float32(0.125),
            "T": np.array(steps, np.int64),
            "inputs": [*tensors, *last],
        }
        return Sample(inputs, options)

    return (sample(1, 0, [(2, 3)]), sample(2, 3, [(2,), (3, 2)]), sample(1, 1, [()]))


class Adagrad(_Step):
    """A step of Adagrad: the rate of every element falls with the sum of its squared gradients."""

    traits = Trait.FLOAT32
    decay_factor: float = 0.0
    epsilon: float = 1e-6
    norm_coefficient: float = 0.0

    samples = (*_rows(3), *_rows(3, decay_factor=0.1, epsilon=1e-3, norm_coefficient=0.01))

    def step(self, rate: float, steps: int, *tensors: Array) -> Sequence[Any]:
        x, g, h = tensors
        slope = self.norm_coefficient * x + g
        squares = h + slope * slope
        return x - rate / (1 + steps * self.decay_factor) * slope / (
            np.sqrt(squares) + self.epsilon
        ), squares


class Adam(_Step):
    """A step of Adam: along running means of gradients, over the roots of those of their
    squares.
    """

    traits = Trait.FLOAT32
    alpha: float = 0.9
    beta: float = 0.999
    epsilon: float = 1e-6
    norm_coefficient: float = 0.0
    norm_coefficient_post: float = 0.0

    groups = 4
    samples = (
        *_rows(4),
        *_rows(4, alpha=0.5, epsilon=1e-2, norm_coefficient=0.01, norm_coefficient_post=0.1),
    )

    def step(self, rate: float, steps: int, *tensors: Array) -> Sequence[Any]:
        x, g, v, h = tensors
        slope = self.norm_coefficient * x + g
        mean = self.alpha * v + (1 - self.alpha) * slope
        square = self.beta * h + (1 - self.beta) * slope * slope
        moved = x - self.rate(rate, steps) * mean / (np.sqrt(square) + self.epsilon)
        return (1 - self.norm_coefficient_post) * moved, mean, square

    def rate(self, rate: float, steps: int) -> Any:
        """The rate without the bias of the first means."""
        if steps <= 0:
            return rate
        return float(rate * np.sqrt(1 - self.beta**steps) / (1 - np.float64(self.alpha) ** steps))


class Momentum(_Step):
    """A step along a sum of the gradients so far that fades; with mode `nesterov` as if it had been
    made already.
    """

    traits = Trait.FLOAT32

    alpha: float
    beta: float
    mode: str
    norm_coefficient: float

    samples = (
        *_rows(3, alpha=0.9, beta=0.5, mode="standard", norm_coefficient=0.0),
        *_rows(3, alpha=0.8, beta=0.25, mode="nesterov", norm_coefficient=0.01),
    )

    def infer(self, R: Value, T: Value, *inputs: Value) -> Inferred:
        if self.mode not in ("standard", "nesterov"):
            raise TypeMismatchError(
                f"Momentum has no mode {self.mode!r}", hint="standard or nesterov"
            )
        return super().infer(R, T, *inputs)

    def step(self, rate: float, steps: int, *tensors: Array) -> Sequence[Any]:
        x, g, v = tensors
        slope = self.norm_coefficient * x + g
        sum_ = self.alpha * v + (self.beta if steps > 0 else 1) * slope
        return x - rate * (sum_ if self.mode == "standard" else slope + self.alpha * sum_), sum_


class Gradient(Op):
    """Derivatives of the value named `y` by those named `xs`: it can be read and written, but not
    run.

    Its attributes name values of the graph around it, which an operator here cannot see.
    """

    xs: tuple[str, ...]
    y: str
    zs: tuple[str, ...] = ()

    domain = DOMAIN

    def infer(self, *inputs: Value) -> Inferred:
        count = len(inputs) - len(self.zs)
        if count != len(self.xs):
            raise ShapeError(
                f"Gradient takes a value for each of {self.xs + self.zs}, found {len(inputs)}"
            )
        return tuple(x.type for x in inputs[:count])

    def eval(self, *inputs: Array) -> tuple[Array, ...]:
        raise UnsupportedOperatorError(
            "Gradient differentiates the graph that it stands in, which is not supported",
            hint="export the derivatives as operators",
        )
