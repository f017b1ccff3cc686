"""The calls of closed functions in a program file: which function, and how its slots are filled."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from infuse.errors import UnsupportedOperatorError
from infuse.ir.dims import Dim, Expr
from infuse.lowering.expressions import KernelSizes
from infuse.lowering.memory import Plan
from infuse.lowering.program import Number, Parameter, SizeResult
from infuse.lowering.tensors import Buffer, Tensor
from infuse.targets.cpu.closed.assembly import OPERATIONS, Code, Script
from infuse.targets.cpu.closed.fusing import fused
from infuse.targets.cpu.closed.parts import (
    ClosedArgument,
    ClosedCall,
    Estimated,
    ListArgument,
    WorkArgument,
)
from infuse.targets.cpu.closed.script import ScriptCall
from infuse.targets.cpu.closed.words import Terms, Words, bits, double_bits
from infuse.targets.cpu.closed.work import WorkCode

# How a slot is filled, as kernels/program.hpp numbers it.
_SIZE, _BITS, _ESTIMATE, _FOUND, _TENSOR, _EITHER, _WORK, _LIST = range(8)
_BASES: Final = {"input": 0, "output": 1, "own": 2, "weight": 3, "arena": 4, "late": 5, "block": 6}
_NO_OFFSET: Final = -1


@dataclass
class Numbers:
    """What the file calls by number: functions, elementwise work, scripts, terms."""

    terms: Terms
    functions: dict[str, int] = field(default_factory=dict)
    works: dict[WorkCode, int] = field(default_factory=dict)
    scripts: dict[tuple[int, tuple[Code, ...]], int] = field(default_factory=dict)

    def function(self, name: str) -> int:
        """The number of a function."""
        return self.functions.setdefault(name, len(self.functions))

    def script(self, script: Script) -> int:
        """The number of a script."""
        code = tuple(self._resolved(script, each) for each in script.code)
        return self.scripts.setdefault((script.slots, code), len(self.scripts))

    def _resolved(self, script: Script, code: Code) -> Code:
        """An instruction with the file's numbers of what it has to do with."""
        kind, a, b, *rest = code
        match OPERATIONS[kind]:
            case "call":
                return kind, a, self.function(script.functions[b].name), *rest
            case "term" | "estimate":
                return kind, a, self.terms.number(script.terms[b]), *rest
            case "get":
                return kind, a, self.terms.symbols[script.symbols[b]], *rest
            case "set":
                return kind, self.terms.symbols[script.symbols[a]], b, *rest
        return code

    def work(self, code: WorkCode) -> int:
        """The number of elementwise work."""
        return self.works.setdefault(code, len(self.works))


class Places:
    """Where tensors lie. `owned`: outputs in memory of the program's own."""

    def __init__(self, plan: Plan, owned: Container[int]) -> None:
        self._plan, self._owned = plan, owned
        self._slots = {id(b): i for i, b in enumerate(plan.buffers)}

    def base(self, buffer: Buffer) -> tuple[int, int]:
        """The kind of memory, and which of it."""
        root = buffer.root()
        match buffer.kind:
            case "arena" if root in self._plan.late:
                return _BASES["late"], self._plan.late[root]
            case "arena":
                return _BASES["arena"], self._slots[id(root)]
            case "weight":
                return _BASES["weight"], buffer.position
            case "output" if buffer.number in self._owned:
                return _BASES["own"], buffer.number
        return _BASES[buffer.kind], buffer.number


