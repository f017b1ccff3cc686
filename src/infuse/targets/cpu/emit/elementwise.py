"""Elementwise work by row and column as data: what lies in memory, formulas of it, and where the
results go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infuse.ops.core.formula import Term
from infuse.targets.cpu.emit.blocks import BlockRows
from infuse.targets.cpu.emit.formulas import FormulaPrinter, divides
from infuse.targets.cpu.emit.sizes import size_text


@dataclass(frozen=True)
class RowStep:
    """How rows move along one axis of a tensor: ((row / below) % size) · stride.

    Sizes are numbers, by which compilers divide faster, or names. `size`: None for the outermost
    axis, which needs no remainder. `stride`: the name of a size, or "1".
    """

    below: int | str
    size: int | str | None
    stride: str

    def text(self) -> str:
        """The elements from row 0 on, in C++."""
        index = "row" if self.below == 1 else f"(row / {_text(self.below)})"
        if self.size is not None:
            index = f"({index} % {_text(self.size)})"
        return index if self.stride == "1" else f"{index} * {self.stride}"


def _text(size: int | str) -> str:
    return size if isinstance(size, str) else size_text(size)


@dataclass(frozen=True)
class Place:
    """Where the elements of a tensor lie, by row and column.

    `pointer`: the name of one to the first element. `column`: how far the next column is, the name
    of a size or "1"; "" where all columns have one element.
    """

    pointer: str
    rows: tuple[RowStep, ...]
    column: str

    def load(self) -> str:
        """The elements from (row, col) on, in C++."""
        begin = f"{self.pointer} + {self._offset()}"
        if not self.column:
            return f"splat<L>(load({begin}, One{{}}))"
        column = "col" if self.column == "1" else f"col * {self.column}"
        return f"load({begin} + {column}, lanes)"

    def store(self, value: str) -> str:
        """A statement that puts elements there, whose columns lie side by side."""
        return f"store({self.pointer} + {self._offset()} + col, {value}, lanes);"

    def _offset(self) -> str:
        return " + ".join(step.text() for step in self.rows) or "0L"


Source = int | str
"""A definition before, by number, or a name that the function around has: what a kernel made."""


@dataclass(frozen=True)
class Applied:
    """A formula of what its leaves stand for."""

    term: Term
    leaves: Mapping[int, Source]


@dataclass(frozen=True)
class Scalar:
    """A number that is the same everywhere, by the name that the function has for it."""

    name: str
    value: float

    def text(self) -> str:
        """Its elements, in C++."""
        return f"splat<L>({self.name})"


@dataclass(frozen=True)
class Store:
    """What is stored, and where."""

    source: Source
    place: Place


@dataclass(frozen=True)
class Elementwise:
    """Definitions in order, some of which are stored.

    `result`: what is returned; None where nothing is. `makes_part`: other calls make the rest of
    what is stored. `blocks`: what the rows and columns of the kernel are, where they are not those
    of the result; no vector of it reaches from one pixel to the next.
    """

    definitions: tuple[Place | Applied | Scalar, ...]
    stores: tuple[Store, ...] = ()
    result: Source | None = None
    makes_part: bool = False
    blocks: BlockRows | None = None

    @property
    def divides(self) -> bool:
        """Whether it tells `bool* found_zero` of integers that are divided by zero."""
        return any(isinstance(d, Applied) and divides(d.term) for d in self.definitions)

    def lines(self) -> Sequence[str]:
        printer = FormulaPrinter()
        names: list[str] = []

        def name(source: Source) -> str:
            return source if isinstance(source, str) else names[source]

        for definition in self.definitions:
            if isinstance(definition, Place):
                names.append(printer.define(definition.load()))
            elif isinstance(definition, Scalar):
                names.append(definition.text())
            else:
                leaves = {number: name(source) for number, source in definition.leaves.items()}
                names.append(printer.print(definition.term, leaves))
        stores = [store.place.store(name(store.source)) for store in self.stores]
        returned = [] if self.result is None else [f"return {name(self.result)};"]
        first = [] if self.blocks is None else self.blocks.lines()
        return [*first, *printer.lines, *stores, *returned]
