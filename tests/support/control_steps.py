"""The steps of a lowered program that run bodies of control flow, done in Python: their conditions,
loops, pointers and blocks, as their statements say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from infuse.dtypes import DType, uint8
from infuse.ir import dims
from infuse.ir.graph import Array
from infuse.lowering import statements as done
from infuse.lowering.expressions import (
    AddressOf,
    BlockOf,
    BodyOutput,
    Chosen,
    Element,
    Expression,
    FieldOf,
    Grouped,
    Invocation,
    Operation,
    Pointed,
    PointerTo,
    Size,
    SizeOf,
    expression as as_expression,
)
from tests.support.function_values import OPERATIONS

_WORDS: Final = {"true": True, "false": False, "INT64_MAX": 2**63 - 1}


class ControlError(AssertionError):
    """A step runs bodies so that its node's results do not come of it."""


@dataclass(frozen=True, eq=False)
class Address:
    """A place in memory: the bytes from there on, as elements of a type. Two are equal where they
    are the same.
    """

    bytes: Array
    dtype: DType

    @classmethod
    def of(cls, array: Array, dtype: DType) -> Address:
        """Where a copy of an array lies without gaps."""
        flat = np.array(array, order="C").reshape(-1)
        return cls(flat.view(np.uint8), dtype)

    def __add__(self, count: int) -> Address:
        return Address(self.bytes[count * self.dtype.bytes :], self.dtype)

    def elements(self, dtype: DType, count: int) -> Array:
        """The first elements as those of a type."""
        flat: Array = self.bytes[: count * dtype.bytes].copy().view(dtype.numpy)
        if flat.size < count:
            raise ControlError(f"{count} elements are read where {flat.size} lie")
        return flat


@dataclass
class Block:
    """What a body leaves behind: memory of its own, and where the content lies."""

    own: Array = field(default_factory=lambda: np.empty(0, np.uint8))
    data: Address | None = None

    def obtain(self, size: int, used: int = 0) -> None:
        """Memory of its own for so many bytes, of which the first `used` stay."""
        if size > self.own.size:
            grown = np.full(size, 0xA5, np.uint8)
            grown[:used] = self.own[:used]
            self.own = grown
        self.data = Address(self.own, uint8)

    def append(self, used: int, source: Address, count: int) -> None:
        """Put bytes behind those that are there."""
        self.obtain(used + count, used)
        self.own[used : used + count] = source.elements(uint8, count)


