"""What kernel families share: sizes as named fields, each class the twin of a struct in a kernel
header, and the meaning of kernels in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
class Arguments:
    """What a kernel is called with, numbers in place of symbols.

    `operands`: of each pointer the elements from there on, flat, in float64. `words`: what else
    stands in the call. `lanes`: elements of float32 in a vector, by which weights are packed.
    """

    sizes: Any
    operands: tuple[Array, ...]
    numbers: tuple[int, ...]
    words: tuple[str, ...]
    template: tuple[str, ...]
    lanes: int


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


def matrix(elements: Array, shape: tuple[int, int], strides: tuple[int, int]) -> Array:
    """A matrix whose elements lie this far apart; IndexError where it leaves the elements."""
    places = np.add.outer(np.arange(shape[0]) * strides[0], np.arange(shape[1]) * strides[1])
    return elements[places]
