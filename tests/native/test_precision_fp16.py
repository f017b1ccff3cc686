"""Weights stored as halves: kernels on every width of vectors, and models of precision fp16.

Arithmetic is that of float32, so a result is right for the rounded weights at the tolerance of
float32.
"""

from __future__ import annotations

import ctypes
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from infuse.targets.cpu.families.gemm import pack_gemm_b
from infuse.targets.cpu.families.winograd import winograd_weights
from tests.native.kernel_tools import assert_close, build, empty, fenced, longs, pointer, targets
from tests.native.test_kernels_gemm import check_conv as check_conv_of, numbers, windows

pytestmark = pytest.mark.row("R3")
Doubles = NDArray[np.float64]
Rng = np.random.Generator
LOW = -0.25
HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


@pytest.fixture(scope="module", params=targets())
def library(request: pytest.FixtureRequest) -> ctypes.CDLL:
    source = Path(__file__).with_name("fp16_driver.cpp")
    return build(source, request.param)


def halves(rng: Rng, *shape: int) -> NDArray[np.float16]:
    return rng.uniform(-1, 1, shape).astype(np.float16)


# ---- conversion


@pytest.mark.parametrize("function", ["widen_vectors", "widen_singles", "widen_panels"])
def test_every_half_is_widened_exactly(library: ctypes.CDLL, function: str) -> None:
    given, out = fenced(HALVES), empty(HALVES.size)
    getattr(library, function)(ctypes.c_long(HALVES.size), pointer(given), pointer(out))
    expected, numeric = HALVES.astype(np.float32), ~np.isnan(HALVES)
    np.testing.assert_array_equal(out[numeric].view(np.uint32), expected[numeric].view(np.uint32))
    assert np.isnan(out[~numeric]).all()
    np.testing.assert_array_equal(np.signbit(out), np.signbit(expected))


@pytest.mark.parametrize("count", [1, 3, 4, 7, 9, 15, 17, 31])
def test_a_tail_is_widened_without_touching_what_comes_after(
    library: ctypes.CDLL, count: int
) -> None:
    given, out = fenced(HALVES[15000 : 15000 + count]), empty(count)
    library.widen_vectors(ctypes.c_long(count), pointer(given), pointer(out))
    np.testing.assert_array_equal(out, given.astype(np.float32))


# ---- products


def check_gemm(
    library: ctypes.CDLL, rng: Rng, m: int, n: int, k: int, gap: int = 0, threads: int = 1
) -> None:
    a, b, bias = numbers(rng, m * (k + gap) - gap), halves(rng, k, n), numbers(rng, n)
    packed, out = fenced(pack_gemm_b(b, library.lanes(), np.float16)), empty(m, n)
    shape, low = longs(m, n, k, k + gap), ctypes.c_float(LOW)
    library.run_gemm_fp16(
        threads, shape, pointer(a), pointer(packed), pointer(bias), low, pointer(out)
    )
    left, right = as_strided(a, (m, k), (4 * (k + gap), 4)).astype(np.float64), b.astype(np.float64)
    assert_close(
        out, np.maximum(left @ right + bias, LOW), np.abs(left) @ np.abs(right) + np.abs(bias), k
    )


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 7, 11, 12, 13, 35, 36, 71, 72, 73])
def test_gemm_edges(library: ctypes.CDLL, rng: Rng, m: int) -> None:
    for n, k in product((1, 4, 5, 15, 16, 17, 24, 31, 32, 33, 64, 100), (1, 3, 18)):
        check_gemm(library, rng, m, n, k)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("m", "n", "k", "gap"),
    [
        (1, 1000, 256, 0),
        (196, 64, 96, 0),
        (300, 24, 16, 5),
        (5, 96, 33, 1),
        (700, 64, 64, 0),
        (7, 7, 0, 0),
        (90, 40, 0, 0),
        (0, 5, 4, 0),
        (150, 400, 800, 5),
        (80, 70, 5000, 0),
        (37, 130, 1024, 0),
        (80, 150, 2048, 0),
    ],
)
def test_gemm_on_threads(
    library: ctypes.CDLL, rng: Rng, m: int, n: int, k: int, gap: int, threads: int
) -> None:
    check_gemm(library, rng, m, n, k, gap, threads)


