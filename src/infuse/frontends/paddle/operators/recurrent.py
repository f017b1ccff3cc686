"""Recurrent networks, and tensors of integers that stand for real numbers."""

from __future__ import annotations

from typing import Final

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.paddle.calls import PaddleCall, operator
from infuse.frontends.paddle.operators.pointwise import away
from infuse.ir.graph import Value

_MODES: Final = {
    "LSTM": ("LSTM", (0, 3, 1, 2)), "GRU": ("GRU", (1, 0, 2)),
    "RNN_TANH": ("RNN", (0,)), "RNN_RELU": ("RNN", (0,)),
}  # fmt: skip
"""The operator here, and the order in which it has Paddle's gates."""


def _gates(call: PaddleCall, values: list[Value], order: tuple[int, ...]) -> Value:
    """The weights of all directions, with their gates in another order."""
    g, parts = call.g, []
    for value in values:
        size = value.shape[0]
        if not isinstance(size, int) or size % len(order):
            raise ModelFileError(f"weights of {len(order)} gates have {size} rows")
        step = size // len(order)
        rows = [g.slice(value, 0, i * step, (i + 1) * step) for i in order]
        joined = g("Concat", *rows, axis=0) if len(rows) > 1 else rows[0]
        parts.append(g("Unsqueeze", joined, g.ints(0)))
    return g("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]


@operator("rnn")
def rnn(call: PaddleCall) -> tuple[Value | None, ...]:
    """Layers of a recurrent network, each in one direction or in both."""
    g, x, states, weights = (
        call.g,
        call("x"),
        call.tensors("pre_state"),
        call.tensors("weight_list"),
    )
    mode, layers = str(call.attribute("mode", "LSTM")), int(call.attribute("num_layers", 1))
    directions = 2 if call.attribute("is_bidirec", False) else 1
    if mode not in _MODES:
        raise call.unsupported(f"mode={mode!r}")
    if not call.attribute("is_test", False) and call.attribute("dropout_prob", 0.0):
        raise call.unsupported("dropout as in training")
    hidden = int(call.attribute("hidden_size", 0))
    call.attribute("input_size")
    cells = layers * directions
    if len(weights) != 4 * cells or len(states) != 1 + (mode == "LSTM"):
        raise ModelFileError(f"{cells} layers have {len(weights)} weights, {len(states)} states")
    kind, order = _MODES[mode]
    lengths = call.maybe("sequence_length")
    lengths = None if lengths is None else g.cast(lengths, dtypes.int32)
    options: dict[str, object] = {
        "hidden_size": hidden, "direction": "bidirectional" if directions == 2 else "forward"
    }  # fmt: skip
    if kind == "GRU":
        options["linear_before_reset"] = 1
    if mode == "RNN_RELU":
        options["activations"] = ("Relu",) * directions
    finals: list[list[Value]] = [[] for _ in states]
    for layer in range(layers):
        cell = range(layer * directions, (layer + 1) * directions)
        w, r = (_gates(call, [weights[2 * c + i] for c in cell], order) for i in (0, 1))
        b = [_gates(call, [weights[2 * (cells + c) + i] for c in cell], order) for i in (0, 1)]
        first = [g.slice(state, 0, cell[0], cell[-1] + 1) for state in states]
        count = 1 + len(states)
        y, *last = g.several(
            count, kind, x, w, r, g("Concat", *b, axis=1), lengths, *first, **options
        )
        for final, state in zip(finals, last):
            final.append(state)
        x = g("Reshape", g.permute(y, 0, 2, 1, 3), g.ints(0, 0, directions * hidden))
    ends = [g("Concat", *parts, axis=0) if layers > 1 else parts[0] for parts in finals]
    return x, None, ends, None  # type: ignore[return-value]


@operator("coalesce_tensor")
def coalesce_tensor(call: PaddleCall) -> tuple[list[Value], None]:
    """The same tensors, which then lie side by side."""
    for name in call.operator.attributes:
        call.attribute(name)
    call.require("set_constant", False)
    return call.tensors("input"), None


# -- quantization ----------------------------------------------------------------------------------


def _most(call: PaddleCall) -> float:
    """The largest integer."""
    bits = int(call.attribute("bit_length", 8))
    if not 2 <= bits <= 16:
        raise ModelFileError(f"it has integers of {bits} bits")
    call.require("qmin", -(1 << (bits - 1)), 0)
    call.require("qmax", (1 << (bits - 1)) - 1, 0)
    return float((1 << (bits - 1)) - 1)


def _scale(call: PaddleCall, x: Value) -> Value:
    """The real number that the largest integer stands for, one or one of each channel."""
    g, scale, axis = call.g, call("scale"), int(call.attribute("quant_axis", -1))
    zero = call.maybe("zero_point")
    if zero is not None and (zero.const is None or np.any(zero.const)):
        raise call.unsupported("a zero point other than 0")
    call.require("only_observer", False)
    if axis < 0 or scale.shape in ((), (1,)):
        return g("Reshape", scale, g.ints())
    return g("Reshape", scale, g.ints(*(-1 if i == axis else 1 for i in range(x.rank))))


@operator("quantize_linear")
def quantize_linear(call: PaddleCall) -> Value:
    """Real numbers as integers, in floats as Paddle has them."""
    g, x = call.g, call("x")
    if not call.attribute("is_test", True):
        raise call.unsupported("quantization as in training")
    scale, most = _scale(call, x), _most(call)
    steps = g("Div", g("Mul", x, most), scale)
    upwards = bool(call.attribute("round_type", 0))
    # Only the second way of rounding is symmetric: Paddle limits x itself then.
    limits = (g.number(n, x.dtype) for n in (-most if upwards else -most - 1, most))
    return g("Clip", away(g, steps) if upwards else g("Round", steps), *limits)


@operator("dequantize_linear")
def dequantize_linear(call: PaddleCall) -> Value:
    """Integers as the real numbers that they stand for."""
    g, x = call.g, call("x")
    call.attribute("round_type")
    scale = _scale(call, x)
    return g("Div", g("Mul", g.cast(x, scale.dtype), scale), _most(call))
