"""A lowered program as a file that the executor of a library of closed functions runs."""

from __future__ import annotations

from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from infuse.ir import dims
from infuse.ir.dims import Expr
from infuse.lowering.memory import Plan
from infuse.lowering.program import Program, Step, all_sizes
from infuse.lowering.statements import Scratch
from infuse.targets.cpu.closed.assembly import NotAScript
from infuse.targets.cpu.closed.calls import CallWriter, Numbers, Places, name_table
from infuse.targets.cpu.closed.fusing import whole_functions
from infuse.targets.cpu.closed.hoisting import closed_call, closed_scratch, has_work
from infuse.targets.cpu.closed.hosted import HostFunction
from infuse.targets.cpu.closed.parts import ClosedCall
from infuse.targets.cpu.closed.script import is_script, script_call
from infuse.targets.cpu.closed.sources import closed_name, element_name
from infuse.targets.cpu.closed.words import Terms, Words
from infuse.targets.cpu.closed.work import (
    NONE,
    Apply,
    ElementFunction,
    Load,
    PlaceCode,
    Put,
    Splat,
    WorkCode,
    element_bytes,
)
from infuse.targets.text.plan import sizes_before_run

_LOAD, _SPLAT, _APPLY, _PUT = range(4)


@dataclass
class ClosedProgram:
    """A program as a file, and the closed functions that it calls, by name."""

    content: bytes
    functions: dict[str, ClosedCall | HostFunction] = field(default_factory=dict)
    elements: dict[str, ElementFunction] = field(default_factory=dict)
    interprets: bool = False
    """Whether any elementwise work is data, which compiled code has in its text."""


def closed_program(program: Program, plan: Plan, available: Container[str] = ()) -> ClosedProgram:
    """`program` as a file. `available`: functions with elementwise work in their text that it may
    call.

    UnsupportedOperatorError where a part of it cannot be data.
    """
    return _FileWriter(program, plan, available).file()


def usual_functions(program: Program) -> dict[str, ClosedCall]:
    """The functions of a program with elementwise work in their text, by name."""
    calls = [closed_call(step, in_text=True) for step in program.steps if has_work(step)]
    return {closed_name(call.function): call for call in calls}


def usual_elements(program: Program) -> dict[str, ElementFunction]:
    """The functions of elements that may stand for several, by name."""
    elements: dict[str, ElementFunction] = {}
    for step in filter(has_work, program.steps):
        elements |= whole_functions(closed_call(step))
    return elements


class _FileWriter:
    """Writes a program with those of its bodies."""

    def __init__(self, program: Program, plan: Plan, available: Container[str]) -> None:
        self._program = program
        self._parts = list(zip([program, *program.bodies], [plan, *plan.bodies], strict=True))
        symbols = all_sizes([program, *program.bodies])
        assert symbols[: len(program.symbols)] == program.symbols
        self._numbers = Numbers(Terms(symbols, len(program.symbols)))
        self._used = ClosedProgram(b"")
        self._available = available

    def file(self) -> ClosedProgram:
        """Everything; what is called by number is written last and stands first."""
        head = Words()
        middle, body = head.then(), head.then()
        body.add(len(self._parts))
        for program, plan in self._parts:
            writer = _Writer(program, plan, self._numbers, self._used, self._available)
            writer.write(body)
        elements: dict[str, int] = {}
        middle.add(len(self._numbers.works))
        for code in self._numbers.works:
            self._work(code, middle, elements)
        middle.add(len(self._numbers.scripts))
        for slots, script in self._numbers.scripts:
            middle.add(slots, len(script))
            for each in script:
                middle.add(*each)
        terms = self._numbers.terms
        head.add(len(self._program.symbols), len(terms.symbols))
        name_table(self._numbers.functions, head)
        name_table(elements, head)
        terms.write(head)
        self._used.content = head.content(middle, body)
        self._used.interprets = bool(self._numbers.works)
        return self._used

    def _work(self, code: WorkCode, words: Words, elements: dict[str, int]) -> None:
        words.list(map(element_bytes, code.types))
        words.add(code.result, len(code.arguments))
        columns, axes = (NONE, ()) if code.blocks is None else code.blocks
        words.add(columns, len(axes))
        for axis in axes:
            words.add(axis.count, axis.step, axis.cut, axis.size)

        def number(function: ElementFunction | None) -> int:
            if function is None:
                return NONE
            name = element_name(function)
            self._used.elements.setdefault(name, function)
            return elements.setdefault(name, len(elements))

        words.add(len(code.instructions))
        for each in code.instructions:
            match each:
                case Load(register, place, is_view):
                    words.add(_LOAD, register, int(is_view), *_place(place))
                case Splat(register, argument):
                    words.add(_SPLAT, register, argument)
                case Apply(register, function, operands):
                    words.add(_APPLY, register, number(function))
                    words.list(operands)
                case Put(register, function, place):
                    words.add(_PUT, register, number(function), *_place(place))


