"""The matrix kernels against float64, for every width of vectors that this machine has."""

from __future__ import annotations

import ctypes
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from numpy.typing import NDArray

from infuse.targets.cpu.families.convolution import pack_conv
from infuse.targets.cpu.families.gemm import pack_gemm_b
from tests.native.kernel_tools import (
    Floats,
    apart,
    assert_close,
    build,
    empty,
    fenced,
    longs,
    pointer,
    remembered,
    targets,
)

Doubles = NDArray[np.float64]
Rng = np.random.Generator
LOW = -0.25
THREADS = [1, 2, 3]


@pytest.fixture(scope="module", params=targets())
def library(request: pytest.FixtureRequest) -> ctypes.CDLL:
    source = Path(__file__).with_name("gemm_driver.cpp")
    return build(source, request.param)


def numbers(rng: Rng, *shape: int) -> Floats:
    result: Floats = fenced(rng.uniform(-1, 1, shape).astype(np.float32))
    return result


def check(out: Floats, a: Doubles, b: Doubles, bias: Floats) -> None:
    """out = max(a b + bias, LOW)"""
    expected, magnitude = products(a, b)
    assert_close(out, np.maximum(expected + bias, LOW), magnitude + np.abs(bias), a.shape[-1])


@remembered
def products(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """a b, and the sums of the absolute values of its terms."""
    return a @ b, np.abs(a) @ np.abs(b)


# ---- gemm


def check_gemm(
    library: ctypes.CDLL,
    rng: Rng,
    m: int,
    n: int,
    k: int,
    gap: int = 0,
    threads: int = 1,
    scratch: bool = True,
) -> None:
    a, b, bias = (
        numbers(rng, m * (k + gap) - gap),
        rng.uniform(-1, 1, (k, n)).astype(np.float32),
        numbers(rng, n),
    )
    packed, out = fenced(pack_gemm_b(b, library.lanes())), empty(m, n)
    shape = longs(m, n, k, k + gap)
    low = ctypes.c_float(LOW)
    library.run_gemm(
        threads, scratch, shape, pointer(a), pointer(packed), pointer(bias), low, pointer(out)
    )
    rows = as_strided(a, (m, k), (4 * (k + gap), 4))
    check(out, rows.astype(np.float64), b.astype(np.float64), bias)


@pytest.mark.parametrize("n", [1, 3, 4, 5, 8, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 100])
@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 7, 11, 12, 13, 23, 24, 25, 49])
def test_gemm_edges(library: ctypes.CDLL, rng: Rng, m: int, n: int) -> None:
    for k in (1, 2, 3, 7, 17):
        check_gemm(library, rng, m, n, k)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        (1, 1000, 256),
        (2, 640, 64),
        (196, 64, 96),
        (300, 24, 16),
        (49, 320, 160),
        (5, 96, 33),
        (3136, 64, 64),
        (7, 7, 0),
    ],
)
def test_gemm_on_threads(
    library: ctypes.CDLL, rng: Rng, m: int, n: int, k: int, threads: int
) -> None:
    check_gemm(library, rng, m, n, k, threads=threads)


@pytest.mark.parametrize("scratch", [False, True])
@pytest.mark.parametrize(
    ("m", "n", "k", "gap"), [(37, 130, 1024, 0), (26, 200, 1500, 548), (12, 128, 2048, 0)]
)
def test_gemm_with_colliding_rows(
    library: ctypes.CDLL, rng: Rng, m: int, n: int, k: int, gap: int, scratch: bool
) -> None:
    check_gemm(library, rng, m, n, k, gap, scratch=scratch)


def test_gemm_with_much_to_cache(library: ctypes.CDLL, rng: Rng) -> None:
    check_gemm(library, rng, 130, 700, 800, gap=5, threads=2)
    check_gemm(library, rng, 30, 500, 3072, threads=2)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        *((13, 100, 300), (8, 33, 700), (100, 130, 11000)),
        *((2100, 66, 700), (6, 64, 352), (31, 96, 1500)),
    ],
)
def test_gemm_in_blocks(
    library: ctypes.CDLL, rng: Rng, m: int, n: int, k: int, threads: int
) -> None:
    """Depths of some blocks, the last one shorter; rows of some chunks; tiles at all edges."""
    check_gemm(library, rng, m, n, k, gap=3, threads=threads)


