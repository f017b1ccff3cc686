"""Functions of a closed set: numbers, sizes and elementwise work are arguments in place of text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from infuse import dtypes
from infuse.errors import UnsupportedOperatorError
from infuse.immutable import replace
from infuse.ir.dims import Dim, Expr
from infuse.lowering.elementwise import Elementwise, Place, RowStep, Scalar
from infuse.lowering.expressions import (
    TERMS,
    Aggregate,
    BlockOf,
    BodyOutput,
    Element,
    Estimate,
    Expression,
    Size,
    SizeOf,
)
from infuse.lowering.program import Argument, Function, Number, Parameter, Step
from infuse.lowering.statements import (
    Arrays,
    Assign,
    Constant,
    CopyElements,
    Define,
    If,
    InterleavePlanes,
    KernelCall,
    Loader,
    MapCall,
    MapWork,
    Repeat,
    Require,
    Result,
    Return,
    Room,
    Scope,
    Scratch,
    Statement,
    Struct,
    Text,
    Variable,
    Work,
)
from infuse.targets.cpu.closed.ordering import in_order
from infuse.targets.cpu.closed.parts import (
    ClosedArgument,
    ClosedCall,
    Estimated,
    InterpretedMap,
    InterpretedWork,
    ListArgument,
    WorkArgument,
    apart,
)
from infuse.targets.cpu.closed.work import WorkCode, work_code

_FLOAT = r"0x[0-9a-f.]+p[+-]?\d+|\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+"
_HOISTED: Final = re.compile(
    rf"(?<![\w.])(?:(?P<float>{_FLOAT})(?P<single>f?)|(?P<whole>\d+)u?(?:LL|L))(?![\w.])"
    r"|__builtin_(?P<special>inf|nan)(?P<narrow>f?)\((?:\"\")?\)"
    r"|(?<![\w.>])(?P<name>[a-z]+\d+)\b"
)
"""What becomes a parameter: sizes and floats, of which a model may have others, but no positions;
and what is one.
"""
_NULL: Final = re.compile(r"\((?P<constant>const )?(?P<type>\w+)\*\)nullptr")
_TRUTHS: Final = {"false": 0, "true": 1}
_TYPES: Final = {dtype.c_name: dtype for dtype in dtypes.ALL if dtype.c_name}


def has_work(step: Step) -> bool:
    """Whether a step does elementwise work that may be text in its function (`closed_call`)."""
    works = [s.work for s in step.function.statements if isinstance(s, Work | MapWork)]
    return bool(works) and all(work.blocks is None for work in works)


def closed_call(step: Step, *, in_text: bool = False) -> ClosedCall:
    """What a step calls, as a function that only its kernels and its element types are part of.
    `in_text`: its elementwise work is, too, which is faster, and which a library has for the most
    usual work.

    UnsupportedOperatorError where it runs bodies of control flow.
    """
    if step.function.is_control:
        raise UnsupportedOperatorError(f"{step.label} runs bodies of control flow")
    hoisting = _Hoisting(step.function, step.arguments, in_text)
    hoisting.function.statements = hoisting.statements(step.function.statements)
    hoisting.function.includes = set(step.function.includes)
    if any(isinstance(s, CopyElements) for s in step.function.statements):
        hoisting.function.includes.add("copy.hpp")
    hoisting.function.shared = set(step.function.shared)
    hoisting.function.stores_rounded = step.function.stores_rounded
    return ClosedCall(hoisting.function, tuple(hoisting.arguments))


def closed_scratch(demand: Scratch) -> ClosedCall:
    """The function that tells the bytes of scratch memory."""
    hoisting = _Hoisting(Function(demand.function), ())
    arguments = tuple(map(hoisting.argument, demand.arguments))
    call = KernelCall(demand.function, arguments, demand.template, context=False, result="bytes")
    hoisting.function.statements = [call, Result("bytes")]
    hoisting.function.includes = {demand.header}
    return ClosedCall(hoisting.function, tuple(hoisting.arguments))


class _Hoisting:
    """Collects the parameters of a closed function, and what it is called with."""

    def __init__(
        self, function: Function, arguments: Sequence[Argument], in_text: bool = False
    ) -> None:
        self._in_text = in_text
        self.function = Function(_kernel_of(function))
        self.arguments: list[ClosedArgument] = []
        self._from = {p.name: (p, a) for p, a in zip(function.parameters, arguments, strict=True)}

    # -- parameters --------------------------------------------------------------------------------

    def _add(self, letter: str, argument: ClosedArgument, kind: str, **how: Any) -> str:
        name = f"{letter}{len(self.arguments)}"
        self.function.parameters.append(Parameter(name, kind, **how))
        self.arguments.append(argument)
        return name

    def _parameter(self, name: str) -> str:
        """What a parameter of the open function is called where it stands once more: each place has
        a parameter of its own, so that what is equal by chance makes no other function.
        """
        if name not in self._from:
            return name
        parameter, argument = self._from[name]
        how = {"dtype": parameter.dtype, "is_written": parameter.is_written}
        letter = name.rstrip("0123456789")
        return self._add(letter, argument, parameter.kind, sizes=parameter.sizes, **how)

    def text(self, text: str) -> str:
        """A text with the names of the closed function, its numbers being parameters."""
        number = _HOISTED.fullmatch(text.removeprefix("-"))
        if number is not None and text.startswith("-") and not number["name"]:
            return self._number(number, -1)
        return _HOISTED.sub(self._hoisted, text)

    def argument(self, expression: Expression) -> Expression:
        """An argument of a call, or several in one text: a whole number, a truth value and a
        pointer that leads nowhere are arguments like any other.
        """
        if isinstance(expression, str):
            return ", ".join(map(self._single, expression.split(", ")))
        return self.expression(expression)

    def _single(self, text: str) -> str:
        if text.removeprefix("-").isdigit():
            return f"int({self._size(int(text))})"
        if text in _TRUTHS:
            return f"{self._size(_TRUTHS[text])} != 0"
        if null := _NULL.fullmatch(text):
            how = {"dtype": _TYPES[null["type"]], "is_written": not null["constant"]}
            return self._add("p", 0, "tensor", **how)
        return self.text(text)

    def _hoisted(self, match: re.Match[str]) -> str:
        return self._parameter(match["name"]) if match["name"] else self._number(match, 1)

    def _number(self, match: re.Match[str], sign: int) -> str:
        if match["whole"]:
            # Unsigned numbers of 64 bits are longs of the same bits.
            number = (sign * int(match["whole"]) + 2**63) % 2**64 - 2**63
            return self._add("n", number, "size")
        digits = match["special"] or match["float"]
        value = float.fromhex(digits) if digits.startswith("0x") else float(digits)
        single = match["narrow"] if match["special"] else match["single"]
        dtype = dtypes.float32 if single else dtypes.float64
        return self._add("v", Number(sign * value, dtype), "number", dtype=dtype)

    def _size(self, size: Dim) -> str:
        return self._add("n", size, "size")

    # -- expressions -------------------------------------------------------------------------------

    def expression(self, expression: Expression) -> Expression:
        """An expression of the closed function."""
        match expression:
            case str():
                return self.text(expression)
            case Size(size):
                return self._size(size)
            case Estimate(size):
                return self._add("v", Estimated(size), "number", dtype=dtypes.float64)
            case BodyOutput() | BlockOf() | SizeOf():
                raise UnsupportedOperatorError("a function reads what bodies leave")
            case Element(array, int() as index):
                return Element(self.expression(array), self._size(index))
        if isinstance(expression, tuple):
            return self._add("sizes", expression, "sizes", sizes=type(expression))
        assert isinstance(expression, TERMS)
        return replace(expression, **self._inner(expression))

    def _inner(self, term: Any) -> dict[str, Any]:
        """The parts of a term that are expressions."""
        changed: dict[str, Any] = {}
        for name in term.__struct_fields__:
            value = getattr(term, name)
            if name == "items":
                changed["items"] = self._named(value)
            elif name in ("operands", "arguments"):
                changed[name] = tuple(map(self.argument, value))
            elif name in _EXPRESSIONS:
                changed[name] = self.expression(value)
        return changed

    # -- statements --------------------------------------------------------------------------------

    def statements(self, statements: Sequence[Statement]) -> list[Statement]:
        """Statements of the closed function."""
        return [
            closed
            for each in statements
            for closed in (
                self._arrays(each) if isinstance(each, Arrays) else [self._statement(each)]
            )
        ]

    def _arrays(self, statement: Arrays) -> Iterator[Statement]:
        """Lists of numbers as arguments, whatever their lengths; what else there is stays."""
        for name, elements in statement.lists:
            sizes = [self._known(each) for each in apart(elements)]
            if statement.constant and None not in sizes:
                whole = tuple(size for size in sizes if size is not None)
                yield Constant("isize*", name, self._add("l", ListArgument(whole), "list"))
            else:
                yield replace(statement, lists=((name, tuple(map(self.expression, elements))),))

    def _known(self, expression: Expression) -> Dim | None:
        """The size that an expression is, where it is one that the call is given."""
        match expression:
            case Size(size):
                return size
            case str() if expression in self._from:
                argument = self._from[expression][1]
                return argument if isinstance(argument, int | Expr) else None
            case str() if expression.removesuffix("L").removeprefix("-").isdigit():
                return int(expression.removesuffix("L"))
        return None

    def _body(self, statements: Sequence[Statement]) -> tuple[Statement, ...]:
        return tuple(self.statements(statements))

    def _named(self, pairs: Sequence[tuple[str, Expression]]) -> tuple[tuple[str, Expression], ...]:
        return tuple((name, self.argument(_filled(name, value))) for name, value in pairs)

    def _statement(self, statement: Statement) -> Statement:
        match statement:
            case Work(work=work) if self._in_text:
                return replace(statement, work=self._texts(work))
            case MapWork(rows, columns, work) if self._in_text:
                ends = self.text(rows), self.text(columns)
                return MapWork(*ends, self._texts(work), statement.in_vectors, statement.cost)
            case Work(name, _, work):
                code = self._code(work)
                return InterpretedWork(name, self._work(code), code.result_type)
            case MapWork(rows, columns, work, _, cost):
                where = self.text(rows), self.text(columns)
                name = self._work(self._code(work))
                return InterpretedMap(*where, name, self._size(cost), work.divides)
            case KernelCall(arguments=arguments):
                return replace(statement, arguments=tuple(map(self.argument, arguments)))
            case Struct(fields=pairs):
                return replace(statement, fields=self._named(pairs))
            case Variable(values=pairs):
                return replace(statement, values=self._named(pairs))
            case Assign(pairs):
                each = ((self.expression(a), self.argument(b)) for a, b in pairs)
                return Assign(tuple(each))
            case Constant(value=value) | Result(value):
                return replace(statement, value=self.expression(value))
            case Require(condition) | Return(condition):
                return replace(statement, condition=self.expression(condition))
            case Room() | Text():
                return statement
        return self._block(statement)

    def _block(self, statement: Statement) -> Statement:
        match statement:
            case Scope(body) | Define(body=body):
                return replace(statement, body=self._body(body))
            case If(condition, then, otherwise):
                return If(self.expression(condition), self._body(then), self._body(otherwise))
            case Repeat(condition, body, first):
                begin = None if first is None else self.expression(first)
                end = self.expression(condition)
                return replace(statement, condition=end, body=self._body(body), first=begin)
            case Loader(name, pointer, columns):
                return Loader(name, self.text(pointer), self.text(columns))
            case MapCall(arguments=arguments, body=body):
                texts = tuple(map(self.text, arguments))
                return replace(statement, arguments=texts, body=self._body(body))
            case InterleavePlanes(_, images, pixels, source, target):
                where = map(self.text, (images, pixels, source, target))
                return InterleavePlanes(statement.channels, *where)
            case CopyElements():
                return self._copy(statement)
        raise UnsupportedOperatorError(f"a function has a {type(statement).__name__}")

    def _copy(self, s: CopyElements) -> Statement:
        """A copy, whatever its rank; lists of what the function computes stay in it."""
        lists = {"shape": s.shape or ("1L",), "from": s.read_strides, "to": s.write_strides}
        names, before = [], list[Statement]()
        for name, elements in lists.items():
            sizes = [self._known(each) for each in elements or ("0L",)]
            whole = tuple(size for size in sizes if size is not None)
            if len(whole) == len(sizes):
                names.append(self._add("l", ListArgument(whole), "list"))
            else:
                before.append(Arrays(((name, tuple(map(self.expression, elements))),)))
                names.append(name)
        ends = self.text(s.source), self.text(s.target)
        rank = f"int({self._size(max(1, s.rank))})"
        call = KernelCall("copy_nd", (rank, *names, *ends), (str(s.bytes),))
        return Scope((*before, call)) if before else call

    def _texts(self, work: Elementwise) -> Elementwise:
        """Elementwise work with the names of the closed function."""
        work = in_order(work)
        definitions = tuple(
            self._place(each)
            if isinstance(each, Place)
            else replace(each, name=self.text(each.name))
            if isinstance(each, Scalar)
            else each
            for each in work.definitions
        )
        stores = tuple(replace(each, place=self._place(each.place)) for each in work.stores)
        return replace(work, definitions=definitions, stores=stores)

    def _place(self, place: Place) -> Place:
        def divisor(size: int | str | None) -> int | str | None:
            if size is None or size == 1:
                return size
            return self.text(size) if isinstance(size, str) else self._size(size)

        rows = tuple(
            RowStep(divisor(row.below) or 1, divisor(row.size), self.text(row.stride))
            for row in place.rows
        )
        pointer = self.text(place.pointer)
        return replace(place, pointer=pointer, rows=rows, column=self.text(place.column))

    def _code(self, work: Elementwise) -> WorkCode:
        types = {n: p.dtype for n, (p, _) in self._from.items() if p.dtype is not None}
        return work_code(in_order(work), types)

    def _work(self, code: WorkCode) -> str:
        arguments = tuple(self._from[n][1] if isinstance(n, str) else n for n in code.arguments)
        return self._add("w", WorkArgument(code, arguments), "work")


_ROOM: Final = {"axis": 6, "in": 6}
"""How many elements the lists of structs have, by the name of the field."""


def _filled(name: str, value: Expression) -> Expression:
    """A field of a struct; a list repeats its last element, which is not looked at, as often as
    there is room, so that functions do not differ by rank.
    """
    if name not in _ROOM or not isinstance(value, Aggregate):
        return value
    last = value.items[-1:]
    return replace(value, items=value.items + last * (_ROOM[name] - len(value.items)))


_EXPRESSIONS: Final = frozenset(
    ("condition", "then", "otherwise", "name", "array", "index", "value", "pointer", "inner")
)
"""Fields of terms that are expressions."""


def _kernel_of(function: Function) -> str:
    """What a closed function is called after: its first kernel, so that the nodes do not matter."""
    for statement in function.statements:
        if isinstance(statement, KernelCall):
            return statement.kernel.rpartition(":")[2]
        if isinstance(statement, MapWork):
            return "map"
    return "copy" if any(isinstance(s, CopyElements) for s in function.statements) else "check"
