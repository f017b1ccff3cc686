"""Functions that find sizes and run bodies, as code for the machine of kernels/script.hpp: every
value is a slot of 64 bits, and what it calls besides are closed functions of slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from infuse.immutable import Immutable, replace
from infuse.lowering import statements as parts
from infuse.lowering.expressions import (
    BlockOf,
    Element,
    Expression,
    FieldOf,
    Nothing,
    Pointed,
    SizeOf,
    expression,
)
from infuse.lowering.program import Argument, Function, Parameter, Step
from infuse.lowering.statements import Statement
from infuse.targets.cpu.closed.assembly import NotAScript, Script, Value
from infuse.targets.cpu.closed.parts import apart
from infuse.targets.cpu.closed.values import Values

_FAILURES: Final = {
    "NO_MEMORY": 1,
    "BAD_INDEX": 2,
    "DIFFERENT_SIZES": 3,
    "DIVIDES_BY_ZERO": 4,
    "BAD_SIZES": 5,
    "ENDLESS": 6,
    "ASSERTION": 7,
    "CANCELLED": 8,
}
"""As kernels/failure.h numbers them."""
_HOST: Final = (
    parts.If,
    parts.Repeat,
    parts.Room,
    parts.RunBody,
    parts.Variable,
    parts.Assign,
    parts.Require,
    parts.Return,
    parts.Scope,
    parts.Pointers,
    parts.Arrays,
    parts.Constant,
    parts.KernelCall,
)


class ScriptCall(Immutable):
    """A step that is a script: its code, parameters and arguments."""

    script: Script
    parameters: tuple[Parameter, ...]
    arguments: tuple[Argument, ...]


def is_script(function: Function) -> bool:
    """Whether a function only computes sizes, moves pointers and runs bodies."""
    if not all(isinstance(s, _HOST) for s in function.statements):
        return False
    calls = [s for s in function.statements if isinstance(s, parts.KernelCall)]
    return function.is_control or len(function.statements) > len(calls)


def script_call(step: Step) -> ScriptCall:
    """A step whose function is a script; NotAScript where the machine cannot do what it says."""
    writer = _Writer(step.function)
    writer.statements(step.function.statements)
    return ScriptCall(writer.script(), tuple(step.function.parameters), tuple(step.arguments))


class _Writer:
    """Writes the code of one function."""

    def __init__(self, function: Function) -> None:
        self._values = Values(function.includes)
        self._asm = self._values.asm
        for parameter in function.parameters:
            self._values.names[parameter.name] = self._parameter(parameter)

    def script(self) -> Script:
        """All of it."""
        self._asm.op("end", 0)
        lists = (
            tuple(self._values.functions),
            tuple(self._values.terms),
            tuple(self._values.symbols),
        )
        return Script(self._asm.code, self._asm.count, *lists)

    def _parameter(self, parameter: Parameter) -> Value:
        match parameter.kind:
            case "tensor":
                assert parameter.dtype is not None
                return Value(self._asm.slots(), "pointer", parameter.dtype.c_name)
            case "found size":
                return Value(self._asm.slots(), "pointer", "int64_t")
            case "size":
                return Value(self._asm.slots())
        raise NotAScript(f"a script has no parameter of kind {parameter.kind}")

    # -- statements --------------------------------------------------------------------------------

    def statements(self, statements: Sequence[Statement]) -> None:
        """The code of statements."""
        for statement in statements:
            self._statement(statement)

    def _inside(self, statements: Sequence[Statement]) -> None:
        """The code of statements whose names nobody else sees."""
        outer = dict(self._values.names)
        self.statements(statements)
        self._values.names = outer

    def _statement(self, statement: Statement) -> None:
        match statement:
            case parts.Constant(_, name, value) | parts.Variable(_, ((name, value),)):
                self._define(name, self._values.value(value))
            case parts.Variable(_, values):
                for name, value in values:
                    self._define(name, self._values.value(value))
            case parts.Arrays(lists):
                for name, elements in lists:
                    self._list(name, list(apart(elements)), "int64_t")
            case parts.Pointers(name, elements):
                self._list(name, [*elements, Nothing()], "void*")
            case parts.Room(lengths, zeros):
                for name, length in lengths:
                    first = self._asm.slots(max(1, length))
                    self._values.names[name] = Value(first, "list", "int64_t")
                    for slot in range(first, first + length if zeros else first):
                        self._asm.op("const", slot, 0)
            case parts.Assign(pairs):
                for place, value in pairs:
                    self._assign(place, value)
            case parts.KernelCall():
                self._kernel(statement)
            case _:
                self._flow(statement)

    def _define(self, name: str, value: Value) -> None:
        slot = self._asm.slots()
        self._asm.op("move", slot, value.slot)
        self._values.names[name] = replace(value, slot=slot)

    def _list(self, name: str, elements: Sequence[Expression], type: str) -> None:
        values = [self._values.pointer(self._values.value(each)) for each in elements]
        first = self._asm.slots(max(1, len(values)))
        for number, value in enumerate(values):
            self._asm.op("move", first + number, value.slot)
        self._values.names[name] = Value(first, "list", type)

    def _kernel(self, call: parts.KernelCall) -> None:
        if call.context:
            raise NotAScript(f"{call.kernel} is a kernel")
        form = "fails" if call.failure else "value" if call.result else "done"
        value = self._values.call(form, call.kernel, call.template, call.arguments)
        if call.failure:
            going = self._asm.op("unless", value.slot, 0)
            self._asm.op("end", self._failure(call.failure))
            self._asm.land(going)
        elif call.result:
            self._values.names[call.result] = value

    def _flow(self, statement: Statement) -> None:
        match statement:
            case parts.Require(condition, failure):
                holds = self._asm.new("!", self._values.value(condition).slot)
                going = self._asm.op("unless", holds.slot, 0)
                self._asm.op("end", self._failure(failure))
                self._asm.land(going)
            case parts.Return(condition, failure):
                going = self._asm.op("unless", self._values.value(condition).slot, 0)
                self._asm.op("end", self._failure(failure or "0"))
                self._asm.land(going)
            case parts.If(condition, then, otherwise):
                skip = self._asm.op("unless", self._values.value(condition).slot, 0)
                self._inside(then)
                end = self._asm.op("jump", 0)
                self._asm.land(skip)
                self._inside(otherwise)
                self._asm.land(end)
            case parts.Scope(body):
                self._inside(body)
            case parts.Repeat():
                self._repeat(statement)
            case parts.RunBody(number):
                self._asm.op("body", number, self._values.names["in"].slot)
            case _:
                raise NotAScript(f"a script has no {type(statement).__name__}")

    def _repeat(self, statement: parts.Repeat) -> None:
        outer = dict(self._values.names)
        if statement.first is not None:
            self._define("i", self._values.value(statement.first))
        again = self._asm.here
        end = self._asm.op("unless", self._values.value(statement.condition).slot, 0)
        # The condition may take several instructions: all of them are asked again.
        self._inside(statement.body)
        index, one = self._values.names["i"].slot, self._asm.constant(1)
        self._asm.op("+", index, index, one.slot)
        if statement.also:
            self._asm.op("move", self._values.names[statement.also].slot, index)
        self._asm.op("jump", again)
        self._asm.land(end)
        self._values.names = outer

    def _assign(self, place: Expression, value: Expression) -> None:
        source = self._values.value(value)
        match place:
            case str(name) if name in self._values.names:
                self._asm.op("move", self._values.names[name].slot, source.slot)
            case str(name) if name.startswith("*"):
                self._store(self._values.names[name[1:]], self._asm.constant(0), source)
            case Pointed(pointer):
                self._store(self._values.value(pointer), self._asm.constant(0), source)
            case Element(array, int() as index) if self._values.value(array).kind == "list":
                self._asm.op("move", self._values.value(array).slot + index, source.slot)
            case Element(array, index):
                self._store(
                    self._values.value(array), self._values.value(expression(index)), source
                )
            case FieldOf(BlockOf() as block, "data"):
                self._store(
                    replace(self._values.value(block), type="void*"), self._asm.constant(0), source
                )
            case SizeOf(symbol):
                self._asm.op("set", self._values.symbol(symbol), source.slot)
            case _:
                raise NotAScript(f"a script does not store in {place}")

    def _store(self, pointer: Value, index: Value, source: Value) -> None:
        pointer = self._values.pointer(pointer)
        self._asm.op(
            "store",
            pointer.slot,
            index.slot,
            self._values.pointer(source).slot,
            self._values.type_of(pointer),
        )

    @staticmethod
    def _failure(name: str) -> int:
        return _FAILURES[name] if name in _FAILURES else int(name)