def test_gemm_passes_nan_and_infinity(library: ctypes.CDLL) -> None:
    a = np.array([[np.nan, 1], [np.inf, 1], [-np.inf, 1]], np.float32)
    packed, bias, out = (
        pack_gemm_b(np.ones((2, 5), np.float32), library.lanes()),
        np.zeros(5, np.float32),
        empty(3, 5),
    )
    low = ctypes.c_float(LOW)
    library.run_gemm(
        1, True, longs(3, 5, 2, 2), pointer(a), pointer(packed), pointer(bias), low, pointer(out)
    )
    np.testing.assert_array_equal(out, np.repeat(np.array([[np.nan], [np.inf], [LOW]]), 5, axis=1))


# ---- matmul


def laid_out(
    rng: Rng, batch: int, rows: int, cols: int, order: str
) -> tuple[Floats, tuple[int, int, int], Doubles]:
    """Memory, strides of batch, row and column, and the matrices themselves."""
    if order == "rows":
        memory = numbers(rng, batch, rows, cols)
        return memory, (rows * cols, cols, 1), memory.astype(np.float64)
    if order == "columns":
        memory = numbers(rng, batch, cols, rows)
        return memory, (rows * cols, 1, rows), memory.astype(np.float64).transpose(0, 2, 1)
    if order == "heads":
        memory = numbers(rng, rows, batch, cols)
        return memory, (cols, batch * cols, 1), memory.astype(np.float64).transpose(1, 0, 2)
    if order == "head columns":
        memory = numbers(rng, cols, batch, rows)
        return memory, (rows, 1, batch * rows), memory.astype(np.float64).transpose(1, 2, 0)
    if order == "strided":
        memory = numbers(rng, batch, rows, cols, 3)
        return memory, (rows * cols * 3, cols * 3, 3), memory[..., 0].astype(np.float64)
    assert order == "one"
    memory = numbers(rng, rows, cols)
    return memory, (0, cols, 1), np.broadcast_to(memory.astype(np.float64), (batch, rows, cols))


@pytest.mark.parametrize(
    "orders",
    list(product(["rows", "columns", "heads", "head columns", "strided", "one"], repeat=2)),
)
def test_matmul_orders(library: ctypes.CDLL, rng: Rng, orders: tuple[str, str]) -> None:
    shapes = [
        *((1, 1, 1, 1), (3, 5, 7, 4), (2, 13, 33, 17), (5, 37, 18, 31), (2, 24, 64, 32)),
        *((4, 1, 40, 9), (2, 1, 150, 21), (2, 2, 75, 40), (2, 3, 41, 7), (2, 4, 70, 33)),
        (3, 23, 1, 37),
    ]
    for (batch, m, n, k), threads in product(shapes, THREADS):
        a, a_strides, left = laid_out(rng, batch, m, k, orders[0])
        b, b_strides, right = laid_out(rng, batch, k, n, orders[1])
        bias, out = numbers(rng, n), empty(batch, m, n)
        shape = longs(batch, m, n, k, *a_strides, *b_strides)
        low = ctypes.c_float(LOW)
        library.run_matmul(threads, shape, pointer(a), pointer(b), pointer(bias), low, pointer(out))
        check(out, left, right, bias)


@pytest.mark.parametrize(("m", "n", "k"), [(40, 70, 1024), (30, 300, 1100), (129, 128, 64)])
@pytest.mark.parametrize("orders", [("rows", "columns"), ("columns", "rows"), ("heads", "heads")])
def test_matmul_of_large_operands(
    library: ctypes.CDLL, rng: Rng, m: int, n: int, k: int, orders: tuple[str, str]
) -> None:
    a, a_strides, left = laid_out(rng, 3, m, k, orders[0])
    b, b_strides, right = laid_out(rng, 3, k, n, orders[1])
    bias, out, low = numbers(rng, n), empty(3, m, n), ctypes.c_float(LOW)
    shape = longs(3, m, n, k, *a_strides, *b_strides)
    library.run_matmul(2, shape, pointer(a), pointer(b), pointer(bias), low, pointer(out))
    check(out, left, right, bias)


@pytest.mark.parametrize("threads", THREADS)
def test_matmul_of_any_batches(library: ctypes.CDLL, rng: Rng, threads: int) -> None:
    a, b, bias, out = (
        numbers(rng, 3, 1, 9, 6),
        numbers(rng, 2, 6, 21),
        numbers(rng, 21),
        empty(3, 2, 9, 21),
    )
    a_at = np.repeat(np.arange(3) * 54, 2)
    b_at = np.tile(np.arange(2) * 126, 3)
    shape = longs(6, 9, 21, 6, 0, 6, 1, 0, 21, 1)
    low = ctypes.c_float(LOW)
    library.run_matmul_at(
        threads,
        shape,
        pointer(a),
        pointer(b),
        longs(*a_at),
        longs(*b_at),
        pointer(bias),
        low,
        pointer(out),
    )
    check(out, a.astype(np.float64), b.astype(np.float64), bias)


