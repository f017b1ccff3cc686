"""Recurrent operators: their states are variables, which a run reads and leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from infuse.errors import ModelFileError
from infuse.frontends.tflite.calls import LiteCall, activation, builtin
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.tracing.importer import Importer
from infuse.tracing.semantics.recurrent import Gate, Memory, product

Step = Callable[[Importer, Sequence[Value], Value], tuple[Sequence[Value], Value]]
"""New states and the result, of states and the operand of one time."""
_TANH: Final = 4


def _floats(call: LiteCall, *operands: int) -> list[Value]:
    """Operands that are no scaled integers."""
    if call.tensor(0).quantized:
        raise call.unsupported("its form for scaled integers")
    return [call.real(index) for index in operands]


def _scanned(
    call: LiteCall, states: Sequence[int], x: Value, time: int, step: Step, backward: bool = False
) -> Value:
    """The results of all times; the variables that are the states get their last values."""
    g, inner = call.g, call.g.body("body")
    if x.rank != 3:
        raise ModelFileError(f"its operand has {x.rank} axes, not three")
    values = [call.raw(index) for index in states]
    insides = [inner.typed_input(f"state_{i}", value.type) for i, value in enumerate(values)]
    rest = tuple(size for axis, size in enumerate(x.shape) if axis != time)
    made, y = step(inner, insides, inner.typed_input("x", TensorType(x.dtype, rest)))
    for number, value in enumerate([*made, y]):
        inner.output(f"output_{number}", inner("Identity", value))
    *last, results = g.control(
        len(values) + 1,
        "Scan",
        *values,
        x,
        bodies={"body": inner},
        num_scan_inputs=1,
        scan_input_axes=(time,),
        scan_output_axes=(time,),
        scan_input_directions=(int(backward),),
        scan_output_directions=(int(backward),),
    )
    for index, value in zip(states, last):
        call.scope.set(call.number(index), value)
    return results


def _time(call: LiteCall) -> int:
    return 0 if call.option("time_major", False) else 1


# -- simple cells ----------------------------------------------------------------------------------


def _cell(call: LiteCall, first: int) -> Step:
    """act(x · Wᵀ + h · Rᵀ + b) with the operands from this one on."""
    weights, recurrent, bias = _floats(call, first, first + 1, first + 2)
    kind = int(call.option("activation"))

    def step(g: Importer, states: Sequence[Value], x: Value) -> tuple[Sequence[Value], Value]:
        total = g("Add", product(g, x, weights), bias)
        y = activation(g, kind, g("Add", total, product(g, states[0], recurrent)))
        return [y], y

    return step


@builtin("RNN")
def rnn(call: LiteCall) -> Value:
    """One step of a recurrent network."""
    (state,), y = _cell(call, 1)(call.g, [call.raw(4)], call.real(0))
    call.scope.set(call.number(4), state)
    return y


@builtin("UNIDIRECTIONAL_SEQUENCE_RNN")
def sequence_rnn(call: LiteCall) -> Value:
    """A recurrent network over all times."""
    return _scanned(call, [4], call.real(0), _time(call), _cell(call, 1))


@builtin("BIDIRECTIONAL_SEQUENCE_RNN")
def bidirectional_rnn(call: LiteCall) -> list[Value]:
    """Two recurrent networks, one of which goes backward."""
    if any(call.has(index) for index in range(9, call.count)):
        raise call.unsupported("an auxiliary operand")
    x, time = call.real(0), _time(call)
    forward = _scanned(call, [4], x, time, _cell(call, 1))
    backward = _scanned(call, [8], x, time, _cell(call, 5), backward=True)
    return _merged(call, forward, backward)


def _merged(call: LiteCall, forward: Value, backward: Value) -> list[Value]:
    if call.option("merge_outputs", False):
        return [call.g("Concat", forward, backward, axis=2)]
    return [forward, backward]


@builtin("SVDF")
def svdf(call: LiteCall) -> Value:
    """A filter over the features of one time, then one over the last times."""
    g = call.g
    x, features, times = _floats(call, 0, 1, 2)
    state, rank = call.raw(4), int(call.option("rank"))
    filters, memory = times.shape
    if not isinstance(filters, int) or not isinstance(memory, int) or rank < 1 or filters % rank:
        raise ModelFileError(f"it has {filters} filters of rank {rank} over {memory} times")
    old = g(
        "Slice",
        g("Reshape", state, g.ints(-1, filters, memory)),
        g.ints(1),
        g.ints(memory),
        g.ints(2),
    )
    new = g("Concat", old, g("Unsqueeze", product(g, x, features), g.ints(2)), axis=2)
    call.scope.set(call.number(4), g("Reshape", new, g.ints(-1, filters * memory)))
    filtered = g("ReduceSum", g("Mul", new, times), g.ints(2), keepdims=0)
    y = g("Reshape", filtered, g.ints(-1, filters // rank, rank))
    y = g("ReduceSum", y, g.ints(2), keepdims=0)
    if call.has(3):
        y = g("Add", y, call.real(3))
    return call.activated(y)


# -- long short-term memory ------------------------------------------------------------------------


def _activated(kind: int, g: Importer, value: Value) -> Value:
    return activation(g, kind, value)


def _memory(call: LiteCall, first: int, scales: int | None) -> Memory:
    """The LSTM whose weights begin at this operand, its layer normalization at that one."""
    _floats(call)
    if (call.operator.options or {}).get("diagonal_recurrent_tensors"):
        raise call.unsupported("a diagonal of recurrent weights")

    def part(index: int) -> Value | None:
        return call.real(index) if call.has(index) else None

    def gate(number: int, peephole: int | None) -> Gate:
        return Gate(
            call.real(first + number),
            call.real(first + 4 + number),
            call.real(first + 11 + number),
            None if peephole is None else part(first + 8 + peephole),
            None if scales is None else part(scales + number),
        )

    projection, kind = part(first + 15), int(call.option("activation", _TANH))
    return Memory(
        gate(0, 0) if call.has(first) else None,
        gate(1, 1),
        gate(2, None),
        gate(3, 2),
        None if projection is None else (projection, part(first + 16)),
        (float(call.option("cell_clip", 0.0)), float(call.option("proj_clip", 0.0))),
        partial(_activated, kind),
        kind == _TANH,
    )


def _sequence(call: LiteCall, memory: Memory, states: list[int], backward: bool = False) -> Value:
    x, time = call.real(0), _time(call)
    if not memory.plain or x.rank != 3:
        return _scanned(call, states, x, time, memory.step, backward)
    g = call.g
    order = [memory.input, memory.output, memory.forget, memory.cell]
    gates = [gate for gate in order if gate is not None]
    joined = [
        g("Unsqueeze", g("Concat", *(getattr(gate, name) for gate in gates), axis=0), g.ints(0))
        for name in ("weights", "recurrent", "bias")
    ]
    weights, recurrent, bias = joined
    both = g("Concat", bias, g("Mul", bias, 0.0), axis=1)
    h, c = (g("Unsqueeze", call.raw(index), g.ints(0)) for index in states)
    hidden = recurrent.shape[2]
    if not isinstance(hidden, int):
        raise call.unsupported("an unknown number of cells")
    xs = x if time == 0 else g.permute(x, 1, 0, 2)
    y, h, c = g.several(
        3,
        "LSTM",
        xs,
        weights,
        recurrent,
        both,
        None,
        h,
        c,
        hidden_size=hidden,
        direction="reverse" if backward else "forward",
    )
    for index, value in zip(states, (h, c)):
        call.scope.set(call.number(index), g("Squeeze", value, g.ints(0)))
    y = g("Squeeze", y, g.ints(1))
    return y if time == 0 else g.permute(y, 1, 0, 2)


@builtin("UNIDIRECTIONAL_SEQUENCE_LSTM")
def sequence_lstm(call: LiteCall) -> Value:
    """An LSTM over all times."""
    memory = _memory(call, 1, 20 if call.count > 20 else None)
    return _sequence(call, memory, [18, 19])


@builtin("BIDIRECTIONAL_SEQUENCE_LSTM")
def bidirectional_lstm(call: LiteCall) -> list[Value]:
    """Two LSTMs, one of which goes backward."""
    if any(call.has(index) for index in range(39, call.count)):
        raise call.unsupported("an auxiliary operand")
    forward = _sequence(call, _memory(call, 1, None), [35, 36])
    backward = _sequence(call, _memory(call, 18, None), [37, 38], backward=True)
    return _merged(call, forward, backward)


@builtin("LSTM")
def lstm(call: LiteCall) -> list[Value]:
    """One step of an LSTM."""
    kind = call.option("kernel_type")
    if kind == 1:
        return _basic(call)
    if kind != 0:
        raise ModelFileError(f"there is no kernel {kind} of it")
    memory = _memory(call, 1, 20 if call.count > 20 else None)
    states, y = memory.step(call.g, [call.raw(18), call.raw(19)], call.real(0))
    for index, value in zip((18, 19), states):
        call.scope.set(call.number(index), value)
    return [y]


def _basic(call: LiteCall) -> list[Value]:
    """The form whose gates are one product, and whose states are operands and results."""
    g = call.g
    x, h, weights, bias, c = _floats(call, 0, 1, 2, 3, 4)
    both = g("Concat", x, h, axis=1)
    z = g("Add", product(g, both, weights), bias)
    entry, fresh, forget, gate = g.several(4, "Split", z, axis=1, num_outputs=4)
    c = g("Add", g("Mul", g("Sigmoid", entry), g("Tanh", fresh)), g("Mul", g("Sigmoid", forget), c))
    return [g("Mul", g("Sigmoid", gate), g("Tanh", c)), c, both, z]
