"""Elementwise work by row and column as data: what lies in memory, formulas of it, and where the
results go.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from infuse.dtypes import DType
from infuse.immutable import Immutable
from infuse.lowering.blocks import BlockRows
from infuse.ops.core.formula import Term, divides


class RowStep(Immutable):
    """How rows move along one axis of a tensor: ((row / below) % size) · stride.

    Sizes are numbers, by which compilers divide faster, or names. `size`: None for the outermost
    axis, which needs no remainder. `stride`: the name of a size, or "1".
    """

    below: int | str
    size: int | str | None
    stride: str


class Place(Immutable):
    """Where the elements of a tensor lie, by row and column.

    `pointer`: the name of one to the first element. `column`: how far the next column is, the name
    of a size or "1"; "" where all columns have one element.
    """

    pointer: str
    rows: tuple[RowStep, ...]
    column: str
    dtype: DType


Source = int | str
"""A definition before, by number, or a name that the function around has: what a kernel made."""


class Applied(Immutable):
    """A formula of what its leaves stand for."""

    term: Term
    leaves: Mapping[int, Source]


class Scalar(Immutable):
    """A number that is the same everywhere, by the name that the function has for it."""

    name: str
    value: float


class Store(Immutable):
    """What is stored, and where."""

    source: Source
    place: Place


class Elementwise(Immutable, dict=True):
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

    @cached_property
    def divides(self) -> bool:
        """Whether it tells `bool* found_zero` of integers that are divided by zero."""
        return any(isinstance(d, Applied) and divides(d.term) for d in self.definitions)