class ControlStep:
    """The run of a step. `names`: its parameters; `sizes`: by symbol, which it changes; `run_body`:
    the outputs of a body for what its inputs point to, numbers in place of pointers to variables.
    """

    def __init__(
        self,
        names: dict[str, Any],
        sizes: dict[str, int],
        run_body: Callable[[int, Sequence[Any]], list[Address]],
    ) -> None:
        self.names, self.sizes, self._run_body = names, sizes, run_body
        self.blocks: dict[tuple[int, int], Block] = {}
        self._outputs: dict[int, list[Address]] = {}

    # -- statements --------------------------------------------------------------------------------

    def run(self, statements: Sequence[done.Statement]) -> None:
        """All statements in order; ControlError where the function would end with a failure."""
        for statement in statements:
            self._do(statement)

    def _do(self, statement: done.Statement) -> None:
        match statement:
            case done.Pointers(name, elements):
                self.names[name] = [self._pointer(each) for each in elements]
            case done.RunBody(number):
                given = [self._given(each) for each in self.names["in"]]
                self._outputs[number] = self._run_body(number, given)
            case done.Assign(pairs):
                for place, value in pairs:
                    self._assign(place, self.value(value))
            case done.Constant(_, name, value):
                self.names[name] = self.value(value)
            case done.Variable(_, values):
                self.names |= {name: self.value(value) for name, value in values}
            case done.Room(lengths):
                self.names |= {name: [0] * length for name, length in lengths}
            case done.Scope(body):
                self.run(body)
            case done.If(condition, then, otherwise):
                self.run(then if self.value(condition) else otherwise)
            case done.Repeat():
                self._repeat(statement)
            case done.Require(condition, failure):
                self._fail(not self.value(condition), failure)
            case done.Return(condition, failure):
                self._fail(self.value(condition), failure)
            case done.KernelCall(kernel, arguments):
                self._call(kernel, [self.value(each) for each in arguments])
            case _:
                raise ControlError(f"nobody does a {type(statement).__name__}")

    @staticmethod
    def _fail(fails: bool, failure: str) -> None:
        if fails:
            raise ControlError(f"it ends with {failure}")

    def _repeat(self, loop: done.Repeat) -> None:
        if loop.first is not None:
            self.names["i"] = self.value(loop.first)
        while self.value(loop.condition):
            self.run(loop.body)
            self.names["i"] += 1
            if loop.also:
                self.names[loop.also] = self.names["i"]

    def _call(self, kernel: str, arguments: list[Any]) -> None:
        if kernel == "append":
            block, used, source, count = arguments
            block.append(used, source, count)
        elif kernel == "keep":
            block, source, count = arguments
            block.append(0, source, count)
        elif kernel == "memcpy":
            target, source, count = arguments
            target.bytes[:count] = source.elements(uint8, count)
        else:
            raise ControlError(f"nobody does {kernel}")

    def _assign(self, place: Expression, value: Any) -> None:
        match place:
            case str(name):
                self.names[name] = value
            case Element(str(name), index):
                self.names[name][self.value(as_expression(index))] = value
            case SizeOf(symbol):
                self.sizes[symbol] = int(value)
            case FieldOf(BlockOf(), "data"):
                self.value(place.name).data = value
            case _:
                raise ControlError(f"nobody stores in {place}")

    # -- expressions -------------------------------------------------------------------------------

    def _pointer(self, element: Expression) -> Any:
        """What an input is: the name of a variable where it points to one."""
        return element if isinstance(element, AddressOf) else self.value(element)

    def _given(self, pointer: Any) -> Any:
        return self.value(pointer.inner) if isinstance(pointer, AddressOf) else pointer

    def value(self, expression: Expression) -> Any:
        """What an expression stands for."""
        match expression:
            case str(text):
                return self._named(text)
            case Size(size):
                number = dims.substitute(size, self.sizes)
                if not isinstance(number, int):
                    raise ControlError(f"nobody has told the size {number}")
                return number
            case SizeOf(symbol):
                return self.sizes[symbol]
            case Operation("&&", operands):
                return all(self.value(each) for each in operands)
            case Operation("||", operands):
                return any(self.value(each) for each in operands)
            case Operation(operator, operands):
                return OPERATIONS[operator](*map(self.value, operands))
            case Grouped(inner):
                return self.value(inner)
            case Chosen(condition, then, otherwise):
                return self.value(then if self.value(condition) else otherwise)
            case Element(array, index):
                return self.value(array)[self.value(as_expression(index))]
            case Pointed(pointer):
                address = self.value(pointer)
                return address.elements(address.dtype, 1)[0].item()
            case PointerTo(pointer, dtype):
                return Address(self.value(pointer).bytes, dtype or uint8)
            case FieldOf(BlockOf() as block, "data"):
                return self.value(block).data
            case AddressOf(inner):
                return self.value(inner)
            case BlockOf(program, number):
                return self.blocks.setdefault((program, number), Block())
            case BodyOutput(body, number):
                return self._outputs[body][number]
            case Invocation("obtain", (block, size)):
                self.value(block).obtain(self.value(size))
                return True
        raise ControlError(f"nobody knows {expression}")

    def _named(self, text: str) -> Any:
        if text in self.names:
            return self.names[text]
        if text in _WORDS:
            return _WORDS[text]
        return int(text.removesuffix("L"))
