"""Calls of single instructions on vectors of 16 elements, and numbers to try them on."""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.native.kernel_tools import build, has_target, pointer
from tests.support import emulation

Array = NDArray[Any]
Rng = np.random.Generator
MASKS = (0, 1, 0x8000, 0xFFFF, 0x00FF, 0xA5C3)
SPECIAL = np.array(
    [
        *(
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            1.5,
            2.5,
            -2.5,
            3.5,
            0.49999997,
            8388607.5,
            -8388607.5,
            1e30,
            -1e30,
            3e38,
            -3e38,
        ),
        *(
            np.inf,
            -np.inf,
            np.nan,
            -np.nan,
            1e-45,
            -1e-45,
            1e-39,
            -1e-39,
            1.1754944e-38,
            -1.1754944e-38,
            65504,
            65520,
        ),
        *(6e-8, 2.9802322e-08, 2.980233e-08, -65519.996),
    ],
    np.float32,
)


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    if not has_target(emulation.NEWEST):
        pytest.skip(f"this processor has no AMX; {emulation.obstacle()}")
    return build(Path(__file__).with_name("emulation_driver.cpp"), emulation.NEWEST)


def bits_of(mask: int, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to((mask >> np.arange(16) & 1).astype(bool), shape)


def call(library: ctypes.CDLL, name: str, *operands: Array, other: Array, mask: int) -> Array:
    to = np.empty_like(other)
    library[name](
        ctypes.c_long(len(other)), *map(pointer, operands), pointer(other), mask, pointer(to)
    )
    return to


def agree(found: Array, expected: Array) -> None:
    """Bit by bit; what is no number may have any bits."""
    if found.dtype.kind == "f":
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        np.testing.assert_array_equal(
            np.signbit(found) & ~np.isnan(found), np.signbit(expected) & ~np.isnan(expected)
        )
    np.testing.assert_array_equal(found, expected)


def whole(values: Array) -> Array:
    """Rows of 16; the last one is filled up with the first values."""
    return np.resize(values, (-(-values.size // 16), 16))


def couples() -> tuple[Array, Array]:
    """Every special number beside every other."""
    return whole(np.repeat(SPECIAL, SPECIAL.size)), whole(np.tile(SPECIAL, SPECIAL.size))


def floats(rng: Rng) -> Array:
    """Special numbers, and some from every exponent."""
    return whole(
        np.concatenate([SPECIAL, rng.integers(0, 2**32, 4096, np.uint32).view(np.float32)])
    )
