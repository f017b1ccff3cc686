"""The kernels of matrices whose zero blocks are left out, against float64 and exact integers, for
every width of vectors that this machine has.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from infuse.targets.cpu.families.integers import I16X2, U8S8X4
from infuse.targets.cpu.families.sparse import pack_filled, unpacked_filled
from tests.native.kernel_tools import (
    Floats,
    assert_close,
    build,
    empty,
    fenced,
    longs,
    pointer,
    targets,
)

Rng = np.random.Generator
pytestmark = pytest.mark.row("Z3")
LOW = -0.25


@pytest.fixture(scope="module", params=targets())
def library(request: pytest.FixtureRequest) -> ctypes.CDLL:
    return build(Path(__file__).with_name("sparse_driver.cpp"), request.param)


def in_blocks(rng: Rng, k: int, n: int, part: float, width: int, depth: int = 1) -> NDArray[Any]:
    """Numbers [k, n] of which this part of the blocks is not zero."""
    mask = rng.random((-(-k // depth), -(-n // width))) < part
    whole: NDArray[Any] = np.repeat(np.repeat(mask, width, axis=1), depth, axis=0)[:k, :n]
    return np.asarray(rng.uniform(-1, 1, (k, n)) * whole, np.float32)


def run_gemm(
    library: ctypes.CDLL, a: Floats, b: Floats, bias: Floats, gap: int = 0, threads: int = 1
) -> Floats:
    """max(a b + bias, LOW)"""
    (m, k), n = a.shape, b.shape[1]
    packed = pack_filled(b, library.lanes())
    held = [fenced(part) for part in (packed.starts, packed.places, packed.blocks)]
    out = empty(m, n)
    sizes = longs(m, n, k, k + gap, len(packed.places))
    pointers = [pointer(part) for part in (a, *held, bias)]
    library.run_sparse_gemm(threads, sizes, *pointers, ctypes.c_float(LOW), pointer(out))
    return out


def check_gemm(
    library: ctypes.CDLL,
    rng: Rng,
    shape: tuple[int, int, int],
    part: float,
    width: int,
    gap: int = 0,
    threads: int = 1,
) -> None:
    m, n, k = shape
    flat: Floats = fenced(rng.uniform(-1, 1, m * (k + gap) - gap).astype(np.float32))
    a = as_strided(flat, (m, k), (4 * (k + gap), 4))
    b = in_blocks(rng, k, n, part, width)
    bias: Floats = fenced(rng.uniform(-1, 1, n).astype(np.float32))
    out = run_gemm(library, a, b, bias, gap, threads)
    left, right = a.astype(np.float64), b.astype(np.float64)
    magnitude = np.abs(left) @ np.abs(right) + np.abs(bias)
    assert_close(out, np.maximum(left @ right + bias, LOW), magnitude, k)


@pytest.mark.parametrize("n", [1, 3, 4, 7, 15, 16, 17, 31, 32, 33, 64, 100])
@pytest.mark.parametrize("m", [1, 2, 3, 5, 8, 15, 16, 17, 24, 31, 33])
def test_edges(library: ctypes.CDLL, rng: Rng, m: int, n: int) -> None:
    for k in (1, 2, 3, 16, 37):
        check_gemm(library, rng, (m, n, k), 0.3, 16)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("shape", "gap"),
    [((1, 1000, 256), 0), ((196, 64, 96), 5), ((300, 24, 1024), 0), ((50, 320, 900), 124)],
)
def test_threads(
    library: ctypes.CDLL, rng: Rng, shape: tuple[int, int, int], gap: int, threads: int
) -> None:
    check_gemm(library, rng, shape, 0.2, 16, gap, threads)


@pytest.mark.parametrize("part", [0.0, 0.02, 1.0])
def test_parts(library: ctypes.CDLL, rng: Rng, part: float) -> None:
    for width in (1, 4, 16):
        check_gemm(library, rng, (21, 72, 40), part, width)


def test_zero_meets_what_is_not_finite(library: ctypes.CDLL, rng: Rng) -> None:
    """A zero that is left out gives NaN where it meets an infinity, as 0 · ∞ does."""
    for m in (1, 5, 16, 50):
        a = rng.uniform(-1, 1, (m, 24)).astype(np.float32)
        b = in_blocks(rng, 24, 40, 0.4, library.lanes())
        a[m // 2, 3], a[m // 2, 7], a[0, 5] = np.inf, -np.inf, np.nan
        out = run_gemm(library, fenced(a), b, np.zeros(40, np.float32))
        with np.errstate(invalid="ignore"):
            expected = np.maximum(a.astype(np.float64) @ b.astype(np.float64), LOW)
        np.testing.assert_array_equal(np.isnan(out), np.isnan(expected))
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


# -- integers


INTEGERS = {
    "multiply_bytes": (np.uint8, U8S8X4),
    "multiply_signed": (np.int8, U8S8X4),
    "multiply_byte_pairs": (np.uint8, I16X2),
    "multiply_signed_pairs": (np.int8, I16X2),
}


def check_integers(
    library: ctypes.CDLL,
    rng: Rng,
    name: str,
    shape: tuple[int, int, int],
    gap: int = 0,
    zeros: int = 1,
    threads: int = 1,
    part: float = 0.3,
) -> None:
    """`zeros`: none, one for all rows, or one a row (2)."""
    (m, n, k), row = shape, shape[2] + gap
    kind, layout = INTEGERS[name]
    limits = np.iinfo(kind)
    a = fenced(rng.integers(limits.min, limits.max, m * row - gap, kind, endpoint=True))
    mask = in_blocks(rng, k, n, part, 16, 4) != 0
    b = rng.integers(-128, 128, (k, n), layout.dtype.numpy) * mask
    packed = pack_filled(b, library.lanes(), layout.group)
    held = [fenced(each) for each in (packed.starts, packed.places, packed.blocks)]
    sums, out = fenced(b.sum(0, dtype=np.int32)), fenced(np.full((m, n), 7, np.int32))
    drawn = rng.integers(limits.min, limits.max, m if zeros == 2 else 1, kind, endpoint=True)
    zero = fenced(drawn)
    library[name](
        threads,
        longs(m, n, k, row, len(packed.places), int(zeros == 2)),
        pointer(a),
        pointer(zero) if zeros else None,
        *map(pointer, (*held, sums, out)),
    )
    left = as_strided(a, (m, k), (row, 1)).astype(np.float64)
    shift = zero.astype(np.float64)[:, None] if zeros else 0.0
    exact = (left - shift) @ b.astype(np.float64)  # below 2⁵³
    np.testing.assert_array_equal(out, exact)


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("n", [1, 15, 17, 32, 70])
@pytest.mark.parametrize("m", [1, 2, 5, 16, 33])
def test_integer_edges(library: ctypes.CDLL, rng: Rng, name: str, m: int, n: int) -> None:
    for k in (1, 3, 4, 63, 64, 130):
        check_integers(library, rng, name, (m, n, k))


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("zeros", [0, 1, 2])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("gap", [0, 1, 4])
def test_integer_zero_points_and_threads(
    library: ctypes.CDLL, rng: Rng, name: str, zeros: int, threads: int, gap: int
) -> None:
    for shape in ((4, 33, 66), (49, 40, 100), (7, 90, 128)):
        check_integers(library, rng, name, shape, gap, zeros, threads)


@pytest.mark.parametrize("name", INTEGERS)
def test_more_rows_than_are_held_at_once(library: ctypes.CDLL, rng: Rng, name: str) -> None:
    check_integers(library, rng, name, (500, 33, 2400), gap=4, threads=2)


@pytest.mark.parametrize("part", [0.0, 1.0])
def test_integer_parts(library: ctypes.CDLL, rng: Rng, part: float) -> None:
    for name in INTEGERS:
        check_integers(library, rng, name, (21, 72, 40), part=part)


# -- packing


@pytest.mark.parametrize("group", [1, 2, 4])
def test_packing(rng: Rng, group: int) -> None:
    for k, n, part in ((1, 1, 1.0), (7, 20, 0.5), (33, 64, 0.1), (8, 16, 0.0)):
        b = in_blocks(rng, k, n, part, 8, group)
        held = pack_filled(b, 8, group)
        parts = (held.starts, held.places, held.blocks.reshape(-1))
        np.testing.assert_array_equal(unpacked_filled(*parts, k, n, 8, group), b)
