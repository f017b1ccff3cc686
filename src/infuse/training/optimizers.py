"""How parameters follow their gradients, as nodes of the step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import get_type_hints

from infuse import dtypes
from infuse.errors import OptionError
from infuse.ir.expression import Call
from infuse.ir.graph import Value
from infuse.ir.registry import make_operator
from infuse.ops.core.building import GraphBuilder
from infuse.ops.domains.training import DOMAIN
from infuse.options.fields import require


@dataclass(frozen=True)
class Optimizer(ABC):
    """A step of an optimizer; `rate` is multiplied by the schedule's factor."""

    rate: float

    @property
    @abstractmethod
    def slots(self) -> tuple[str, ...]:
        """What it remembers of every parameter, in tensors like it that begin as zeros."""

    def __post_init__(self) -> None:
        """OptionError for a field of another type, and a rate that is not positive."""
        hints = get_type_hints(type(self))
        for each in fields(self):
            require(each.name, getattr(self, each.name), hints[each.name])
        if not 0 < self.rate < float("inf"):
            raise OptionError(f"the learning rate must be positive, found {self.rate}")

    @abstractmethod
    def update(
        self,
        make: GraphBuilder,
        rate: Value,
        steps: Value,
        parameters: Sequence[Value],
        gradients: Sequence[Value],
        state: Sequence[Sequence[Value]],
    ) -> tuple[list[Value], list[list[Value]]]:
        """New parameters and new state (a list for each slot); `rate` is a float32, `steps` the
        number of steps so far.
        """


@dataclass(frozen=True)
class SGD(Optimizer):
    """Steps against the gradient, or along a fading sum of gradients; with Nesterov's correction as
    if the step had been made already. `weight_decay` times the parameter is added to its gradient.
    As `torch.optim.SGD`.
    """

    rate: float = 0.01
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    @property
    def slots(self) -> tuple[str, ...]:
        return ("velocity",) if self.momentum else ()

    def __post_init__(self) -> None:
        """OptionError for options that do not go together."""
        super().__post_init__()
        require_share("momentum", self.momentum)
        if self.nesterov and not self.momentum:
            raise OptionError("Nesterov's correction needs a momentum")

    def update(
        self,
        make: GraphBuilder,
        rate: Value,
        steps: Value,
        parameters: Sequence[Value],
        gradients: Sequence[Value],
        state: Sequence[Sequence[Value]],
    ) -> tuple[list[Value], list[list[Value]]]:
        if not self.momentum:
            return [self._moved(make, rate, p, g) for p, g in zip(parameters, gradients)], []
        options = {
            "alpha": self.momentum,
            "beta": 1.0,
            "mode": "nesterov" if self.nesterov else "standard",
            "norm_coefficient": self.weight_decay,
        }
        inputs = [rate, steps, *parameters, *gradients, *state[0]]
        count = len(parameters)
        results = make.apply(make_operator(DOMAIN, "Momentum", options), inputs, 2 * count)
        return results[:count], [results[count:]]

    def _moved(self, make: GraphBuilder, rate: Value, parameter: Value, gradient: Value) -> Value:
        slope = make(gradient + parameter * self.weight_decay) if self.weight_decay else gradient
        return make(parameter - make.cast(rate, parameter.dtype) * slope)


@dataclass(frozen=True)
class AdamW(Optimizer):
    """Steps along running means of the gradients over the roots of those of their squares, both
    without the bias of the first steps; parameters fade by rate · weight_decay apart from that. As
    `torch.optim.AdamW` (Loshchilov, Hutter: Decoupled Weight Decay Regularization).

    It is not made of ONNX's Adam, which adds epsilon before the bias is taken off.
    """

    rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.01

    @property
    def slots(self) -> tuple[str, ...]:
        return "mean", "square"

    def __post_init__(self) -> None:
        """OptionError for shares that are none."""
        super().__post_init__()
        require_share("beta1", self.beta1)
        require_share("beta2", self.beta2)

    def update(
        self,
        make: GraphBuilder,
        rate: Value,
        steps: Value,
        parameters: Sequence[Value],
        gradients: Sequence[Value],
        state: Sequence[Sequence[Value]],
    ) -> tuple[list[Value], list[list[Value]]]:
        count = make.cast(make("Add", steps, 1), dtypes.float64)
        first, second = (
            make(1.0 - Call("Pow", (make.number(beta, dtypes.float64), count)))
            for beta in (self.beta1, self.beta2)
        )
        pace = make("Div", make.cast(rate, dtypes.float64), first)
        root = make("Sqrt", second)
        left = make(1.0 - rate * self.weight_decay)
        results: list[list[Value]] = [[], [], []]
        for parameter, gradient, mean, square in zip(parameters, gradients, *state):
            dtype = parameter.dtype
            mean = make(mean * self.beta1 + gradient * (1 - self.beta1))
            square = make(square * self.beta2 + gradient * gradient * (1 - self.beta2))
            size = make(Call("Sqrt", (square,)) / make.cast(root, dtype) + self.epsilon)
            moved = make(parameter * make.cast(left, dtype) - make.cast(pace, dtype) * mean / size)
            for result, value in zip(results, (moved, mean, square)):
                result.append(value)
        return results[0], results[1:]


def require_share(name: str, value: float) -> None:
    """OptionError unless 0 <= value < 1."""
    if not 0 <= value < 1:
        raise OptionError(f"{name} must be at least 0 and less than 1, found {value}")
