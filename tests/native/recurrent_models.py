"""Recurrent layers whose weights are integers of 8 bits behind DequantizeLinear."""

from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.ir.dims import Dim
from infuse.ir.graph import Value, constant
from tests.native.builder import Builder

GATES: Final = {"LSTM": 4, "GRU": 3, "RNN": 1}
GRAINS: Final = ("tensor", "rows", "directions", "blocks")
"""What shares a scale: all weights, a row of all directions, a direction, or a row."""


def quantized(b: Builder, directions: int, rows: int, k: int, grain: str) -> Value:
    """Weights [directions, rows, k] of integers."""
    integers = b.rng.integers(-127, 128, (directions, rows, k)).astype(np.int8)
    shapes = {
        "tensor": (),
        "rows": (rows,),
        "directions": (directions,),
        "blocks": (directions, rows, 1),
    }
    scales = b.rng.uniform(0.5, 2, shapes[grain]).astype(np.float32) / np.float32(127 * k**0.5)
    how: dict[str, Any] = {"rows": {"axis": 1}, "directions": {"axis": 0}}.get(grain, {})
    if grain == "blocks":
        how = {"axis": 2, "block_size": k}
    return b("DequantizeLinear", constant(integers), constant(np.asarray(scales)), **how)


def recurrent(
    kind: str,
    *,
    steps: Dim | str = 7,
    batch: Dim | str = 3,
    width: int = 11,
    hidden: int = 19,
    grain: str = "blocks",
    direction: str = "forward",
    has_lengths: bool = False,
    **how: Any,
) -> Builder:
    """One layer with all that it may read; outputs are all states and the last ones."""
    b = Builder()
    directions, gates = 1 + (direction == "bidirectional"), GATES[kind]
    x = b.input(steps, batch, width, name="x")
    w = quantized(b, directions, gates * hidden, width, grain)
    r = quantized(b, directions, gates * hidden, hidden, grain)
    lengths = b.input(batch, dtype=dtypes.int32, name="lengths") if has_lengths else None
    states = [b.input(directions, batch, hidden, name=n) for n in ("h", "c")[: 1 + (gates == 4)]]
    bias = b.weight(directions, 2 * gates * hidden)
    outputs = b.several(
        *(len(states) + 1, kind, x, w, r, bias, lengths, *states),
        hidden_size=hidden,
        direction=direction,
        **how,
    )
    b.output(*outputs)
    return b


def feeds_of(b: Builder, steps: int, batch: int) -> dict[str, Any]:
    """Random inputs; lengths are of every size, none among them."""
    feeds = b.feeds({"steps": steps, "batch": batch})
    if "lengths" in feeds:
        feeds["lengths"] = np.linspace(steps, 0, batch).astype(np.int32)
    return feeds
