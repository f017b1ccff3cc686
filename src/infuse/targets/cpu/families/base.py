"""What kernel families share: sizes as named fields, each class the twin of a struct in a kernel
header, and the meaning of kernels in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
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


@dataclass(frozen=True)
class Struct:
    """A struct that a kernel is called with: its fields, and those that were set by name.

    A function that loads (`Loader`) is one of a pointer and the elements of a row.
    """

    type: str
    fields: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Arguments:
    """What a kernel is called with, numbers in place of symbols.

    `operands`: of each pointer the elements from there on, flat, in float64. `words`: what else
    stands in the call. `lanes`: elements of float32 in a vector, by which weights are packed.
    `values`: everything in its order: sizes, numbers, truth values, structs, elements as they lie,
    None for no pointer, and words for what is written and for functions.
    """

    sizes: Any
    operands: tuple[Array, ...]
    numbers: tuple[int, ...]
    words: tuple[str, ...]
    template: tuple[str, ...]
    lanes: int
    values: tuple[Any, ...] = ()


Meaning = Callable[[Arguments], "Array | None"]
"""What a kernel hands to its sink, rows × columns, or what it leaves where it writes, flat from its
pointer on; None where that is not stated.
"""
MEANINGS: Final[dict[str, Meaning]] = {}
"""By the name of the kernel."""


def computes(*kernels: str) -> Callable[[Meaning], Meaning]:
    """Register the meaning of kernels."""

    def register(meaning: Meaning) -> Meaning:
        MEANINGS.update(dict.fromkeys(kernels, meaning))
        return meaning

    return register


def matrix(elements: Array, shape: tuple[int, int], strides: tuple[int, int]) -> Array:
    """A matrix whose elements lie this far apart; IndexError where it leaves the elements."""
    places = np.add.outer(np.arange(shape[0]) * strides[0], np.arange(shape[1]) * strides[1])
    return elements[places]


def loaded(loader: Struct, shape: tuple[int, int]) -> Array:
    """The rows × columns that a kernel gets of a function that loads, in float64."""
    elements, width = loader.fields
    return matrix(elements.astype(np.float64), shape, (width, 1))
