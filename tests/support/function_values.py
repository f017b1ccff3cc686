"""What stands in the body of a generated function, as data: its calls of kernels, one after
another, and for every argument what its names stand for.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from types import SimpleNamespace
from typing import Any, Final

from infuse import immutable
from infuse.ir.graph import Array
from infuse.lowering import statements as cpp
from infuse.lowering.expressions import (
    TERMS,
    AddressOf,
    Aggregate,
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
    Operation,
    Pointed,
    PointerTo,
    Size,
    SizeOf,
    elements,
    expression as as_expression,
)
from infuse.lowering.program import Number, SizeResult, Step
from infuse.lowering.statements import KernelCall, Statement
from infuse.lowering.tensors import Tensor
from infuse.targets.cpu.families.base import Arguments
from infuse.targets.text.sizes import symbol_field
from tests.support.formulas import working_type
from tests.support.step_memory import Memory

_CAST = re.compile(r"\((?:const )?[\w<>]+\*?\)(?=[\w(-])")
_NUMBER = re.compile(r"\b(0x[0-9a-f.]+p[+-]?\d+|\d+(?:\.\d*)?(?:e[+-]?\d+)?)[fuL]*(?![\w.])")
_KEYWORD = re.compile(r"\b(from|in)\b")
_TYPES: Final = {"isize", "int", "bool", "float16", "bfloat16"}
_PLAIN: Final = {"true": True, "false": False, "nullptr": None}
_INFINITE: Final = {
    **dict.fromkeys(("__builtin_inf", "__builtin_inff"), float("inf")),
    **dict.fromkeys(("__builtin_nan", "__builtin_nanf"), float("nan")),
}
_OPERATORS: Final[dict[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
}


OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": lambda *terms: reduce(operator.add, terms),
    "-": lambda *terms: reduce(operator.sub, terms),
    "*": lambda *terms: reduce(operator.mul, terms),
    "/": lambda *terms: reduce(_divided, terms),
    "%": operator.mod,
    "&&": lambda *terms: all(terms),
    "||": lambda *terms: any(terms),
    "!": operator.not_,
}
_INVOKED: Final[dict[str, Callable[..., Any]]] = {
    "all_at_most": lambda a, b, rank: all(x <= y for x, y in zip(a[:rank], b[:rank])),
    "all_equal": lambda a, b, rank: list(a[:rank]) == list(b[:rank]),
    "matrix_offset": lambda i, axes, count: sum(
        i // below % size * stride for below, size, stride in _triples(axes[: 3 * count])
    ),
    "do_broadcast": lambda a, b: a == b or 1 in (a, b),
    "is_possible": lambda sizes, count: all(size >= 0 for size in sizes[:count]),
}


def _triples(numbers: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    return zip(numbers[::3], numbers[1::3], numbers[2::3])


class UnresolvedError(Exception):
    """A text says something else than numbers, places and their sums."""


@dataclass(frozen=True)
class Pointer:
    """A place in memory: `start` elements behind the first of a tensor."""

    tensor: Tensor
    is_written: bool
    start: int = 0

    def __add__(self, count: int) -> Pointer:
        return replace(self, start=self.start + count)


@dataclass(frozen=True)
class Inner:
    """A function inside of a function."""

    define: cpp.Define | cpp.Work
    scope: Scope

    def __call__(self, **values: Any) -> Any:
        """What it gives, its parameters having these values."""
        scope = self.scope.inside(values)
        assert isinstance(self.define, cpp.Define)
        (result,) = (s for s in self.define.body if isinstance(s, cpp.Result))
        return scope.value(result.value)

    def calls(self, **values: Any) -> list[tuple[KernelCall, tuple[Any, ...]]]:
        """The kernels that it calls, and their arguments."""
        assert isinstance(self.define, cpp.Define)
        scope = self.scope.inside(values)
        return [(call, inner.shown(call)) for call, inner in scope.run(self.define.body)]


class Scope:
    """Names, and what they stand for where a statement is reached."""

    def __init__(self, names: dict[str, Any], memory: Memory) -> None:
        self.names = names
        self.memory = memory
        self.told: dict[str, int] = {}
        """Sizes that the statements tell, by symbol."""

    def inside(self, names: Mapping[str, Any]) -> Scope:
        """The same with more names."""
        return Scope({**self.names, **names}, self.memory)

    # -- statements --------------------------------------------------------------------------------

    def run(self, statements: Sequence[Statement]) -> Iterator[tuple[KernelCall, Scope]]:
        """The calls of kernels in order, each with the names at that place."""
        for statement in statements:
            if isinstance(statement, KernelCall):
                yield statement, self
            elif isinstance(statement, cpp.Repeat):
                yield from self._repeated(statement)
            elif isinstance(statement, cpp.If):
                holds = self.value(statement.condition)
                body = statement.then if holds is True else statement.otherwise
                yield from self.inside({}).run(body)
            elif isinstance(statement, cpp.Return) and self.value(statement.condition) is True:
                return
            else:
                self._define(statement)

    def _repeated(self, statement: cpp.Repeat) -> Iterator[tuple[KernelCall, Scope]]:
        number = 0
        while (scope := self.inside({"i": number})).value(statement.condition) is True:
            yield from scope.run(statement.body)
            number += 1

    def _define(self, statement: Statement) -> None:
        if isinstance(statement, cpp.Constant):
            self.names[statement.name] = self.value(statement.value)
        elif isinstance(statement, cpp.Arrays):
            for name, listed in statement.lists:
                self.names[name] = tuple(map(self.value, _apart(listed)))
        elif isinstance(statement, cpp.Struct):
            self.names[statement.name] = self._struct(Aggregate(statement.fields, statement.type))
        elif isinstance(statement, cpp.Loader):
            items = statement.pointer, statement.columns
            self.names[statement.name] = self._struct(elements(*items, type="Loader"))
        elif isinstance(statement, cpp.Variable):
            for name, value in statement.values:
                self.names[name] = self._variable(statement.type, value)
        elif isinstance(statement, cpp.Assign):
            for place, text in statement.pairs:
                self._assign(place, self.value(text))
        elif isinstance(statement, cpp.Room):
            content = 0 if statement.zeros else None
            self.names |= {name: [content] * length for name, length in statement.lengths}
        elif isinstance(statement, (cpp.Define, cpp.Work)):
            self.names[statement.name] = Inner(statement, self)

    def _variable(self, type: str, value: Expression) -> Any:
        """What changes; a struct whose fields are set one by one has no value yet."""
        if isinstance(value, Aggregate):
            return self._struct(immutable.replace(value, type=value.type or type))
        return self.value(value) if value else SimpleNamespace()

    def _assign(self, place: Expression, value: Any) -> None:
        match place:
            case str(name):
                self.names[name] = value
            case Pointed(name):
                size = self.value(name)
                if isinstance(size, SizeResult) and isinstance(value, int):
                    self.told[size.symbol] = value
            case FieldOf(str(name), field):
                setattr(self.names[name], field, value)
            case Element(str(name), index) if isinstance(self.names.get(name), list):
                # What a pointer leads to is memory, which the caller fills.
                self.names[name][self.value(as_expression(index))] = value

    def _struct(self, braces: Aggregate) -> Any:
        values = [(name, self.value(value)) for name, value in braces.items]
        items = tuple(value for name, value in values if not name)
        if not braces.type and len(items) == len(values):
            return items
        fields = {name: value for name, value in values if name}
        how = {"type": braces.type, "template": braces.template, "items": items}
        return SimpleNamespace(**how, **fields)

    # -- expressions -------------------------------------------------------------------------------

    def value(self, expression: Expression) -> Any:
        """What an expression stands for; its text where that is not stated."""
        try:
            return self._resolved(expression)
        except UnresolvedError:
            return expression

    def _resolved(self, expression: Expression) -> Any:
        match expression:
            case Aggregate():
                return self._struct(expression)
            case Calculated(_, operands, meaning):
                return meaning(*(self._shown(self.value(each)) for each in operands))
            case Size(size):
                return self.memory.number(size)
            case Estimate(size):
                return float(self.memory.number(size))
            case Operation(operator, operands):
                return OPERATIONS[operator](*map(self._operand, operands))
            case Grouped(inner) | Converted(value=inner) | AsSize(inner) | PointerTo(inner):
                return self._operand(inner)
            case Chosen(condition, then, otherwise):
                return self._operand(then if self._operand(condition) else otherwise)
            case FieldOf(name, field):
                return self._field(self._operand(name), field)
            case Element(array, index):
                return self._element(self._operand(array), self._operand(as_expression(index)))
            case Pointed(name):
                return self._element(self._operand(name), 0)
            case Invocation(function, arguments) if function in _INVOKED:
                return _INVOKED[function](*map(self._operand, arguments))
            case Invocation() | BodyOutput() | BlockOf() | SizeOf() | AddressOf():
                raise UnresolvedError
            case tuple():
                fields = [n if isinstance(n, bool) else self.memory.number(n) for n in expression]
                return expression._make(fields)  # type: ignore[attr-defined]
        assert isinstance(expression, str)
        return self._of_text(expression)

    def _operand(self, expression: Expression) -> Any:
        """What an expression stands for, where that is stated."""
        value = self._resolved(expression)
        if isinstance(value, (str, *TERMS)) and not isinstance(value, tuple):
            raise UnresolvedError
        return value

    @staticmethod
    def _field(of: Any, field: str) -> Any:
        if not hasattr(of, field):
            raise UnresolvedError
        return getattr(of, field)

    def _of_text(self, text: str) -> Any:
        plain = _CAST.sub("", text.removeprefix("&"))
        if plain in self.names:
            return self.names[plain]
        try:
            plain = _KEYWORD.sub(r"\1_", _NUMBER.sub(_number, plain))
            return self._of(ast.parse(plain, mode="eval").body)
        except (SyntaxError, TypeError, UnresolvedError):
            return text

    def _of(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.Name(id=name) if name.removesuffix("_") in self.names:
                return self.names[name.removesuffix("_")]
            case ast.Name(id=name) if name in _PLAIN:
                return _PLAIN[name]
            case ast.Attribute(value=ast.Name(id=name), attr=field) if hasattr(
                self.names.get(name), field
            ):
                return getattr(self.names[name], field)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._of(operand)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return _divided(self._of(left), self._of(right))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](self._of(left), self._of(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](self._of(left), self._of(right))
            case ast.Subscript(value=value, slice=index):
                return self._element(self._of(value), self._of(index))
            case ast.Call(func=ast.Name(id=name)) if name in _INFINITE:
                return _INFINITE[name]
            case ast.Call(func=ast.Name(id="double" | "float"), args=[one]):
                return float(self._of(one))
            case ast.Call(func=ast.Name(id=name), args=[one]) if name.startswith("as_"):
                return SimpleNamespace(type=name, items=(self._of(one),))
            case ast.Call(func=ast.Name(id=name), args=[one]) if (
                name in _TYPES or name[0].isupper()
            ):
                return self._of(one)
        raise UnresolvedError

    def _element(self, of: Any, index: Any) -> Any:
        if isinstance(of, Pointer):
            return self._elements(of)[index].item()
        if not isinstance(of, (tuple, list)):
            raise UnresolvedError
        return of[index]

    def shown(self, call: KernelCall) -> tuple[Any, ...]:
        """The arguments of a call, what lies in memory in place of pointers."""
        return tuple(self._shown(value) for value in self.arguments(call))

    def arguments(self, call: KernelCall) -> tuple[Any, ...]:
        """The arguments of a call."""
        return tuple(map(self.value, apart(call)))

    def all_of(self, call: KernelCall) -> Arguments:
        """All that a kernel is called with."""
        machine = self.memory.machine
        return Arguments(self.shown(call), call.template, machine.lanes, machine.tiled)

    def _shown(self, value: Any) -> Any:
        if isinstance(value, Pointer):
            return self._elements(value)
        if isinstance(value, SimpleNamespace):
            return SimpleNamespace(**{n: self._shown(v) for n, v in vars(value).items()})
        if type(value) in (tuple, list):
            return tuple(map(self._shown, value))
        return value

    def _elements(self, pointer: Pointer) -> Array:
        """What lies from a pointer on; IndexError where that is before its tensor."""
        if pointer.start < 0:
            raise IndexError(f"a pointer of {pointer.start} elements")
        return self.memory.elements(pointer.tensor)[pointer.start :]


def apart(call: KernelCall) -> Iterator[Expression]:
    """The arguments of a call, one by one."""
    yield from _apart(call.arguments)


def _apart(expressions: Iterable[Expression]) -> Iterator[Expression]:
    """Expressions one by one, where some are texts of several."""
    for each in expressions:
        yield from each.split(", ") if isinstance(each, str) else (each,)


def _number(match: re.Match[str]) -> str:
    text = match[1]
    return repr(float.fromhex(text)) if text.startswith("0x") else text


def _divided(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return a / b


def scope_of(step: Step, memory: Memory) -> Scope:
    """The names that the function of a step begins with: its parameters, and `d`, the sizes of the
    program.
    """
    names: dict[str, Any] = {
        "d": SimpleNamespace(**{symbol_field(name): size for name, size in memory.sizes.items()})
    }
    number = memory.number
    for parameter, argument in zip(step.function.parameters, step.arguments):
        name = parameter.name
        if isinstance(argument, Tensor):
            names[name] = Pointer(argument, parameter.is_written)
        elif isinstance(argument, Number):
            names[name] = working_type(argument.dtype).type(argument.value)
        elif isinstance(argument, tuple):
            fields = [n if isinstance(n, bool) else number(n) for n in argument]
            named = dict(zip(argument._fields, fields))  # type: ignore[attr-defined]
            names[name] = type(argument)(**named)
        else:
            names[name] = argument if isinstance(argument, SizeResult) else number(argument)
    return Scope(names, memory)
