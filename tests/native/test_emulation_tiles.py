"""The instructions of AMX that kernels name, each against NumPy: emulated, or a processor's own."""

import ctypes
import signal
import threading
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16
from numpy.typing import NDArray

from tests.native.kernel_tools import ended_by, fenced, pointer
from tests.native.wide_vectors import SPECIAL, agree, library

__all__ = ["library"]

pytestmark = pytest.mark.row("R1", "R3")
Array = NDArray[Any]
Rng = np.random.Generator
SIZES = [(16, 16, 16), (1, 16, 16), (16, 1, 3), (5, 7, 11), (16, 16, 1), (3, 2, 16)]
"""Rows, words along k and columns of a product."""


def configuration(*tiles: tuple[int, int], palette: int = 1) -> Array:
    """Registers of these rows and words as LDTILECFG reads them."""
    how = np.zeros(64, np.uint8)
    how[0] = palette
    for number, (rows, words) in enumerate(tiles):
        how[16 + 2 * number], how[48 + number] = 4 * words, rows
    return how


def whole(part: Array) -> Array:
    """A matrix in rows of 64 bytes, ones of all bits around it."""
    memory = np.full((16, 64), 255, np.uint8)
    flat = np.ascontiguousarray(part).reshape(len(part), -1).view(np.uint8)
    memory[: len(part), : flat.shape[1]] = flat
    return memory


def multiply(library: ctypes.CDLL, name: str, start: Array, a: Array, b: Array) -> Array:
    (rows, words), columns = a.shape[:2], b.shape[1]
    how = configuration((rows, columns), (rows, words), (words, columns))
    to = whole(start)
    operands = [whole(x) for x in (start, a, b)]
    library[name](pointer(how), *map(pointer, operands), pointer(to))
    found = to[:rows, : 4 * columns].copy().view(start.dtype)
    to[:rows, : 4 * columns] = 255
    assert (to == 255).all(), "what is not a part of the register was written"
    return found


def flushed(x: Array) -> Array:
    """Zeros of their sign in place of denormal numbers."""
    small = np.abs(x) < np.finfo(np.float32).smallest_normal
    return np.where(small, np.copysign(np.float32(0), x), x).astype(np.float32)


def dot(start: Array, a: Array, b: Array) -> Array:
    """Intel's description of TDPBF16PS: each half of the pairs is summed up by fused products, and
    both sums are added before they are added to what was there.
    """
    halves = []
    for half in (0, 1):
        total = np.zeros(start.shape, np.float32)
        left, right = (flushed(x[..., half].astype(np.float32)).astype(np.float64) for x in (a, b))
        for k in range(a.shape[1]):
            exact = np.multiply.outer(left[:, k], right[k]) + total.astype(np.float64)
            total = flushed(exact.astype(np.float32))
        halves.append(total)
    return flushed(flushed(start) + flushed(halves[0] + halves[1]))


@pytest.mark.parametrize(("rows", "words", "columns"), SIZES)
@pytest.mark.filterwarnings("ignore:(invalid value|overflow):RuntimeWarning")
def test_products_of_pairs(
    library: ctypes.CDLL, rng: Rng, rows: int, words: int, columns: int
) -> None:
    for _ in range(5):
        a = rng.standard_normal((rows, words, 2)) * 2.0 ** rng.integers(-3, 4, (rows, words, 2))
        b = rng.standard_normal((words, columns, 2))
        start = rng.standard_normal((rows, columns)).astype(np.float32)
        a, b = a.astype(bfloat16), b.astype(bfloat16)
        agree(multiply(library, "tiled_pairs", start, a, b), dot(start, a, b))
        x = rng.choice(SPECIAL, a.shape).astype(bfloat16)
        y = rng.choice(SPECIAL[:-2], b.shape).astype(bfloat16)
        wide = rng.choice(SPECIAL, start.shape)
        with np.errstate(all="ignore"):
            agree(multiply(library, "tiled_pairs", wide, x, y), dot(wide, x, y))


@pytest.mark.filterwarnings("ignore:(invalid value|overflow|underflow):RuntimeWarning")
def test_products_of_pairs_know_no_denormal_numbers(library: ctypes.CDLL) -> None:
    def run(start: float, a: list[list[float]], b: list[list[float]]) -> Any:
        left, right = (np.array(x, np.float32).astype(bfloat16) for x in (a, b))
        first = np.full((1, 1), start, np.float32)
        return multiply(library, "tiled_pairs", first, left[None], right[:, None])[0, 0]

    assert run(1e-39, [[0, 0]], [[0, 0]]) == 0
    assert run(0, [[1e-39, 0]], [[2.0**100, 0]]) == 0
    assert run(0, [[0, 2.0**-70]], [[0, 2.0**-60]]) == 0
    assert run(0, [[0, 2.0**-60]], [[0, 2.0**-60]]) == 2.0**-120
    assert not np.signbit(run(-1e-39, [[-0.0, -0.0]], [[1, 1]]))  # sums begin at +0


