"""Gradients of recurrent networks: pulled back through the cell, which is written out for every
step of the sequence.
"""

from __future__ import annotations

from collections.abc import Callable

from infuse.errors import UnsupportedOperatorError
from infuse.immutable import Immutable
from infuse.ir.graph import Node, Value
from infuse.ops.core.differentiation import gradient_of, operand, through
from infuse.ops.core.gradient_building import GradientBuilder, Gradients
from infuse.ops.recurrent import GRU, LSTM, RNN
from infuse.ops.recurrent_base import Activation, Recurrent


@gradient_of(RNN, GRU, LSTM)
def recurrent_gradient(
    op: Recurrent, make: GradientBuilder, node: Node, grads: Gradients
) -> Gradients:
    """That of all steps, one after another; the length of the sequence has to be known."""
    x = operand(node)
    steps = make("Transpose", x, perm=(1, 0, 2)) if op.layout else x
    length = steps.shape[0]
    if not isinstance(length, int):
        raise UnsupportedOperatorError(
            f"a sequence of unknown length ({length}) has no gradient",
            hint="fix the sizes of the inputs (set_dims)",
        )
    inputs = [make("Squeeze", make.slice(steps, 0, t, t + 1), make.ints(0)) for t in range(length)]
    halves = [_Direction(op, make, node, number, inputs) for number in range(op.directions)]
    ends = [half.run() for half in halves]
    every = [
        make("Concat", *(_stacked(make, half.every[t]) for half in halves), axis=0)
        for t in range(length)
    ]
    states = make("Concat", *(_stacked(make, v) for v in every), axis=0) if every else None
    last, memory = (
        make("Concat", *(_stacked(make, end[i]) for end in ends), axis=0) for i in (0, 1)
    )
    results = [states, last, memory]
    if op.layout:
        orders = ((2, 0, 1, 3), (1, 0, 2), (1, 0, 2))
        results = [
            None if v is None else make("Transpose", v, perm=order)
            for v, order in zip(results, orders)
        ]
    return through(make, node, grads, results[: len(grads)])


def _stacked(make: GradientBuilder, value: Value) -> Value:
    return make("Unsqueeze", value, make.ints(0))


class _Cell(Immutable):
    """What one direction computes with, gate by gate where there are several."""

    r: list[Value]
    bias: list[Value]
    peepholes: list[Value]


