"""A lowered program run in Python, without a compiler: every step does in NumPy what its nodes
mean, in the memory that the plan gives it.

What that shows is all that stands between operators and kernels: where values lie, views, copies,
slots, memory that is shared, the order of the steps, and (`kernel_calls`) what kernels are called
with, for any target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from infuse.codegen.autotune.selector import Chooser
from infuse.codegen.compile import generate
from infuse.codegen.memory import Plan, aligned, arena_bytes, place
from infuse.codegen.program import Program, Step
from infuse.codegen.tensors import Buffer, Tensor, dense
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Array, Graph, Value
from infuse.ir.types import TensorType
from infuse.ops.core.evaluate import evaluate_values
from infuse.targets import Target
from infuse.targets.cpu.emit.statements import KernelCall, Return
from infuse.testing.epilogues import check_work, mapped, sized
from infuse.testing.kernel_calls import ROUNDING, KernelError, check_calls
from infuse.testing.kernel_repeats import check_repeated
from infuse.testing.kernel_writes import is_near, is_stated, perform
from infuse.testing.step_memory import Memory

POISON = 0xA5
"""What memory holds that nobody has written yet."""


class PlacementError(AssertionError):
    """A step reads what is not there, or writes over what it reads."""


class UnknownSizeError(Exception):
    """A size is found by a kernel, and no value of the graph has it."""


@dataclass
class LoweredRun:
    """What a lowered program gives, and how much of it was looked at."""

    outputs: dict[str, Array]
    steps: int
    reads: int = 0
    """Operands that were compared with what the step before them left."""
    calls: int = 0
    """Kernels whose arguments were seen to give what their nodes mean."""
    mapped: int = 0
    """Steps of elementwise work that were seen to do so."""


def run_lowered(
    graph: Graph,
    target: Target,
    feeds: Mapping[str, Array],
    threads: int = 1,
    precision: str = "fp32",
    chooser: Chooser | None = None,
) -> LoweredRun:
    """The outputs of the program of `graph` for a target, by name, computed step by step.

    `chooser` decides where several kernels compute the same (default: the cost model).

    PlacementError where an operand does not lie where a step reads it, or a step overwrites what it
    reads; KernelError where a kernel is called with what does not give its node; EpilogueError
    where elementwise work does not make its result;
    UnsupportedOperatorError where a node has no native code; UnknownSizeError where only a
    kernel finds a size (the start of a computed Slice) and no statement tells how. Bodies of
    control flow run in the interpreter.
    """
    program, plan = generate(graph, target, threads, precision, chooser)
    assert program.graph is not None
    values = evaluate_values(program.graph, feeds, _stated(program.graph, feeds))
    machine = _Machine(program, plan, values, target.machine.lanes)
    return machine.run()


class _Machine:
    """The memory of a program, and its steps."""

    def __init__(
        self, program: Program, plan: Plan, values: Mapping[Value, Array], lanes: int
    ) -> None:
        self.program, self.plan, self.values, self.lanes = program, plan, values, lanes
        self.sizes = _sizes(values)
        self.reads = self.calls = self.mapped = 0
        self._spoilt: set[Buffer] = set()
        self._memory: dict[object, Array] = {}
        self._offsets = self._arena_offsets()
        for value in program.places:
            if value.producer is None and value in values:
                self.write(value)

    def _arena_offsets(self) -> dict[Buffer, int]:
        buffers = self.plan.buffers
        numbers = [aligned(self.size(b.bytes)) for b in buffers]
        offsets = self.plan.offsets
        if offsets is None:
            placed = [place(buffers, numbers, order) for order in self.plan.orders]
            offsets = min(placed, key=lambda offsets: arena_bytes(offsets, numbers))
        total = max((o + n for o, n in zip(offsets, numbers)), default=0)
        self._memory["arena"] = np.full(total, POISON, np.uint8)
        return dict(zip(buffers, offsets))

    def size(self, size: Dim) -> int:
        """A size as a number."""
        result = dims.substitute(size, self.sizes)
        if not isinstance(result, int):
            raise UnknownSizeError(f"no value has the size {result}")
        return result

    # -- memory ------------------------------------------------------------------------------------

    def _block(self, buffer: Buffer, need: int) -> tuple[object, int]:
        """The key of the memory of a buffer, made to hold so many bytes at least, and where in it
        the buffer begins.
        """
        root = buffer.root()
        if root in self._offsets:
            return "arena", self._offsets[root]
        key: object = (root.kind, root.number, root.position)
        if root.kind == "arena":
            key = ("late", self.plan.late[root])
        block = self._memory.get(key, np.empty(0, np.uint8))
        if root.kind == "weight" and key not in self._memory:
            array = np.ascontiguousarray(self._weights[root.position])
            block = np.array(array.reshape(-1).view(np.uint8))
        missing = np.full(max(0, need - block.size), POISON, np.uint8)
        self._memory[key] = np.concatenate([block, missing]) if missing.size else block
        return key, 0

    @cached_property
    def _weights(self) -> dict[int, Array]:
        return dict(self.program.weights)

    def _resolved(self, tensor: Tensor) -> Tensor:
        """A tensor whose place follows from a size."""
        while tensor.buffer.either is not None:
            size, direct, copy = tensor.buffer.either
            tensor = direct if self.size(size) == 0 else copy
        return tensor

    def _bytes(self, tensor: Tensor) -> Array:
        """Where the first byte of every element lies, in the block of the tensor."""
        places = np.array(self.size(tensor.offset), np.int64)
        for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.strides)):
            line = np.arange(self.size(size), dtype=np.int64) * self.size(stride)
            places = places + line.reshape(-1, *(1,) * (tensor.rank - axis - 1))
        return places * tensor.dtype.bytes

    def _elements(self, tensor: Tensor) -> tuple[object, Array]:
        """The key of a tensor's memory, and the places of the bytes of each element in it."""
        tensor = self._resolved(tensor)
        starts = self._bytes(tensor)
        need = int(starts.max(initial=-1)) + tensor.dtype.bytes if starts.size else 0
        key, begin = self._block(tensor.buffer, need)
        return key, begin + starts[..., None] + np.arange(tensor.dtype.bytes)

    def load(self, tensor: Tensor) -> Array:
        """The elements of a tensor as they lie in memory."""
        key, places = self._elements(tensor)
        result: Array = self._memory[key][places].reshape(-1).view(tensor.dtype.numpy)
        return np.asarray(result.reshape(places.shape[:-1]))

    def elements(self, tensor: Tensor) -> Array:
        """What lies in the memory of a tensor from its first element on, flat."""
        tensor = self._resolved(tensor)
        key, begin = self._block(tensor.buffer, 0)
        block = self._memory[key][begin + self.size(tensor.offset) * tensor.dtype.bytes :]
        whole = block.size // tensor.dtype.bytes * tensor.dtype.bytes
        result: Array = block[:whole].copy().view(tensor.dtype.numpy)
        return result

    def put(self, tensor: Tensor, at: Array, elements: Array) -> None:
        """Store elements so many behind the first one of a tensor; IndexError outside of what it
        is a part of.
        """
        tensor = self._resolved(tensor)
        width = tensor.dtype.bytes
        starts = (at + self.size(tensor.offset)) * width
        end = int(starts.max(initial=-width)) + width
        if starts.min(initial=0) < 0 or end > self._room(tensor, end):
            raise IndexError(f"byte {end} of what it writes")
        key, begin = self._block(tensor.buffer, end)
        places = begin + starts[:, None] + np.arange(width)
        flat = np.ascontiguousarray(elements.astype(tensor.dtype.numpy))
        self._memory[key][places.reshape(-1)] = flat.view(np.uint8)

    def _room(self, tensor: Tensor, least: int) -> int:
        """How many bytes a buffer has, `least` where that is not stated."""
        buffer = tensor.buffer
        if buffer.kind == "output":
            _, dtype, shape = self.program.outputs[buffer.number]
            return dtype.bytes * self.size(dims.product(shape))
        return self.size(buffer.bytes) if buffer.kind == "arena" else least

    def store(self, tensor: Tensor, array: Array) -> None:
        """Put elements where a tensor lies."""
        key, places = self._elements(tensor)
        flat = np.ascontiguousarray(array.astype(tensor.dtype.numpy)).reshape(-1)
        self._memory[key][places.reshape(-1)] = flat.view(np.uint8)

    def write(self, value: Value) -> None:
        """Put a value where it lies."""
        self.store(self.program.places[value], self.values[value])

    # -- steps -------------------------------------------------------------------------------------

    def run(self) -> LoweredRun:
        """All steps in order."""
        for step in self.program.steps:
            copied = _copied(step)
            if copied is not None:
                self._copy(step, *copied)
            else:
                self._compute(step)
        return LoweredRun(
            dict(self._outputs()), len(self.program.steps), self.reads, self.calls, self.mapped
        )

    def _compute(self, step: Step) -> None:
        """A step that reads operands of its nodes, and makes those of their results that lie where
        it writes. What else it writes, such as operands that it packs, is what its kernel means;
        where that is not stated it is spoilt, and the calls of steps that read it are not checked.
        """
        made = dict.fromkeys(v for node in step.sources for v in node.outputs)
        operands = dict.fromkeys(v for node in step.sources for v in node.operands())
        places = {v: self._place_in(step.reads, v) for v in operands if v not in made}
        read = {v: tensor for v, tensor in places.items() if tensor is not None}
        results = [v for v in made if self._place_in(step.writes, v) is not None]
        targets = [self.program.places[v] for v in results]
        self._require_apart(step, list(read.values()), targets)
        for value, tensor in read.items():
            self._check_operand(step, value, tensor)
        performed = None
        if not self._spoilt.intersection(step.reads):
            self.calls += check_calls(step, self._hand)
            self.calls += check_repeated(step, self._hand)
            self.mapped += self._check_mapped(step)
            performed = self._perform(step)
        self._spoilt.difference_update(step.writes)
        if performed is not None:
            self.calls += performed
            self._check_results(step, results)
            return
        for buffer in dict.fromkeys(step.writes):
            if buffer.kind == "arena" and all(
                t.buffer.root() is not buffer.root() for t in targets
            ):
                size = self.size(buffer.bytes)
                key, begin = self._block(buffer, size)
                self._memory[key][begin : begin + size] = POISON
                self._spoilt.update([buffer] if size else [])
        for value in results:
            self.write(value)

    def _check_mapped(self, step: Step) -> int:
        """How many steps of elementwise work alone, none or one, make what their nodes mean."""
        work = mapped(step)
        if work is None:
            return 0
        elementwise, (rows, columns) = work
        shape = (sized(step, rows, self._hand), sized(step, columns, self._hand))
        check_work(elementwise, step, None, shape, self._hand, ROUNDING)
        return 1

    def _perform(self, step: Step) -> int | None:
        """Do the kernels that write to memory in it, where all that a step does is stated."""
        return perform(step, self._hand) if is_stated(step) else None

    @cached_property
    def _hand(self) -> Memory:
        where = self.size, self.elements, self.put
        return Memory(self.values, *where, self.sizes, self.lanes)

    def _check_results(self, step: Step, results: Sequence[Value]) -> None:
        """KernelError where the last step of a node leaves something else than its results."""
        for value in results:
            tensor = self.program.places[value]
            if step is not self._last[value]:
                continue
            expected = self.values[value].astype(tensor.dtype.numpy)
            if not is_near(self.load(tensor), expected, tensor.dtype):
                raise KernelError(f"step {step.label} does not leave {value.name!r}, its result")
            self.write(value)

    @cached_property
    def _last(self) -> dict[Value, Step]:
        """The step that completes each result."""
        return {
            value: step
            for step in self.program.steps
            for node in step.sources
            for value in node.outputs
            if self._place_in(step.writes, value) is not None
        }

    def _copy(self, step: Step, source: Tensor, target: Tensor) -> None:
        self._require_apart(step, [source], [target])
        self.store(target, self.load(source))

    def _require_apart(
        self, step: Step, sources: Sequence[Tensor], targets: Sequence[Tensor]
    ) -> None:
        """PlacementError where a target overlaps a source otherwise than element by element."""
        for target in targets:
            key, written = self._elements(target)
            for source in sources:
                other, read = self._elements(source)
                if other != key or np.array_equal(read, written):
                    continue
                if np.intersect1d(read, written).size:
                    raise PlacementError(f"step {step.label} overwrites what it reads")

    def _place_in(self, buffers: Sequence[Buffer], value: Value) -> Tensor | None:
        """Where a value lies, if that is in one of these buffers."""
        if value.const is not None or value not in self.program.places:
            return None
        tensor = self._resolved(self.program.places[value])
        return tensor if tensor.buffer in buffers else None

    def _check_operand(self, step: Step, value: Value, tensor: Tensor) -> None:
        self.reads += 1
        expected = self.values[value].astype(tensor.dtype.numpy)
        if not _equal(self.load(tensor), expected):
            raise PlacementError(
                f"operand {value.name!r} does not lie where step {step.label} "
                f"of {', '.join(step.nodes)} reads it"
            )

    def _outputs(self) -> Iterator[tuple[str, Array]]:
        for number, (name, dtype, shape) in enumerate(self.program.outputs):
            yield name, self.load(dense(Buffer("output", 0, number), dtype, tuple(shape)))


