"""Steps of recurrent networks that ONNX's operators do not have."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from infuse.immutable import Immutable
from infuse.ir.graph import Value
from infuse.tracing.importer import Importer

Activation = Callable[[Importer, Value], Value]


def product(g: Importer, x: Value, weights: Value) -> Value:
    """X · weightsᵀ."""
    return g("MatMul", x, g.permute(weights, 1, 0))


def clipped(g: Importer, value: Value, limit: float) -> Value:
    """A value between a limit and its negative; as it is where the limit is not positive."""
    if limit <= 0:
        return value
    low, high = (g.number(sign * limit, value.dtype) for sign in (-1, 1))
    return g("Clip", value, low, high)


class Gate(Immutable):
    """The weights of one gate: those of x, of the last result, and what there may be besides."""

    weights: Value
    recurrent: Value
    bias: Value
    peephole: Value | None
    scale: Value | None

    def value(self, g: Importer, x: Value, h: Value, c: Value) -> Value:
        """The gate before its activation."""
        z = g("Add", product(g, x, self.weights), product(g, h, self.recurrent))
        if self.peephole is not None:
            z = g("Add", z, g("Mul", c, self.peephole))
        if self.scale is not None:
            centred = g("Sub", z, g("ReduceMean", z, g.ints(-1), keepdims=1))
            variance = g("ReduceMean", g("Mul", centred, centred), g.ints(-1), keepdims=1)
            z = g("Mul", g("Div", centred, g("Sqrt", g("Add", variance, 1e-8))), self.scale)
        return g("Add", z, self.bias)


class Memory(Immutable):
    """An LSTM: gates (the input gate may be what the forget gate leaves), projection, limits."""

    input: Gate | None
    forget: Gate
    cell: Gate
    output: Gate
    projection: tuple[Value, Value | None] | None
    clips: tuple[float, float]
    activate: Activation
    is_tanh: bool

    def step(self, g: Importer, states: Sequence[Value], x: Value) -> tuple[list[Value], Value]:
        """New states and the result."""
        h, c = states
        forget = g("Sigmoid", self.forget.value(g, x, h, c))
        if self.input is None:
            entry = g("Sub", g.number(1, forget.dtype), forget)
        else:
            entry = g("Sigmoid", self.input.value(g, x, h, c))
        fresh = self.activate(g, self.cell.value(g, x, h, c))
        c = clipped(g, g("Add", g("Mul", forget, c), g("Mul", entry, fresh)), self.clips[0])
        gate = g("Sigmoid", self.output.value(g, x, h, c))
        h = g("Mul", gate, self.activate(g, c))
        if self.projection is not None:
            weights, bias = self.projection
            h = product(g, h, weights)
            h = clipped(g, h if bias is None else g("Add", h, bias), self.clips[1])
        return [h, c], h

    @property
    def plain(self) -> bool:
        """Whether it is the LSTM of ONNX."""
        gates = [self.forget, self.cell, self.output, *([self.input] if self.input else [])]
        return (
            self.projection is None
            and not any(self.clips)
            and self.is_tanh
            and self.input is not None
            and all(gate.scale is None and gate.peephole is None for gate in gates)
        )


class Block(Immutable):
    """A block of TensorFlow: in the order of gates of its second form (`newer`) or its first, with
    what it adds to the forget gate, and the limit of its cell.
    """

    newer: bool
    peephole: bool
    forget_bias: float
    clip: float


def block_lstm_step(
    g: Importer,
    x: Value,
    states: Sequence[Value],
    parts: Sequence[Value],
    block: Block,
) -> list[Value]:
    """One step of such a block: input gate, cell, forget gate, output gate, candidate, its
    activation, result.
    """
    c, h = states
    w, wci, wcf, wco, b = parts
    z = g("Add", g("MatMul", g("Concat", x, h, axis=1), w), b)
    gates = g.several(4, "Split", z, axis=1, num_outputs=4)
    # BlockLSTM orders its gates i, c, f, o; the second form i, f, c, o.
    i, ci, f, o = (gates[n] for n in ((0, 2, 1, 3) if block.newer else (0, 1, 2, 3)))
    if block.peephole:
        i, f = g("Add", i, g("Mul", c, wci)), g("Add", f, g("Mul", c, wcf))
    i = g("Sigmoid", i)
    f = g("Sigmoid", f if block.newer else g("Add", f, block.forget_bias))
    ci = g("Tanh", ci)
    cs = g("Add", g("Mul", ci, i), g("Mul", c, f))
    cs = clipped(g, cs, block.clip)
    if block.peephole:
        o = g("Add", o, g("Mul", cs, wco))
    o, co = g("Sigmoid", o), g("Tanh", cs)
    return [i, cs, f, o, ci, co, g("Mul", o, co)]
