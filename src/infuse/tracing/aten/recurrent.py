"""Recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from infuse import dtypes
from infuse.errors import UnsupportedOperatorError
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.tracing.aten.calls import TorchImporter, aten

_ORDER: Final = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}
"""Where torch has the gates that the operators want one after the other."""


def _gates(g: TorchImporter, kind: str, value: Value, hidden: int) -> Value:
    """Weights or biases with their gates in the operators' order."""
    order = _ORDER[kind]
    if len(order) == 1:
        return value
    parts = [g.slice(value, 0, i * hidden, (i + 1) * hidden) for i in order]
    return g("Concat", *parts, axis=0)


def _stacked(g: TorchImporter, values: Sequence[Value]) -> Value:
    rows = [g("Unsqueeze", value, g.ints(0)) for value in values]
    return rows[0] if len(rows) == 1 else g("Concat", *rows, axis=0)


class _Layers:
    """The layers of one network. Each is an operator, whose directions come one after the other;
    with projections, a loop for each direction.
    """

    def __init__(
        self,
        kind: str,
        params: Sequence[Value],
        biases: bool,
        directions: int,
        projected: bool = False,
    ) -> None:
        self.kind, self.biases, self.directions = kind, biases, directions
        self.projected = projected
        size = (4 if biases else 2) + projected
        self.cells = [params[i : i + size] for i in range(0, len(params), size)]
        hidden = params[1].shape[1]
        if not isinstance(hidden, int):
            raise UnsupportedOperatorError(f"a {kind} with weights of computed sizes")
        self.hidden = hidden

    def run(
        self, g: TorchImporter, number: int, x: Value, states: Sequence[Value], **more: Any
    ) -> list[Value]:
        """What a layer makes of x (length, batch, size), and its last states."""
        cells = self.cells[number * self.directions : (number + 1) * self.directions]
        if self.projected:
            return _projected(g, cells, x, states)
        w, r = (
            _stacked(g, [_gates(g, self.kind, c[i], self.hidden) for c in cells]) for i in (0, 1)
        )
        bias = None
        if self.biases:
            both = [[_gates(g, self.kind, c[i], self.hidden) for i in (2, 3)] for c in cells]
            bias = _stacked(g, [g("Concat", *pair, axis=0) for pair in both])
        outputs = g.several(
            1 + len(states),
            self.kind,
            x,
            w,
            r,
            bias,
            None,
            *states,
            hidden_size=self.hidden,
            direction="bidirectional" if self.directions == 2 else "forward",
            **more,
        )
        # (length, directions, batch, hidden) → (length, batch, directions · hidden)
        if self.directions == 1:
            outputs[0] = g("Squeeze", outputs[0], g.ints(1))
        else:
            turned = g.permute(outputs[0], 0, 2, 1, 3)
            length, batch = (g.size_of(turned, axis) for axis in (0, 1))
            outputs[0] = g.shaped(turned, length, batch, self.directions * self.hidden)
        return outputs


