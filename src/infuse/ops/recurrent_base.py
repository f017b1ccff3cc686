"""What recurrent operators have in common: activation functions, types, the way along a sequence,
samples.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from infuse import dtypes
from infuse.errors import ShapeError, TypeMismatchError
from infuse.immutable import Immutable
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.types import Shape, TensorType
from infuse.ops.core.base import Array, Op, Rounding, same_dtype
from infuse.ops.core.elementwise import require_kind
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.sizes import agree, agree_shapes, fresh_tensor, require_rank
from infuse.ops.core.special import sigmoid, softplus

DIRECTIONS: Final = {"forward": 1, "reverse": 1, "bidirectional": 2}


class Activation(Immutable):
    """An activation function of a cell: its name in lower case, and the two numbers that some of
    them take.
    """

    name: str
    alpha: float = 0.0
    beta: float = 0.0

    def __call__(self, x: Array) -> Array:
        return _FUNCTIONS[self.name](x, self.alpha, self.beta)


_FUNCTIONS: Final[dict[str, Callable[[Array, float, float], Array]]] = {
    "affine": lambda x, a, b: a * x + b,
    "elu": lambda x, a, b: np.where(x >= 0, x, a * np.expm1(np.minimum(x, 0))),
    "hardsigmoid": lambda x, a, b: np.clip(a * x + b, 0.0, 1.0),
    "leakyrelu": lambda x, a, b: np.where(x >= 0, x, a * x),
    "relu": lambda x, a, b: np.maximum(x, 0.0),
    "scaledtanh": lambda x, a, b: a * np.tanh(b * x),
    "sigmoid": lambda x, a, b: sigmoid(x),
    "softplus": lambda x, a, b: softplus(x),
    "softsign": lambda x, a, b: x / (1.0 + np.abs(x)),
    "tanh": lambda x, a, b: np.tanh(x),
    "thresholdedrelu": lambda x, a, b: np.where(x >= a, x, 0.0),
}
_ALPHA: Final = {
    "affine": 1.0,
    "elu": 1.0,
    "hardsigmoid": 0.2,
    "leakyrelu": 0.01,
    "scaledtanh": 1.0,
    "thresholdedrelu": 1.0,
}
_BETA: Final = {"affine": 0.0, "hardsigmoid": 0.5, "scaledtanh": 1.0}


class Weights(Immutable):
    """What one direction computes with, in float64: W (gates, hidden, input), R (gates, hidden,
    hidden), biases (gates, hidden) of both, peepholes (3, hidden).
    """

    w: Array
    r: Array
    wb: Array
    rb: Array
    peepholes: Array


class Recurrent(Op, abstract=True):
    """What the three cells have in common.

    X is (length, batch, input), W (directions, gates · hidden, input), R (directions, gates ·
    hidden, hidden), B their biases one after the other, `initial_h` (directions, batch, hidden).
    The outputs are the states after every step, (length, directions, batch, hidden), and the last
    one of each example. With `layout` 1 the batch comes first everywhere. Steps past an example's
    own length are not taken, and give zeros. `activations` name the functions of the cell for each
    direction; `activation_alpha` and `_beta` list the numbers of those that take one. `clip` bounds
    what goes into them. The last state of an example of length 0 is its initial one.
    """

    activation_alpha: tuple[float, ...] = ()
    activation_beta: tuple[float, ...] = ()
    activations: tuple[str, ...] | None = None
    clip: float | None = None
    direction: str = "forward"
    hidden_size: int | None = None
    layout: int = 0

    since = 22
    accuracy = Rounding(ulp=8, abs=1e-5, why="the error of a step travels along the sequence")
    gates: ClassVar[int]
    usual: ClassVar[tuple[str, ...]]
    """The activation functions of one direction where none are given."""

    # -- attributes --------------------------------------------------------------------------------

    @property
    def directions(self) -> int:
        """How many there are; TypeMismatchError when the name of the direction is none."""
        if self.direction not in DIRECTIONS:
            raise TypeMismatchError(
                f"{self.name} has no direction {self.direction!r}", hint=", ".join(DIRECTIONS)
            )
        return DIRECTIONS[self.direction]

    def functions(self) -> list[tuple[Activation, ...]]:
        """The activation functions of each direction."""
        count, total = len(self.usual), len(self.usual) * self.directions
        names = [n.lower() for n in self.activations or self.usual * self.directions]
        if len(names) < total or not set(names) <= _FUNCTIONS.keys():
            raise TypeMismatchError(
                f"{self.name} needs {total} activation functions, found {', '.join(names)}"
            )
        alpha, beta = iter(self.activation_alpha), iter(self.activation_beta)
        activations = [
            Activation(n, _next(alpha, _ALPHA, n), _next(beta, _BETA, n)) for n in names[:total]
        ]
        return [tuple(activations[i : i + count]) for i in range(0, total, count)]

    # -- types -------------------------------------------------------------------------------------

    def _types(
        self,
        x: Value,
        w: Value,
        r: Value,
        b: Value | None,
        lengths: Value | None,
        *states: Value | None,
    ) -> Any:
        """The types of all states, and of the last one."""
        dtype = require_kind(self.name, same_dtype(self.name, x, w, r, b, *states), "f")
        self.functions()
        for name, value, rank in (
            ("X", x, 3),
            ("W", w, 3),
            ("R", r, 3),
            ("B", b, 2),
            ("sequence_lens", lengths, 1),
        ):
            if value is not None:
                require_rank(value, rank, self.name, name)
        for state in states:
            if state is not None:
                require_rank(state, 3, self.name, "an initial state")
        if lengths is not None and lengths.dtype != dtypes.int32:
            raise TypeMismatchError(
                f"sequence_lens of {self.name} must be int32, found {lengths.dtype}"
            )
        if x.tensor.shape is None:
            return fresh_tensor(dtype, 4, "recurrent"), fresh_tensor(dtype, 3, "recurrent")
        time, batch = x.shape[:2] if self.layout == 0 else x.shape[1::-1]
        hidden = self._hidden(x, w, r, b)
        last: Shape = (
            (self.directions, batch, hidden)
            if self.layout == 0
            else (batch, self.directions, hidden)
        )
        if lengths is not None and lengths.tensor.shape is not None:
            agree(
                lengths.shape[0], batch, f"the number of sequence_lens and the batch of {self.name}"
            )
        for state in states:
            if state is not None and state.tensor.shape is not None:
                agree_shapes(state.shape, last, f"an initial state of {self.name} and its last one")
        every = (
            (time, self.directions, batch, hidden)
            if self.layout == 0
            else (batch, time, self.directions, hidden)
        )
        return TensorType(dtype, every), TensorType(dtype, last)

    def _hidden(self, x: Value, w: Value, r: Value, b: Value | None) -> Dim:
        """The number of hidden units, after a look at all weights."""
        hidden: Dim | None = self.hidden_size
        if r.tensor.shape is not None:
            hidden = (
                r.shape[2]
                if hidden is None
                else agree(hidden, r.shape[2], f"hidden_size and R of {self.name}")
            )
        if hidden is None:
            raise ShapeError(f"{self.name} needs hidden_size, or the shape of R")
        shapes = {"W": (w, (self.directions, hidden * self.gates, x.shape[2]))}
        shapes["R"] = (r, (self.directions, hidden * self.gates, hidden))
        if b is not None:
            shapes["B"] = (b, (self.directions, hidden * 2 * self.gates))  # type: ignore[assignment]
        for name, (value, shape) in shapes.items():
            if value.tensor.shape is not None:
                agree_shapes(
                    value.shape,
                    shape,
                    f"the shape of {name} of {self.name} and what its operands say",
                )
        return hidden

    # -- meaning -----------------------------------------------------------------------------------

    @abstractmethod
    def step(
        self, functions: Sequence[Activation], ws: Weights, x: Array, h: Array, c: Array
    ) -> tuple[Array, Array]:
        """The next state and memory of a batch: `x` (batch, gates, hidden) is the input times W."""

    def run(
        self,
        x: Array,
        w: Array,
        r: Array,
        b: Array | None,
        lengths: Array | None,
        h: Array | None,
        c: Array | None = None,
        peepholes: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        """All states, the last states and the last memories."""
        steps = _wide(x).swapaxes(0, 1) if self.layout else _wide(x)
        time, batch, hidden = steps.shape[0], steps.shape[1], r.shape[2]
        initial = [state for state in (h, c) if state is not None]
        counts = np.full(batch, time) if lengths is None else lengths.astype(np.int64)
        first = (
            (self.directions, batch, hidden)
            if self.layout == 0
            else (batch, self.directions, hidden)
        )
        if (
            counts.shape != (batch,)
            or r.shape[0] != self.directions
            or any(s.shape != first for s in initial)
        ):
            raise ShapeError(f"the operands of {self.name} have sizes that do not fit each other")
        if ((counts < 0) | (counts > time)).any():
            raise ShapeError(f"sequence_lens of {self.name} must lie between 0 and {time}")
        states = [self._state(s, batch, hidden) for s in (h, c)]
        every = np.zeros((time, self.directions, batch, hidden))
        for d in range(self.directions):
            half = None if b is None else _wide(b[d]).reshape(2, self.gates, hidden)
            zero = np.zeros((self.gates, hidden))
            w_, r_ = (_wide(m[d]).reshape(self.gates, hidden, -1) for m in (w, r))
            p = (
                np.zeros((3, hidden))
                if peepholes is None
                else _wide(peepholes[d]).reshape(3, hidden)
            )
            wb, rb = (zero, zero) if half is None else half
            ws = Weights(w_, r_, wb, rb, p)
            backward = d == 1 or self.direction == "reverse"
            self._direction(d, backward, ws, steps, counts, every, states)
        if self.layout:
            every = every.transpose(2, 0, 1, 3)
            states = [s.swapaxes(0, 1) for s in states]
        results = (every, *states)
        return tuple(np.ascontiguousarray(v, dtype=x.dtype) for v in results)  # type: ignore[return-value]

    def _state(self, state: Array | None, batch: int, hidden: int) -> Array:
        if state is None:
            return np.zeros((self.directions, batch, hidden))
        return np.array(_wide(state).swapaxes(0, 1) if self.layout else _wide(state))

    def _direction(
        self,
        d: int,
        backward: bool,
        ws: Weights,
        x: Array,
        counts: Array,
        every: Array,
        states: Sequence[Array],
    ) -> None:
        """Go along the sequence once: fill `every` and bring `states` to the end."""
        functions = self.functions()[d]
        if self.clip is not None:
            functions = tuple(_Clipped(f.name, f.alpha, f.beta, limit=self.clip) for f in functions)
        h, c = (s[d] for s in states)
        for i in range(int(counts.max(initial=0))):
            (live,) = np.nonzero(counts > i)
            at = counts[live] - 1 - i if backward else np.full(len(live), i)
            inputs = np.einsum("bi,ghi->bgh", x[at, live], ws.w) + ws.wb
            h[live], c[live] = self.step(functions, ws, inputs, h[live], c[live])
            every[at, d, live] = h[live]

    def flops(self, shapes: Shapes) -> Flops:
        """Every step of every example; a cell does about nine operations a gate."""
        steps = dims.product(shapes.input(0)[:2])
        return Flops(
            steps * (shapes.size(1) + shapes.size(2)), steps * dims.product(shapes.input(1)[:2]) * 9
        )


class _Clipped(Activation):
    """An activation function of what lies between -limit and limit."""

    limit: float = 0.0

    def __call__(self, x: Array) -> Array:
        return super().__call__(np.clip(x, -self.limit, self.limit))


def _next(numbers: Iterator[float], defaults: dict[str, float], name: str) -> float:
    """The number of a function that takes one: the next of those that are given, else the usual
    one.
    """
    return next(numbers, defaults[name]) if name in defaults else 0.0


def _wide(x: Array) -> Array:
    return x.astype(np.float64)


def product(h: Array, r: Array) -> Array:
    """Rows of `h` times the matrices of some gates: (batch, gates, hidden)."""
    result: Array = np.einsum("bk,ghk->bgh", h, r)
    return result


# -- samples ---------------------------------------------------------------------------------------
