"""Recurrent layers: the gates of all inputs, and the walk along a sequence."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from infuse.targets.cpu.families.base import Arguments, Array, Stores, matrix, writes

LARGEST: Final = 4194303.0
"""The largest integer that digits stand for (kernels/gate_words.hpp)."""
Function = Callable[[Array], Array]
_FUNCTIONS: Final[dict[str, Callable[[Array, float, float], Array]]] = {
    "Affine": lambda x, a, b: a * x + b,
    "Elu": lambda x, a, b: np.where(x >= 0, x, a * np.expm1(np.minimum(x, 0))),
    "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "LeakyRelu": lambda x, a, b: np.where(x >= 0, x, a * x),
    "Relu": lambda x, a, b: np.maximum(x, 0),
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
    "Sigmoid": lambda x, a, b: (1 + np.tanh(x / 2)) / 2,
    "Softplus": lambda x, a, b: np.logaddexp(0, x),
    "Softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "Tanh": lambda x, a, b: np.tanh(x),
    "ThresholdedRelu": lambda x, a, b: np.where(x >= a, x, 0),
}


def function(struct: Any) -> Function:
    """An activation function by its struct."""
    if struct.type == "AnyFunction":
        number, alpha, beta, limit = struct.items
        inside = [*_FUNCTIONS.values()][number]
        return lambda x: np.asarray(inside(np.clip(x, -limit, limit), alpha, beta))
    alpha, beta = struct.items
    return lambda x: np.asarray(_FUNCTIONS[struct.type](x, alpha, beta))


def _width(call: Arguments, x: Array) -> int:
    """Elements that lie side by side in packed weights."""
    return call.lanes if x.dtype == np.float32 else 1


# -- gates -----------------------------------------------------------------------------------------


@writes("recur::pack_gates")
def pack_gates(call: Arguments) -> Stores:
    """Rows [gate, hidden, k] as [unit, k, block, gate, width], other rows added to the first."""
    rows, also, both, gates, hidden, k, blocks, to = call.arguments
    width = _width(call, to)
    units = -(-hidden // (blocks * width))
    whole = np.zeros((gates, units * blocks * width, k), to.dtype)
    whole[:, :hidden] = rows[: gates * hidden * k].reshape(gates, hidden, k)
    if both:
        whole[:both, :hidden] += also[: both * hidden * k].reshape(both, hidden, k)
    parts = whole.reshape(gates, units, blocks, width, k)
    return {7: parts.transpose(1, 4, 2, 0, 3).reshape(-1)}


@writes("recur::gate_inputs")
def gate_inputs(call: Arguments) -> Stores:
    """Rows times packed units, and their biases; rows of the result are `columns` apart."""
    rows, k, units, x, pitch, packed, scales, bias, columns = call.arguments[:9]
    wide = int(call.template[0]) * _width(call, x)
    sums = matrix(x.astype(np.float64), (rows, k), (pitch, 1)) @ _scaled(
        packed, scales, (units, k, wide)
    )
    return {9: _biased(sums, bias, columns)}


@writes("recur::input_digits")
def input_digits(call: Arguments) -> Stores:
    """Rows as integers of three bytes, [row, byte, k] in words, and the steps of the rows."""
    rows, k, x = call.arguments[:3]
    numbers = matrix(x, (rows, k), (k, 1)).astype(np.float64)
    largest = np.abs(numbers).max(1, initial=0, keepdims=True)
    whole = np.rint(numbers * np.divide(LARGEST, largest, where=largest > 1e-30, out=0 * largest))
    lifted = whole.astype(np.int64) + 0x808080
    digits = np.zeros((rows, 3, -(-k // 4) * 4), np.uint8)
    for place in range(3):
        digits[:, place, :k] = lifted >> 8 * place & 255
    steps = (largest / LARGEST).reshape(-1).astype(np.float32)
    return {3: digits.reshape(-1).view(np.int32), 4: steps}


@writes("recur::gate_inputs_of_digits")
def gate_inputs_of_digits(call: Arguments) -> Stores:
    """The same of weights in quads; what the digits are follows from the rows."""
    rows, k, units, x, _, _, packed, scales, totals, bias, columns = call.arguments[:11]
    shape = units, k, int(call.template[0]) * _width(call, x)
    numbers = _of_quads(packed, totals, shape)
    sums = matrix(x.astype(np.float64), (rows, k), (k, 1)) @ _scaled(numbers, scales, shape)
    return {11: _biased(sums, bias, columns)}


def _biased(sums: Array, bias: Array | None, columns: int) -> tuple[Array, Array]:
    """Sums [unit, row, column of the unit] with biases, and where they lie: rows are `columns`
    apart.
    """
    units, rows, wide = sums.shape
    if bias is not None:
        sums = sums + bias[: units * wide].reshape(units, 1, wide)
    places = np.add.outer(np.arange(rows) * columns, np.arange(units * wide))
    return places, sums.transpose(1, 0, 2)


def _of_quads(packed: Array, totals: Array, shape: tuple[int, int, int]) -> Array:
    """Packed weights [unit, k, columns] with four k side by side as without; NaN where `totals` are
    not the sums of their columns.
    """
    units, k, wide = shape
    quads = -(-k // 4)
    whole = packed[: units * quads * wide * 4].reshape(units, quads, wide, 4)
    numbers = np.moveaxis(whole, 3, 2).reshape(units, quads * 4, wide).astype(np.float64)
    agree = (numbers.sum(1) == totals[: units * wide].reshape(units, wide)).all()
    weights: Array = numbers[:, :k].reshape(-1)
    return weights if agree else np.full_like(weights, np.nan)


def _scaled(packed: Array, scales: Array | None, shape: tuple[int, int, int]) -> Array:
    """Packed weights [unit, k, columns]: integers times the scales of their columns."""
    units, k, wide = shape
    weights: Array = packed[: units * k * wide].astype(np.float64).reshape(shape)
    return weights if scales is None else weights * scales[: units * wide].reshape(units, 1, wide)


def _gates(elements: Array, sizes: tuple[int, int], width: int, hidden: int) -> Array:
    """[.., units · blocks · gates · width] as [.., gates, hidden]."""
    blocks, gates = sizes
    lead = elements.shape[:-1]
    units = elements.shape[-1] // (blocks * gates * width)
    parts = elements.reshape(*lead, units, blocks, gates, width)
    whole = np.moveaxis(parts, -2, len(lead)).reshape(*lead, gates, units * blocks * width)
    return np.asarray(whole[..., :hidden])


# -- cells -----------------------------------------------------------------------------------------


class Steps:
    """What a step of one direction makes of the states of some examples."""

    def __init__(self, call: Arguments, direction: int) -> None:
        self.layer, step = call.arguments
        self.width = _width(call, self.layer.x)
        self.direction = direction
        names = SimpleNamespace(direction=direction, h="h", reset="reset")
        self.passes = [(int(c.template[0]), values) for c, values in step.calls(w=names)]

    def take(self, places: Array, h: Array, c: Array) -> tuple[Array, Array]:
        """The states after a step whose inputs begin at these places of X · Wᵀ."""
        notes: dict[str, Array] = {"h": h, "c": c}
        for blocks, (source, packed, scales, *totals, column, cell) in self.passes:
            gates = _GATES[cell.type]
            if totals:
                packed = _of_quads(packed, totals[0], self._shape(blocks, gates))
            sums = notes[source] @ self._weights(packed, scales, blocks, gates)
            n = sums.shape[1]
            inputs = self.layer.x[(places + column)[:, None] + np.arange(n)].astype(np.float64)
            sizes = blocks, gates
            hidden = self.layer.hidden
            both = [_gates(part, sizes, self.width, hidden) for part in (sums, inputs)]
            _CELLS[cell.type](cell, np.moveaxis(both[0], 1, 0), np.moveaxis(both[1], 1, 0), notes)
        return notes["next"], notes["c"]

    def _shape(self, blocks: int, gates: int) -> tuple[int, int, int]:
        """Units, k and columns of a unit."""
        k, size = self.layer.hidden, blocks * gates * self.width
        return -(-k // (blocks * self.width)), k, size

    def _weights(self, packed: Array, scales: Array | None, blocks: int, gates: int) -> Array:
        units, k, size = self._shape(blocks, gates)
        whole = _scaled(packed, scales, (units, k, size))
        weights: Array = whole.transpose(1, 0, 2).reshape(k, units * size)
        return weights


Notes = dict[str, Array]


def _rnn(cell: Any, sums: Array, x: Array, notes: Notes) -> None:
    notes["next"] = function(cell.items[0])(sums[0] + x[0])


def _lstm(cell: Any, sums: Array, x: Array, notes: Notes) -> None:
    f, g, h = map(function, cell.items[:3])
    peepholes, hidden, c = cell.items[3], cell.items[4], notes["c"]
    i, o, k, made = sums + x
    seen = np.zeros((3, hidden))
    if peepholes is not None:
        seen = peepholes[: 3 * hidden].astype(np.float64).reshape(3, hidden)
    i = f(i + seen[0] * c)
    keep = 1 - i if cell.template[1] == "true" else f(k + seen[2] * c)
    notes["c"] = keep * c + i * g(made)
    notes["next"] = f(o + seen[1] * notes["c"]) * h(notes["c"])


def _gru_linear(cell: Any, sums: Array, x: Array, notes: Notes) -> None:
    f, g = map(function, cell.items[:2])
    bias = cell.items[2]
    z, r = f(sums[0] + x[0]), f(sums[1] + x[1])
    linear = sums[2] if bias is None else sums[2] + bias[: sums.shape[2]]
    notes["next"] = (1 - z) * g(x[2] + r * linear) + z * notes["h"]


def _gru_gates(cell: Any, sums: Array, x: Array, notes: Notes) -> None:
    f = function(cell.items[0])
    notes["z"] = f(sums[0] + x[0])
    notes["reset"] = f(sums[1] + x[1]) * notes["h"]


def _gru_state(cell: Any, sums: Array, x: Array, notes: Notes) -> None:
    z, made = notes["z"], function(cell.items[0])(sums[0] + x[0])
    notes["next"] = (1 - z) * made + z * notes["h"]


_CELLS: Final = {
    "RnnCell": _rnn,
    "LstmCell": _lstm,
    "GruLinearCell": _gru_linear,
    "GruGates": _gru_gates,
    "GruState": _gru_state,
}
_GATES: Final = {"RnnCell": 1, "LstmCell": 4, "GruLinearCell": 3, "GruGates": 2, "GruState": 1}


# -- the walk --------------------------------------------------------------------------------------


@writes("recurrent")
def recurrent(call: Arguments) -> Stores:
    """All states, and the last of each example; zeros after the end of an example."""
    r = call.arguments[0]
    batch, lengths = np.arange(r.batch), getattr(r, "lengths", None)
    ends = np.full(r.batch, r.steps) if lengths is None else lengths[: r.batch].astype(np.int64)
    written: dict[str, list[tuple[Array, Array]]] = {"y": [], "last_h": [], "last_c": []}
    for direction in range(r.directions):
        steps = Steps(call, direction)
        first = direction * r.initial_direction + batch * r.initial_batch
        h, c = (_initial(r, name, first) for name in ("initial_h", "initial_c"))
        every = np.zeros((r.steps, r.batch, r.hidden))
        for step in range(r.steps):
            live = batch[ends > step]
            time = ends[live] - 1 - step if direction or r.reverse else np.full(len(live), step)
            at = time * r.x_time + live * r.x_batch + direction * r.x_direction
            h[live], c[live] = steps.take(at, h[live], c[live])
            every[time, live] = h[live]
        if r.y is not None:
            times = np.add.outer(np.arange(r.steps) * r.y_time, batch * r.y_batch)
            written["y"].append((times + direction * r.y_direction, every))
        last = direction * r.last_direction + batch * r.last_batch
        written["last_h"].append((last, h))
        written["last_c"].append((last, c))
    units = np.arange(r.hidden)
    return {
        name: (
            np.concatenate([np.add.outer(at, units).reshape(-1) for at, _ in parts]),
            np.concatenate([state.reshape(-1) for _, state in parts]),
        )
        for name, parts in written.items()
        if getattr(r, name) is not None
    }


def _initial(layer: Any, name: str, first: Array) -> Array:
    states = getattr(layer, name, None)
    if states is None:
        return np.zeros((layer.batch, layer.hidden))
    initial: Array = states[np.add.outer(first, np.arange(layer.hidden))].astype(np.float64)
    return initial