# ---- conv


def windows(
    x: Doubles, kernel: tuple[int, int], strides: tuple[int, int], dilations: tuple[int, int]
) -> Doubles:
    """x[n, h, w, c] padded already → [n, oh, ow, c, kh, kw]"""
    spread = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    view = sliding_window_view(x, spread, axis=(1, 2))
    result: Doubles = view[:, :: strides[0], :: strides[1], :, :: dilations[0], :: dilations[1]]
    return result


@remembered
def convolved(view: Doubles, grouped: Doubles) -> tuple[Doubles, Doubles]:
    """Windows [n, y, x, g, c, i, j] times filters [g, o, c, i, j], and the sums of the absolute
    values of the terms.
    """
    subscripts = "nyxgcij,gocij->nyxgo"
    return (
        np.einsum(subscripts, view, grouped, optimize=True),
        np.einsum(subscripts, np.abs(view), np.abs(grouped), optimize=True),
    )


def check_conv(
    library: ctypes.CDLL,
    rng: Rng,
    image: tuple[int, int, int, int],
    out_channels: int,
    kernel: tuple[int, int],
    strides: tuple[int, int] = (1, 1),
    dilations: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    groups: int = 1,
    threads: int = 1,
    planar: bool = False,
    kind: Any = np.float32,
    gap: int = 0,
) -> None:
    """The kernel for weights that are stored as `kind`: float32 or float16; pixels lie `gap` floats
    further apart.
    """
    n, h, w, c = image
    x, bias = numbers(rng, *image), numbers(rng, out_channels)
    weights = rng.uniform(-1, 1, (out_channels, c // groups, *kernel)).astype(kind)
    padded = np.pad(x.astype(np.float64), ((0, 0), (pads[0], pads[2]), (pads[1], pads[3]), (0, 0)))
    view = windows(padded, kernel, strides, dilations)
    oh, ow = view.shape[1:3]
    view = view.reshape(n, oh, ow, groups, c // groups, *kernel)
    grouped = weights.astype(np.float64).reshape(
        groups, out_channels // groups, c // groups, *kernel
    )
    sums, terms = convolved(view, grouped)
    expected = sums.reshape(n, oh, ow, out_channels) + bias
    magnitude = terms.reshape(expected.shape)
    out, packed = (
        empty(n, oh, ow, out_channels),
        fenced(pack_conv(weights, groups, library.lanes(), kind)),
    )
    shape = longs(
        n,
        h,
        w,
        c,
        oh,
        ow,
        out_channels,
        *kernel,
        *strides,
        *dilations,
        pads[0],
        pads[1],
        groups,
        c + gap,
        planar,
    )
    low, given = ctypes.c_float(LOW), fenced(x.transpose(0, 3, 1, 2)) if planar else apart(x, gap)
    run = library.run_conv if kind == np.float32 else library.run_conv_fp16
    run(threads, shape, pointer(given), pointer(packed), pointer(bias), low, pointer(out))
    assert_close(out, np.maximum(expected, LOW), magnitude + np.abs(bias), weights[0].size)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("out_channels", [1, 6, 16, 20, 64])
def test_conv_1x1(library: ctypes.CDLL, rng: Rng, out_channels: int, threads: int) -> None:
    for strides, channels in product([(1, 1), (2, 2), (1, 3)], [1, 5, 32]):
        check_conv(
            library, rng, (2, 7, 9, channels), out_channels, (1, 1), strides, threads=threads
        )
    check_conv(
        library, rng, (1, 4, 5, 8), out_channels, (1, 1), (2, 2), pads=(1, 1, 1, 1), threads=threads
    )


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("size", "channels", "kernel", "out_channels"),
    [(9, 40, (3, 3), 100), (40, 130, (1, 1), 70), (7, 400, (2, 2), 65), (48, 17, (5, 5), 33)],
)
def test_conv_in_blocks(
    library: ctypes.CDLL,
    rng: Rng,
    size: int,
    channels: int,
    kernel: tuple[int, int],
    out_channels: int,
    threads: int,
) -> None:
    """Taps together and taps in parts, rows of some chunks, tiles at all edges."""
    pads = (1, 0, 1, 1) if kernel != (1, 1) else (0, 0, 0, 0)
    for strides in (1, 1), (2, 2):
        check_conv(
            library,
            rng,
            (1, size, size, channels),
            out_channels,
            kernel,
            strides,
            pads=pads,
            threads=threads,
        )


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("channels", [1, 3, 16, 31, 40])
@pytest.mark.parametrize("kernel", [(3, 3), (1, 7), (7, 1), (2, 4), (5, 5)])
def test_conv_windows(
    library: ctypes.CDLL, rng: Rng, kernel: tuple[int, int], channels: int, threads: int
) -> None:
    for strides, pads in product(
        [(1, 1), (2, 2), (3, 1)], [(0, 0, 0, 0), (1, 1, 1, 1), (2, 3, 0, 1)]
    ):
        check_conv(
            library, rng, (2, 9, 11, channels), 18, kernel, strides, pads=pads, threads=threads
        )


@pytest.mark.parametrize("channels", [3, 32])
@pytest.mark.parametrize("dilations", [(2, 2), (3, 1), (1, 2)])
def test_conv_dilations(
    library: ctypes.CDLL, rng: Rng, dilations: tuple[int, int], channels: int
) -> None:
    for strides in [(1, 1), (2, 1)]:
        check_conv(
            library,
            rng,
            (1, 11, 10, channels),
            33,
            (3, 3),
            strides,
            dilations,
            (2, 2, 2, 2),
            threads=2,
        )


@pytest.mark.parametrize(
    ("channels", "out_channels", "groups"),
    [(8, 8, 2), (12, 6, 3), (32, 64, 4), (64, 64, 32), (4, 4, 4)],
)
def test_conv_groups(
    library: ctypes.CDLL, rng: Rng, channels: int, out_channels: int, groups: int
) -> None:
    for kernel, threads in product([(1, 1), (3, 3)], THREADS):
        check_conv(
            library,
            rng,
            (2, 6, 7, channels),
            out_channels,
            kernel,
            (2, 1),
            pads=(1, 1, 1, 1),
            groups=groups,
            threads=threads,
        )


@pytest.mark.parametrize("threads", THREADS)
def test_conv_of_networks(library: ctypes.CDLL, rng: Rng, threads: int) -> None:
    check_conv(library, rng, (1, 64, 64, 3), 64, (7, 7), (2, 2), pads=(3, 3, 3, 3), threads=threads)
    check_conv(library, rng, (1, 65, 63, 3), 32, (3, 3), (2, 2), pads=(0, 0, 1, 1), threads=threads)
    check_conv(library, rng, (1, 14, 14, 256), 512, (1, 1), (2, 2), threads=threads)
    check_conv(library, rng, (1, 4, 4, 1024), 130, (1, 1), threads=threads)
    check_conv(
        library, rng, (1, 9, 9, 300), 200, (3, 3), (2, 2), pads=(1, 1, 1, 1), threads=threads
    )
    check_conv(
        library, rng, (3, 1, 50, 20), 40, (1, 5), (1, 2), (1, 2), (0, 4, 0, 4), threads=threads
    )


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 7, 16, 31])
def test_conv_of_planar_images(library: ctypes.CDLL, rng: Rng, channels: int, threads: int) -> None:
    for kernel, strides in product([(1, 1), (3, 3), (7, 7)], [(1, 1), (2, 2)]):
        pads = (kernel[0] // 2,) * 4
        check_conv(
            library,
            rng,
            (2, 9, 12, channels),
            20,
            kernel,
            strides,
            pads=pads,
            threads=threads,
            planar=True,
        )


@pytest.mark.parametrize("gap", [1, 16])
@pytest.mark.parametrize(("channels", "groups"), [(3, 1), (5, 1), (32, 1), (40, 4)])
def test_conv_of_pixels_apart(
    library: ctypes.CDLL, rng: Rng, channels: int, groups: int, gap: int
) -> None:
    for kernel, strides, threads in product([(1, 1), (3, 3), (1, 7)], [(1, 1), (2, 1)], (1, 3)):
        check_conv(
            library,
            rng,
            (2, 7, 9, channels),
            20,
            kernel,
            strides,
            pads=(kernel[0] // 2, kernel[1] // 2) * 2,
            groups=groups,
            threads=threads,
            gap=gap,
        )


def test_conv_with_more_padding_than_image(library: ctypes.CDLL, rng: Rng) -> None:
    for channels in (2, 32):
        check_conv(library, rng, (1, 1, 1, channels), 5, (3, 3), pads=(4, 5, 4, 5))
        check_conv(library, rng, (1, 2, 3, channels), 5, (20, 3), pads=(20, 1, 9, 1))
