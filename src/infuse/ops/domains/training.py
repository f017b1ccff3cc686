"""Steps of optimizers (domain ai.onnx.preview.training): new values of tensors from their
gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from infuse import dtypes
from infuse.errors import ShapeError, TypeMismatchError, UnsupportedOperatorError
from infuse.ir.graph import Value
from infuse.ir.types import Type
from infuse.ops.core.base import Array, Inferred, Op, Rounding, Sample
from infuse.ops.core.building import GraphBuilder
from infuse.ops.core.composite import Composite, Results
from infuse.ops.core.elementwise import require_kind
from infuse.ops.core.expressions import call
from infuse.ops.core.samples import Floats
from infuse.ops.core.sizes import agree_shapes, known_one
from infuse.ops.core.traits import Trait

DOMAIN = "ai.onnx.preview.training"
_sqrt = call("Sqrt")
_TERMS = Rounding(ulp=8, abs=1e-6, why="terms may cancel")


class _Step(Composite, abstract=True):
    """A step for n tensors: inputs are the rate, the number of steps so far, and `groups` groups of
    n tensors.

    Outputs are the new tensors of the first and of all groups after the gradients.
    """

    domain = DOMAIN
    groups: ClassVar[int] = 3
    outputs = 2
    accuracy = _TERMS

    def unshaped(self, *inputs: Value | None) -> Sequence[Type]:
        tensors = inputs[2:]
        count = len(tensors) // self.groups
        return [v.type for v in [*tensors[:count], *tensors[2 * count :]] if v is not None]

    def body(self, make: GraphBuilder, R: Value, T: Value, *inputs: Value) -> Results:
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
            agree_shapes(
                value.shape,
                first.shape,
                f"the shapes of a tensor and its gradient in {self.name}",
            )
        rate, steps = (make.cast(make.reshape(v), dtypes.float64) for v in (R, T))
        numbers = self.numbers(make, rate, steps)
        rows = [self.step(make, numbers, *inputs[i::count]) for i in range(count)]
        return [row[k] for k in range(self.groups - 1) for row in rows]

    def numbers(self, make: GraphBuilder, rate: Value, steps: Value) -> Sequence[Value]:
        """What does not vary with the elements, in float64."""
        raise NotImplementedError

    def step(
        self, make: GraphBuilder, numbers: Sequence[Value], *tensors: Value
    ) -> Sequence[Value]:
        """The new tensors."""
        raise NotImplementedError


def _started(make: GraphBuilder, steps: Value, then: Value, otherwise: Value) -> Value:
    """One number after the first step, another before."""
    return make("Where", make("Greater", steps, 0), then, otherwise)


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

    def numbers(self, make: GraphBuilder, rate: Value, steps: Value) -> Sequence[Value]:
        return [make(rate / (steps * self.decay_factor + 1)) if self.decay_factor else rate]

    def step(
        self, make: GraphBuilder, numbers: Sequence[Value], *tensors: Value
    ) -> Sequence[Value]:
        x, g, h = tensors
        slope = make(x * self.norm_coefficient + g)
        squares = make(h + slope * slope)
        rate = make.cast(numbers[0], x.dtype)
        return make(x - rate * slope / (_sqrt(squares) + self.epsilon)), squares


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

    def numbers(self, make: GraphBuilder, rate: Value, steps: Value) -> Sequence[Value]:
        """The rate without the bias of the first means."""
        bases = [make.number(base, dtypes.float64) for base in (self.alpha, self.beta)]
        later = make("Max", steps, 1)  # whose derivatives are numbers before the first step, too
        powers = [make("Pow", base, later) for base in bases]
        unbiased = make(rate * _sqrt(1 - powers[1]) / (1 - powers[0]))
        return [_started(make, steps, unbiased, rate)]

    def step(
        self, make: GraphBuilder, numbers: Sequence[Value], *tensors: Value
    ) -> Sequence[Value]:
        x, g, v, h = tensors
        slope = make(x * self.norm_coefficient + g)
        mean = make(v * self.alpha + slope * (1 - self.alpha))
        square = make(h * self.beta + slope * slope * (1 - self.beta))
        rate = make.cast(numbers[0], x.dtype)
        moved = make(x - rate * mean / (_sqrt(square) + self.epsilon))
        return make(moved * (1 - self.norm_coefficient_post)), mean, square


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

    def body(self, make: GraphBuilder, R: Value, T: Value, *inputs: Value) -> Results:
        if self.mode not in ("standard", "nesterov"):
            raise TypeMismatchError(
                f"Momentum has no mode {self.mode!r}", hint="standard or nesterov"
            )
        return super().body(make, R, T, *inputs)

    def numbers(self, make: GraphBuilder, rate: Value, steps: Value) -> Sequence[Value]:
        share, one = (make.number(n, dtypes.float64) for n in (self.beta, 1))
        return [rate, _started(make, steps, share, one)]

    def step(
        self, make: GraphBuilder, numbers: Sequence[Value], *tensors: Value
    ) -> Sequence[Value]:
        (x, g, v), (rate, share) = tensors, numbers
        slope = make(x * self.norm_coefficient + g)
        total = make(v * self.alpha + slope * make.cast(share, x.dtype))
        way = total if self.mode == "standard" else make(slope + total * self.alpha)
        return make(x - make.cast(rate, x.dtype) * way), total


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
