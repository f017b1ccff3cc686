"""What expressions of scripts give, as code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from infuse.immutable import replace
from infuse.ir.dims import Dim
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
from infuse.targets.cpu.closed.assembly import LOADED, Assembler, NotAScript, Value
from infuse.targets.cpu.closed.hosted import HostFunction, Operand
from infuse.targets.cpu.closed.parts import apart
from infuse.targets.cpu.closed.work import element_bytes

_CONSTANTS: Final = {"true": 1, "false": 0, "INT64_MAX": 2**63 - 1}
_TOO_LARGE: Final = float(2**46)
_ELEMENT: Final = re.compile(r"(\w+)\[(\d+)\]")
_NULL: Final = re.compile(r"\(const (\w+)\*\)nullptr")


class Values:
    """Writes code that computes expressions; knows what names stand for, and counts the functions,
    terms and symbols that the code has to do with. `headers`: those that its functions need.
    """

    def __init__(self, headers: Iterable[str]) -> None:
        self.asm = Assembler()
        self.functions: dict[HostFunction, int] = {}
        self.terms: list[Any] = []
        self.symbols: dict[str, int] = {}
        self.names: dict[str, Value] = {}
        self._headers = tuple(sorted(headers))

    def value(self, term: Expression) -> Value:
        """The slot that holds what an expression gives."""
        match term:
            case str():
                return self._text(term)
            case Size(size):
                return self._size(size)
            case Estimate(size):
                return self.asm.new("estimate", self._term(size), kind="double")
            case Operation(operator, operands):
                return self._operation(operator, operands)
            case Grouped(inner):
                return self.value(inner)
            case Converted(dtype, inner):
                value = self.value(inner)
                return self.asm.double(value) if dtype.is_float else value
            case AsSize(inner):
                return self._long(self.value(inner))
            case Chosen(condition, then, otherwise):
                return self._chosen(condition, then, otherwise)
            case Invocation(function, arguments, template):
                return self.call("value", function, template, arguments)
            case Calculated("*{}", (inner,)):
                return self.value(Pointed(inner))
            case Calculated("(isize)*{}", (inner,)):
                return self._long(self.value(Pointed(inner)))
        return self._place(term)

    def _place(self, term: Expression) -> Value:
        """What lies somewhere, or where it lies."""
        match term:
            case Pointed(pointer):
                return self._load(self.value(pointer), self.asm.constant(0))
            case Element(array, int() as index):
                base = self.value(array)
                if base.kind == "list":
                    return Value(base.slot + index, *self._element(base))
                return self._load(base, self.asm.constant(index))
            case Element(array, index):
                return self._load(self.pointer(self.value(array)), self.value(expression(index)))
            case FieldOf(BlockOf() as block, "data"):
                return self._load(
                    replace(self.value(block), type="void*"), self.asm.constant(0), "char"
                )
            case BlockOf(program, number):
                return self.asm.new("block", program, number, kind="pointer", type="Block")
            case BodyOutput(body, number):
                return self.asm.new("result", body, number, kind="pointer", type="char")
            case SizeOf(symbol):
                return self.asm.new("get", self.symbol(symbol))
            case PointerTo(pointer, dtype):
                of = "char" if dtype is None else dtype.c_name
                return replace(self.pointer(self.value(pointer)), type=of)
            case AddressOf(BlockOf() as block):
                return self.value(block)
            case AddressOf(str(name)):
                value = self.names[name]
                return self.asm.new("address", value.slot, kind="pointer", type="int64_t")
            case Nothing():
                return self.asm.new("const", 0, kind="pointer", type="char")
        raise NotAScript(f"a script has no expression {term}")

    def _text(self, text: str) -> Value:
        if text in self.names:
            return self.names[text]
        if text in _CONSTANTS:
            return self.asm.constant(_CONSTANTS[text])
        if text.removesuffix("L").removeprefix("-").isdigit():
            return self.asm.constant(int(text.removesuffix("L")))
        if text in ("TOO_LARGE", "-TOO_LARGE"):
            bits = memoryview(bytearray(8)).cast("d")
            bits[0] = -_TOO_LARGE if text.startswith("-") else _TOO_LARGE
            return self.asm.new("const", bits.cast("B").cast("q")[0], kind="double")
        if text.startswith("(double)"):
            return self.asm.double(self._text(text.removeprefix("(double)")))
        if text.startswith("*") and text[1:] in self.names:
            return self.value(Pointed(text[1:]))
        if element := _ELEMENT.fullmatch(text):
            return self.value(Element(element[1], int(element[2])))
        raise NotAScript(f"a script has no text {text!r}")

    def _size(self, size: Dim) -> Value:
        if isinstance(size, int):
            return self.asm.constant(size)
        return self.asm.new("term", self._term(size))

    def _term(self, size: Dim) -> int:
        self.terms.append(size)
        return len(self.terms) - 1

    def symbol(self, symbol: str) -> int:
        """The number of a symbol."""
        return self.symbols.setdefault(symbol, len(self.symbols))

    def _long(self, value: Value) -> Value:
        return self.asm.new("to long", value.slot) if value.kind == "double" else value

    def _operation(self, operator: str, operands: Sequence[Expression]) -> Value:
        if operator in ("&&", "||"):
            return self._both(operator, operands)
        first, *rest = map(self.value, operands)
        if operator == "!":
            return self.asm.new("!", first.slot)
        for each in rest:
            first = self._binary(operator, first, each)
        return first

    def _binary(self, operator: str, a: Value, b: Value) -> Value:
        if a.kind in ("pointer", "list") and operator == "+":
            a = self.pointer(a)
            bytes_ = element_bytes(a.type)
            return self.asm.new("offset", a.slot, b.slot, bytes_, kind="pointer", type=a.type)
        if "double" in (a.kind, b.kind):
            kind = "double" if operator in "+-*/" else "long"
            return self.asm.new(
                f"d{operator}", self.asm.double(a).slot, self.asm.double(b).slot, kind=kind
            )
        return self.asm.new(operator, a.slot, b.slot)

    def _both(self, operator: str, operands: Sequence[Expression]) -> Value:
        """What holds if all operands hold, or one of them: the others are not asked then."""
        result, ends = self.asm.slots(), []
        for number, operand in enumerate(operands):
            value = self.value(operand)
            self.asm.op("move", result, value.slot)
            if number == len(operands) - 1:
                break
            asked = result if operator == "&&" else self.asm.new("!", result).slot
            ends.append(self.asm.op("unless", asked, 0))
        self.asm.land(*ends)
        return Value(result)

    def _chosen(self, condition: Expression, then: Expression, other: Expression) -> Value:
        result = self.asm.slots()
        skip = self.asm.op("unless", self.value(condition).slot, 0)
        value = self.value(then)
        self.asm.op("move", result, value.slot)
        end = self.asm.op("jump", 0)
        self.asm.land(skip)
        self.asm.op("move", result, self.value(other).slot)
        self.asm.land(end)
        return replace(value, slot=result)

    def _element(self, value: Value) -> tuple[str, str]:
        return ("pointer", "char") if value.type == "void*" else ("long", "")

    def pointer(self, value: Value) -> Value:
        """Where a list begins; other values as they are."""
        if value.kind != "list":
            return value
        return self.asm.new("address", value.slot, kind="pointer", type=value.type)

    def type_of(self, value: Value) -> int:
        """The number of the C type that a pointer leads to."""
        if value.type not in LOADED:
            raise NotAScript(f"a script does not load {value.type or 'this'}")
        return LOADED.index(value.type)

    def _load(self, pointer: Value, index: Value, of: str = "") -> Value:
        pointer = self.pointer(pointer)
        type = self.type_of(pointer)
        kind = "double" if pointer.type in ("float", "double") else "long"
        if pointer.type == "void*":
            kind = "pointer"
        slots = pointer.slot, index.slot, type
        return self.asm.new(
            "load", *slots, kind=kind, type=of or ("char" if pointer.type == "void*" else "")
        )

    def call(
        self, form: str, function: str, template: Sequence[str], arguments: Sequence[Expression]
    ) -> Value:
        """A call of a function, whose arguments lie side by side."""
        operands: list[Operand] = []
        slots: list[int] = []
        for each in apart(arguments):
            if isinstance(each, str) and (null := _NULL.fullmatch(each)):
                value = self.asm.new("const", 0, kind="pointer", type=null[1])
                operands.append(Operand(value.kind, value.type))
                slots.append(value.slot)
            elif isinstance(each, str) and (
                each == "nullptr" or ("(" in each and each not in self.names)
            ):
                operands.append(Operand("text", each))
            else:
                value = self.pointer(self.value(each))
                operands.append(Operand(value.kind, value.type))
                slots.append(value.slot)
        first = self.asm.slots(max(1, len(slots)))
        for number, slot in enumerate(slots):
            self.asm.op("move", first + number, slot)
        called = HostFunction(form, function, tuple(template), tuple(operands), self._headers)
        number = self.functions.setdefault(called, len(self.functions))
        return self.asm.new("call", number, first)
