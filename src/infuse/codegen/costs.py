"""What a kernel call costs: sums of counted work, whose weights are fitted to measurements (`costs.json`).

The file is written by `python -m benchmarks.fit_costs`. It has weights for each width of vectors; one machine's are
used for all, since choices only need to know which of two candidates is cheaper.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple

from infuse.codegen.winograd import lines

FILE: Final = Path(__file__).with_name("costs.json")
_ROWS: Final = {16: 12, 8: 6, 4: 4}
"""Rows of a register tile (kernels/gemm.hpp: MR), by lanes."""
_L2: Final = 1 << 20
"""Bytes of the second level cache that kernels reckon with (kernels/gemm.hpp)."""


class ConvSizes(NamedTuple):
    """The sizes of a convolution, as kernels/conv.hpp has them (ConvShape)."""

    n: int
    h: int
    w: int
    c: int
    oh: int
    ow: int
    oc: int
    kh: int
    kw: int
    stride_h: int
    stride_w: int
    dil_h: int
    dil_w: int
    pad_top: int
    pad_left: int
    groups: int


class DepthwiseSizes(NamedTuple):
    """The sizes of a convolution with a filter for each channel, as kernels/depthwise.hpp has them."""

    n: int
    h: int
    w: int
    c: int
    oh: int
    ow: int
    kh: int
    kw: int
    stride_h: int
    stride_w: int
    dil_h: int
    dil_w: int
    pad_top: int
    pad_left: int


Work = tuple[float, ...]
"""Counts of what a call does, each with a weight of its own: arithmetic for one thread, memory for all."""
_WORK: dict[tuple[str, str], Callable[[Sequence[int], int, int], Work]] = {}


def counts(family: str, *names: str) -> Callable[[Callable[..., Work]], Callable[..., Work]]:
    """Register what counts the work of candidates: a function of a call's sizes, lanes and threads."""

    def register(function: Callable[..., Work]) -> Callable[..., Work]:
        _WORK.update({(family, name): function for name in names})
        return function

    return register


def candidates(family: str) -> list[str]:
    """The names that the cost model knows in a family."""
    return [name for known, name in _WORK if known == family]


def families() -> list[str]:
    """All families."""
    return list(dict.fromkeys(family for family, _ in _WORK))


def work(family: str, name: str, sizes: Sequence[int], lanes: int, threads: int) -> Work:
    """The counted work of one candidate."""
    return _WORK[family, name](sizes, lanes, threads)


def predict(family: str, name: str, sizes: Sequence[int], lanes: int, threads: int) -> float:
    """The seconds that a candidate takes, roughly: good for comparing candidates of one key."""
    weights = _weights()[family][name]
    nearest = min(weights, key=lambda width: abs(width - lanes))
    counted = work(family, name, sizes, lanes, threads)
    return sum(count * weight for count, weight in zip(counted, weights[nearest], strict=True))


@lru_cache(maxsize=1)
def _weights() -> dict[str, dict[str, dict[int, list[float]]]]:
    found = json.loads(FILE.read_text("utf-8"))["weights"]
    return {
        family: {
            name: {int(lanes): weights for lanes, weights in by_lanes.items()} for name, by_lanes in by_name.items()
        }
        for family, by_name in found.items()
    }


