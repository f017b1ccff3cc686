"""Recurrent layers: the inputs of all gates in one product, then a walk along the sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.immutable import Immutable
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value, constant
from infuse.lowering.expressions import Aggregate, Expression, FieldOf, elements, infix
from infuse.lowering.fp16_weights import weight_type
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand, row_major
from infuse.lowering.tensors import Order, Tensor, dense, natural
from infuse.lowering.writer import FunctionWriter
from infuse.ops.recurrent_base import Recurrent
from infuse.targets import DotType
from infuse.targets.cpu.lower.gate_weights import integer_rows, quads_of
from infuse.targets.cpu.lower.recurrent_cells import Cells
from infuse.targets.cpu.table import lowers

QUAD = 4
"""Products of bytes that an instruction adds up."""
DIGITS = 3
"""Bytes of a state as an integer (kernels/gate_words.hpp)."""
MOST_OF_QUADS = 1 << 16
"""Products whose sums 32 bits hold."""
_MOST_BLOCKS = {1: 4, 2: 2, 3: 1, 4: 1}
"""Blocks of hidden units that share a unit of packed weights, by the number of gates: about four
vectors.
"""


class Pass(Immutable):
    """One product of a step: gates [first, first + gates) of all hidden units, `blocks` vectors of
    them side by side.

    `column` is where its gates begin among those of X · Wᵀ, `shared` how many take both biases at
    once.
    """

    first: int
    gates: int
    blocks: int
    units: Dim
    column: Dim
    shared: int

    @property
    def vectors(self) -> int:
        """Vectors of a unit."""
        return self.gates * self.blocks


class _Weights(Immutable):
    """Packed weights of a pass: numbers, or integers of 8 bits with the scales of their columns;
    `sums` are those of the columns where four integers of each lie side by side.
    """

    numbers: Tensor
    scales: Tensor | None = None
    sums: Tensor | None = None


class GateWeights:
    """Packs the weights of a node, for each of its passes: when it is lowered where they are known,
    else by a step. `width`: elements of a vector; `null`: a pointer to no biases.
    """

    def __init__(
        self, low: Lowering, node: Node, passes: Sequence[Pass], hidden: Dim, width: int, null: str
    ) -> None:
        assert isinstance(node.op, Recurrent)
        self.low, self.node, self.passes = low, node, passes
        self.hidden, self.width, self.null = hidden, width, null
        self.gates, self.directions = node.op.gates, node.op.directions
        self.dtype = node.output.dtype

    def of(self, value: Value, k: Dim) -> list[_Weights]:
        """W or R of each pass, in quads where the machine adds up four products at once."""
        rows = integer_rows(value)
        if rows is None:
            return [_Weights(self.packed(value, one, k)) for one in self.passes]
        integers, scales = (constant(np.ascontiguousarray(a)) for a in (rows.integers, rows.scales))
        numbers = [self.packed(scales, one, 1, is_exact=True) for one in self.passes]
        if not self._has_quads(rows.integers.shape[2]):
            parts = [self.packed(integers, one, k) for one in self.passes]
            return [_Weights(*pair) for pair in zip(parts, numbers)]
        totals = constant(rows.integers.sum(2, dtype=np.int32))
        parts = [self.packed(integers, one, k, in_quads=True) for one in self.passes]
        sums = [self.packed(totals, one, 1, is_exact=True) for one in self.passes]
        return [_Weights(*each) for each in zip(parts, numbers, sums)]

    def _has_quads(self, k: int) -> bool:
        unit = self.low.machine.dot(DotType.U8S8)
        return unit is not None and unit.products == QUAD and k <= MOST_OF_QUADS

    def packed(
        self,
        weights: Value,
        one: Pass,
        k: Dim,
        *,
        halves: int = 1,
        is_exact: bool = False,
        in_quads: bool = False,
    ) -> Tensor:
        """[directions][unit][k][block][gate][width] of one pass, from
        [directions][halves][gates][hidden][k].

        `halves` is 2 for biases, which are `is_exact` as scales are: stored as they are. With
        `in_quads`, four k lie side by side, filled up with zeros.
        """
        depth = dims.ceildiv(k, QUAD) * QUAD if in_quads else k
        size = one.units * (one.vectors * self.width) * depth
        if (
            weights.const is not None
            and isinstance(size, int)
            and isinstance(k, int)
            and isinstance(self.hidden, int)
        ):
            count, (hidden, width) = self.directions * size, (self.hidden, self.width)
            shape = (self.directions, halves, self.gates, hidden, k)
            dtype = weights.dtype if is_exact else weight_type(self.low, weights)
            how = (
                "gates",
                one.first,
                one.gates,
                one.blocks,
                one.shared,
                halves,
                hidden,
                width,
                dtype.name,
                in_quads,
            )

            def make(w: Any) -> Any:
                packed = pack_gates(w.reshape(shape), one, width)
                return (quads_of(packed) if in_quads else packed).astype(dtype.numpy, copy=False)

            buffer = self.low.program.weights.add(weights.const, how, dtype.bytes * count, make)
            return dense(buffer, dtype, (self.directions, size))
        return self._packed_in_run(weights, one, k, halves, size)

    def _packed_in_run(self, weights: Value, one: Pass, k: Dim, halves: int, size: Dim) -> Tensor:
        """What `packed` gives, of weights that only the run has, by a step."""
        source = row_major(self.low, weights)
        target = self.low.storage.scratch_tensor(self.dtype, (self.directions, size), natural(2))
        f = self.low.function("pack_gates", self.node)
        f.include("recurrent.hpp")
        read, write, hidden_, rows = (
            f.read(source),
            f.write(target),
            f.number(self.hidden),
            f.number(k),
        )
        stride = f.number(self.hidden * k * (self.gates * halves))
        also: Expression = self.null
        if halves == 2:
            also = infix("from", "+", infix(f"{self.gates}L", "*", hidden_, rows))
        both = one.shared if halves == 2 else 0
        place = infix(write, "+", infix("i", "*", f.number(size)))
        before = infix(f"{one.first}L", "*", hidden_, rows)
        first = infix(read, "+", infix("i", "*", stride), before)
        counts = both, one.gates, hidden_, rows, one.blocks
        with f.repeat(infix("i", "<", f"{self.directions}L")):
            f.constant("from", first, type="auto*")
            f.call("recur::pack_gates", "from", also, *counts, place)
        f.finish(f"{self.node.kind}: pack")
        return target


class Layer:
    """The lowering of one recurrent node."""

    def __init__(self, low: Lowering, node: Node) -> None:
        assert isinstance(node.op, Recurrent)
        self.low, self.node, self.op = low, node, node.op
        self.x, self.w, self.r = (operand(node, i) for i in range(3))
        self.dtype: DType = node.output.dtype
        if self.dtype not in (dtypes.float32, dtypes.float64):
            low.unsupported(node, f"element type {self.dtype}")
        self.width = low.lanes if self.dtype == dtypes.float32 else 1
        self.null = f"(const {self.dtype.c_name}*)nullptr"
        self.directions = self.op.directions
        shape = node.output.shape
        self.hidden = shape[3]
        self.time, self.batch = (
            (shape[0], shape[2]) if self.op.layout == 0 else (shape[1], shape[0])
        )
        linear = self.op.attributes().get("linear_before_reset", 0)
        parts = {1: [(1, 1)], 3: [(3, 2)] if linear else [(2, 2), (1, 1)], 4: [(4, 4)]}[
            self.op.gates
        ]
        self.passes: list[Pass] = []
        self.columns: Dim = 0
        for gates, shared in parts:
            blocks = self._blocks(gates)
            units = dims.ceildiv(self.hidden, blocks * self.width)
            first = sum(p.gates for p in self.passes)
            self.passes.append(Pass(first, gates, blocks, units, self.columns, shared))
            self.columns = self.columns + units * (gates * blocks * self.width)
        self.weights = GateWeights(low, node, self.passes, self.hidden, self.width, self.null)

    def _blocks(self, gates: int) -> int:
        """As many as fit, but few that are zeros."""
        most = _MOST_BLOCKS[gates]
        if not isinstance(self.hidden, int) or self.hidden == 0:
            return most
        vectors = -(-self.hidden // self.width)
        return -(-vectors // -(-vectors // most))

    def _digits(self, rows: Dim, k: Dim) -> tuple[Tensor, Tensor]:
        """Memory for the digits of rows, and for their steps."""
        words = (rows, DIGITS * dims.ceildiv(k, QUAD))
        return (
            self.low.storage.scratch_tensor(dtypes.int32, words, natural(2)),
            self.low.storage.scratch_tensor(self.dtype, (rows,), natural(1)),
        )

    def _input_digits(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The digits of the input, and their steps: by a step of their own."""
        rows, k = self.time * self.batch, self.x.shape[2]
        digits = self._digits(rows, k)
        f = self.low.function("input_digits", self.node)
        f.include("recurrent.hpp")
        f.call(
            "recur::input_digits", *f.numbers(rows, k).split(", "), f.read(x), *map(f.write, digits)
        )
        f.finish(f"{self.node.kind}: digits of the input")
        return digits

    # -- X · Wᵀ ------------------------------------------------------------------------------------

    def inputs(self) -> tuple[Tensor, tuple[Dim, Dim]]:
        """The gates of X · Wᵀ with biases, and how far it is from one step and from one example to
        the next.
        """
        tensor = self.low.storage.tensor(self.x)
        order = next((o for o in ((0, 1, 2), (1, 0, 2)) if tensor.is_dense(o)), natural(3))
        tensor = self.low.storage.dense(self.x, order)
        total = self.columns * self.directions
        result = self.low.storage.scratch_tensor(
            self.dtype, (self.time * self.batch, total), natural(2)
        )
        k, bias = self.x.shape[2], self.node.input(3)
        weights = self.weights.of(self.w, k)
        biases = [
            None if bias is None else self.weights.packed(bias, one, 1, halves=2, is_exact=True)
            for one in self.passes
        ]
        f = self.low.function("gate_inputs", self.node)
        f.include("recurrent.hpp")
        read, write = f.read(tensor), f.write(result)
        rows, depth, columns, all_columns = f.numbers(
            self.time * self.batch, k, self.columns, total
        ).split(", ")
        kernel, digits = "recur::gate_inputs", [depth]
        if weights[0].sums is not None:
            kernel = "recur::gate_inputs_of_digits"
            digits = [f.read(each) for each in self._input_digits(tensor)]
        for one, w, b in zip(self.passes, weights, biases):
            units = f.number(one.units)
            shift: Expression = self.null
            if b is not None:
                shift = infix(f.read(b), "+", infix("i", "*", f.number(b.shape[1])))
            place = infix(write, "+", infix("i", "*", columns), f.number(one.column))
            operands = [read, *digits, *self._places(f, w, "i"), shift]
            with f.repeat(infix("i", "<", f"{self.directions}L")):
                f.call(
                    kernel,
                    rows,
                    depth,
                    units,
                    *operands,
                    all_columns,
                    place,
                    template=(one.vectors,),
                )
        f.finish(f"{self.node.kind}: inputs")
        time_first = (order[0] == 0) == (self.op.layout == 0)
        return result, (total * self.batch, total) if time_first else (total, total * self.time)

    # -- the walk ----------------------------------------------------------------------------------

    def walk(self) -> None:
        """The step that goes along the sequence."""
        low, node = self.low, self.node
        arguments, strides = self.inputs()
        weights = self.weights.of(self.r, self.hidden)
        states = low.storage.scratch_tensor(
            self.dtype, (self.directions, 5, self.batch, self.hidden), natural(4)
        )
        live = low.storage.scratch_tensor(dtypes.int64, (self.directions, self.batch), natural(2))
        f = low.function(node.kind.lower(), node)
        f.include("recurrent.hpp", "failure.h")
        c = self.dtype.c_name
        f.text("using namespace recur;")
        f.variable(f"Recurrent<{c}>", r=elements())
        fields: dict[str, Dim] = {"steps": self.time, "batch": self.batch, "hidden": self.hidden}
        fields |= {"directions": self.directions, "x_time": strides[0], "x_batch": strides[1]}
        fields["x_direction"] = self.columns
        pointers = {"x": f.read(arguments), "states": f.write(states)}
        pointers["live"] = f"(isize*){f.write(live)}"
        if weights[0].sums is not None:
            words, steps = map(f.write, self._digits(self.directions * self.batch, self.hidden))
            pointers |= {"words": words, "digit_steps": steps}
        self._states(f, fields, pointers)
        self._outputs(f, fields, pointers)
        for name, size in fields.items():
            f.assign(FieldOf("r", name), f.number(size))
        for name, pointer in pointers.items():
            f.assign(FieldOf("r", name), pointer)
        f.assign(FieldOf("r", "reverse"), "true" if self.op.direction == "reverse" else "false")
        self._step(f, weights)
        f.call("recurrent", "r", "step", failure="BAD_SIZES")
        f.finish(node.kind)

    def _states(self, f: FunctionWriter, fields: dict[str, Dim], pointers: dict[str, str]) -> None:
        """Lengths and initial states."""
        for name, index in (("lengths", 4), ("initial_h", 5), ("initial_c", 6)):
            value, null = self.node.input(index), self.null
            if name == "lengths":
                null = "(const int32_t*)nullptr"
            if name == "lengths" and value is not None and value.dtype != dtypes.int32:
                self.low.unsupported(self.node, f"lengths as {value.dtype}")
            pointers[name] = null if value is None else f.read(row_major(self.low, value))
        fields["initial_direction"], fields["initial_batch"] = self._state_strides()

    def _state_strides(self) -> tuple[Dim, Dim]:
        if self.op.layout == 0:
            return self.hidden * self.batch, self.hidden
        return self.hidden, self.hidden * self.directions

    def _outputs(self, f: FunctionWriter, fields: dict[str, Dim], pointers: dict[str, str]) -> None:
        fields["last_direction"], fields["last_batch"] = self._state_strides()
        nothing = f"({self.dtype.c_name}*)nullptr"
        pointers |= dict.fromkeys(("y", "last_h", "last_c"), nothing)
        fields |= dict.fromkeys(("y_time", "y_batch", "y_direction"), 0)
        for name, value in zip(("y", "last_h", "last_c"), self.node.outputs):
            if not value.uses:
                continue
            target = self.low.storage.allocate(value, _order(value))
            self.low.storage.tensors[value] = target
            pointers[name] = f.write(target)
            if name == "y":
                time, batch, direction = (0, 2, 1) if self.op.layout == 0 else (1, 0, 2)
                places = {"y_time": time, "y_batch": batch, "y_direction": direction}
                fields |= {field: target.strides[axis] for field, axis in places.items()}

    # -- the cell ----------------------------------------------------------------------------------

    def _step(self, f: FunctionWriter, weights: Sequence[_Weights]) -> None:
        """Define `step`, which takes all live examples of one direction one step further."""
        c = self.dtype.c_name
        places = [self._places(f, w, "w.direction") for w in weights]
        columns = [f.number(one.column) for one in self.passes]
        functions = self.op.functions()
        cells = [Cells(self.low, self.node, f).of(chosen) for chosen in functions]
        with f.define("step", f"Context& c, const Walk<{c}>& w", device=False):
            last = cells[0]
            if len(set(functions)) > 1:
                with f.when(infix(FieldOf("w", "direction"), "==", 0)):
                    self._run_cells(f, places, columns, cells[0])
                f.end_when(infix(FieldOf("w", "direction"), "==", 0), "")
                last = cells[1]
            self._run_cells(f, places, columns, last)

    def _places(self, f: FunctionWriter, weights: _Weights, direction: str) -> list[str]:
        """Where what a direction reads of the weights of a pass begins."""
        tensors = (weights.numbers, weights.scales, weights.sums)
        places = [
            f"{f.read(t)} + {direction} * {f.number(t.shape[1])}" for t in tensors if t is not None
        ]
        return places if len(places) > 1 else [*places, self.null]

    def _run_cells(
        self,
        f: FunctionWriter,
        places: Sequence[Sequence[str]],
        columns: Sequence[str],
        cells: Sequence[Aggregate],
    ) -> None:
        """The passes of one direction."""
        for i, (one, cell) in enumerate(zip(self.passes, cells)):
            source = "w.h" if i == 0 else "w.reset"
            kernel = "w.pass" if len(places[i]) == 2 else "w.pass_digits"
            f.call(kernel, source, *places[i], columns[i], cell, template=(one.blocks,))