@pytest.mark.parametrize("rows", [2, 50])
def test_gemm_keeps_what_halves_hold(library: ctypes.CDLL, rows: int) -> None:
    """Subnormal, largest and infinite weights, and those that are no numbers, as they are."""
    weights = np.array([[2.0**-24, 65504, -np.inf, np.nan, -(2.0**-14)]], np.float16)
    a, bias = fenced(np.full((rows, 1), 2, np.float32)), np.zeros(5, np.float32)
    packed, out = fenced(pack_gemm_b(weights, library.lanes(), np.float16)), empty(rows, 5)
    low = ctypes.c_float(-np.inf)
    library.run_gemm_fp16(
        1, longs(rows, 5, 1, 1), pointer(a), pointer(packed), pointer(bias), low, pointer(out)
    )
    np.testing.assert_array_equal(out, np.repeat(2 * weights.astype(np.float32), rows, axis=0))


# ---- convolutions


check_conv = partial(check_conv_of, kind=np.float16)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("channels", [3, 31, 40])
@pytest.mark.parametrize("kernel", [(1, 1), (2, 4)])
def test_conv_windows(
    library: ctypes.CDLL, rng: Rng, kernel: tuple[int, int], channels: int, threads: int
) -> None:
    for strides, pads in product([(1, 1), (2, 2)], [(0, 0, 0, 0), (2, 3, 0, 1)]):
        check_conv(
            library, rng, (2, 9, 11, channels), 18, kernel, strides, pads=pads, threads=threads
        )


@pytest.mark.parametrize("threads", [1, 2])
def test_conv_of_networks(library: ctypes.CDLL, rng: Rng, threads: int) -> None:
    check_conv(
        library,
        rng,
        (1, 64, 64, 3),
        64,
        (7, 7),
        (2, 2),
        pads=(3, 3, 3, 3),
        threads=threads,
        planar=True,
    )
    check_conv(library, rng, (1, 65, 63, 3), 32, (3, 3), (2, 2), pads=(0, 0, 1, 1), threads=threads)
    check_conv(library, rng, (1, 28, 28, 200), 130, (1, 1), (2, 2), threads=threads)
    check_conv(library, rng, (1, 10, 10, 200), 130, (1, 1), threads=threads)
    check_conv(
        library, rng, (1, 20, 20, 110), 70, (3, 3), (2, 2), pads=(1, 1, 1, 1), threads=threads
    )
    check_conv(
        library, rng, (1, 11, 10, 40), 33, (3, 3), (2, 1), (2, 2), (2, 2, 2, 2), threads=threads
    )


@pytest.mark.parametrize(
    ("channels", "out_channels", "groups"), [(8, 8, 2), (32, 64, 4), (64, 64, 32)]
)
def test_conv_groups(
    library: ctypes.CDLL, rng: Rng, channels: int, out_channels: int, groups: int
) -> None:
    for kernel, threads in product([(1, 1), (3, 3)], [1, 2]):
        image, pads = (2, 6, 7, channels), (1, 1, 1, 1)
        check_conv(
            library,
            rng,
            image,
            out_channels,
            kernel,
            (2, 1),
            pads=pads,
            groups=groups,
            threads=threads,
        )


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("channels", "out_channels"), [(16, 19), (40, 48)])
@pytest.mark.parametrize("tile", [2, 4])
def test_winograd(
    library: ctypes.CDLL, rng: Rng, tile: int, out_channels: int, channels: int, threads: int
) -> None:
    """Transformed weights are rounded, not the weights themselves: the error of a half, grown by
    the transforms.
    """
    for image, pads in (
        ((2, 7, 9, channels), 1),
        ((1, 28, 28, channels), 1),
        ((1, 4, 6, channels), 0),
    ):
        n, h, w, c = image
        x, bias = numbers(rng, *image), numbers(rng, out_channels)
        weights = rng.uniform(-1, 1, (out_channels, c, 3, 3)).astype(np.float32)
        padded = np.pad(x.astype(np.float64), ((0, 0), (pads, pads), (pads, pads), (0, 0)))
        view = windows(padded, (3, 3), (1, 1), (1, 1))
        oh, ow = view.shape[1:3]
        expected = (
            view.reshape(n, oh, ow, -1) @ weights.astype(np.float64).reshape(out_channels, -1).T
            + bias
        )
        packed = fenced(winograd_weights(weights, tile, library.lanes(), kind=np.float16))
        shape = longs(n, h, w, c, oh, ow, out_channels, 3, 3, 1, 1, 1, 1, pads, pads, 1, c, 0)
        out, low = empty(n, oh, ow, out_channels), ctypes.c_float(-np.inf)
        run = getattr(library, f"run_winograd{tile}")
        run(threads, shape, pointer(x), pointer(packed), pointer(bias), low, pointer(out))
        typical = np.sqrt(np.square(view).mean() * np.square(weights).mean() * 9 * c)
        error = np.abs(out - expected)
        assert error.max() <= (5 if tile == 2 else 15) * 2.0**-11 * typical
        assert error.max() > 2.0**-20 * typical, "nothing was rounded"
