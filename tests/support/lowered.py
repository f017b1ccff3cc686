"""A lowered program run in Python, without a compiler: every step does in NumPy what its nodes
mean, in the memory that the plan gives it.

What that shows is all that stands between operators and kernels: where values lie, views, copies,
slots, memory that is shared, the order of the steps, and (`kernel_calls`) what kernels are called
with, for any target.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from infuse.build.staged import generate
from infuse.ir import dims
from infuse.ir.graph import Array, Graph, Value, captured
from infuse.lowering.choice import Chooser
from infuse.lowering.memory import Plan
from infuse.lowering.precisions import Precision
from infuse.lowering.program import Program, Step
from infuse.lowering.statements import CopyElements, InterleavePlanes, Return
from infuse.lowering.tensors import Buffer, Tensor, dense
from infuse.ops.core.evaluate import evaluate_values
from infuse.targets import Machine, Target
from tests.support.control_steps import Address, ControlError, ControlStep
from tests.support.epilogues import EpilogueError, check_work, mapped
from tests.support.function_values import scope_of
from tests.support.kernel_calls import ROUNDING, KernelError, check_calls
from tests.support.kernel_repeats import check_repeated
from tests.support.kernel_writes import agrees, is_stated, perform
from tests.support.program_memory import ProgramMemory, UnknownSizeError, sizes_of
from tests.support.step_memory import Memory, strided

_COPIES: Final = (CopyElements, InterleavePlanes)
"""Statements that change the places of elements alone."""


class PlacementError(AssertionError):
    """A step reads what is not there, or writes over what it reads."""


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
    precision: Precision = "fp32",
    chooser: Chooser | None = None,
) -> LoweredRun:
    """The outputs of the program of `graph` for a target, by name, computed step by step.

    `chooser` decides where several kernels compute the same (default: the cost model).

    PlacementError where an operand does not lie where a step reads it, or a step overwrites what it
    reads; KernelError where a kernel is called with what does not give its node; EpilogueError
    where elementwise work does not make its result;
    UnsupportedOperatorError where a node has no native code; UnknownSizeError where only a
    kernel finds a size (the start of a computed Slice) and no statement tells how. ControlError
    where a step of control flow does not leave its results; it runs the programs of its bodies.
    """
    program, plan = generate(graph, target, threads, precision, chooser)
    assert program.graph is not None
    values = evaluate_values(program.graph, feeds, _stated(program.graph, feeds))
    programs = {
        inner.number: (inner, its) for inner, its in zip(program.bodies, plan.bodies, strict=True)
    }
    machine = _Machine(program, plan, values, target.machine, programs)
    return machine.run()


class _Machine(ProgramMemory):
    """The memory of a program, and its steps."""

    def __init__(
        self,
        program: Program,
        plan: Plan,
        values: Mapping[Value, Array],
        made_for: Machine,
        bodies: Mapping[int, tuple[Program, Plan]],
        around: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        super().__init__(program, plan, values, around)
        self.made_for, self.bodies = made_for, bodies
        self.reads = self.calls = self.mapped = 0
        self._spoilt: set[Buffer] = set()

    # -- steps -------------------------------------------------------------------------------------

    def run(self) -> LoweredRun:
        """All steps in order."""
        self._run_steps()
        return LoweredRun(
            dict(self._outputs()), len(self.program.steps), self.reads, self.calls, self.mapped
        )

    def _run_steps(self) -> None:
        for step in self.program.steps:
            copied = _copied(step)
            if copied is not None:
                self._copy(step, *copied)
                continue
            if step.function.is_control:
                self._run_bodies(step)
            self._compute(step)
        self._require_whole()

    def _run_bodies(self, step: Step) -> None:
        """A step of control flow as its statements say, with the programs of the bodies that it
        runs; ControlError where it leaves something else than its node's results.
        """
        (node,) = step.sources
        outer = {v: self._value(v) for v in captured(node) if v in self.values}
        names: dict[str, Any] = {}
        for parameter, argument in zip(step.function.parameters, step.arguments):
            assert isinstance(argument, Tensor)
            names[parameter.name] = Address.of(self.elements(argument), argument.dtype)
        sizes = dict(self.sizes)

        def run(number: int, given: Sequence[Any]) -> list[Address]:
            return self._run_body(number, given, outer, sizes)

        control = ControlStep(names, sizes, run)
        control.run(step.function.statements)
        for value in node.outputs:
            shape = tuple(dims.substitute(d, sizes) for d in value.shape)
            if shape != self.values[value].shape:
                raise ControlError(f"step {step.label} finds the sizes {shape} of {value.name!r}")
            tensor = self.program.places[value]
            places = strided(tensor, self.size) + self.size(tensor.offset)
            if not places.size:
                continue
            block = control.blocks.get((self.program.number, tensor.buffer.number))
            if block is None or block.data is None:
                raise ControlError(f"step {step.label} leaves no {value.name!r}")
            left = block.data.elements(tensor.dtype, int(places.max()) + 1)[places]
            if not _equal(left, self.values[value].astype(tensor.dtype.numpy)):
                raise ControlError(f"step {step.label} does not leave {value.name!r}, its result")

    def _value(self, value: Value) -> Array:
        return self.values[value] if value.const is None else value.const

    def _run_body(
        self,
        number: int,
        given: Sequence[Any],
        outer: Mapping[Value, Array],
        sizes: dict[str, int],
    ) -> list[Address]:
        """The outputs of a body that sees these values around it, which its program leaves; `sizes`
        get those that it finds. PlacementError where it leaves something else.
        """
        program, plan = self.bodies[number]
        graph = program.graph
        assert graph is not None
        feeds = {v.name: self._read(v, pointer, sizes) for v, pointer in zip(graph.inputs, given)}
        stated = _stated(graph, feeds, sizes)
        values = {**outer, **stated, **evaluate_values(graph, feeds, {**outer, **stated})}
        body = _Machine(program, plan, values, self.made_for, self.bodies, sizes)
        body._run_steps()
        sizes.update(body.sizes)
        self.reads, self.calls = self.reads + body.reads, self.calls + body.calls
        self.mapped += body.mapped
        outputs = [body._value(v) for v in graph.outputs]
        for value, expected in zip(graph.outputs, outputs):
            tensor = program.places.get(value)
            if tensor is not None and not _equal(
                body.load(tensor), expected.astype(tensor.dtype.numpy)
            ):
                raise PlacementError(f"the body {graph.name!r} does not leave {value.name!r}")
        return [
            Address.of(array.astype(v.dtype.numpy), v.dtype)
            for v, array in zip(graph.outputs, outputs)
        ]

    @staticmethod
    def _read(value: Value, pointer: Any, sizes: Mapping[str, int]) -> Array:
        """An input of a body from where it lies; a variable is a number."""
        if not isinstance(pointer, Address):
            return np.asarray(pointer, value.dtype.numpy)
        shape = tuple(int(str(dims.substitute(d, sizes))) for d in value.shape)
        return pointer.elements(value.dtype, math.prod(shape)).reshape(shape)

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
                self._spoilt.update([buffer] if self.spoil(buffer) else [])
        for value in results:
            self.write(value)

    def _check_mapped(self, step: Step) -> int:
        """How many steps of elementwise work alone, none or one, make what their nodes mean."""
        work = mapped(step)
        if work is None:
            return 0
        elementwise, (rows, columns) = work
        names = scope_of(step, self._hand).names
        shape = (names[rows], names[columns])
        check_work(elementwise, step, None, shape, self._hand, ROUNDING)
        return 1

    def _perform(self, step: Step) -> int | None:
        """Do the kernels that write to memory in it, where all that a step does is stated."""
        return perform(step, self._hand) if is_stated(step) else None

    @cached_property
    def _hand(self) -> Memory:
        where = self.size, self.elements, self.take, self.put
        return Memory(self.values, *where, self.sizes, self.made_for, self.program.places)

    def _check_results(self, step: Step, results: Sequence[Value]) -> None:
        """KernelError where the last step of a node leaves something else than its results."""
        for value in results:
            tensor = self.program.places[value]
            if step is not self._last[value]:
                continue
            expected = self.values[value].astype(tensor.dtype.numpy)
            if not agrees(self.load(tensor), expected, tensor.dtype):
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

    def _require_whole(self) -> None:
        """EpilogueError where the parts of a result that several steps make leave some of it out,
        or overlap.
        """
        for value, parts in self._hand.parts.items():
            steps = [s for s in self.program.steps if s.sources and s.sources[-1].output is value]
            together = np.concatenate(parts)
            size = self.values[value].size
            if len(parts) == len(steps) and not np.unique(together).size == together.size == size:
                raise EpilogueError(f"the parts of {value.name!r} do not make up the whole")

    def _copy(self, step: Step, source: Tensor, target: Tensor) -> None:
        self._require_apart(step, [source], [target])
        self.store(target, self.load(source))

    def _require_apart(
        self, step: Step, sources: Sequence[Tensor], targets: Sequence[Tensor]
    ) -> None:
        """PlacementError where a target overlaps a source otherwise than element by element, or
        another target.
        """
        for number, target in enumerate(targets):
            key, written = self.byte_places(target)
            for other, also in map(self.byte_places, targets[:number]):
                if other == key and np.intersect1d(written, also).size:
                    raise PlacementError(f"step {step.label} writes two results to one place")
            for source in sources:
                other, read = self.byte_places(source)
                if other != key or np.array_equal(read, written):
                    continue
                if np.intersect1d(read, written).size:
                    raise PlacementError(f"step {step.label} overwrites what it reads")

    def _place_in(self, buffers: Sequence[Buffer], value: Value) -> Tensor | None:
        """Where a value lies, if that is in one of these buffers."""
        if value.const is not None or value not in self.program.places:
            return None
        tensor = self.resolved(self.program.places[value])
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
        sizes = self.program.sizes_of
        for number, (name, _, _) in enumerate(self.program.outputs):
            if number not in sizes.values():
                elements = self._output(number)
                yield (
                    name,
                    elements.reshape(self._output(sizes[number])) if number in sizes else elements,
                )

    def _output(self, number: int) -> Array:
        _, dtype, shape = self.program.outputs[number]
        return self.load(dense(Buffer("output", 0, number), dtype, tuple(shape)))


def _stated(
    graph: Graph, feeds: Mapping[str, Array], around: Mapping[str, int] = MappingProxyType({})
) -> dict[Value, Array]:
    """What operands hold that no node makes: numbers that follow from the sizes of the inputs, and
    for a body from those `around` it.
    """
    fed = {v: np.asarray(feeds[v.name]) for v in graph.inputs if v.name in feeds}
    sizes = {**around, **sizes_of(fed)}
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
    copies = [s for s in step.function.statements if isinstance(s, _COPIES)]
    tensors = [a for a in step.arguments if isinstance(a, Tensor)]
    if len(copies) != 1 or len(tensors) != 2:
        return None
    return tensors[0], tensors[1]


def _equal(a: Array, b: Array) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()
