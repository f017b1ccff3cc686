"""Kernels of products of operands split into two bfloat16 each, on tile registers or what stands
for them.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from infuse.targets.cpu.families.convolution import pack_conv_bf16x2
from infuse.targets.cpu.families.gemm import (
    pack_gemm_bf16x2,
    split_product,
    split_size,
    unpacked_gemm_bf16x2,
)
from tests.native.kernel_tools import (
    Doubles,
    apart,
    assert_close,
    build,
    empty,
    fenced,
    longs,
    pointer,
    targets,
)
from tests.native.matrix_calls import Rng, Windows, attend, numbers
from tests.native.test_kernels_attention import ATTENTIONS
from tests.support.emulation import NEWEST, resolve

pytestmark = pytest.mark.row("R3")
LOW = -0.25
UNIT = 2.0**-16
"""How much of a number its two parts may lose, and of a product what is left out."""


TILED = [name for name in targets((NEWEST,)) if resolve(name).machine.has_bf16_tiles]


@pytest.fixture(scope="module", params=TILED)
def library(request: pytest.FixtureRequest) -> ctypes.CDLL:
    return build(Path(__file__).with_name("split_driver.cpp"), request.param)


def halves(x: NDArray[np.float32]) -> tuple[Doubles, Doubles]:
    """A number's high and low part."""
    high = x.astype(bfloat16).astype(np.float32)
    return high.astype(np.float64), (x - high).astype(bfloat16).astype(np.float64)


def check_gemm(
    library: ctypes.CDLL, rng: Rng, m: int, n: int, k: int, gap: int = 0, threads: int = 1
) -> None:
    a, bias = numbers(rng, m * (k + gap) - gap), numbers(rng, n)
    b = rng.uniform(-1, 1, (k, n)).astype(np.float32)
    packed, out = fenced(pack_gemm_bf16x2(b, library.lanes())), empty(m, n)
    arrays = [pointer(x) for x in (a, packed, bias)]
    shape = longs(m, n, k, k + gap)
    library.run_gemm_bf16x2(threads, shape, *arrays, ctypes.c_float(LOW), pointer(out))
    left = as_strided(a, (m, k), (4 * (k + gap), 4))
    (high, low), (above, below) = halves(left), halves(b)
    sums = (high + low) @ above + high @ below + bias
    magnitude = np.abs(left.astype(np.float64)) @ np.abs(b.astype(np.float64)) + np.abs(bias)
    assert_close(out, np.maximum(sums, LOW), 2 * magnitude, 3 * k)
    exact = np.maximum(left.astype(np.float64) @ b.astype(np.float64) + bias, LOW)
    # What the header promises, and what float32 loses of sums.
    bound = (3 * UNIT + (3 * k + 2) * 2.0**-23) * magnitude
    assert (np.abs(out - exact) <= bound).all()


def test_halves_are_packed_for_the_kernel(rng: Rng) -> None:
    for k, n, lanes in ((1, 1, 16), (40, 33, 16), (64, 70, 16)):
        b = rng.standard_normal((k, n)).astype(np.float32)
        packed = pack_gemm_bf16x2(b, lanes).reshape(-1)
        assert packed.size == split_size(k, n, lanes)
        for part, expected in zip(unpacked_gemm_bf16x2(packed, k, n, lanes), halves(b)):
            np.testing.assert_array_equal(part.astype(np.float64), expected)
        rows = rng.standard_normal((3, k))
        product = split_product(rows, unpacked_gemm_bf16x2(packed.astype(np.float64), k, n, lanes))
        assert (np.abs(product - rows @ b) <= 3 * UNIT * (np.abs(rows) @ np.abs(b))).all()


@pytest.mark.parametrize("n", [1, 15, 16, 17, 31, 32, 33, 48, 63, 64, 100])
@pytest.mark.parametrize("m", [1, 2, 15, 16, 17, 31, 32, 33, 49])
def test_gemm_edges(library: ctypes.CDLL, rng: Rng, m: int, n: int) -> None:
    for k in (1, 2, 15, 16, 17, 31, 32, 33, 65):
        check_gemm(library, rng, m, n, k)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("m", "n", "k", "gap"),
    [
        (1, 1000, 256, 0),
        (196, 64, 96, 0),
        (300, 24, 17, 3),
        (5, 96, 33, 1),
        (3136, 64, 64, 0),
        (300, 500, 2049, 5),
        (130, 1100, 1024, 0),
        (0, 5, 4, 0),
        (5, 0, 4, 0),
    ],
)
def test_gemm_on_threads(
    library: ctypes.CDLL, rng: Rng, m: int, n: int, k: int, gap: int, threads: int
) -> None:
    check_gemm(library, rng, m, n, k, gap, threads)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("m", "n", "k", "gap"), [(1, 5, 7, 0), (17, 33, 31, 2), (49, 64, 96, 0), (70, 40, 197, 5)]
)
def test_gemm_of_made_rows(
    library: ctypes.CDLL, rng: Rng, m: int, n: int, k: int, gap: int, threads: int
) -> None:
    """Rows that are computed as they are split."""
    a, gates, bias = numbers(rng, m * (k + gap) - gap), numbers(rng, k), numbers(rng, n)
    b = rng.uniform(-1, 1, (k, n)).astype(np.float32)
    packed, out = fenced(pack_gemm_bf16x2(b, library.lanes())), empty(m, n)
    arrays = [pointer(x) for x in (a, gates, packed, bias)]
    how = ctypes.c_float(LOW), pointer(out)
    library.run_gemm_made_bf16x2(threads, longs(m, n, k, k + gap), *arrays, *how)
    rows = as_strided(a, (m, k), (4 * (k + gap), 4)) * gates
    (high, low), (above, below) = halves(rows), halves(b)
    sums = (high + low) @ above + high @ below + bias
    magnitude = np.abs(rows.astype(np.float64)) @ np.abs(b.astype(np.float64)) + np.abs(bias)
    assert_close(out, np.maximum(sums, LOW), 2 * magnitude, 3 * k)


