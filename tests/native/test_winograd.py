"""Winograd's convolutions against float64, for every width of vectors that this machine has."""

from __future__ import annotations

import ctypes
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from infuse.targets.cpu.families.gemm import pack_gemm_b
from infuse.targets.cpu.families.winograd import depths, growth, lines, tiles_of, winograd_weights
from tests.native.kernel_tools import apart, build, empty, fenced, longs, pointer, seldom, targets

Rng = np.random.Generator
LOW = -0.25
# Results a line, window, steps.
FORMS = [
    (2, (3, 3), (1, 1)),
    (4, (3, 3), (1, 1)),
    (2, (5, 5), (1, 1)),
    (2, (3, 5), (1, 1)),
    (4, (1, 7), (1, 1)),
    (4, (7, 1), (1, 1)),
    (2, (1, 7), (1, 1)),
    (4, (1, 3), (1, 1)),
    (4, (3, 1), (1, 1)),
    (4, (1, 5), (1, 1)),
    (2, (3, 3), (2, 2)),
    (4, (3, 3), (2, 2)),
    (4, (3, 3), (1, 2)),
    (4, (1, 3), (2, 2)),
    (4, (3, 1), (2, 1)),
    (3, (2, 2), (1, 1)),
    (5, (2, 2), (1, 1)),
    (5, (1, 2), (1, 1)),
]
# How much larger the largest error is than the root mean square of float32 sums as long.
ERRORS = {1: 10, 2: 10, 3: 12, 5: 20, 7: 40}


@pytest.fixture(scope="module", params=[*targets(()), *seldom("x86-64-v4")])
def library(request: pytest.FixtureRequest) -> ctypes.CDLL:
    source = Path(__file__).with_name("winograd_driver.cpp")
    return build(source, request.param)


def check(
    library: ctypes.CDLL,
    rng: Rng,
    form: tuple[int, tuple[int, int], tuple[int, int]],
    image: tuple[int, int, int, int],
    out_channels: int,
    pads: tuple[int, int, int, int] | None = None,
    threads: tuple[int, ...] = (1,),
    gap: int = 0,
) -> None:
    (tile, (kh, kw), (sh, sw)), (n, h, w, c) = form, image
    top, left, bottom, right = pads or (kh // 2, kw // 2, kh // 2, kw // 2)
    x, bias = (
        fenced(rng.uniform(-1, 1, shape).astype(np.float32)) for shape in (image, (out_channels,))
    )
    weights = rng.uniform(-1, 1, (out_channels, c, kh, kw)).astype(np.float32)
    padded = np.pad(x.astype(np.float64), ((0, 0), (top, bottom), (left, right), (0, 0)))
    view = sliding_window_view(padded, (kh, kw), (1, 2))[:, ::sh, ::sw]
    oh, ow = view.shape[1:3]
    expected = np.maximum(np.einsum("nhwcab,ocab->nhwo", view, weights, optimize=True) + bias, LOW)
    packed = fenced(winograd_weights(weights, tile, library.lanes(), steps=(sh, sw)))
    shape = longs(n, h, w, c, oh, ow, out_channels, kh, kw, sh, sw, 1, 1, top, left, 1, c + gap, 0)
    x = apart(x, gap)
    arrays = [pointer(array) for array in (x, packed, bias)]
    typical = np.sqrt(np.square(view).mean() * np.square(weights).mean() * kh * kw * c) + 1
    rounding = (
        (3 if tile == 2 and max(kh, kw) == 3 else ERRORS[max(kh, kw)])
        * 2.0**-23
        * np.sqrt(max(c, 16))
    )
    for number in threads:
        out = empty(n, oh, ow, out_channels)
        low = ctypes.c_float(LOW)
        assert library.run_winograd(tile, number, shape, *arrays, low, pointer(out))
        assert not np.isnan(out).any(), "not every element was stored"
        assert np.abs(out - expected).max() <= rounding * typical


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_any_sizes(
    library: ctypes.CDLL, rng: Rng, form: tuple[int, tuple[int, int], tuple[int, int]]
) -> None:
    threads = (1, 3)
    for channels, out_channels in product([1, 16, 20, 40], [1, 19, 48]):
        check(library, rng, form, (2, 8, 9, channels), out_channels, threads=threads)
        check(library, rng, form, (1, 11, 12, channels), out_channels, (0, 0, 0, 0), threads)
        check(library, rng, form, (1, 3, 2, channels), out_channels, (4, 5, 3, 4), threads)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_sizes_of_networks(
    library: ctypes.CDLL, rng: Rng, form: tuple[int, tuple[int, int], tuple[int, int]]
) -> None:
    threads = (1, 2, 3)
    check(library, rng, form, (1, 56, 56, 64), 64, threads=threads)
    check(library, rng, form, (1, 17, 17, 192), 96, threads=threads)
    check(library, rng, form, (3, 8, 8, 384), 64, threads=threads)
    check(library, rng, form, (1, 35, 35, 96), 96, (0, 0, 0, 0), threads)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_pixels_apart(
    library: ctypes.CDLL, rng: Rng, form: tuple[int, tuple[int, int], tuple[int, int]]
) -> None:
    for channels, gap in product([1, 20, 32], [1, 16]):
        check(library, rng, form, (2, 8, 9, channels), 19, threads=(2,), gap=gap)


def test_forms_that_lose_too_much_are_none() -> None:
    assert lines(4, (5, 5), (1, 1)) is None
    assert lines(2, (7, 7), (1, 1)) is None
    assert lines(4, (1, 1), (2, 2)) is None
    assert lines(4, (3, 3), (3, 3)) is None
    assert tiles_of(64, 64, 3, 3, 1, 1, 1, 1) == ["winograd2", "winograd4"]
    assert tiles_of(64, 64, 5, 5, 1, 1, 1, 1) == ["winograd2"]
    assert tiles_of(64, 64, 2, 2, 1, 1, 1, 1) == ["winograd3", "winograd5"]
    assert tiles_of(64, 64, 2, 3, 1, 1, 1, 1) == []
    assert tiles_of(64, 64, 3, 3, 1, 1, 2, 1) == []
    assert tiles_of(3, 64, 3, 3, 1, 1, 1, 1) == []


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_transformed_weights_have_the_size_and_growth_that_is_foretold(
    form: tuple[int, tuple[int, int], tuple[int, int]], rng: Rng
) -> None:
    tile, window, steps = form
    found = lines(tile, window, steps)
    assert found is not None
    for channels, lanes in product([1, 20, 32], [4, 8, 16]):
        signs = rng.choice(np.float32([-1, 1]), (40, channels, *window))
        packed = winograd_weights(signs, tile, lanes, steps=steps)
        panels = len(pack_gemm_b(np.zeros((1, 40)), lanes))
        assert packed.size == panels * 2 * lanes * depths(*found, channels, lanes)
        assert np.abs(packed).max() <= growth(*found) * (1 + 1e-6)
