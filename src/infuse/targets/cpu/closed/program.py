"""A lowered program as a file that the executor of a library of closed functions runs."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Final

from infuse.errors import UnsupportedOperatorError
from infuse.ir import dims
from infuse.ir.dims import Expr
from infuse.lowering.memory import Plan
from infuse.lowering.program import Program, Step, all_sizes
from infuse.lowering.statements import Scratch
from infuse.targets.cpu.closed.calls import CallWriter, Numbers, Places, name_table
from infuse.targets.cpu.closed.hoisting import closed_call, closed_scratch, has_work
from infuse.targets.cpu.closed.parts import ClosedCall
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
)
from infuse.targets.text.plan import sizes_before_run

_LOAD, _SPLAT, _APPLY, _PUT = range(4)
_WIDTHS: Final = {"bool": 1, "float": 4, "double": 8}


@dataclass
class ClosedProgram:
    """A program as a file, and the closed functions that it calls, by name."""

    content: bytes
    functions: dict[str, ClosedCall] = field(default_factory=dict)
    elements: dict[str, ElementFunction] = field(default_factory=dict)


def closed_program(program: Program, plan: Plan, available: Container[str] = ()) -> ClosedProgram:
    """`program` as a file. `available`: functions with elementwise work in their text that it may
    call.

    UnsupportedOperatorError where it has bodies of control flow.
    """
    if program.bodies:
        raise UnsupportedOperatorError("the model has bodies of control flow")
    return _Writer(program, plan, available).program()


def usual_functions(program: Program) -> dict[str, ClosedCall]:
    """The functions of a program with elementwise work in their text, by name."""
    calls = [closed_call(step, in_text=True) for step in program.steps if has_work(step)]
    return {closed_name(call.function): call for call in calls}


class _Writer:
    def __init__(self, program: Program, plan: Plan, available: Container[str]) -> None:
        self._program, self._plan, self._available = program, plan, available
        self._owned = {
            n: None
            for n, (_, _, shape) in enumerate(program.outputs)
            if any(map(program.is_late, shape))
        }
        terms = Terms(all_sizes([program]), program.late_sizes)
        self._numbers = Numbers(terms, {}, {})
        self._calls = CallWriter(self._numbers, Places(plan, self._owned))
        self._used = ClosedProgram(b"")
        self._obtained: set[object] = set()

    def program(self) -> ClosedProgram:
        """Everything; what is called by number is written last and stands first."""
        head = Words()
        works, body = head.then(), head.then()
        self._interface(body)
        self._memory(body)
        body.add(len(self._program.steps))
        for number, step in enumerate(self._program.steps):
            self._step(number, step, body)
        elements: dict[str, int] = {}
        works.add(len(self._numbers.works))
        for code in self._numbers.works:
            self._work(code, works, elements)
        program = self._program
        head.add(len(program.symbols), len(all_sizes([program])))
        name_table(self._numbers.functions, head)
        name_table(elements, head)
        self._numbers.terms.write(head)
        self._used.content = head.content(works, body)
        return self._used

    def _interface(self, words: Words) -> None:
        """Inputs with their defaults, outputs with their sizes, and what sizes have to be."""
        program, term = self._program, self._numbers.terms.number
        words.add(len(program.inputs))
        for number in range(len(program.inputs)):
            default = program.defaults.get(number)
            words.add(NONE if default is None else default.buffer.position)
        words.add(len(program.outputs))
        for number, (_, _, shape) in enumerate(program.outputs):
            words.add(int(number in self._owned))
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
        words.add(int(step.checks))
        words.list(map(self._numbers.terms.number, step.open_sizes))
        blocks = list(self._blocks(number, step))
        words.add(len(blocks))
        for block in blocks:
            words.add(*block)
        self._scratch(step.scratch, words)
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

    # -- elementwise work --------------------------------------------------------------------------

    def _work(self, code: WorkCode, words: Words, elements: dict[str, int]) -> None:
        words.list(map(_width, code.types))
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


def _place(place: PlaceCode) -> list[int]:
    rows = [n for row in place.rows for n in (row.below, row.size, row.stride)]
    return [place.pointer, place.bytes, place.column, len(place.rows), *rows]


def _width(type: str) -> int:
    """Bytes of an element of a C type."""
    if type in _WIDTHS:
        return _WIDTHS[type]
    digits = "".join(c if c.isdigit() else " " for c in type).split()
    return int(digits[0]) // 8 if type.endswith("_t") or type in ("float16", "bfloat16") else 1
