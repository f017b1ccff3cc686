"""Several instructions of elementwise work as one, where a library has a function for them: an
activation with its numbers in its text, and what comes before it.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Final

from infuse import dtypes
from infuse.immutable import Immutable, replace
from infuse.lowering.program import Number
from infuse.targets.cpu.closed.parts import ClosedCall, WorkArgument
from infuse.targets.cpu.closed.sources import element_name, has_vector
from infuse.targets.cpu.closed.work import (
    NONE,
    Apply,
    ElementFunction,
    Instruction,
    Load,
    PlaceCode,
    Put,
    Splat,
)
from infuse.targets.text.literals import literal

_MOST_LEAVES: Final = 3
_MOST_TEXT: Final = 600
_MOST_CHAIN: Final = 24
"""Registers from the beginning of a chain to its end."""
_OPERAND: Final = re.compile(r"\bx(\d)\b")


class _Tree(Immutable):
    """An expression: text in which leaves, registers, are `x0`, `x1`, …"""

    text: str
    leaves: tuple[int, ...]


class _Fuser:
    """Reads one work. `takes` says which functions may be used."""

    def __init__(self, work: WorkArgument, takes: Callable[[ElementFunction], bool]) -> None:
        self._code, self._arguments, self._takes = work.code, work.arguments, takes
        self._made = {i.register: i for i in work.code.instructions if not isinstance(i, Put)}
        puts = [i.register for i in work.code.instructions if isinstance(i, Put)]
        self._roots = [*puts, *([] if work.code.result == NONE else [work.code.result])]
        self._trees: dict[tuple[int, int], _Tree | None] = {}
        for register in self._made:  # in order, so that reading one never goes deep
            self._tree(register, NONE)

    def fused(self) -> WorkArgument:
        """The work with as few instructions as functions allow."""
        kept: dict[int, Instruction] = {}
        for root in self._roots:
            self._lower(root, kept)
        puts = [i for i in self._code.instructions if isinstance(i, Put)]
        order = sorted(kept)
        code = dataclasses.replace(self._code, instructions=(*(kept[r] for r in order), *puts))
        return _compact(WorkArgument(code, self._arguments))

    def _lower(self, register: int, kept: dict[int, Instruction]) -> None:
        instruction = self._made.get(register)
        if instruction is None or register in kept:
            return
        if isinstance(instruction, Apply):
            instruction = next(filter(self._is_taken, self._candidates(instruction)), instruction)
        kept[register] = instruction
        if isinstance(instruction, Apply):
            for operand in instruction.operands:
                self._lower(operand, kept)

    def _is_taken(self, instruction: Apply) -> bool:
        return self._takes(instruction.function)

    def _candidates(self, apply: Apply) -> Iterator[Apply]:
        """Instructions that stand for this one and others before it: for all of them, then for what
        follows one register, the longest first.
        """
        yield from self._instead(apply, NONE)
        yield from self._chains(apply)

    def _chains(self, apply: Apply) -> Iterator[Apply]:
        for cut in range(max(0, apply.register - _MOST_CHAIN), apply.register):
            if cut in self._made:
                yield from (i for i in self._instead(apply, cut) if len(i.operands) == 1)

    def _instead(self, apply: Apply, cut: int) -> Iterator[Apply]:
        """One instruction for all that leads from `cut` and what is before it to a register."""
        tree = self._tree(apply.register, cut)
        if tree is None or tree.leaves == apply.operands:
            return
        types = self._code.types
        takes = tuple(types[leaf] for leaf in tree.leaves)
        function = ElementFunction(tree.text, takes, types[apply.register], True)
        if has_vector(function):
            yield Apply(apply.register, function, tree.leaves)

    def _tree(self, register: int, cut: int) -> _Tree | None:
        """The expression of a register, in which `cut` and what is stored or given back are
        leaves; None where it cannot be one of vectors of floats.
        """
        if register < cut:
            cut = NONE
        if (register, cut) not in self._trees:
            self._trees[register, cut] = self._read(register, cut)
        return self._trees[register, cut]

    def _read(self, register: int, cut: int) -> _Tree | None:
        made = self._made.get(register)
        if not isinstance(made, Apply) or not has_vector(made.function):
            return None
        leaves: list[int] = []
        texts: list[str] = []
        for operand in made.operands:
            inner = self._operand(operand, cut)
            leaves += [leaf for leaf in inner.leaves if leaf not in leaves]
            names = [f"x{leaves.index(leaf)}" for leaf in inner.leaves]
            texts.append(_with_operands(inner.text, names))
        text = _with_operands(made.function.text, texts)
        if len(leaves) > _MOST_LEAVES or len(text) > _MOST_TEXT:
            return None
        return _Tree(text, tuple(leaves))

    def _operand(self, register: int, cut: int) -> _Tree:
        made = self._made.get(register)
        if isinstance(made, Splat):
            number = self._arguments[made.argument]
            if isinstance(number, Number) and number.dtype == dtypes.float32:
                return _Tree(f"splat<L>({literal(number.value, number.dtype)})", ())
        if register != cut and register not in self._roots:
            inner = self._tree(register, cut)
            if inner is not None:
                return _Tree(f"({inner.text})", inner.leaves)
        return _Tree("x0", (register,))

    def functions(self) -> Iterator[ElementFunction]:
        """Those that may stand for a part: for all that leads to what is stored or given back, and
        for the longest chain of functions of one register and numbers to each.
        """
        for register, made in self._made.items():
            if isinstance(made, Apply):
                whole = self._instead(made, NONE) if register in self._roots else ()
                for apply in (*whole, *itertools.islice(self._chains(made), 1)):
                    yield apply.function


def _with_operands(text: str, operands: Sequence[str]) -> str:
    return _OPERAND.sub(lambda match: operands[int(match[1])], text)


def fused(work: WorkArgument, available: Container[str]) -> WorkArgument:
    """The work with one instruction for several, where `available` has the name of a function that
    does what they do.
    """
    if not available:
        return work
    return _Fuser(work, lambda function: element_name(function) in available).fused()


def whole_functions(call: ClosedCall) -> dict[str, ElementFunction]:
    """Functions that may stand for several instructions of a call, by name."""
    works = [a for a in call.arguments if isinstance(a, WorkArgument)]
    functions = [f for work in works for f in _Fuser(work, lambda _: True).functions()]
    return {element_name(function): function for function in functions}


def _compact(work: WorkArgument) -> WorkArgument:
    """The same with registers and arguments that are used alone."""
    code = work.code
    used = {0} | {i.register for i in code.instructions}
    registers = {old: new for new, old in enumerate(sorted(used))}
    arguments: dict[int, int] = {}

    def argument(number: int) -> int:
        return number if number < 0 else arguments.setdefault(number, len(arguments))

    def place(of: PlaceCode) -> PlaceCode:
        rows = tuple(
            replace(r, below=argument(r.below), size=argument(r.size), stride=argument(r.stride))
            for r in of.rows
        )
        return replace(of, pointer=argument(of.pointer), column=argument(of.column), rows=rows)

    instructions: list[Instruction] = []
    for each in code.instructions:
        own = registers[each.register]
        match each:
            case Load() | Put():
                instructions.append(replace(each, register=own, place=place(each.place)))
            case Splat():
                instructions.append(Splat(own, argument(each.argument)))
            case Apply(_, function, operands):
                instructions.append(Apply(own, function, tuple(registers[o] for o in operands)))
    blocks = code.blocks
    if blocks is not None:
        axes = tuple(
            replace(axis, count=argument(axis.count), size=argument(axis.size))
            for axis in blocks[1]
        )
        blocks = argument(blocks[0]), axes
    kept: Sequence[int] = list(arguments)
    return WorkArgument(
        dataclasses.replace(
            code,
            types=tuple(code.types[old] for old in sorted(used)),
            instructions=tuple(instructions),
            result=NONE if code.result == NONE else registers[code.result],
            blocks=blocks,
            arguments=tuple(code.arguments[n] for n in kept),
        ),
        tuple(work.arguments[n] for n in kept),
    )
