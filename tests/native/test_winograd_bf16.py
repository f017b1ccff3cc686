"""Winograd's tiles of operands rounded to bfloat16, on every width of vectors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.polynomial import polynomial

from infuse.targets.cpu.families.winograd import winograd_weights
from tests.native.bf16_fixtures import library, target, tiled
from tests.native.kernel_tools import (
    Doubles,
    Floats,
    apart,
    empty,
    fenced,
    longs,
    pointer,
    rounded,
)
from tests.native.matrix_calls import Rng, numbers

__all__ = ["library", "target", "tiled"]

pytestmark = pytest.mark.row("R3")
TILES = [(2, 2), (2, 4)]
POINTS = {2: (0.0, 1.0, -1.0), 4: (0.0, 0.5**0.5, -(0.5**0.5), 2**0.5, -(2**0.5))}
Transforms = tuple[Doubles, Doubles, Doubles]


def transforms(results: int) -> Transforms:
    """Toom and Cook's matrices G, Bᵀ and Aᵀ of a line."""
    points = POINTS[results]
    count = results + 2
    g, to_tile, from_tile = (
        np.zeros((count, 3)),
        np.zeros((count, count)),
        np.zeros((results, count)),
    )
    for i, point in enumerate(points):
        others = points[:i] + points[i + 1 :]
        g[i] = point ** np.arange(3) / np.prod([point - other for other in others])
        to_tile[i, : count - 1] = polynomial.polyfromroots(others)
        from_tile[:, i] = point ** np.arange(results)
    g[-1, -1] = from_tile[-1, -1] = 1
    to_tile[-1] = polynomial.polyfromroots(points)
    return g, to_tile, from_tile


def by_tiles(
    x: Doubles, weights: Doubles, pad: int, down: Transforms, across: Transforms
) -> Doubles:
    """A convolution 3 × 3 by tiles with these transforms."""
    n, h, w, _ = x.shape
    size = h + 2 * pad - 2, w + 2 * pad - 2
    results = len(down[2]), len(across[2])
    more = [(pad, pad + -extent % count) for extent, count in zip(size, results)]
    padded = np.pad(x, ((0, 0), *more, (0, 0)))
    windows = sliding_window_view(padded, [count + 2 for count in results], axis=(1, 2))
    tiles = windows[:, :: results[0], :: results[1]]
    turned = np.einsum("pi,nyxcij,qj->nyxcpq", down[1], tiles, across[1])
    points = np.einsum("pi,ocij,qj->ocpq", down[0], weights, across[0])
    products = np.einsum("nyxcpq,ocpq->nyxopq", turned, points)
    parts = np.einsum("ip,nyxopq,jq->nyixjo", down[2], products, across[2])
    _, rows, high, columns, wide, out = parts.shape
    whole: Doubles = parts.reshape(n, rows * high, columns * wide, out)[:, : size[0], : size[1]]
    return whole


def convolved(
    library: ctypes.CDLL,
    tiled: bool,
    tile: tuple[int, int],
    x: Floats,
    weights: Floats,
    bias: Floats,
    pad: int,
    gap: int = 0,
    threads: int = 1,
) -> Floats:
    """What the kernel makes of an image whose pixels lie `gap` numbers apart."""
    (n, h, w, c), oc = x.shape, len(weights)
    oh, ow = h + 2 * pad - 2, w + 2 * pad - 2
    packed = fenced(winograd_weights(weights, tile, library.lanes(), pairs=True, tiled=tiled))
    shape = longs(n, h, w, c, oh, ow, oc, 3, 3, 1, 1, 1, 1, pad, pad, 1, c + gap, 0)
    out, low = empty(n, oh, ow, oc), ctypes.c_float(-np.inf)
    run = library.run_winograd_bf16 if tile == (2, 2) else library.run_winograd_oblong_bf16
    image = apart(x, gap)
    arrays = [pointer(image), pointer(packed), pointer(bias)]
    run(threads, shape, *arrays, low, pointer(out))
    return out