def _sizes(values: Mapping[Value, Array]) -> dict[str, int]:
    """The sizes of all symbols."""
    sizes: dict[str, int] = {}
    for value, array in values.items():
        if isinstance(value.type, TensorType) and value.type.shape is not None:
            for dim, size in zip(value.type.shape, array.shape):
                for name in dims.symbols(dim):
                    if dim == dims.symbol(name):
                        sizes.setdefault(name, size)
    return sizes


def _stated(graph: Graph, feeds: Mapping[str, Array]) -> dict[Value, Array]:
    """What operands hold that no node makes: numbers that follow from the sizes of the inputs."""
    sizes = _sizes({v: np.asarray(feeds[v.name]) for v in graph.inputs if v.name in feeds})
    stated = {}
    for value in dict.fromkeys(v for node in graph.nodes for v in node.operands()):
        is_made = value.producer is not None or value.const is not None or value in graph.inputs
        if value.content is not None and not is_made:
            numbers = [dims.substitute(size, sizes) for size in value.content.reshape(-1)]
            if not all(isinstance(number, int) for number in numbers):
                raise UnknownSizeError(f"no input has the sizes of {numbers}")
            stated[value] = np.array(numbers, np.int64).reshape(value.content.shape)
    return stated


def _copied(step: Step) -> tuple[Tensor, Tensor] | None:
    """Source and target of a step that only copies, and always."""
    if any(isinstance(s, Return) for s in step.function.statements):
        return None
    calls = [s for s in step.function.statements if isinstance(s, KernelCall)]
    tensors = [a for a in step.arguments if isinstance(a, Tensor)]
    if [call.kernel for call in calls] != ["copy_nd"] or len(tensors) != 2:
        return None
    return tensors[0], tensors[1]


def _equal(a: Array, b: Array) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()
