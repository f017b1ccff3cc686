"""Code for the machine of kernels/script.hpp: instructions, slots, and jumps that land later."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from infuse.errors import UnsupportedOperatorError
from infuse.immutable import Immutable
from infuse.targets.cpu.closed.hosted import HostFunction

LOADED: Final = (
    *("bool", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t"),
    *("uint64_t", "float", "double", "void*"),
)
"""C types of what is loaded and stored, in the order of kernels/script.hpp."""
OPERATIONS: Final = (
    *("const", "move", "+", "-", "*", "/", "%", "==", "<", "<=", ">", ">=", "!"),
    *("d+", "d-", "d*", "d/", "d==", "d<", "d<=", "d>", "d>=", "to double", "to long"),
    *("load", "store", "address", "offset", "jump", "unless", "end", "call", "body", "result"),
    *("block", "term", "estimate", "get", "set"),
)
"""What the machine does, in the order of kernels/script.hpp."""
_CODES: Final = {name: number for number, name in enumerate(OPERATIONS)}

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


class Value(Immutable):
    """What a slot holds: a long, a double, a pointer to elements of a C type, or the first of a
    list of such.
    """

    slot: int
    kind: str = "long"
    type: str = ""


class Assembler:
    """Collects instructions, and counts slots."""

    def __init__(self) -> None:
        self._code: list[list[int]] = []
        self.count = 0

    @property
    def code(self) -> tuple[Code, ...]:
        """The instructions so far."""
        return tuple(tuple(each) for each in self._code)

    @property
    def here(self) -> int:
        """The place of what comes next."""
        return len(self._code)

    def slots(self, count: int = 1) -> int:
        """The first of so many new slots."""
        first = self.count
        self.count += count
        return first

    def op(self, name: str, *operands: int) -> int:
        """One more instruction; its place."""
        self._code.append([_CODES[name], *operands, *[0] * (4 - len(operands))])
        return len(self._code) - 1

    def new(self, name: str, *operands: int, kind: str = "long", type: str = "") -> Value:
        """A new slot that an instruction fills, with what it holds."""
        slot = self.slots()
        self.op(name, slot, *operands)
        return Value(slot, kind, type)

    def land(self, *jumps: int) -> None:
        """Let these jumps lead to what comes next."""
        for place in jumps:
            operand = 1 if self._code[place][0] == _CODES["jump"] else 2
            self._code[place][operand] = len(self._code)

    def constant(self, value: int) -> Value:
        """A slot with a number."""
        return self.new("const", value)

    def double(self, value: Value) -> Value:
        """A value as a double."""
        return value if value.kind == "double" else self.new("to double", value.slot, kind="double")