@pytest.mark.parametrize(
    ("n", "h", "w", "c", "oc", "pad"),
    [
        (1, 8, 8, 16, 32, 1),
        (2, 7, 5, 33, 50, 1),
        (1, 14, 15, 64, 17, 0),
        (1, 4, 6, 520, 8, 1),
        (1, 1, 1, 1, 1, 1),
        (0, 4, 4, 16, 16, 1),
    ],
)
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("gap", [0, 3])
def test_tiles_are_off_by_what_their_rounded_operands_explain(
    library: ctypes.CDLL,
    tiled: bool,
    rng: Rng,
    n: int,
    h: int,
    w: int,
    c: int,
    oc: int,
    pad: int,
    tile: tuple[int, int],
    gap: int,
    threads: int,
) -> None:
    x, bias = numbers(rng, n, h, w, c), numbers(rng, oc)
    weights = rng.uniform(-1, 1, (oc, c, 3, 3)).astype(np.float32)
    out = convolved(library, tiled, tile, x, weights, bias, pad, gap, threads)
    down, across = map(transforms, tile)
    image, filters = x.astype(np.float64), weights.astype(np.float64)
    exact = by_tiles(image, filters, pad, down, across) + bias

    def sizes(matrices: Transforms) -> Transforms:
        g, to_tile, from_tile = map(np.abs, matrices)
        return g, to_tile, from_tile

    magnitude = by_tiles(np.abs(image), np.abs(filters), pad, sizes(down), sizes(across))
    assert np.all(np.abs(out - exact) <= 2.02 * 2.0**-8 * magnitude)
    padded = np.pad(image, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    windows = sliding_window_view(padded, (3, 3), axis=(1, 2))
    direct = np.einsum("nhwcij,ocij->nhwo", windows, filters) + bias
    np.testing.assert_allclose(exact, direct, rtol=0, atol=1e-9)


@pytest.mark.parametrize("tile", TILES)
def test_oblong_tiles_are_off_by_less_than_three_times_rounded_operands(
    library: ctypes.CDLL, tiled: bool, rng: Rng, tile: tuple[int, int]
) -> None:
    """The root of the mean square, beside operands rounded without Winograd (winograd_bf16.hpp)."""
    x = np.maximum(rng.standard_normal((1, 24, 24, 64)), 0).astype(np.float32)
    weights = rng.standard_normal((48, 64, 3, 3)).astype(np.float32)
    bias = np.zeros(48, np.float32)
    out = convolved(library, tiled, tile, x, weights, bias, 0)

    def direct(of: Callable[[Floats], Doubles]) -> Doubles:
        windows = sliding_window_view(of(x), (3, 3), axis=(1, 2))
        product: Doubles = np.einsum("nhwcij,ocij->nhwo", windows, of(weights), optimize=True)
        return product

    exact = direct(lambda v: v.astype(np.float64))
    errors = [np.sqrt(np.mean((each - exact) ** 2)) for each in (out, direct(rounded))]
    assert errors[0] < {(2, 2): 1.6, (2, 4): 2.7}[tile] * errors[1]


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e-40, -0.0])
def test_special_values_stay_in_the_tiles_that_read_them(
    library: ctypes.CDLL, tiled: bool, rng: Rng, tile: tuple[int, int], value: float
) -> None:
    x, bias = numbers(rng, 1, 16, 16, 20), numbers(rng, 24)
    weights = rng.uniform(0.5, 1, (24, 20, 3, 3)).astype(np.float32)
    x[0, 9, 9, 3] = 0
    plain = convolved(library, tiled, tile, x, weights, bias, 1)
    x[0, 9, 9, 3] = value
    out = convolved(library, tiled, tile, x, weights, bias, 1)
    if np.isfinite(value):
        np.testing.assert_allclose(out, plain, rtol=1e-5)
        return
    assert not np.isfinite(out[0, 8:11, 8:11]).any()
    beside = np.ones((1, 16, 16), bool)
    beside[0, 8 - tile[0] : 11 + tile[0], 8 - tile[1] : 11 + tile[1]] = False
    np.testing.assert_array_equal(out[beside], plain[beside])