def _up(a: int, b: int) -> int:
    return -(-a // b)


# -- convolution -------------------------------------------------------------------------------------------------


@counts("conv", "taps", "lines", "planar")
def _window_products(sizes: Sequence[int], lanes: int, threads: int) -> Work:
    s = ConvSizes(*sizes)
    rows, own = s.n * s.oh * s.ow, s.oc // s.groups
    taps, depth = s.kh * s.kw, s.kh * s.kw * (s.c // s.groups)
    panels = s.groups * _up(own, 2 * lanes)
    weights = panels * 2 * lanes * depth
    chunk = max(_L2 // 4 // (s.stride_h * s.stride_w * s.c * 4 + 8 * taps), _ROWS[lanes])
    return (
        rows * depth * s.groups * _up(own, lanes) / threads,
        _up(rows, _ROWS[lanes]) * panels / threads,
        rows * taps / threads,
        rows * s.groups * _up(own, lanes) / threads,
        s.n * s.h * s.w * s.c / threads,
        weights,
        _passes(rows, chunk, weights, threads),
        1.0,
    )


@counts("conv", "taps_bf16")
def _rounded_windows(sizes: Sequence[int], lanes: int, threads: int) -> Work:
    fma, tiles, numbers, *rest = _window_products(sizes, lanes, threads)
    return (fma, tiles, numbers * ConvSizes(*sizes).groups, *rest)


@counts("conv", "merged1")
def _merged_in_a_vector(sizes: Sequence[int], lanes: int, threads: int) -> Work:
    return _window_products(_merged(sizes, lanes), lanes, threads)


@counts("conv", "merged2")
def _merged_in_two(sizes: Sequence[int], lanes: int, threads: int) -> Work:
    return _window_products(_merged(sizes, 2 * lanes), lanes, threads)


def _merged(sizes: Sequence[int], width: int) -> ConvSizes:
    """The sizes with groups merged until their results fill `width` floats."""
    s = ConvSizes(*sizes)
    own = s.oc // s.groups
    count = max(n for n in range(1, s.groups + 1) if s.groups % n == 0 and (n == 1 or n * own <= width))
    return s._replace(groups=s.groups // count)


def _passes(rows: int, chunk: int, weights: int, threads: int) -> float:
    """How many weights are read again from the third level cache, for one chunk of rows after the other."""
    again = _up(rows, chunk * threads) - 1
    return again * weights if 4 * weights > _L2 // 2 else 0.0


def _tiles(sizes: Sequence[int], lanes: int, threads: int, tile: int) -> Work:
    s = ConvSizes(*sizes)
    found = lines(tile, (s.kh, s.kw), (s.stride_h, s.stride_w))
    assert found is not None
    down, across = found
    tiles, points = s.n * _up(s.oh, down.results) * _up(s.ow, across.results), down.points * across.points
    products = down.products * across.products
    inner, outer, panels = _up(s.c, lanes), _up(s.oc, lanes), _up(s.oc, 2 * lanes)
    weights, block = products * s.c * panels * 2 * lanes, max(_L2 // 4 // (products * s.c * 4), 2 * _ROWS[lanes])
    return (
        products * tiles * s.c * outer / threads,
        points * _up(tiles, _ROWS[lanes]) * panels / threads,
        products * tiles * inner / threads,
        points * tiles * outer / threads,
        weights,
        _passes(tiles, block, weights, threads),
        1.0,
    )


@counts("conv", "winograd2", "winograd2_bf16")
def _tiles_of_2(sizes: Sequence[int], lanes: int, threads: int) -> Work:
    return _tiles(sizes, lanes, threads, 2)


@counts("conv", "winograd4")
def _tiles_of_4(sizes: Sequence[int], lanes: int, threads: int) -> Work:
    return _tiles(sizes, lanes, threads, 4)


@counts("depthwise", "rows", "any")
def _filters(sizes: Sequence[int], lanes: int, threads: int) -> Work:
    s = DepthwiseSizes(*sizes)
    vectors = s.n * s.oh * s.ow * _up(s.c, lanes)
    return (vectors * s.kh * s.kw / threads, vectors / threads, s.n * s.h * s.w * s.c / threads, 1.0)


# -- products ----------------------------------------------------------------------------------------------------


@counts("gemm", "fp32", "bf16")
def _product(sizes: Sequence[int], lanes: int, threads: int) -> Work:
    m, n, k = sizes
    return (
        m * k * _up(n, lanes) / threads,
        _up(m, _ROWS[lanes]) * _up(n, 2 * lanes) / threads,
        m * k / threads,
        m * _up(n, lanes) / threads,
        k * _up(n, 2 * lanes) * 2 * lanes,
        1.0,
    )


def _attention(sizes: Sequence[int], lanes: int, threads: int, block: int = 256) -> Work:
    batch, heads, queries, keys, dim, values = sizes
    units = batch * heads
    return (
        units * queries * keys * (dim + values) / lanes / threads,
        units * queries * keys / lanes / threads,
        units * keys * (dim + values) / threads,
        units * queries * (dim + values) / threads,
        units * queries * _up(keys, block) * (values + lanes) / lanes / threads,
        units * _up(queries, 252) * keys * (dim + values) / threads,
        1.0,
    )


counts("attention", "k256", "rows", "panels", "bf16")(_attention)
counts("attention", "k128")(partial(_attention, block=128))
counts("attention", "k64")(partial(_attention, block=64))
