"""Kernels of products of operands rounded to bfloat16, on every width of vectors."""

from __future__ import annotations

import ctypes
import signal

import numpy as np
import pytest
from ml_dtypes import bfloat16
from numpy.lib.stride_tricks import as_strided

from infuse.targets.cpu.families.convolution import pack_conv_bf16
from infuse.targets.cpu.families.gemm import pack_gemm_bf16
from tests.native.bf16_fixtures import library, target, tiled
from tests.native.kernel_tools import (
    Floats,
    apart,
    assert_close,
    empty,
    ended_by,
    fenced,
    longs,
    pointer,
    rounded,
)
from tests.native.matrix_calls import Rng, Windows, attend, numbers
from tests.native.test_kernels_attention import ATTENTIONS
from tests.support.emulation import resolve

__all__ = ["library", "target", "tiled"]

pytestmark = pytest.mark.row("R3")
LOW = -0.25


def check_gemm(
    library: ctypes.CDLL,
    tiled: bool,
    rng: Rng,
    m: int,
    n: int,
    k: int,
    gap: int = 0,
    threads: int = 1,
) -> None:
    a, b, bias = (
        numbers(rng, m * (k + gap) - gap),
        rng.uniform(-1, 1, (k, n)).astype(np.float32),
        numbers(rng, n),
    )
    packed, out = fenced(pack_gemm_bf16(b, library.lanes(), tiled)), empty(m, n)
    low = ctypes.c_float(LOW)
    shape = longs(m, n, k, k + gap)
    library.run_gemm_bf16(
        threads, shape, pointer(a), pointer(packed), pointer(bias), low, pointer(out)
    )
    left, right = rounded(as_strided(a, (m, k), (4 * (k + gap), 4))), rounded(b)
    expected = np.maximum(left @ right + bias, LOW)
    assert_close(out, expected, np.abs(left) @ np.abs(right) + np.abs(bias), k)


def test_the_processor_s_own_instructions_are_used(library: ctypes.CDLL, target: str) -> None:
    features = resolve(target).features
    assert library.is_native() == ("avx512_bf16" in features)
    assert library.has_tiles() == ({"amx_tile", "amx_bf16"} <= features)
    assert library.lanes() == (16 if "avx512f" in features else 8 if "avx" in features else 4)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_no_thread_keeps_tile_registers(library: ctypes.CDLL, tiled: bool, rng: Rng) -> None:
    """A thread that holds them is slower to switch, and keeps its core from deep sleep."""
    if not tiled:
        pytest.skip("vectors multiply")

    def use_after_a_product() -> None:
        check_gemm(library, tiled, rng, 40, 40, 40)
        library.use_tile()

    assert ended_by(use_after_a_product) == signal.SIGILL


@pytest.mark.parametrize("n", [1, 3, 4, 5, 8, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 100])
@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 7, 11, 12, 13, 23, 24, 25, 49])
def test_gemm_edges(library: ctypes.CDLL, tiled: bool, rng: Rng, m: int, n: int) -> None:
    for k in (1, 2, 3, 7, 31, 34):
        check_gemm(library, tiled, rng, m, n, k)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("m", "n", "k", "gap"),
    [
        (1, 1000, 256, 0),
        (196, 64, 96, 0),
        (300, 24, 17, 3),
        (5, 96, 33, 1),
        (3136, 64, 64, 0),
        (7, 7, 0, 0),
        (0, 5, 4, 0),
        (5, 0, 4, 0),
    ],
)
def test_gemm_on_threads(
    library: ctypes.CDLL, tiled: bool, rng: Rng, m: int, n: int, k: int, gap: int, threads: int
) -> None:
    check_gemm(library, tiled, rng, m, n, k, gap, threads)


