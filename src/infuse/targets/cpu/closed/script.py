"""Functions that find sizes and run bodies, as code for the machine of kernels/script.hpp: every
value is a slot of 64 bits, and what it calls besides are closed functions of slots.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from infuse.errors import UnsupportedOperatorError
from infuse.ir.dims import Dim
from infuse.lowering import statements as parts
from infuse.lowering.expressions import (
    AddressOf,
    AsSize,
    BlockOf,
    BodyOutput,
    Calculated,
    Chosen,
    Converted,
    Element,
    Estimate,
    Expression,
    FieldOf,
    Grouped,
    Invocation,
    Nothing,
    Operation,
    Pointed,
    PointerTo,
    Size,
    SizeOf,
    expression,
)
from infuse.lowering.program import Argument, Function, Parameter, Step
from infuse.lowering.statements import Statement
from infuse.targets.cpu.closed.hosted import HostFunction, Operand
from infuse.targets.cpu.closed.work import element_bytes

LOADED: Final = (
    *("bool", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t"),
    *("uint64_t", "float", "double", "void*"),
)
"""C types of what is loaded and stored, in the order of kernels/script.hpp."""
_LONG: Final = LOADED.index("int64_t")
_POINTER: Final = LOADED.index("void*")
OPERATIONS: Final = (
    *("const", "move", "+", "-", "*", "/", "%", "==", "<", "<=", ">", ">=", "!"),
    *("d+", "d-", "d*", "d/", "d==", "d<", "d<=", "d>", "d>=", "to double", "to long"),
    *("load", "store", "address", "offset", "jump", "unless", "end", "call", "body", "result"),
    *("block", "term", "estimate", "get", "set"),
)
"""What the machine does, in the order of kernels/script.hpp."""
_CODES: Final = {name: number for number, name in enumerate(OPERATIONS)}
_FAILURES: Final = {
    "NO_MEMORY": 1,
    "BAD_INDEX": 2,
    "DIFFERENT_SIZES": 3,
    "DIVIDES_BY_ZERO": 4,
    "BAD_SIZES": 5,
    "ENDLESS": 6,
    "ASSERTION": 7,
}
"""As kernels/failure.h numbers them."""
_CONSTANTS: Final = {"true": 1, "false": 0, "INT64_MAX": 2**63 - 1}
_TOO_LARGE: Final = float(2**46)
_ELEMENT: Final = re.compile(r"(\w+)\[(\d+)\]")
_NULL: Final = re.compile(r"\(const (\w+)\*\)nullptr")
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


Code = tuple[int, ...]


class NotAScript(UnsupportedOperatorError):
    """A function does what the machine cannot."""


@dataclass(frozen=True)
class Script:
    """Code, how many slots it has, and the functions that it calls, by number."""

    code: tuple[Code, ...]
    slots: int
    functions: tuple[HostFunction, ...]
    terms: tuple[Any, ...] = field(compare=False)
    """Sizes that it computes, by number."""
    symbols: tuple[str, ...] = ()
    """Sizes that it reads and stores, by number."""


@dataclass(frozen=True)
class ScriptCall:
    """A step that is a script: its code, parameters and arguments."""

    script: Script
    parameters: tuple[Parameter, ...]
    arguments: tuple[Argument, ...]


def is_script(function: Function) -> bool:
    """Whether a function only computes sizes, moves pointers and runs bodies."""
    if not all(isinstance(s, _HOST) for s in function.statements):
        return False
    calls = [s for s in function.statements if isinstance(s, parts.KernelCall)]
    if any(call.context for call in calls):
        return False
    return function.is_control or len(function.statements) > len(calls)


def script_call(step: Step) -> ScriptCall:
    """A step whose function is a script; NotAScript where the machine cannot do what it says."""
    writer = _Writer(step.function)
    writer.statements(step.function.statements)
    return ScriptCall(writer.script(), tuple(step.function.parameters), tuple(step.arguments))


@dataclass(frozen=True)
class _Value:
    """What a slot holds: a long, a double, a pointer to elements of a C type, the sizes of a kernel
    (several slots), or the first of a list of such.
    """

    slot: int
    kind: str = "long"
    type: str = ""
    sizes: Any = None


class _Writer:
    """Writes the code of one function."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._code: list[list[int]] = []
        self._count = 0
        self._functions: dict[HostFunction, int] = {}
        self._terms: list[Any] = []
        self._symbols: dict[str, int] = {}
        self._names: dict[str, _Value] = {}
        for parameter in function.parameters:
            self._names[parameter.name] = self._parameter(parameter)

    def script(self) -> Script:
        """All of it."""
        self._op("end", 0)
        code = tuple(tuple(each) for each in self._code)
        lists = tuple(self._functions), tuple(self._terms), tuple(self._symbols)
        return Script(code, self._count, *lists)

    def _parameter(self, parameter: Parameter) -> _Value:
        match parameter.kind:
            case "tensor":
                assert parameter.dtype is not None
                return _Value(self._slots(), "pointer", parameter.dtype.c_name)
            case "found size":
                return _Value(self._slots(), "pointer", "int64_t")
            case "size":
                return _Value(self._slots())
        raise NotAScript(f"a script has no parameter of kind {parameter.kind}")

    # -- code --------------------------------------------------------------------------------------

    def _slots(self, count: int = 1) -> int:
        first = self._count
        self._count += count
        return first

    def _op(self, name: str, *operands: int) -> int:
        """One more instruction; its place."""
        self._code.append([_CODES[name], *operands, *[0] * (4 - len(operands))])
        return len(self._code) - 1

    def _new(self, name: str, *operands: int, kind: str = "long", type: str = "") -> _Value:
        slot = self._slots()
        self._op(name, slot, *operands)
        return _Value(slot, kind, type)

    def _land(self, *jumps: int) -> None:
        """Let these jumps lead to what comes next."""
        for place in jumps:
            operand = 1 if self._code[place][0] == _CODES["jump"] else 2
            self._code[place][operand] = len(self._code)

    def _constant(self, value: int) -> _Value:
        return self._new("const", value)

    def _double(self, value: _Value) -> _Value:
        return (
            value if value.kind == "double" else self._new("to double", value.slot, kind="double")
        )

    # -- expressions -------------------------------------------------------------------------------

    def value(self, term: Expression) -> _Value:
        """The slot that holds what an expression gives."""
        match term:
            case str():
                return self._text(term)
            case Size(size):
                return self._size(size)
            case Estimate(size):
                return self._new("estimate", self._term(size), kind="double")
            case Operation(operator, operands):
                return self._operation(operator, operands)
            case Grouped(inner):
                return self.value(inner)
            case Converted(dtype, inner):
                value = self.value(inner)
                return self._double(value) if dtype.is_float else value
            case AsSize(inner):
                return self._long(self.value(inner))
            case Chosen(condition, then, otherwise):
                return self._chosen(condition, then, otherwise)
            case Invocation(function, arguments, template):
                return self._call("value", function, template, arguments)
            case Calculated("*{}", (inner,)):
                return self.value(Pointed(inner))
            case Calculated("(long)*{}", (inner,)):
                return self._long(self.value(Pointed(inner)))
        return self._place(term)

    def _place(self, term: Expression) -> _Value:
        """What lies somewhere, or where it lies."""
        match term:
            case Pointed(pointer):
                return self._load(self.value(pointer), self._constant(0))
            case Element(array, int() as index):
                base = self.value(array)
                if base.kind == "list":
                    return _Value(base.slot + index, *self._element(base))
                return self._load(base, self._constant(index))
            case Element(array, index):
                return self._load(self._pointer(self.value(array)), self.value(expression(index)))
            case FieldOf(BlockOf() as block, "data"):
                return self._load(
                    replace(self.value(block), type="void*"), self._constant(0), "char"
                )
            case BlockOf(program, number):
                return self._new("block", program, number, kind="pointer", type="Block")
            case BodyOutput(body, number):
                return self._new("result", body, number, kind="pointer", type="char")
            case SizeOf(symbol):
                return self._new("get", self._symbol(symbol))
            case PointerTo(pointer, dtype):
                of = "char" if dtype is None else dtype.c_name
                return replace(self._pointer(self.value(pointer)), type=of)
            case AddressOf(BlockOf() as block):
                return self.value(block)
            case AddressOf(str(name)):
                value = self._names[name]
                return self._new("address", value.slot, kind="pointer", type="int64_t")
            case Nothing():
                return self._new("const", 0, kind="pointer", type="char")
        raise NotAScript(f"a script has no expression {term}")

    def _text(self, text: str) -> _Value:
        if text in self._names:
            return self._names[text]
        if text in _CONSTANTS:
            return self._constant(_CONSTANTS[text])
        if text.removesuffix("L").removeprefix("-").isdigit():
            return self._constant(int(text.removesuffix("L")))
        if text in ("TOO_LARGE", "-TOO_LARGE"):
            bits = memoryview(bytearray(8)).cast("d")
            bits[0] = -_TOO_LARGE if text.startswith("-") else _TOO_LARGE
            return self._new("const", bits.cast("B").cast("q")[0], kind="double")
        if text.startswith("(double)"):
            return self._double(self._text(text.removeprefix("(double)")))
        if text.startswith("*") and text[1:] in self._names:
            return self.value(Pointed(text[1:]))
        if element := _ELEMENT.fullmatch(text):
            return self.value(Element(element[1], int(element[2])))
        raise NotAScript(f"a script has no text {text!r}")

    def _size(self, size: Dim) -> _Value:
        if isinstance(size, int):
            return self._constant(size)
        return self._new("term", self._term(size))

    def _term(self, size: Dim) -> int:
        self._terms.append(size)
        return len(self._terms) - 1

    def _symbol(self, symbol: str) -> int:
        return self._symbols.setdefault(symbol, len(self._symbols))

    def _long(self, value: _Value) -> _Value:
        return self._new("to long", value.slot) if value.kind == "double" else value

    def _operation(self, operator: str, operands: Sequence[Expression]) -> _Value:
        if operator in ("&&", "||"):
            return self._both(operator, operands)
        first, *rest = map(self.value, operands)
        if operator == "!":
            return self._new("!", first.slot)
        for each in rest:
            first = self._binary(operator, first, each)
        return first

    def _binary(self, operator: str, a: _Value, b: _Value) -> _Value:
        if a.kind in ("pointer", "list") and operator == "+":
            a = self._pointer(a)
            bytes_ = element_bytes(a.type)
            return self._new("offset", a.slot, b.slot, bytes_, kind="pointer", type=a.type)
        if "double" in (a.kind, b.kind):
            kind = "double" if operator in "+-*/" else "long"
            return self._new(f"d{operator}", self._double(a).slot, self._double(b).slot, kind=kind)
        return self._new(operator, a.slot, b.slot)

    def _both(self, operator: str, operands: Sequence[Expression]) -> _Value:
        """What holds if all operands hold, or one of them: the others are not asked then."""
        result, ends = self._slots(), []
        for number, operand in enumerate(operands):
            value = self.value(operand)
            self._op("move", result, value.slot)
            if number == len(operands) - 1:
                break
            asked = result if operator == "&&" else self._new("!", result).slot
            ends.append(self._op("unless", asked, 0))
        self._land(*ends)
        return _Value(result)

    def _chosen(self, condition: Expression, then: Expression, other: Expression) -> _Value:
        result = self._slots()
        skip = self._op("unless", self.value(condition).slot, 0)
        value = self.value(then)
        self._op("move", result, value.slot)
        end = self._op("jump", 0)
        self._land(skip)
        self._op("move", result, self.value(other).slot)
        self._land(end)
        return replace(value, slot=result)

    def _element(self, value: _Value) -> tuple[str, str]:
        return ("pointer", "char") if value.type == "void*" else ("long", "")

    def _pointer(self, value: _Value) -> _Value:
        if value.kind != "list":
            return value
        return self._new("address", value.slot, kind="pointer", type=value.type)

    def _type(self, value: _Value) -> int:
        if value.type not in LOADED:
            raise NotAScript(f"a script does not load {value.type or 'this'}")
        return LOADED.index(value.type)

    def _load(self, pointer: _Value, index: _Value, of: str = "") -> _Value:
        pointer = self._pointer(pointer)
        type = self._type(pointer)
        kind = "double" if pointer.type in ("float", "double") else "long"
        if type == _POINTER:
            kind = "pointer"
        slots = pointer.slot, index.slot, type
        return self._new("load", *slots, kind=kind, type=of or ("char" if type == _POINTER else ""))

    def _call(
        self, form: str, function: str, template: Sequence[str], arguments: Sequence[Expression]
    ) -> _Value:
        """A call of a function, whose arguments lie side by side."""
        operands: list[Operand] = []
        slots: list[int] = []
        for each in _apart(arguments):
            if isinstance(each, str) and (null := _NULL.fullmatch(each)):
                operands.append(Operand("text", f"({null[1]}*)nullptr"))
            elif isinstance(each, str) and (
                each == "nullptr" or ("(" in each and each not in self._names)
            ):
                operands.append(Operand("text", each))
            else:
                value = self._pointer(self.value(each))
                operands.append(Operand(value.kind, value.type))
                slots.append(value.slot)
        first = self._slots(max(1, len(slots)))
        for number, slot in enumerate(slots):
            self._op("move", first + number, slot)
        headers = tuple(sorted(self._function.includes))
        called = HostFunction(form, function, tuple(template), tuple(operands), headers)
        number = self._functions.setdefault(called, len(self._functions))
        return self._new("call", number, first)

    # -- statements --------------------------------------------------------------------------------

    def statements(self, statements: Sequence[Statement]) -> None:
        """The code of statements."""
        for statement in statements:
            self._statement(statement)

    def _inside(self, statements: Sequence[Statement]) -> None:
        """The code of statements whose names nobody else sees."""
        outer = dict(self._names)
        self.statements(statements)
        self._names = outer

    def _statement(self, statement: Statement) -> None:
        match statement:
            case parts.Constant(_, name, value) | parts.Variable(_, ((name, value),)):
                self._define(name, self.value(value))
            case parts.Variable(_, values):
                for name, value in values:
                    self._define(name, self.value(value))
            case parts.Arrays(lists):
                for name, elements in lists:
                    self._list(name, list(_apart(elements)), "int64_t")
            case parts.Pointers(name, elements):
                self._list(name, [*elements, Nothing()], "void*")
            case parts.Room(lengths, zeros):
                for name, length in lengths:
                    first = self._slots(max(1, length))
                    self._names[name] = _Value(first, "list", "int64_t")
                    for slot in range(first, first + length if zeros else first):
                        self._op("const", slot, 0)
            case parts.Assign(pairs):
                for place, value in pairs:
                    self._assign(place, value)
            case parts.KernelCall():
                self._kernel(statement)
            case _:
                self._flow(statement)

    def _define(self, name: str, value: _Value) -> None:
        slot = self._slots()
        self._op("move", slot, value.slot)
        self._names[name] = replace(value, slot=slot)

    def _list(self, name: str, elements: Sequence[Expression], type: str) -> None:
        values = [self._pointer(self.value(each)) for each in elements]
        first = self._slots(max(1, len(values)))
        for number, value in enumerate(values):
            self._op("move", first + number, value.slot)
        self._names[name] = _Value(first, "list", type)

    def _kernel(self, call: parts.KernelCall) -> None:
        form = "fails" if call.failure else "value" if call.result else "done"
        value = self._call(form, call.kernel, call.template, call.arguments)
        if call.failure:
            going = self._op("unless", value.slot, 0)
            self._op("end", self._failure(call.failure))
            self._land(going)
        elif call.result:
            self._names[call.result] = value

    def _flow(self, statement: Statement) -> None:
        match statement:
            case parts.Require(condition, failure):
                holds = self._new("!", self.value(condition).slot)
                going = self._op("unless", holds.slot, 0)
                self._op("end", self._failure(failure))
                self._land(going)
            case parts.Return(condition, failure):
                going = self._op("unless", self.value(condition).slot, 0)
                self._op("end", self._failure(failure or "0"))
                self._land(going)
            case parts.If(condition, then, otherwise):
                skip = self._op("unless", self.value(condition).slot, 0)
                self._inside(then)
                end = self._op("jump", 0)
                self._land(skip)
                self._inside(otherwise)
                self._land(end)
            case parts.Scope(body):
                self._inside(body)
            case parts.Repeat():
                self._repeat(statement)
            case parts.RunBody(number):
                self._op("body", number, self._names["in"].slot)
            case _:
                raise NotAScript(f"a script has no {type(statement).__name__}")

    def _repeat(self, statement: parts.Repeat) -> None:
        outer = dict(self._names)
        if statement.first is not None:
            self._define("i", self.value(statement.first))
        again = len(self._code)
        end = self._op("unless", self.value(statement.condition).slot, 0)
        # The condition may take several instructions: all of them are asked again.
        self._inside(statement.body)
        index, one = self._names["i"].slot, self._constant(1)
        self._op("+", index, index, one.slot)
        if statement.also:
            self._op("move", self._names[statement.also].slot, index)
        self._op("jump", again)
        self._land(end)
        self._names = outer

    def _assign(self, place: Expression, value: Expression) -> None:
        source = self.value(value)
        match place:
            case str(name) if name in self._names:
                self._op("move", self._names[name].slot, source.slot)
            case str(name) if name.startswith("*"):
                self._store(self._names[name[1:]], self._constant(0), source)
            case Pointed(pointer):
                self._store(self.value(pointer), self._constant(0), source)
            case Element(array, int() as index) if self.value(array).kind == "list":
                self._op("move", self.value(array).slot + index, source.slot)
            case Element(array, index):
                self._store(self.value(array), self.value(expression(index)), source)
            case FieldOf(BlockOf() as block, "data"):
                self._store(replace(self.value(block), type="void*"), self._constant(0), source)
            case SizeOf(symbol):
                self._op("set", self._symbol(symbol), source.slot)
            case _:
                raise NotAScript(f"a script does not store in {place}")

    def _store(self, pointer: _Value, index: _Value, source: _Value) -> None:
        pointer = self._pointer(pointer)
        self._op("store", pointer.slot, index.slot, self._pointer(source).slot, self._type(pointer))

    @staticmethod
    def _failure(name: str) -> int:
        return _FAILURES[name] if name in _FAILURES else int(name)


def _apart(expressions: Sequence[Expression]) -> Iterator[Expression]:
    """Expressions one by one, where some are texts of several."""
    for each in expressions:
        yield from each.split(", ") if isinstance(each, str) else (each,)