def test_what_is_not_finite_stays_in_its_rows(library: ctypes.CDLL, rng: Rng) -> None:
    a, b = np.ones((40, 40), np.float32), numbers(rng, 40, 37)
    a[::4, 3], a[1::4, 17], a[2::4, 39] = np.nan, np.inf, 3.4e38
    operands = fenced(a), fenced(pack_gemm_bf16x2(b, library.lanes())), np.zeros(37, np.float32)
    arrays, out = [pointer(x) for x in operands], empty(40, 37)
    library.run_gemm_bf16x2(1, longs(40, 37, 40, 40), *arrays, ctypes.c_float(-1e30), pointer(out))
    assert not np.isfinite(np.delete(out, np.s_[3::4], axis=0)).any()
    assert np.isfinite(out[3::4]).all()


@pytest.mark.parametrize(
    ("n", "h", "w", "c", "oc", "kernel", "strides", "dilations", "pads", "groups"),
    [
        (2, 9, 10, 32, 20, (3, 3), (1, 1), (1, 1), (1, 1), 1),
        (3, 11, 9, 64, 40, (3, 3), (2, 2), (1, 1), (1, 1), 1),
        (1, 13, 12, 32, 5, (5, 4), (3, 2), (1, 1), (2, 1), 1),
        (2, 8, 9, 96, 33, (3, 3), (1, 1), (2, 2), (2, 2), 1),
        (2, 8, 8, 128, 64, (3, 3), (1, 1), (1, 1), (1, 1), 2),
        (1, 7, 9, 256, 33, (1, 1), (2, 3), (1, 1), (0, 0), 1),
        (1, 7, 6, 256, 33, (3, 3), (1, 1), (1, 1), (1, 1), 1),
        (2, 1, 40, 32, 16, (1, 9), (1, 1), (1, 1), (0, 4), 1),
        (1, 3, 2, 32, 5, (5, 9), (1, 1), (1, 1), (4, 8), 1),
        (1, 5, 5, 64, 16, (1, 1), (1, 1), (1, 1), (1, 1), 1),
        # more lines than are held at a time
        (1, 90, 250, 32, 8, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("gap", [0, 3])
def test_convolutions(
    library: ctypes.CDLL,
    rng: Rng,
    n: int,
    h: int,
    w: int,
    c: int,
    oc: int,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
    pads: tuple[int, int],
    groups: int,
    gap: int,
    threads: int,
) -> None:
    x = apart(numbers(rng, n, h, w, c), gap)
    weights = rng.uniform(-1, 1, (oc, c // groups, *kernel)).astype(np.float32)
    call = Windows((n, h, w, c), oc, kernel, strides, dilations, pads, groups)
    packed, bias = fenced(pack_conv_bf16x2(weights, groups, library.lanes())), numbers(rng, oc)
    out = empty(n, *call.size, oc)
    arrays = [pointer(x), pointer(packed), pointer(bias)]
    library.run_conv_bf16x2(threads, call.sizes(gap), *arrays, ctypes.c_float(LOW), pointer(out))
    (high, low), (above, below) = halves(x), halves(weights)
    magnitude = call.convolved(np.abs(x).astype(np.float64), np.abs(weights).astype(np.float64))
    sums = call.convolved(high + low, above) + call.convolved(high, below) + bias
    terms = 3 * kernel[0] * kernel[1] * c // groups
    assert_close(out, np.maximum(sums, LOW), 2 * magnitude + np.abs(bias), terms)


@pytest.mark.parametrize("mask_kind", ["none", "add", "causal"])
@pytest.mark.parametrize(
    "sizes",
    [
        *ATTENTIONS,
        (1, 1, 1, 30, 31, 200, 70),
        (1, 2, 1, 3, 5, 129, 33),
        (1, 2, 1, 70, 300, 40, 24),
        (2, 3, 3, 49, 49, 32, 32),
    ],
)
def test_attention(library: ctypes.CDLL, rng: Rng, sizes: tuple[int, ...], mask_kind: str) -> None:
    made = attend(library.attend_bf16x2, rng, sizes, mask_kind)
    q, k, v = (x.astype(np.float64) for x in made.operands)
    expected, terms = made.exact(q, k, v), made.exact(q, k, np.abs(v))
    # A score is off by at most 3 units of its terms' magnitudes, and its exponential by as much.
    scores = np.abs(q).sum(axis=-1).max() * made.scale
    bound = (3 + 6 * scores) * UNIT * terms + 2e-6
    assert np.all(np.abs(made.out - expected) <= bound)