@pytest.mark.parametrize(
    ("m", "n", "k", "gap", "skipped"),
    [
        (5, 33, 8, 0, 0),
        (25, 64, 34, 2, 2),
        (13, 40, 7, 1, 0),
        (13, 40, 8, 1, 0),
        (9, 70, 6, 0, 1),
        (30, 64, 2048, 0, 0),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_gemm_of_rounded_rows(
    library: ctypes.CDLL,
    tiled: bool,
    rng: Rng,
    m: int,
    n: int,
    k: int,
    gap: int,
    skipped: int,
    threads: int,
) -> None:
    memory = fenced(rng.uniform(-1, 1, skipped + m * (k + gap) - gap).astype(bfloat16))[skipped:]
    b, bias = rng.uniform(-1, 1, (k, n)).astype(np.float32), numbers(rng, n)
    packed, out, low = (
        fenced(pack_gemm_bf16(b, library.lanes(), tiled)),
        empty(m, n),
        ctypes.c_float(LOW),
    )
    arrays = [pointer(x) for x in (memory, packed, bias)]
    library.run_gemm_of_rounded(threads, longs(m, n, k, k + gap), *arrays, low, pointer(out))
    left, right = as_strided(memory, (m, k), (2 * (k + gap), 2)).astype(np.float64), rounded(b)
    expected = np.maximum(left @ right + bias, LOW)
    assert_close(out, expected, np.abs(left) @ np.abs(right) + np.abs(bias), k)


def test_gemm_with_much_to_cache(library: ctypes.CDLL, tiled: bool, rng: Rng) -> None:
    check_gemm(library, tiled, rng, 300, 500, 2049, gap=5, threads=2)
    check_gemm(library, tiled, rng, 130, 1100, 1024, threads=2)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("m", "n", "k", "gap"), [(1, 5, 7, 0), (17, 33, 31, 2), (49, 64, 96, 0), (70, 40, 197, 5)]
)
def test_gemm_of_made_rows(
    library: ctypes.CDLL, tiled: bool, rng: Rng, m: int, n: int, k: int, gap: int, threads: int
) -> None:
    """Rows that are computed as they are rounded give what the same rows in memory give."""
    a, gates, bias = numbers(rng, m * (k + gap) - gap), numbers(rng, k), numbers(rng, n)
    b = rng.uniform(-1, 1, (k, n)).astype(np.float32)
    packed, out, low = (
        fenced(pack_gemm_bf16(b, library.lanes(), tiled)),
        empty(m, n),
        ctypes.c_float(LOW),
    )
    arrays = [pointer(x) for x in (a, gates, packed, bias)]
    library.run_gemm_made_bf16(threads, longs(m, n, k, k + gap), *arrays, low, pointer(out))
    rows = as_strided(a, (m, k), (4 * (k + gap), 4)) * gates
    left, right = rounded(rows), rounded(b)
    expected = np.maximum(left @ right + bias, LOW)
    assert_close(out, expected, np.abs(left) @ np.abs(right) + np.abs(bias), k)


def products(library: ctypes.CDLL, tiled: bool, a: Floats, b: Floats, low: float = LOW) -> Floats:
    """The rows times the matrix."""
    (m, k), n = a.shape, b.shape[1]
    packed, out = fenced(pack_gemm_bf16(b, library.lanes(), tiled)), empty(m, n)
    operands = fenced(a), packed, np.zeros(n, np.float32)
    arrays = [pointer(x) for x in operands]
    library.run_gemm_bf16(1, longs(m, n, k, k), *arrays, ctypes.c_float(low), pointer(out))
    return out


@pytest.mark.parametrize("m", [3, 17, 35])
@pytest.mark.parametrize("k", [2, 33])
def test_gemm_passes_nan_and_infinity(library: ctypes.CDLL, tiled: bool, m: int, k: int) -> None:
    """To the results of their rows, and to no others."""
    a, b = np.zeros((m, k), np.float32), np.ones((k, 5), np.float32)
    a[:, 1] = 1
    a[::3, 0], a[1::3, 0], a[2::3, k - 1] = np.nan, np.inf, -np.inf
    expected = np.resize(np.array([np.nan, np.inf, LOW], np.float32), m)
    found = products(library, tiled, a, b)
    np.testing.assert_array_equal(found, np.repeat(expected[:, None], 5, axis=1))
    b[k - 1, 2] = np.nan
    found = products(library, tiled, np.ones((m, k), np.float32), b)
    assert np.isnan(found[:, 2]).all()
    np.testing.assert_array_equal(np.delete(found, 2, axis=1), np.float32(k))


def test_products_below_the_normal_numbers_are_zeros_or_exact(
    library: ctypes.CDLL, tiled: bool
) -> None:
    """Units for bfloat16 know no denormal numbers, neither as operands nor as results."""
    small, tiny = np.float32(2.0**-100), np.float32(1e-39)
    for a, b, exact in ((small, 2.0**-20, 2.0**-120), (tiny, 2.0**100, None), (small, small, 0)):
        left, right = np.full((9, 40), 0, np.float32), np.full((40, 3), b, np.float32)
        left[:, 7] = a
        found = products(library, tiled, left, right, low=-1)
        wide = np.float64(np.float32(a).astype(bfloat16)) * np.float64(b)
        allowed = {0.0, wide} if exact is None else {exact}
        assert set(found.flat) <= {float(np.float32(x)) for x in allowed}


def test_ties_are_rounded_to_even(library: ctypes.CDLL, tiled: bool) -> None:
    ties = (np.arange(0x3F80, 0x3FC0, dtype=np.uint32) << 16 | 0x8000).view(np.float32)
    found = products(library, tiled, ties[:, None].copy(), np.ones((1, 1), np.float32))
    np.testing.assert_array_equal(found[:, 0], ties.astype(bfloat16).astype(np.float32))


@pytest.mark.parametrize(
    ("n", "h", "w", "c", "oc", "kernel", "strides", "dilations", "pads", "groups"),
    [
        (1, 9, 11, 3, 20, (7, 7), (2, 2), (1, 1), (3, 3), 1),
        (2, 6, 5, 8, 33, (3, 3), (1, 1), (1, 1), (1, 1), 1),
        (1, 7, 8, 5, 4, (3, 3), (2, 2), (1, 1), (0, 1), 1),
        (1, 8, 9, 7, 40, (3, 3), (1, 1), (2, 2), (2, 2), 1),
        (2, 6, 6, 12, 18, (3, 2), (1, 1), (1, 1), (1, 0), 3),
        (1, 5, 6, 9, 70, (1, 1), (2, 2), (1, 1), (0, 0), 1),
        (1, 4, 5, 15, 6, (1, 3), (1, 1), (1, 3), (0, 3), 3),
        (1, 3, 2, 4, 5, (5, 9), (1, 1), (1, 1), (4, 8), 1),
        (1, 40, 41, 33, 65, (3, 3), (1, 1), (1, 1), (1, 1), 1),
        # pixels of whole blocks: registers read windows where they lie
        (2, 9, 10, 32, 20, (3, 3), (1, 1), (1, 1), (1, 1), 1),
        (3, 11, 9, 64, 40, (3, 3), (2, 2), (1, 1), (1, 1), 1),
        (1, 13, 12, 32, 5, (5, 4), (3, 2), (1, 1), (2, 1), 1),
        (2, 8, 9, 96, 33, (3, 3), (1, 1), (2, 2), (2, 2), 1),
        (1, 9, 9, 64, 34, (3, 3), (2, 2), (2, 2), (2, 2), 1),
        (2, 8, 8, 128, 64, (3, 3), (1, 1), (1, 1), (1, 1), 2),
        (1, 7, 9, 256, 33, (1, 1), (2, 3), (1, 1), (0, 0), 1),
        (1, 7, 6, 256, 33, (3, 3), (1, 1), (1, 1), (1, 1), 1),
        (2, 1, 40, 32, 16, (1, 9), (1, 1), (1, 1), (0, 4), 1),
        (1, 3, 3, 32, 16, (3, 3), (1, 1), (1, 1), (0, 0), 1),
        # more lines than are held at a time
        (1, 90, 250, 32, 8, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("gap", [0, 3])
def test_convolutions(
    library: ctypes.CDLL,
    tiled: bool,
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
    x, weights = (
        apart(numbers(rng, n, h, w, c), gap),
        rng.uniform(-1, 1, (oc, c // groups, *kernel)).astype(np.float32),
    )
    call = Windows((n, h, w, c), oc, kernel, strides, dilations, pads, groups)
    whole = groups == 1 and dilations[1] == 1
    packed, bias, out = (
        fenced(pack_conv_bf16(weights, groups, whole, library.lanes(), tiled)),
        numbers(rng, oc),
        empty(n, *call.size, oc),
    )
    arrays = [pointer(x), pointer(packed), pointer(bias)]
    library.run_conv_bf16(threads, call.sizes(gap), *arrays, ctypes.c_float(LOW), pointer(out))
    image, filters = rounded(x), rounded(weights)
    magnitude = call.convolved(np.abs(image), np.abs(filters)) + np.abs(bias)
    sums = np.maximum(call.convolved(image, filters) + bias, LOW)
    assert_close(out, sums, magnitude, kernel[0] * kernel[1] * c // groups)


@pytest.mark.parametrize("mask_kind", ["none", "add", "causal"])
@pytest.mark.parametrize(
    "sizes",
    [
        *ATTENTIONS,
        (1, 1, 1, 30, 31, 200, 70),
        (1, 2, 1, 3, 5, 129, 33),
        (1, 2, 1, 70, 300, 40, 24),
    ],
)
def test_attention(library: ctypes.CDLL, rng: Rng, sizes: tuple[int, ...], mask_kind: str) -> None:
    made = attend(library.attend_bf16, rng, sizes, mask_kind)
    few = sizes[3] <= 2  # not rounded
    q, k, v = (x.astype(np.float64) if few else rounded(x) for x in made.operands)
    expected, sizes_of_terms = made.exact(q, k, v), made.exact(q, k, np.abs(v))
    assert np.all(
        np.abs(made.out - expected) <= (2e-6 if few else 1.02 * 2.0**-8) * sizes_of_terms + 1e-6
    )
    exact = made.exact(*made.operands)
    assert np.all(np.abs(made.out - exact) <= 2.0**-5)
