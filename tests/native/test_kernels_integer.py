"""Products of bytes and packed signed bytes, on every width of vectors and on tile registers."""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from infuse.targets import DotType
from infuse.targets.cpu.families.integers import U8S8X4, pack_groups
from tests.native.kernel_tools import build, fenced, longs, pointer, targets
from tests.support.emulation import NARROW_BYTES, NARROW_DOTS, NEWEST, resolve

pytestmark = pytest.mark.row("R3")
Integers = NDArray[Any]
Rng = np.random.Generator
EXTREME = {"multiply_bytes": np.iinfo(np.uint8), "multiply_signed": np.iinfo(np.int8)}


@pytest.fixture(scope="module", params=targets((NARROW_BYTES, NARROW_DOTS, NEWEST)))
def target(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def library(target: str) -> ctypes.CDLL:
    return build(Path(__file__).with_name("integer_driver.cpp"), target)


@pytest.fixture(scope="module")
def tiled(target: str) -> bool:
    return DotType.U8S8 in resolve(target).machine.tiled


def drawn(rng: Rng, name: str, count: int) -> Integers:
    kind = EXTREME[name]
    numbers = rng.integers(kind.min, kind.max, count, kind.dtype, endpoint=True)
    numbers[: count // 3] = rng.choice([kind.min, kind.max], count // 3)
    return fenced(numbers)


def check(
    library: ctypes.CDLL,
    tiled: bool,
    rng: Rng,
    name: str,
    shape: tuple[int, int, int],
    gap: int = 0,
    zeros: int = 1,
    threads: int = 1,
) -> None:
    """`zeros`: none, one for all rows, or one a row (2)."""
    (m, n, k), row = shape, shape[2] + gap
    a, b = drawn(rng, name, m * row - gap), rng.integers(-128, 128, (k, n), np.int8)
    packed = fenced(pack_groups(b, library.lanes(), U8S8X4, tiled))
    sums = fenced(b.sum(0, dtype=np.int32))
    zero = drawn(rng, name, m if zeros == 2 else 1)
    out = fenced(np.full((m, n), 7, np.int32))
    library[name](
        threads,
        longs(m, n, k, row, int(zeros == 2)),
        pointer(a),
        pointer(zero) if zeros else None,
        *map(pointer, (packed, sums, out)),
    )
    left = as_strided(a, (m, k), (row, 1)).astype(np.float64)
    shift = zero.astype(np.float64)[:, None] if zeros else 0.0
    exact = (left - shift) @ b.astype(np.float64)  # below 2⁵³
    np.testing.assert_array_equal(out, exact)


def test_tiles_are_used_where_the_processor_has_them(library: ctypes.CDLL, tiled: bool) -> None:
    assert bool(library.has_tiles()) == tiled


@pytest.mark.parametrize("name", EXTREME)
@pytest.mark.parametrize("n", [1, 15, 16, 17, 31, 32, 33, 70])
@pytest.mark.parametrize("m", [1, 4, 5, 12, 16, 17, 33])
def test_edges(library: ctypes.CDLL, tiled: bool, rng: Rng, name: str, m: int, n: int) -> None:
    for k in (1, 3, 4, 63, 64, 65, 130):
        check(library, tiled, rng, name, (m, n, k))


@pytest.mark.parametrize("name", EXTREME)
@pytest.mark.parametrize("zeros", [0, 1, 2])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("gap", [0, 1, 5])
def test_zero_points_and_threads(
    library: ctypes.CDLL, tiled: bool, rng: Rng, name: str, zeros: int, threads: int, gap: int
) -> None:
    for shape in ((4, 33, 66), (49, 40, 100), (7, 90, 128)):
        check(library, tiled, rng, name, shape, gap, zeros, threads)


def test_more_rows_than_are_held_at_once(library: ctypes.CDLL, tiled: bool, rng: Rng) -> None:
    check(library, tiled, rng, "multiply_signed", (1100, 33, 300), gap=3, threads=2)
    check(library, tiled, rng, "multiply_bytes", (70, 64, 16384))
