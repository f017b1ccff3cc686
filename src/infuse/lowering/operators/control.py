"""If, Loop and Scan as native branches and loops: every body is a program of its own, with its own
memory plan.

A body leaves its outputs in memory of its own, in turn in two places when it runs again and again,
so that what one iteration made can be read by the next. What comes out in the end stays where the
last iteration left it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value
from infuse.lowering.expressions import (
    AddressOf,
    BlockOf,
    BodyOutput,
    Chosen,
    Element,
    Expression,
    FieldOf,
    Grouped,
    Operation,
    Pointed,
    PointerTo,
    Size,
    SizeOf,
    infix,
    invoke,
)
from infuse.lowering.groups import Group
from infuse.lowering.kernel_table import COMMON
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand
from infuse.lowering.statements import If, Pointers, RunBody, Scope
from infuse.lowering.tensors import Tensor, dense, natural
from infuse.lowering.writer import FunctionWriter

MOST_ITERATIONS = 10_000_000
"""Iterations after which a loop counts as endless, whatever trip count it was given."""
FIRST: Final = infix("i", "==", 0)
"""Whether an iteration is the first."""
BACKWARDS: Final = infix("trips", "-", 1, "i")
"""The place of an iteration from the end."""


class _Results:
    """The tensors that a control-flow node leaves, and how their sizes are found."""

    def __init__(self, low: Lowering, node: Node) -> None:
        self.low, self.node = low, node
        self.tensors = [low.program.block(v.dtype, v.shape) for v in node.outputs]
        self.available_sizes = set(low.program.available_sizes)

    def block(self, number: int) -> BlockOf:
        """The block of an output."""
        return BlockOf(self.low.program.number, self.tensors[number].buffer.number)

    def find(self, f: FunctionWriter, number: int, sizes: Sequence[Expression]) -> None:
        """Store the unknown sizes of an output, check the others."""
        for size, left in zip(self.node.outputs[number].shape, sizes):
            unknown = dims.symbols(size) - self.available_sizes
            if not unknown:
                if left != Size(size):
                    f.fail_unless(infix(left, "==", Size(size)), "DIFFERENT_SIZES")
            elif size == dims.symbol(min(unknown)):
                f.assign(SizeOf(min(unknown)), left)
            else:
                self.low.unsupported(self.node, f"a result of size {size}")

    def finish(self, f: FunctionWriter) -> None:
        """The step ends: its results are there, their sizes known."""
        shapes = [v.shape for v in self.node.outputs]
        late = (
            set().union(*(dims.symbols(d) for shape in shapes for d in shape))
            - self.available_sizes
        )
        self.low.program.late_sizes += sorted(late)
        f.changes([t.buffer for t in self.tensors])
        f.finish(f"{self.node.kind} {self.node.name}".strip())
        self.low.storage.tensors.update(zip(self.node.outputs, self.tensors))


def _captures(f: FunctionWriter, body: Lowering) -> list[str]:
    """Pointers to what a body reads of the graphs around it."""
    return [f.read(tensor) for tensor in body.storage.captured]


def _sizes(value: Value) -> list[Expression]:
    return [Size(size) for size in value.shape]


def _bytes(value: Value) -> Size:
    return Size(dims.product(value.shape) * value.dtype.bytes)


@COMMON.lowers("If")
def if_(low: Lowering, node: Node, group: Group) -> None:
    condition = low.storage.dense(operand(node))
    results = _Results(low, node)
    f = low.function("if", node, control=True)
    branches = []
    truth = f.read(condition)
    for name in ("then_branch", "else_branch"):
        body = low.body(node.subgraphs[name])
        n = body.program.number
        with f.collect() as branch:
            f.run_body(n, _captures(f, body))
            for number, value in enumerate(body.graph.outputs[: len(node.outputs)]):
                left = PointerTo(BodyOutput(n, number), is_written=True)
                f.assign(FieldOf(results.block(number), "data"), left)
                results.find(f, number, _sizes(value))
        branches.append(tuple(branch))
    f.add(If(Pointed(truth), *branches))
    results.finish(f)


class _Iteration:
    """A body that runs again and again: the function that runs it, and what it is given."""

    def __init__(
        self, low: Lowering, node: Node, first_input: int, first_output: int, carried: list[Value]
    ) -> None:
        """The carried values begin at these places of the body's inputs and outputs."""
        self.low, self.node, self.carried = low, node, carried
        self.graph = node.subgraphs["body"]
        self.first_input, self.first_output = first_input, first_output
        self.results = _Results(low, node)
        aliases = {first_output + i: first_input + i for i in range(len(carried))}
        starts = [low.storage.dense(v, natural(v.rank)) for v in carried]
        self.body = low.body(self.graph, aliases)
        self.f = low.function(node.kind.lower(), node, control=True)
        self.pointers = [self.f.read(t) for t in starts]

    @property
    def stacked(self) -> list[Value]:
        """The body's outputs that are stacked."""
        return self.graph.outputs[self.first_output + len(self.carried) :]

    def begin(self, inputs: Sequence[Expression]) -> None:
        """Lay out the inputs of the first iteration; `inputs` are those that are not carried, None
        for carried ones.
        """
        every = [*inputs, *_captures(self.f, self.body)]
        self.f.add(Pointers("in", tuple(every)))
        for value, start in zip(self.state, self.carried):
            for size, start_size in zip(value.shape, start.shape):
                if size != start_size and isinstance(size, dims.Expr):
                    self.f.assign(SizeOf(str(size)), Size(start_size))
        for number, value in enumerate(self.stacked):
            if value.rank:
                self.f.room({f"rows{number}": value.rank}, zeros=True)

    @property
    def state(self) -> list[Value]:
        """The body's carried inputs."""
        return self.graph.inputs[self.first_input : self.first_input + len(self.carried)]

    def run(self) -> None:
        """Run the body once."""
        self.f.add(RunBody(self.body.program.number))

    def output(self, number: int) -> BodyOutput:
        """Where the last run of the body left an output."""
        return BodyOutput(self.body.program.number, number)

    def stack(self, index: Expression, count: Expression | None = None) -> None:
        """Keep the stacked outputs of iteration `index`: behind the earlier ones, or at that place
        among `count`.
        """
        f = self.f
        for number, value in enumerate(self.stacked):
            place = self.first_output + len(self.carried) + number
            block, size = self.results.block(len(self.carried) + number), _bytes(value)
            for axis, own in enumerate(_sizes(value)):
                row = Element(f"rows{number}", axis)
                with f.when(FIRST):
                    f.assign(row, own)
                f.fail_unless(infix(row, "==", own), "DIFFERENT_SIZES")
            source, at = self.output(place), infix(index, "*", "bytes")
            with f.block(Scope):
                f.constant("bytes", size)
                if count is not None:
                    obtained = invoke("obtain", AddressOf(block), infix("bytes", "*", count))
                    f.end_when(infix(FIRST, "&&", Operation("!", (obtained,))), "NO_MEMORY")
                    with f.when(infix("bytes", ">", 0)):
                        to = infix(FieldOf(block, "data"), "+", at)
                        f.call("memcpy", to, source, "bytes", context=False)
                else:
                    arguments = AddressOf(block), at, source, "bytes"
                    f.call("append", *arguments, failure="NO_MEMORY", context=False)

    def carry(self) -> None:
        """Let the next iteration start where this one ended."""
        f = self.f
        moved: list[tuple[str, Expression]] = []
        for number, value in enumerate(self.state):
            place = self.first_output + number
            f.assign(Element("in", self.first_input + number), self.output(place))
            sizes = self.graph.outputs[place].shape
            moved += [
                (str(a), Size(b))
                for a, b in zip(value.shape, sizes)
                if a != b and isinstance(a, dims.Expr)
            ]
        names = {
            symbol: f"next{i}"
            for i, symbol in enumerate(dict.fromkeys(symbol for symbol, _ in moved))
        }
        for symbol, size in dict(moved).items():
            f.constant(names[symbol], size)
        for symbol, name in names.items():
            f.assign(SizeOf(symbol), name)

    def finish(self, count: Expression, axes: Sequence[int]) -> None:
        """Leave the carried values and the stacked ones, which get their new axis at these
        places.
        """
        f = self.f
        for number, value in enumerate(self.state):
            block, at = self.results.block(number), Element("in", self.first_input + number)
            with f.collect() as unchanged:
                f.call(
                    "keep", AddressOf(block), at, _bytes(value), failure="NO_MEMORY", context=False
                )
            with f.collect() as made:
                f.assign(FieldOf(block, "data"), PointerTo(at, is_written=True))
            f.add(If(infix(at, "==", self.pointers[number]), tuple(unchanged), tuple(made)))
            self.results.find(f, number, _sizes(value))
        for number, value in enumerate(self.stacked):
            place = len(self.carried) + number
            rows: list[Expression] = [
                Size(d) if isinstance(d, int) else Element(f"rows{number}", axis)
                for axis, d in enumerate(value.shape)
            ]
            outside = [
                d for axis, d in enumerate(self.node.outputs[place].shape) if axis != axes[number]
            ]
            # What has no rows has the sizes that are known without any.
            rows = [
                Grouped(Chosen(infix(count, "==", 0), Size(d), row))
                if dims.symbols(d) <= self.results.available_sizes
                else row
                for d, row in zip(outside, rows)
            ]
            self.results.find(f, place, [*rows[: axes[number]], count, *rows[axes[number] :]])
            if axes[number]:
                self._move(place, axes[number])
        self.results.finish(f)

    def _move(self, place: int, axis: int) -> None:
        """The new axis lies outermost; the result sees it at `axis`."""
        shape = self.node.outputs[place].shape
        lies = (shape[axis], *shape[:axis], *shape[axis + 1 :])
        buffer = self.results.tensors[place].buffer
        order = [*range(1, axis + 1), 0, *range(axis + 1, len(shape))]
        self.results.tensors[place] = dense(buffer, self.node.outputs[place].dtype, lies).permute(
            order
        )


