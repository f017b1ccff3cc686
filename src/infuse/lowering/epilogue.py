"""The elementwise work of a group as a statement inside one function of row and column."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from infuse.errors import UnsupportedOperatorError
from infuse.immutable import replace
from infuse.ir.graph import Value
from infuse.lowering.elementwise import (
    Applied,
    Elementwise,
    Place,
    RowStep,
    Scalar,
    Source,
    Store,
)
from infuse.lowering.groups import Group
from infuse.lowering.iteration_space import IterationSpace
from infuse.lowering.tensors import Tensor
from infuse.lowering.writer import FunctionWriter
from infuse.ops.core.formula import Term

_VARYING: Final = frozenset(["add", "sub", "mul", "div", "min", "max", "fused"])
"""Operations that are as fast with any number, but for a quotient by a power of two; others gain by
one that is known.
"""
_USUAL: Final = frozenset([0, 0.5, 1, 2, 3, 6, 127, 128, 255])
"""Magnitudes that formulas of operators have."""


class Epilogue:
    """Collects the fused elementwise work of a group in a function of row and column.

    `targets`: where it stores values of the group. `tensors`: where its operands lie. `later`: what
    is written, and `read_again`: which operands are read, when a row of it is done.
    """

    def __init__(
        self,
        f: FunctionWriter,
        group: Group,
        space: IterationSpace,
        tensors: dict[Value, Tensor],
        targets: Mapping[Value, Tensor],
        later: Sequence[Tensor] = (),
        read_again: Collection[Value] = (),
    ) -> None:
        self.f, self.group, self.space = f, group, space
        self.tensors, self.targets = tensors, targets
        self._written, self._read_again = (*targets.values(), *later), read_again
        self._definitions: list[Place | Applied | Scalar] = []

    def load(self, tensor: Tensor) -> Source:
        """An operand's elements at (row, col)."""
        return self._define(self._place(self.f.read(tensor, *self._written), tensor))

    def apply(self, term: Term, *leaves: Source) -> Source:
        """A formula whose input leaves stand for these, in order."""
        return self._apply(term, dict(enumerate(leaves)))

    def _apply(self, term: Term, leaves: Mapping[int, Source]) -> Source:
        """A formula of these leaves; its numbers become leaves, too, where other layers may have
        others.
        """
        with_numbers = dict(leaves)

        def leaf(number: Term) -> Term:
            scalar = Scalar(self.f.value(number.value, number.dtype), float(number.value))
            place = max(with_numbers, default=-1) + 1
            with_numbers[place] = self._define(scalar)
            return Term("input", (), number.dtype, place)

        return self._define(Applied(_replaced(term, leaf, {}), with_numbers))

    def statement(self, start: Source, returned: Value | None = None) -> Elementwise:
        """The group's work on the anchor's result `start`; `returned`: what of it the function
        gives.
        """
        sources = self._sources(start)
        stores = tuple(
            Store(sources[value], self._place(self.f.write(target), target))
            for value, target in self.targets.items()
        )
        assert all(store.place.column in ("", "1") for store in stores), "columns lie side by side"
        result = None if returned is None else sources[returned]
        return Elementwise(tuple(self._definitions), stores, result)

    def _sources(self, start: Source) -> dict[Value, Source]:
        """What stands for each value of the group."""
        sources: dict[Value, Source] = {}
        if self.group.anchor is not None:
            sources[self.group.anchor.output] = start
        for node in self.group.nodes:
            if node is self.group.anchor:
                continue
            for value in self.group.reads(node):
                if value not in sources:
                    sources[value] = self._operand(value)
            operands = {i: v for i, v in enumerate(node.inputs) if v is not None and v in sources}
            leaves = {i: sources[v] for i, v in operands.items()}
            sources[node.output] = self._apply(self.group.formulas[node], leaves)
        return sources

    def _operand(self, value: Value) -> Source:
        tensor = self.tensors[value]
        if value in self._read_again:
            return self._define(self._place(self.f.read(tensor), tensor))
        return self.load(tensor)

    def _define(self, definition: Place | Applied | Scalar) -> Source:
        self._definitions.append(definition)
        return len(self._definitions) - 1

    def _place(self, pointer: str, tensor: Tensor) -> Place:
        rows = tuple(
            RowStep(
                self.f.divisor(below),
                None if size is None else self.f.divisor(size),
                "1" if stride == 1 else self.f.number(stride),
            )
            for below, size, stride in self.space.row_steps(tensor)
        )
        return Place(pointer, rows[::-1], self._column(tensor), tensor.dtype)

    def _column(self, tensor: Tensor) -> str:
        stride = self.space.column_stride(tensor)
        if stride is None:
            raise UnsupportedOperatorError("an operand whose columns do not merge")
        if stride == 0:
            return ""
        return "1" if stride == 1 else self.f.number(stride)


def _replaced(term: Term, leaf: Callable[[Term], Term], replaced: dict[int, Term]) -> Term:
    """The formula with leaves in place of its numbers that vary; what is one term stays one."""
    if id(term) not in replaced:
        args = [
            leaf(each) if _varies(term, each) else _replaced(each, leaf, replaced)
            for each in term.args
        ]
        same = all(a is b for a, b in zip(args, term.args))
        replaced[id(term)] = term if same else replace(term, args=tuple(args))
    return replaced[id(term)]


def _varies(term: Term, operand: Term) -> bool:
    """Whether an operand is a number that layers of one kind have different ones of."""
    if operand.op != "const" or term.op not in _VARYING or not term.dtype.is_float:
        return False
    if not math.isfinite(operand.value) or abs(operand.value) in _USUAL:
        return False
    return term.op != "div" or abs(math.frexp(operand.value)[0]) != 0.5
