"""Recurrent layers."""

from __future__ import annotations

from typing import Any, Final

from infuse.frontends.mindspore.calls import MindCall, primitive
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import handler_of

_GATES: Final = 4


@primitive("LSTM")
def lstm(call: MindCall) -> list[Any]:
    """LSTM over x (length, batch, size), of weights that lie one after the other: of every layer
    and direction those of x, those of the state, and the sums of both biases.
    """
    g, x, h, c, packed = call.g, *(call.value(i) for i in range(4))
    size, hidden, layers = (
        int(call.attribute(name)) for name in ("input_size", "hidden_size", "num_layers")
    )
    biases, both = bool(call.attribute("has_bias")), bool(call.attribute("bidirectional"))
    call.ignore("dropout")
    if call.attribute("proj_size", 0):
        raise call.unsupported("proj_size")
    flat, place = g.shaped(packed, -1), 0

    def part(*shape: int) -> Value:
        nonlocal place
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        place += count
        return g.shaped(g.slice(flat, 0, place - count, place), *shape)

    directions = 2 if both else 1
    rows = _GATES * hidden
    cells = layers * directions
    sizes = [size if i < directions else hidden * directions for i in range(cells)]
    inputs: list[tuple[Value, Value]] = [(part(rows, n), part(rows, hidden)) for n in sizes]
    params: list[Value] = []
    for pair in inputs:
        params += pair
        if biases:
            params += [part(rows), g.expand(g.number(0, x.dtype), [rows])]
    handler = handler_of("aten.lstm.input")
    assert handler is not None
    made = handler(g, x, [h, c], params, biases, layers, 0.0, False, both, False)
    return [*made, None, None]
