"""What kernel families share: sizes as named fields, each class the twin of a struct in a kernel
header, and the meaning of kernels in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from infuse.catalog import Catalog
from infuse.immutable import Immutable
from infuse.targets.machine import DotType

Array = NDArray[Any]
FILES: Final = Catalog("infuse.targets.cpu.families")
KernelSizes = tuple[Any, ...]
"""A class that is declared in a header: its fields are sizes, truth values, or such sizes again."""
Size = Any
"""A size: a `Dim` in a program, an int where its symbols have values."""
Sizes = TypeVar("Sizes", bound=type)
HEADERS: Final[dict[type, str]] = {}
"""The header that has the struct, by class."""


def declared_in(header: str) -> Callable[[Sizes], Sizes]:
    """Register a class as the twin of the struct of its name in `kernels/header`."""

    def register(sizes: Sizes) -> Sizes:
        HEADERS[sizes] = header
        return sizes

    return register


# -- meaning ---------------------------------------------------------------------------------------


class Arguments(Immutable):
    """What a kernel is called with.

    `lanes`: elements of float32 in a vector, by which weights are packed; `tiled`: which of them
    are packed in tiles.
    """

    arguments: tuple[Any, ...]
    """In order: numbers, what lies from each pointer on, in its own type (None for none), structs
    with their fields as attributes (those without names in `items`), functions that load rows as
    structs `Loader` of a pointer and the elements of a row, lists as tuples, other functions, else
    text.
    """
    template: tuple[str, ...]
    lanes: int
    tiled: frozenset[DotType] = frozenset()

    @property
    def has_tiled_pairs(self) -> bool:
        """Whether packed pairs of bfloat16 lie in tiles."""
        return DotType.BF16 in self.tiled

    @property
    def widened(self) -> tuple[Any, ...]:
        """The arguments, elements in float64."""
        is_array = (isinstance(each, np.ndarray) for each in self.arguments)
        pairs = zip(self.arguments, is_array)
        return tuple(each.astype(np.float64) if wide else each for each, wide in pairs)


Meaning = Callable[[Arguments], "Array | None"]
"""What a kernel hands to its sink, rows × columns; None where that is not stated."""
MEANINGS: Final[dict[str, Meaning]] = {}
"""By the name of the kernel."""


def computes(*kernels: str) -> Callable[[Meaning], Meaning]:
    """Register the meaning of kernels."""

    def register(meaning: Meaning) -> Meaning:
        MEANINGS.update(dict.fromkeys(kernels, meaning))
        return meaning

    return register


Written = Array | tuple[Array, Array]
"""What is written from a pointer on: elements side by side, or their places and they themselves."""
Stores = Mapping[int | str, Written]
"""What is written, by the number of the argument, or by the field of a struct among them; as
`result` the number that the kernel gives.
"""
Writing = Callable[[Arguments], "Stores | None"]
"""What a kernel writes; None where that is not stated."""
WRITINGS: Final[dict[str, Writing]] = {}
"""By the name of the kernel."""


def writes(*kernels: str) -> Callable[[Writing], Writing]:
    """Register the meaning of kernels that have no sink."""

    def register(writing: Writing) -> Writing:
        WRITINGS.update(dict.fromkeys(kernels, writing))
        return writing

    return register


def leading(elements: Array, count: int) -> Array:
    """So many elements; IndexError where there are fewer."""
    if not 0 <= count <= len(elements):
        raise IndexError(f"{count} of {len(elements)} elements")
    return elements[:count]


def matrix(elements: Array, shape: tuple[int, int], strides: tuple[int, int]) -> Array:
    """A matrix whose elements lie this far apart; IndexError where it leaves the elements."""
    places = np.add.outer(np.arange(shape[0]) * strides[0], np.arange(shape[1]) * strides[1])
    return elements[places]


def loaded(loader: Any, shape: tuple[int, int]) -> Array:
    """The rows × columns that a kernel gets of a function that loads, in float64."""
    elements, width = loader.items
    return matrix(elements.astype(np.float64), shape, (width, 1))