@COMMON.lowers("Loop")
def loop(low: Lowering, node: Node, group: Group) -> None:
    most, going = node.input(0), node.input(1)
    tensors = [None if v is None else low.storage.dense(v) for v in (most, going)]
    carried = [operand(node, i) for i in range(2, len(node.inputs))]
    work = _Iteration(low, node, 2, 1, carried)
    f = work.f
    count, truth = (None if t is None else f.read(t) for t in tensors)
    f.variable(dtypes.int64.c_name, number=0)
    f.constant("most", Pointed(count) if count else "INT64_MAX")
    f.variable("bool", going=Pointed(truth) if truth else "true")
    work.begin([AddressOf("number"), AddressOf("going"), *work.pointers])
    f.variable("isize", i=0)
    with f.repeat(infix("going", "&&", infix("i", "<", "most")), first=None, also="number"):
        f.end_when(infix("i", "==", Size(MOST_ITERATIONS)), "ENDLESS")
        work.run()
        f.assign("going", Pointed(PointerTo(work.output(0), dtypes.bool_)))
        work.stack("i")
        work.carry()
    work.finish("i", [0] * len(work.stacked))


@COMMON.lowers("Scan")
def scan(low: Lowering, node: Node, group: Group) -> None:
    attributes = node.op.attributes()
    count = len(node.inputs) - attributes["num_scan_inputs"]
    values = [operand(node, i) for i in range(count, len(node.inputs))]
    axes = [a % v.rank for a, v in zip(attributes["scan_input_axes"] or [0] * len(values), values)]
    slices = [_outermost(low, low.storage.tensor(v), axis) for v, axis in zip(values, axes)]
    work = _Iteration(low, node, 0, 0, [operand(node, i) for i in range(count)])
    f = work.f
    trips: Dim = values[0].shape[axes[0]]
    f.constant("trips", Size(trips))
    pointers = [f.read(t) for t in slices]
    work.begin([*work.pointers, *pointers])
    f.variable("isize", i=0)
    turned = attributes["scan_input_directions"] or [0] * len(values)
    backwards = attributes["scan_output_directions"] or [0] * len(work.stacked)
    with f.repeat(infix("i", "<", "trips"), first=None):
        for number, (tensor, pointer) in enumerate(zip(slices, pointers)):
            index = BACKWARDS if turned[number] else "i"
            stride = Size(dims.product(tensor.shape[1:]))
            f.assign(Element("in", count + number), infix(pointer, "+", infix(index, "*", stride)))
        work.run()
        _stack_scan(work, backwards)
        work.carry()
    output_axes = attributes["scan_output_axes"] or [0] * len(work.stacked)
    work.finish("trips", [a % (v.rank + 1) for a, v in zip(output_axes, work.stacked)])


def _stack_scan(work: _Iteration, backwards: Sequence[int]) -> None:
    if len(set(backwards)) > 1:
        work.low.unsupported(work.node, "outputs that are stacked in different directions")
    work.stack(BACKWARDS if any(backwards) else "i", "trips")


def _outermost(low: Lowering, tensor: Tensor, axis: int) -> Tensor:
    """The tensor with one axis first, dense."""
    moved = tensor.permute([axis, *(a for a in range(tensor.rank) if a != axis)])
    return low.storage.arranged(moved, natural(moved.rank))