class CallWriter:
    """Writes calls: for each slot how it is filled. Lists, and the arguments of elementwise work,
    follow those of its function. `available`: functions that may stand for several instructions.
    """

    def __init__(self, numbers: Numbers, places: Places, available: Container[str] = ()) -> None:
        self._numbers, self._places, self._available = numbers, places, available

    def write(self, call: ClosedCall, name: str, words: Words) -> None:
        """A call of the function of this name: its number, how many slots it has, and these."""
        fills, slots = self._filled(call.function.parameters, call.arguments)
        words.add(0, self._numbers.function(name), slots, len(fills))
        for fill in fills:
            words.add(*fill)

    def write_script(self, call: ScriptCall, words: Words) -> None:
        """A script: its number, how many slots it has, and those of its parameters."""
        fills, _ = self._filled(call.parameters, call.arguments)
        script = call.script
        words.add(1, self._numbers.script(script), script.slots, len(fills))
        for fill in fills:
            words.add(*fill)

    def _filled(
        self, parameters: Sequence[Parameter], arguments: Sequence[ClosedArgument]
    ) -> tuple[list[tuple[int, ...]], int]:
        """How slots are filled with these arguments, and how many there are."""
        fills: list[tuple[int, ...]] = []
        behind: list[tuple[int, WorkArgument | ListArgument]] = []
        slot = 0
        for parameter, argument in zip(parameters, arguments, strict=True):
            if isinstance(argument, WorkArgument | ListArgument):
                if isinstance(argument, WorkArgument):
                    argument = fused(argument, self._available)
                behind.append((slot, argument))
                slot += 2 if isinstance(argument, WorkArgument) else 1
                continue
            each = list(self._fills(parameter, argument))
            fills += [(kind, slot + i, *rest) for i, (kind, *rest) in enumerate(each)]
            slot += len(each)
        for place, outer in behind:
            if isinstance(outer, ListArgument):
                fills.append((_LIST, place, slot))
            else:
                fills.append((_WORK, place, self._numbers.work(outer.code), slot))
            inner = outer.sizes if isinstance(outer, ListArgument) else outer.arguments
            for argument in inner:
                kind, *rest = self._operand(argument)
                fills.append((kind, slot, *rest))
                slot += 1
        return fills, slot

    def _fills(self, parameter: Parameter, argument: ClosedArgument) -> Iterator[tuple[int, ...]]:
        if parameter.kind == "tensor" and argument == 0:  # one that is not there
            yield _BITS, 0
            return
        match argument:
            case Number(value):
                yield _BITS, double_bits(float(value))
            case Estimated(size):
                yield _ESTIMATE, self._numbers.terms.number(size)
            case SizeResult(symbol):
                yield _FOUND, self._numbers.terms.symbols[symbol]
            case tuple():
                yield from self._sizes(argument)
            case _:
                yield self._operand(argument)

    def _sizes(self, sizes: KernelSizes) -> Iterator[tuple[int, ...]]:
        for value in sizes:
            if isinstance(value, tuple):
                yield from self._sizes(value)
            else:
                yield self._size(int(value) if isinstance(value, bool) else value)

    def _size(self, size: Dim) -> tuple[int, ...]:
        return _SIZE, self._numbers.terms.number(size)

    def _operand(self, argument: Any) -> tuple[int, ...]:
        """How a slot of one word is filled."""
        match argument:
            case Tensor():
                return self._tensor(argument)
            case Number(value, dtype):
                return _BITS, bits(value, dtype)
            case int() | Expr():
                return self._size(argument)
        raise UnsupportedOperatorError(f"a program file has no argument {argument}")

    def _tensor(self, tensor: Tensor) -> tuple[int, ...]:
        if tensor.buffer.kind != "either":
            return _TENSOR, *self._place(tensor)
        assert tensor.buffer.either is not None
        size, *both = tensor.buffer.either
        ends = [number for each in both for number in self._place(each)]
        offset = self._offset(tensor.offset), tensor.dtype.bytes
        return _EITHER, self._numbers.terms.number(size), *ends, *offset

    def _place(self, tensor: Tensor) -> tuple[int, ...]:
        if tensor.buffer.kind == "either":
            raise UnsupportedOperatorError("a tensor has one of three places")
        return *self._places.base(tensor.buffer), self._offset(tensor.offset), tensor.dtype.bytes

    def _offset(self, offset: Dim) -> int:
        return _NO_OFFSET if offset == 0 else self._numbers.terms.number(offset)


def name_table(names: Mapping[str, int], words: Words) -> None:
    """Texts in the order of their numbers."""
    words.add(len(names))
    for name in sorted(names, key=names.__getitem__):
        words.text(name)