def _projected(
    g: TorchImporter, cells: Sequence[Sequence[Value]], x: Value, states: Sequence[Value]
) -> list[Value]:
    """What the directions of an LSTM make of x (length, batch, size) whose results are projected
    before they are read again, and their last states.
    """
    outputs, last = [], []
    for number, (w, r, *biases, projection) in enumerate(cells):
        gates = g("MatMul", x, g.permute(w, 1, 0))
        for bias in biases:
            gates = g("Add", gates, bias)
        body = g.body("body")
        h, c = (
            body.typed_input(name, TensorType(x.dtype, state.shape[1:]))
            for name, state in zip("hc", states)
        )
        z = body.typed_input("gates", TensorType(x.dtype, gates.shape[1:]))
        z = body("Add", z, body("MatMul", h, body.permute(r, 1, 0)))
        entry, forget, fresh, out = body.several(4, "Split", z, axis=-1, num_outputs=4)
        kept = body("Mul", body("Sigmoid", forget), c)
        c = body("Add", kept, body("Mul", body("Sigmoid", entry), body("Tanh", fresh)))
        h = body("Mul", body("Sigmoid", out), body("Tanh", c))
        h = body("MatMul", h, body.permute(projection, 1, 0))
        for name, value in (("h", h), ("c", c), ("y", h)):
            body.output(f"{name}_out", body("Identity", value))
        start = [g("Gather", state, g.number(number, dtypes.int64), axis=0) for state in states]
        *ends, y = g.control(
            3, "Scan", *start, gates, bodies={"body": body}, num_scan_inputs=1,
            scan_input_directions=(number,), scan_output_directions=(number,),
        )  # fmt: skip
        outputs.append(y)
        last.append([g("Unsqueeze", end, g.ints(0)) for end in ends])
    if len(cells) == 1:
        return [outputs[0], *last[0]]
    return [g("Concat", *outputs, axis=-1), *(g("Concat", *pair, axis=0) for pair in zip(*last))]


def _network(kind: str, **more: Any) -> Any:
    def build(
        g: TorchImporter,
        x: Value,
        hx: Any,
        params: Sequence[Value],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> list[Value]:
        if train and dropout:
            raise g.unsupported("dropout in training mode")
        if not isinstance(has_biases, bool):
            raise g.unsupported(f"a {kind} of packed sequences")
        states = list(hx) if kind == "LSTM" else [hx]
        directions = 2 if bidirectional else 1
        size = (4 if has_biases else 2) * directions * num_layers
        layers = _Layers(kind, params, has_biases, directions, projected=len(params) > size)
        y = g.permute(x, 1, 0, 2) if batch_first else x
        finals: list[list[Value]] = [[] for _ in states]
        for number in range(num_layers):
            first = number * directions
            mine = [g.slice(state, 0, first, first + directions) for state in states]
            y, *last = layers.run(g, number, y, mine, **more)
            for row, value in zip(finals, last, strict=True):
                row.append(value)
        y = g.permute(y, 1, 0, 2) if batch_first else y
        return [y, *(r[0] if len(r) == 1 else g("Concat", *r, axis=0) for r in finals)]

    return build


aten("lstm.input")(_network("LSTM"))
aten("gru.input")(_network("GRU", linear_before_reset=1))
aten("rnn_tanh.input")(_network("RNN"))


@aten("rnn_relu.input")
def rnn_relu(g: TorchImporter, x: Value, hx: Value, params: Any, *arguments: Any) -> list[Value]:
    """A recurrent layer with relu."""
    directions = 2 if arguments[4] else 1
    build = _network("RNN", activations=("Relu",) * directions)
    return list(build(g, x, hx, params, *arguments))


def _cell(kind: str, **more: Any) -> Any:
    def build(
        g: TorchImporter,
        x: Value,
        hx: Any,
        w_ih: Value,
        w_hh: Value,
        b_ih: Value | None = None,
        b_hh: Value | None = None,
    ) -> Any:
        params = [w_ih, w_hh] if b_ih is None or b_hh is None else [w_ih, w_hh, b_ih, b_hh]
        states = [g("Unsqueeze", h, g.ints(0)) for h in (hx if kind == "LSTM" else [hx])]
        layers = _Layers(kind, params, len(params) == 4, 1)
        outputs = layers.run(g, 0, g("Unsqueeze", x, g.ints(0)), states, **more)
        last = [g("Squeeze", state, g.ints(0)) for state in outputs[1:]]
        return last if kind == "LSTM" else last[0]

    return build


aten("lstm_cell")(_cell("LSTM"))
aten("gru_cell")(_cell("GRU", linear_before_reset=1))
aten("rnn_tanh_cell")(_cell("RNN"))
aten("rnn_relu_cell")(_cell("RNN", activations=("Relu",)))
