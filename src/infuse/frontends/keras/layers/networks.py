"""Recurrent layers that are one operator of ONNX: LSTM, GRU, RNN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from infuse.frontends.keras.calls import KerasCall
from infuse.frontends.keras.layers.activations import function_name
from infuse.frontends.keras.layers.cells import Cell, reset_after
from infuse.ir.graph import Array, Value

_ACTIVATIONS: Final = {"tanh": "Tanh", "sigmoid": "Sigmoid", "relu": "Relu"}
_GATES: Final[dict[str, tuple[int, ...]]] = {
    "LSTMCell": (0, 3, 1, 2),
    "GRUCell": (0, 1, 2),
    "SimpleRNNCell": (0,),
}
"""Which gate of Keras stands at each place of the operator."""
_KINDS: Final = {"LSTMCell": "LSTM", "GRUCell": "GRU", "SimpleRNNCell": "RNN"}


def network(
    call: KerasCall, cell: Cell, x: Value, states: Sequence[Value], backward: bool
) -> tuple[Value, list[Value]] | None:
    """The results in the order of the times and the last states, by one operator; None where none
    does the same.
    """
    own = cell.call
    activations = None if own is None else _activations(own)
    if own is None or activations is None:
        return None
    g, kind = call.g, own.layer.kind
    gates, units = _GATES[kind], own.config.whole("units")
    w, r = (_rows(own.needed(name, 2), gates, units) for name in ("kernel", "recurrent_kernel"))
    bias = _bias(own, gates, units)
    options: dict[str, Any] = {"hidden_size": units, "activations": activations}
    options["direction"] = "reverse" if backward else "forward"
    if kind == "GRUCell":
        options["linear_before_reset"] = int(reset_after(own))
    times = g.permute(x, 1, 0, 2)
    operands = [own.constant(w, "kernel"), own.constant(r, "recurrent_kernel")]
    b = None if bias is None else own.constant(bias, "bias")
    first = [call.unsqueezed(state, 0) for state in states]
    y, *last = g.several(1 + len(first), _KINDS[kind], times, *operands, b, None, *first, **options)
    sequence = g.permute(call.squeezed(y, 1), 1, 0, 2)
    return sequence, [call.squeezed(state, 0) for state in last]


def _activations(call: KerasCall) -> tuple[str, ...] | None:
    fields = (("recurrent_activation", "sigmoid"), ("activation", "tanh"))
    chosen = (call.config.get(field, default) for field, default in fields)
    functions = [function_name(each, call.runner.generation) for each in chosen]
    names = [_ACTIVATIONS.get(function or "") for function in functions]
    gate, inner = names
    if inner is None or (gate is None and call.layer.kind != "SimpleRNNCell"):
        return None
    if call.layer.kind == "SimpleRNNCell":
        return (inner,)
    assert gate is not None
    return (gate, inner, inner) if call.layer.kind == "LSTMCell" else (gate, inner)


def _rows(kernel: Array, gates: Sequence[int], units: int) -> Array:
    """Weights of the gates, in rows."""
    parts = [kernel[:, gate * units : (gate + 1) * units].T for gate in gates]
    return np.concatenate(parts)[None]


def _bias(call: KerasCall, gates: Sequence[int], units: int) -> Array | None:
    bias = call.array("bias")
    if bias is None:
        return None
    both = bias if bias.ndim == 2 else np.stack([bias, np.zeros_like(bias)])
    order = [slice(gate * units, (gate + 1) * units) for gate in gates]
    return np.concatenate([side[part] for side in both for part in order])[None]