def _order(value: Value) -> Order | None:
    """The order that those who read a result bring it to: then what they do costs nothing."""
    perms = {
        u.op.attributes()["perm"] if u.kind == "Transpose" and not u.op.domain else None
        for u in value.users()
    }
    perm = perms.pop() if len(perms) == 1 and not value.is_graph_output else None
    return tuple(perm) if perm is not None and perm[-1] == value.rank - 1 else None


def pack_gates(weights: Any, one: Pass, width: int) -> Any:
    """[directions, halves, gates, hidden, k] as [directions, unit, k, block, gate, width]: of
    `halves` (biases) the sum, that of W alone for gates past the shared ones.
    """
    chosen = weights[:, 0, one.first : one.first + one.gates].copy()
    for other in range(1, weights.shape[1]):
        chosen[:, : one.shared] += weights[:, other, one.first : one.first + one.shared]
    directions, gates, hidden, k = chosen.shape
    step = one.blocks * width
    units = -(-hidden // step)
    padded = np.zeros((directions, gates, units * step, k), chosen.dtype)
    padded[:, :, :hidden] = chosen
    parts = padded.reshape(directions, gates, units, one.blocks, width, k)
    return np.ascontiguousarray(parts.transpose(0, 2, 5, 3, 1, 4))


@lowers("RNN", "GRU", "LSTM")
def recurrent(low: Lowering, node: Node, group: Group) -> None:
    Layer(low, node).walk()
