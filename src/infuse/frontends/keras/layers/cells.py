"""Cells of recurrent layers: what they make of the states and the operand of one time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infuse.errors import ModelFileError
from infuse.frontends.keras.calls import KerasCall, layer
from infuse.frontends.keras.config import Config
from infuse.frontends.keras.layers.activations import activation
from infuse.frontends.keras.layers.convolutions import (
    channels_in_front,
    convolved,
    positive,
    turned,
)
from infuse.ir.graph import Value
from infuse.tracing.layout import FROM_CHANNELS

Step = Callable[[Value, Sequence[Value]], tuple[Value, list[Value]]]
Sizes = Callable[[Sequence[Any]], list[tuple[int, ...]]]


@dataclass(frozen=True)
class Cell:
    """A cell: its step, sizes of its states for the sizes of an operand, which of these is that of
    the result, and its call where an operator of ONNX may do the same (`networks.py`).
    """

    step: Step
    sizes: Sizes
    shown: int = 0
    call: KerasCall | None = None

    @staticmethod
    def stacked(calls: Sequence[KerasCall]) -> Cell:
        """Cells on top of each other."""
        cells = []
        for call in calls:
            if call.layer.kind not in CELLS:
                raise call.unsupported(f"a cell of the class {call.layer.kind}")
            cells.append(CELLS[call.layer.kind](call))

        def sizes(operand: Sequence[Any]) -> list[tuple[int, ...]]:
            return [size for cell in cells for size in cell.sizes(operand)]

        def step(x: Value, states: Sequence[Value]) -> tuple[Value, list[Value]]:
            results: list[Value] = []
            for cell in cells:
                count = len(cell.sizes(x.shape[1:]))
                own = states[len(results) : len(results) + count]
                x, made = cell.step(x, own)
                results += made
            return x, results

        return Cell(step, sizes, shown=sum(len(cell.sizes(())) for cell in cells[:-1]))


CELLS: Final[dict[str, Callable[[KerasCall], Cell]]] = {}


def _cell(name: str) -> Callable[[Callable[[KerasCall], Cell]], Callable[[KerasCall], Cell]]:
    def register(make: Callable[[KerasCall], Cell]) -> Callable[[KerasCall], Cell]:
        CELLS[name] = make
        return make

    return register


def _now(call: KerasCall) -> KerasCall:
    """The call, in the graph that is being built."""
    return KerasCall(call.runner, call.layer)


def _activated(call: KerasCall, name: str, value: Value, default: str) -> Value:
    return activation(call.runner, call.g, call.config.get(name, default), value)


def _units(call: KerasCall, count: int) -> Sizes:
    units = call.config.whole("units")
    if units < 1:
        raise ModelFileError(f"a cell of {units} units")
    return lambda operand: [(units,)] * count


def _plus(call: KerasCall, value: Value, bias: Any) -> Value:
    return value if bias is None else call.g("Add", value, call.constant(bias, "bias"))


@_cell("SimpleRNNCell")
def simple(call: KerasCall) -> Cell:
    """Act(x · W + h · R + b)."""

    def step(x: Value, states: Sequence[Value]) -> tuple[Value, list[Value]]:
        c = _now(call)
        product = _plus(c, c.g("MatMul", x, c.weight("kernel", 2)), c.array("bias"))
        total = c.g("Add", product, c.g("MatMul", states[0], c.weight("recurrent_kernel", 2)))
        y = _activated(c, "activation", total, "tanh")
        return y, [y]

    return Cell(step, _units(call, 1), call=call)


@_cell("LSTMCell")
def lstm(call: KerasCall) -> Cell:
    """Gates i, f, c, o; states h and c."""

    def step(x: Value, states: Sequence[Value]) -> tuple[Value, list[Value]]:
        c = _now(call)
        product = c.g("MatMul", x, c.weight("kernel", 2))
        total = c.g("Add", product, c.g("MatMul", states[0], c.weight("recurrent_kernel", 2)))
        return _long_short(c, _plus(c, total, c.array("bias")), states[1], axis=1)

    return Cell(step, _units(call, 2), call=call)


def _long_short(c: KerasCall, gates: Value, carry: Value, axis: int) -> tuple[Value, list[Value]]:
    g = c.g
    parts = g.several(4, "Split", gates, axis=axis, num_outputs=4)
    i, f, o = (_activated(c, "recurrent_activation", parts[k], "sigmoid") for k in (0, 1, 3))
    candidate = _activated(c, "activation", parts[2], "tanh")
    new = g("Add", g("Mul", f, carry), g("Mul", i, candidate))
    y = g("Mul", o, _activated(c, "activation", new, "tanh"))
    return y, [y, new]


@_cell("GRUCell")
def gru(call: KerasCall) -> Cell:
    """Gates z, r, h; the reset after the product with the recurrent weights, or before it."""
    after = reset_after(call)

    def step(x: Value, states: Sequence[Value]) -> tuple[Value, list[Value]]:
        c = _now(call)
        g, h, bias = c.g, states[0], c.array("bias")
        recurrent, units = c.needed("recurrent_kernel", 2), c.config.whole("units")
        own, other = (bias[0], bias[1]) if after and bias is not None else (bias, None)
        x_gates = _plus(c, g("MatMul", x, c.weight("kernel", 2)), own)
        xs = g.several(3, "Split", x_gates, axis=1, num_outputs=3)

        def part(value: Value, start: int, end: int) -> Value:
            product = g("MatMul", value, c.constant(recurrent[:, start:end]))
            return _plus(c, product, None if other is None else other[start:end])

        sums = [g("Add", xs[k], part(h, k * units, (k + 1) * units)) for k in (0, 1)]
        z, r = (_activated(c, "recurrent_activation", each, "sigmoid") for each in sums)
        low, high = 2 * units, 3 * units
        inner = g("Mul", r, part(h, low, high)) if after else part(g("Mul", r, h), low, high)
        candidate = _activated(c, "activation", g("Add", xs[2], inner), "tanh")
        carried = g("Mul", z, h)
        y = g("Add", carried, g("Mul", g("Sub", g.number(1, z.dtype), z), candidate))
        return y, [y]

    return Cell(step, _units(call, 1), call=call)


def reset_after(call: KerasCall) -> bool:
    """Whether a GRU resets after the product with its recurrent weights."""
    return call.config.flag("reset_after", call.runner.generation == 3)


def _stacked(call: KerasCall) -> Cell:
    call.config.require("reverse_state_order", False, None)
    return Cell.stacked([KerasCall(call.runner, each) for each in call.layer.children["cells"]])


CELLS["StackedRNNCells"] = _stacked


def _convolutional(count: int) -> Callable[[KerasCall], Cell]:
    def make(call: KerasCall) -> Cell:
        filters = call.config.whole("filters")

        def sizes(operand: Sequence[Any]) -> list[tuple[int, ...]]:
            return [_image(call, operand, count, filters)] * 2

        def step(x: Value, states: Sequence[Value]) -> tuple[Value, list[Value]]:
            c = _now(call)
            g, bias = c.g, c.array("bias")
            kernels = [turned(c.needed(n, count + 2)) for n in ("kernel", "recurrent_kernel")]
            b = None if bias is None else c.constant(bias, "bias")
            images = channels_in_front(c, x, count + 2)
            product = convolved(c, images, kernels[0], b, 1, count)
            h, carry = (channels_in_front(c, state, count + 2) for state in states)
            again = convolved(c, h, kernels[1], None, 1, count, plain=True)
            _, made = _long_short(c, g("Add", product, again), carry, axis=1)
            if not c.config.channels_first:
                made = [g.permute(each, *FROM_CHANNELS[count + 2]) for each in made]
            return made[0], made

        return Cell(step, sizes)

    return make


def _image(call: KerasCall, operand: Sequence[Any], count: int, filters: int) -> tuple[int, ...]:
    """The sizes of a state: those of the convolution's result."""
    config, first = call.config, call.config.channels_first
    if len(operand) != count + 1:
        raise ModelFileError(f"its operand has images of {len(operand)} axes")
    sizes = operand[1:] if first else operand[:-1]
    if not all(isinstance(size, int) for size in sizes):
        raise call.unsupported("a recurrent convolution over images of unknown sizes")
    kernel, strides = positive(config, "kernel_size", count), positive(config, "strides", count)
    spread = positive(config, "dilation_rate", count)
    same = config.text("padding", "valid") == "same"
    results = tuple(
        -(-n // s) if same else (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(sizes, kernel, strides, spread)
    )
    return (filters, *results) if first else (*results, filters)


def _weights(config: Config) -> list[str]:
    names = ["kernel", "recurrent_kernel"]
    return [*names, "bias"] if config.flag("use_bias", True) else names


def _alone(call: KerasCall, *args: Any, **kwargs: Any) -> Any:
    raise call.unsupported("a cell outside of a recurrent layer")


for _count in (1, 2, 3):
    CELLS[f"ConvLSTM{_count}DCell"] = _convolutional(_count)
for _name in CELLS:
    if _name == "StackedRNNCells":
        layer(_name, children=lambda config: {"cells": config.get("cells")})(_alone)
    else:
        layer(_name, weights=_weights)(_alone)
