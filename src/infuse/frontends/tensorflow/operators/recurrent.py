"""Blocks of recurrent networks."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.frontends.tensorflow.calls import FlowCall, operator
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.tracing.semantics.recurrent import Block, block_lstm_step


def _block(call: FlowCall, newer: bool) -> Block:
    return Block(
        newer,
        bool(call.option("use_peephole", False)),
        float(call.option("forget_bias", 1.0)),
        float(call.option("cell_clip", 0.0 if newer else 3.0)),
    )


@operator("LSTMBlockCell")
def lstm_cell(call: FlowCall) -> list[Value]:
    """One step of an LSTM."""
    x, c, h, *parts = (call.raw(i) for i in range(8))
    return block_lstm_step(call.g, x, (c, h), parts, _block(call, newer=False))


@operator("BlockLSTM", "BlockLSTMV2")
def block_lstm(call: FlowCall) -> list[Value]:
    """An LSTM over the first times, as many as operand 0 says; zeros afterwards."""
    g = call.g
    length, x, c, h, *parts = (call.raw(i) for i in range(9))
    newer = call.node.op == "BlockLSTMV2"
    inner = g.body("body")
    states = [inner.typed_input(f"state_{i}", v.type) for i, v in enumerate((c, h))]
    number = g("Range", *(g.constant(np.array(n, np.int64)) for n in (0,)), *_limits(call, x))
    step = inner.typed_input("x", TensorType(x.dtype, x.shape[1:]))
    place = inner.typed_input("place", TensorType(dtypes.int64, ()))
    made = block_lstm_step(inner, step, states, parts, _block(call, newer))
    alive = inner("Less", place, g.cast(g("Reshape", length, g.ints()), dtypes.int64))
    zero = g.constant(np.zeros((), x.dtype.numpy))
    rows = [inner("Where", alive, value, zero) for value in made]
    last = [inner("Where", alive, made[n], s) for n, s in zip((1, 6), states)]
    for index, value in enumerate((*last, *rows)):
        inner.output(f"output_{index}", inner("Identity", value))
    results = g.control(9, "Scan", c, h, x, number, bodies={"body": inner}, num_scan_inputs=2)
    return results[2:]


def _limits(call: FlowCall, x: Value) -> list[Any]:
    g = call.g
    size = g.size_of(x, 0)
    end = g.constant(np.array(size, np.int64)) if isinstance(size, int) else size
    return [end, g.constant(np.array(1, np.int64))]


@operator("GRUBlockCell")
def gru_cell(call: FlowCall) -> list[Value]:
    """One step of a GRU: its gates, its candidate, its result."""
    g = call.g
    x, h, w_gates, w, b_gates, b = (call.raw(i) for i in range(6))
    z = g("Add", g("MatMul", g("Concat", x, h, axis=1), w_gates), b_gates)
    r, u = g.several(2, "Split", g("Sigmoid", z), axis=1, num_outputs=2)
    joined = g("Concat", x, g("Mul", r, h), axis=1)
    c = g("Tanh", g("Add", g("MatMul", joined, w), b))
    fresh = g("Mul", g("Sub", g.number(1, u.dtype), u), c)
    return [r, u, c, g("Add", g("Mul", u, h), fresh)]