class _Direction:
    """The way along the sequence in one direction."""

    def __init__(
        self, op: Recurrent, make: GradientBuilder, node: Node, number: int, inputs: list[Value]
    ) -> None:
        self.op, self.make, self.inputs = op, make, inputs
        self.is_backward = number == 1 or op.direction == "reverse"
        names = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")
        values = {name: node.input(i) for i, name in enumerate(names)}
        self.lengths = values["sequence_lens"]
        w, r = (self._own(operand(node, i), number) for i in (1, 2))
        hidden = r.shape[1]
        if not isinstance(hidden, int):
            raise UnsupportedOperatorError("an unknown number of hidden units has no gradient")
        self.hidden, gates = hidden, op.gates
        zero = make("Expand", make.number(0, w.dtype), make.ints(hidden))
        bias, peepholes = values["B"], values["P"] if op.name == "LSTM" else None
        both = [zero] * (2 * gates)
        if bias is not None:
            both = self._parts(self._own(bias, number), 2 * gates)
        self.w = self._parts(w, gates)
        self.cell = _Cell(
            self._parts(r, gates),
            both,
            [zero] * 3 if peepholes is None else self._parts(self._own(peepholes, number), 3),
        )
        none = make("Expand", make.number(0, w.dtype), self._state_shape(operand(node)))
        initial = [values["initial_h"], values["initial_c"] if op.name == "LSTM" else None]
        self.h, self.c = (none if v is None else self._state(v, number) for v in initial)
        self.functions = op.functions()[number]
        self.none = none
        self.every: dict[int, Value] = {}

    def _own(self, value: Value, number: int) -> Value:
        return self.make(
            "Squeeze", self.make.slice(value, 0, number, number + 1), self.make.ints(0)
        )

    def _state(self, value: Value, number: int) -> Value:
        axis = 1 if self.op.layout else 0
        part = self.make.slice(value, axis, number, number + 1)
        return self.make("Squeeze", part, self.make.ints(axis))

    def _parts(self, value: Value, count: int) -> list[Value]:
        if count == 1:
            return [value]
        return self.make.several(count, "Split", value, num_outputs=count)

    def _state_shape(self, x: Value) -> Value:
        place = 0 if self.op.layout else 1
        batch = self.make("Shape", x, start=place, end=place + 1)
        return self.make("Concat", batch, self.make.ints(self.hidden), axis=0)

    def run(self) -> tuple[Value, Value]:
        """The last state and memory; `every` has the states of all steps."""
        make = self.make
        count = len(self.inputs)
        for t in reversed(range(count)) if self.is_backward else range(count):
            h, c = self._step(self.inputs[t], self.h, self.c)
            shown = h
            if self.lengths is not None:
                counts = make.cast(self.lengths, make.ints(0).dtype)
                live = make("Unsqueeze", make("Greater", counts, make.ints(t)), make.ints(1))
                shown = make("Where", live, h, self.none)
                h, c = make("Where", live, h, self.h), make("Where", live, c, self.c)
            self.h, self.c = h, c
            self.every[t] = shown
        return self.h, self.c

    def _product(self, x: Value, w: Value) -> Value:
        return self.make("Gemm", x, w, transB=1)

    def _step(self, x: Value, h: Value, c: Value) -> tuple[Value, Value]:
        wide = [
            self.make(self._product(x, w) + b)
            for w, b in zip(self.w, self.cell.bias[: self.op.gates])
        ]
        step: dict[str, Callable[[list[Value], Value, Value], tuple[Value, Value]]] = {
            "RNN": self._rnn,
            "GRU": self._gru,
            "LSTM": self._lstm,
        }
        return step[self.op.name](wide, h, c)

    def _linear(self, h: Value, gate: int) -> Value:
        """H · Rᵀ of a gate, and its bias."""
        bias = self.cell.bias[self.op.gates + gate]
        return self.make(self._product(h, self.cell.r[gate]) + bias)

    def _active(self, number: int, value: Value) -> Value:
        make, function = self.make, self.functions[number]
        if self.op.clip is not None:
            limit = self.op.clip
            value = make("Max", make("Min", value, limit), -limit)
        return activation(make, function, value)

    def _rnn(self, x: list[Value], h: Value, c: Value) -> tuple[Value, Value]:
        return self._active(0, self.make(x[0] + self._linear(h, 0))), c

    def _gru(self, x: list[Value], h: Value, c: Value) -> tuple[Value, Value]:
        make = self.make
        assert isinstance(self.op, GRU)
        z, r = (self._active(0, make(x[i] + self._linear(h, i))) for i in (0, 1))
        if self.op.linear_before_reset:
            linear = make(r * self._linear(h, 2))
        else:
            linear = self._linear(make(r * h), 2)
        return make((1.0 - z) * self._active(1, make(x[2] + linear)) + z * h), c

    def _lstm(self, x: list[Value], h: Value, c: Value) -> tuple[Value, Value]:
        make, peepholes = self.make, self.cell.peepholes
        assert isinstance(self.op, LSTM)
        i, o, f, g = (make(x[n] + self._linear(h, n)) for n in range(4))
        i = self._active(0, make(i + peepholes[0] * c))
        if self.op.input_forget:
            forget = make(1.0 - i)
        else:
            forget = self._active(0, make(f + peepholes[2] * c))
        memory = make(forget * c + i * self._active(1, g))
        o = self._active(0, make(o + peepholes[1] * memory))
        return make(o * self._active(2, memory)), memory


def activation(make: GradientBuilder, function: Activation, x: Value) -> Value:
    """An activation function of a cell, as operators."""
    alpha, beta = function.alpha, function.beta
    if function.name == "affine":
        return make(x * alpha + beta)
    if function.name == "scaledtanh":
        return make("Mul", make("Tanh", make("Mul", x, beta)), alpha)
    names = {
        "elu": "Elu",
        "leakyrelu": "LeakyRelu",
        "thresholdedrelu": "ThresholdedRelu",
        "relu": "Relu",
        "sigmoid": "Sigmoid",
        "softplus": "Softplus",
        "tanh": "Tanh",
        "softsign": "Softsign",
        "hardsigmoid": "HardSigmoid",
    }
    options = {}
    if function.name in ("elu", "leakyrelu", "thresholdedrelu", "hardsigmoid"):
        options["alpha"] = alpha
    if function.name == "hardsigmoid":
        options["beta"] = beta
    return make(names[function.name], x, **options)