class _Writer:
    """Writes one program: of the model, or of a body of control flow."""

    def __init__(
        self,
        program: Program,
        plan: Plan,
        numbers: Numbers,
        used: ClosedProgram,
        available: Container[str],
    ) -> None:
        self._program, self._plan, self._available = program, plan, available
        self._numbers, self._used = numbers, used
        outputs = enumerate(program.outputs)
        late = program.is_late
        self._owned = {n for n, (_, _, shape) in outputs if program.number or any(map(late, shape))}
        self._calls = CallWriter(numbers, Places(plan, self._owned), available)
        self._obtained: set[object] = set()

    def write(self, words: Words) -> None:
        """All of it."""
        self._interface(words)
        self._memory(words)
        words.add(len(self._program.steps))
        for number, step in enumerate(self._program.steps):
            self._step(number, step, words)

    def _interface(self, words: Words) -> None:
        """Inputs with their defaults, outputs with their sizes, and what sizes have to be."""
        program, term = self._program, self._numbers.terms.number
        # What a body reads of the graphs around it follows its inputs.
        read = (b.number + 1 for s in program.steps for b in s.reads if b.kind == "input")
        inputs = max(len(program.inputs), *read, 0)
        words.add(inputs)
        for number in range(inputs):
            default = program.defaults.get(number)
            words.add(NONE if default is None else default.buffer.position)
        words.add(len(program.outputs))
        for number, (_, _, shape) in enumerate(program.outputs):
            words.add(int(number in self._owned), program.aliases.get(number, NONE))
            words.list(map(term, shape))
        words.list(map(term, sizes_before_run(program, self._plan)))
        words.add(len(program.checks))
        for condition, message in program.checks:
            words.add(term(condition))
            words.text(message)

    def _memory(self, words: Words) -> None:
        plan, term = self._plan, self._numbers.terms.number
        words.add(len(plan.buffers))
        for buffer in plan.buffers:
            words.add(term(buffer.bytes), buffer.first, buffer.last)
        words.add(NONE if plan.offsets is None else plan.total)
        if plan.offsets is not None:
            words.list(plan.offsets)
        else:
            words.add(len(plan.orders))
            for order in plan.orders:
                words.list(order)
        words.add(plan.blocks, self._program.blocks)
        self._scratch(self._program.scratch, words)

    def _scratch(self, demands: Sequence[Scratch], words: Words) -> None:
        calls = [closed_scratch(demand) for demand in dict.fromkeys(demands)]
        words.add(len(calls))
        for call in calls:
            self._call(call, words)

    def _call(self, call: ClosedCall, words: Words) -> None:
        name = closed_name(call.function)
        self._used.functions.setdefault(name, call)
        self._calls.write(call, name, words)

    def _step(self, number: int, step: Step, words: Words) -> None:
        last = step.nodes[-1] if step.nodes else ""
        words.text(step.label + (f" {last!r}" if last and last not in step.label else ""))
        words.add(int(step.checks or step.function.is_control))
        words.list(map(self._numbers.terms.number, step.open_sizes))
        blocks = list(self._blocks(number, step))
        words.add(len(blocks))
        for block in blocks:
            words.add(*block)
        self._scratch(step.scratch, words)
        self._main_call(step, words)

    def _main_call(self, step: Step, words: Words) -> None:
        """A script where a function only finds sizes or runs bodies."""
        if is_script(step.function):
            with suppress(NotAScript):
                call = script_call(step)
                self._used.functions |= {f.name: f for f in call.script.functions}
                self._calls.write_script(call, words)
                return
        self._call(self._chosen(step), words)

    def _chosen(self, step: Step) -> ClosedCall:
        """The function with elementwise work in its text where there is one."""
        if self._available and has_work(step):
            call = closed_call(step, in_text=True)
            if closed_name(call.function) in self._available:
                return call
        return closed_call(step)

    def _blocks(self, number: int, step: Step) -> list[tuple[int, int, int, int]]:
        """Memory that the step has to find: whether an output's, which, its bytes, and whether
        these are estimated first.
        """
        found = []
        for buffer in (*step.reads, *step.writes):
            root = buffer.root()
            block = self._plan.late.get(root)
            if block is not None and root.first == number and root not in self._obtained:
                self._obtained.add(root)
                found.append((0, block, root.bytes))
            owned = buffer.kind == "output" and buffer.number in self._owned
            if owned and buffer.number not in self._obtained:
                self._obtained.add(buffer.number)
                _, dtype, shape = self._program.outputs[buffer.number]
                found.append((1, buffer.number, dims.product(shape) * dtype.bytes))
        term = self._numbers.terms.number
        return [(kind, n, term(size), int(isinstance(size, Expr))) for kind, n, size in found]


def _place(place: PlaceCode) -> list[int]:
    rows = [n for row in place.rows for n in (row.below, row.size, row.stride)]
    return [place.pointer, place.bytes, place.column, len(place.rows), *rows]
