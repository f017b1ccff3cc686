"""Copies, pads and maps against NumPy,
for every width of vectors that this machine has.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from tests.native.kernel_driver import (
    ELEMENTS,
    Array,
    Driver,
    Rng,
    floats,
    libraries,
    long_array,
    run,
    zeros,
)
from tests.native.kernel_tools import fenced

__all__ = ["libraries", "run"]


# ---- copies


def copy(run: Driver, source: Array, target: Array) -> None:
    """target[...] = source, by strides."""
    size = source.itemsize
    steps = [[stride // size for stride in array.strides] for array in (source, target)]
    run(
        "copy", size, source.ndim, long_array(source.shape), *map(long_array, steps), source,
        target, result=None
    )  # fmt: skip


def numbered(dtype: Any, *shape: int) -> Array:
    return fenced(np.arange(math.prod(shape)).astype(dtype).reshape(shape))


PERMUTATIONS = [
    ((64, 196), (1, 0)), ((5, 7), (1, 0)), ((3, 1000), (1, 0)), ((1000, 3), (1, 0)), ((2, 333), (1,
        0)),
    ((333, 4), (1, 0)), ((17, 16), (1, 0)), ((100, 200), (1, 0)), ((1, 197, 3, 64), (0, 2, 1, 3)),
    ((2, 3, 19, 23), (0, 2, 3, 1)), ((2, 19, 23, 3), (0, 3, 1, 2)), ((3, 4, 5, 6), (3, 2, 1, 0)),
    ((2, 3, 4, 5, 2), (0, 3, 1, 2, 4)), ((9, 2, 29), (0, 2, 1)), ((2, 4, 3, 4, 2, 6), (0, 1, 3, 5,
        2, 4)),
    ((6, 5, 4), (0, 1, 2)), ((1, 1, 9), (2, 0, 1)), ((130, 5, 7), (1, 2, 0)), ((7, 130, 8), (2, 0,
        1)),
]  # fmt: skip


@pytest.mark.parametrize("size", ELEMENTS)
@pytest.mark.parametrize(("shape", "order"), PERMUTATIONS)
def test_permuted_copy(
    run: Driver, size: int, shape: tuple[int, ...], order: tuple[int, ...]
) -> None:
    source = numbered(ELEMENTS[size], *shape).transpose(order)
    target = zeros(*source.shape, dtype=source.dtype)
    copy(run, source, target)
    np.testing.assert_array_equal(target, source)


@pytest.mark.parametrize("size", ELEMENTS)
def test_sliced_and_repeated_copy(run: Driver, size: int) -> None:
    whole = numbered(ELEMENTS[size], 6, 5, 40)
    for source in (
        whole[::-1], whole[:, ::-1, ::-1], whole[::2, 1:4, 3:30], whole[:, :, ::3], whole[1:2, :,
            5:6],
        np.broadcast_to(whole[:, :1], whole.shape), np.broadcast_to(whole[:, :, :1], whole.shape),
        np.broadcast_to(whole[0, 0, 0], (3, 4)), whole[:, :, :2], whole.transpose(2, 0, 1)[::-1],
        whole[:0],
    ):  # fmt: skip
        target = zeros(*source.shape, dtype=source.dtype)
        copy(run, source, target)
        np.testing.assert_array_equal(target, source)
        wide = zeros(*(2 * n for n in source.shape), dtype=source.dtype)
        part = wide[tuple(slice(None, None, -2) for _ in source.shape)]
        copy(run, source, part)
        np.testing.assert_array_equal(part, source)
        assert np.count_nonzero(wide) == np.count_nonzero(source), "something else was written"


@pytest.mark.parametrize("size", [1, 2, 4])
def test_short_runs_need_no_alignment(run: Driver, size: int) -> None:
    whole = numbered(ELEMENTS[size], 7, 16 * 9 + 1)
    for width, start in product((2, 4, 8), range(4)):
        source = whole[:, start : start + 128].reshape(7, -1, width)
        source = as_strided(
            whole[:, start:], source.shape, (whole.strides[0] - size, width * size, size)
        ).swapaxes(0, 1)
        for offset in range(3):
            target = zeros(source.size + offset, dtype=source.dtype)[offset:].reshape(source.shape)
            copy(run, source, target)
            np.testing.assert_array_equal(target, source)


def test_large_copy_is_shared_by_the_threads(run: Driver) -> None:
    for shape in ((400, 500), (3, 60_000), (60_000, 3), (60_000, 5), (200_000,)):
        source = numbered(np.float32, *shape).T
        target = zeros(*source.shape)
        copy(run, source, target)
        np.testing.assert_array_equal(target, source)


@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("pixels", [0, 1, 7, 4096, 10_001])
@pytest.mark.parametrize("images", [0, 1, 3])
def test_planes_become_neighbours(run: Driver, channels: int, pixels: int, images: int) -> None:
    source = numbered(np.uint32, images, channels, pixels)
    target = zeros(images, pixels, channels, dtype=source.dtype)
    run("planes_interleaved", channels, images, pixels, source, target, result=None)
    np.testing.assert_array_equal(target, source.swapaxes(1, 2))


def test_fill(run: Driver) -> None:
    y = zeros(100_001, dtype=np.int64)
    run("fill_int64", y, y.size, 7, result=None)
    assert (y == 7).all()


MODES = ["constant", "reflect", "edge", "wrap"]
PADS = [
    ((5,), ((2, 3),)), ((4, 6), ((1, 2), (3, 0))), ((2, 5, 6, 3), ((0, 0), (1, 2), (2, 1), (0, 0))),
    ((2, 3, 4), ((1, 1), (0, 0), (2, 2))), ((3, 4, 70), ((1, 0), (0, 1), (0, 0))), ((2, 2), ((0,
        0), (0, 0))),
    ((3, 2), ((5, 4), (6, 3))), ((4, 5), ((-1, 2), (1, -2))), ((4, 5), ((-2, -1), (-1, 0))),
]  # fmt: skip


@pytest.mark.parametrize("size", [1, 4, 8])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("shape", "pads"), PADS)
def test_pad(
    run: Driver, size: int, mode: str, shape: tuple[int, ...], pads: tuple[tuple[int, int], ...]
) -> None:
    x, value = numbered(ELEMENTS[size], *shape), fenced(np.array([9], ELEMENTS[size]))
    grown = [(max(a, 0), max(b, 0)) for a, b in pads]
    options = {"constant_values": 9} if mode == "constant" else {}
    left = x[tuple(slice(-min(a, 0), n + min(b, 0)) for (a, b), n in zip(pads, shape))]
    expected = np.pad(left, grown, mode, **options)  # type: ignore[call-overload]
    y = zeros(*expected.shape, dtype=x.dtype)
    begin = long_array([a for a, _ in pads])
    run(
        "pad",
        size,
        x.ndim,
        long_array(shape),
        begin,
        long_array(y.shape),
        MODES.index(mode),
        value,
        x,
        y,
        result=None,
    )
    np.testing.assert_array_equal(y, expected)


# ---- maps


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 50])
@pytest.mark.parametrize("cols", [1, 3, 8, 17, 64, 1000, 70_001])
def test_maps(run: Driver, rng: Rng, rows: int, cols: int) -> None:
    rows = min(rows, 3) if cols > 10_000 else rows
    x, y = floats(rng, rows, cols), zeros(rows, cols)
    numbers, results = fenced(rng.integers(-9, 9, (rows, cols))), zeros(rows, cols, dtype=np.int64)
    for cost in (1, 100):
        y[...] = results[...] = 0
        run("map_square", rows, cols, cost, x, y, result=None)
        np.testing.assert_array_equal(y, x * x)
        run("map_triple", rows, cols, cost, numbers, results, result=None)
        np.testing.assert_array_equal(results, 3 * numbers)