def test_halves_of_pairs_are_summed_up_apart(library: ctypes.CDLL) -> None:
    """Rounding tells: 2²⁵ + 1 - 2²⁵ is 0, but 1 where the 1 is in the other half."""
    start, ones = np.zeros((1, 1), np.float32), np.ones((3, 1, 2), bfloat16)
    for a, expected in (
        ([[2.0**25, 0], [1, 0], [-(2.0**25), 0]], 0),
        ([[2.0**25, 0], [0, 1], [-(2.0**25), 0]], 1),
    ):
        found = multiply(library, "tiled_pairs", start, np.array([a], bfloat16), ones)
        assert found[0, 0] == expected
    late = np.full((1, 1), -(2.0**25), np.float32)
    pairs = np.array([[[2.0**25, 1]]], bfloat16)
    assert multiply(library, "tiled_pairs", late, pairs, ones[:1])[0, 0] == 0


@pytest.mark.parametrize(("rows", "words", "columns"), SIZES)
def test_products_of_quads(
    library: ctypes.CDLL, rng: Rng, rows: int, words: int, columns: int
) -> None:
    """Bytes times signed bytes, without saturation: sums wrap around."""
    for extreme in (False, True):
        a = rng.integers(0, 256, (rows, words, 4), np.uint8)
        b = rng.integers(-128, 128, (words, columns, 4), np.int8)
        if extreme:
            a[:], b[:] = 255, -128
        start = rng.integers(-(2**31), 2**31, (rows, columns), np.int32)
        exact = start + np.einsum("mkq,knq->mn", a.astype(np.int64), b.astype(np.int64))
        agree(multiply(library, "tiled_quads", start, a, b), exact.astype(np.int32))


@pytest.mark.parametrize(("rows", "words"), [(16, 16), (3, 5), (1, 16), (16, 1)])
@pytest.mark.parametrize("zero", [0, 1])
def test_memory_around_a_register_is_not_touched(
    library: ctypes.CDLL, rng: Rng, rows: int, words: int, zero: int
) -> None:
    used = 4 * words
    how = configuration(*[(1, 1)] * 7, (rows, words))
    for stride, step in ((used, 80), (200, used), (64, 64)):
        extent = (rows - 1) * stride + used
        from_, to = (
            fenced(rng.integers(0, 256, extent, np.uint8)),
            fenced(np.full((rows - 1) * step + used, 9, np.uint8)),
        )
        library.move_tile(
            pointer(how),
            pointer(from_),
            ctypes.c_long(stride),
            pointer(to),
            ctypes.c_long(step),
            zero,
        )
        expected = np.full_like(to, 9)
        for row in range(rows):
            content = from_[row * stride : row * stride + used]
            expected[row * step : row * step + used] = 0 if zero else content
        np.testing.assert_array_equal(to, expected)


def test_a_configuration_clears_the_registers(library: ctypes.CDLL) -> None:
    wide, narrow = configuration(*[(16, 16)] * 8), configuration(*[(3, 2)] * 8)
    content, to = np.full((16, 64), 7, np.uint8), np.full((16, 64), 9, np.uint8)
    library.grow_tile(*map(pointer, (narrow, wide, content, to)))
    assert not to.any()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_registers_are_used_as_they_are_configured_or_not_at_all(library: ctypes.CDLL) -> None:
    good = configuration((16, 16))
    assert ended_by(lambda: library.zero_tile_of(pointer(good))) == 0
    assert ended_by(library.zero_tile) == signal.SIGILL
    assert ended_by(lambda: library.zero_tile_after_release(pointer(good))) == signal.SIGILL
    other = configuration((0, 0), (16, 16))
    assert ended_by(lambda: library.zero_tile_of(pointer(other))) == signal.SIGILL
    fits = [np.zeros((16, 64), np.uint8)] * 4
    sizes = configuration((4, 4), (5, 4), (4, 4))
    unequal = [pointer(x) for x in (sizes, *fits)]
    assert ended_by(lambda: library.tiled_pairs(*unequal)) == signal.SIGILL


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_each_thread_has_registers_of_its_own(library: ctypes.CDLL) -> None:
    """What one thread configures, another has not."""
    good = configuration((16, 16))

    def both() -> None:
        first = threading.Thread(target=lambda: library.zero_tile_of(pointer(good)))
        first.start()
        first.join()
        library.zero_tile()

    assert ended_by(both) == signal.SIGILL
