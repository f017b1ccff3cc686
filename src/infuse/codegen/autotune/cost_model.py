"""What a kernel call costs: sums of counted work, whose weights are fitted to measurements
(`costs.json`).

The file is written by `python -m benchmarks.fit_costs`. It has a set of weights for each kind of
machine that was measured; the set of the most similar one is used, since choices only need to know
which of two candidates is cheaper.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from infuse.targets import Caches, Machine
from infuse.targets.cpu.families.convolution import ConvSizes
from infuse.targets.cpu.families.depthwise import DepthwiseSizes
from infuse.targets.cpu.families.winograd import lines

FILE: Final = Path(__file__).parents[1] / "costs.json"


Work = tuple[float, ...]
"""Counts of what a call does, each with a weight of its own: arithmetic for one thread, memory for
all.
"""
_WORK: dict[tuple[str, str], Callable[[Sequence[int], Machine, int], Work]] = {}


def counts(family: str, *names: str) -> Callable[[Callable[..., Work]], Callable[..., Work]]:
    """Register what counts the work of candidates: a function of a call's sizes, the machine and
    threads.
    """

    def register(function: Callable[..., Work]) -> Callable[..., Work]:
        _WORK.update({(family, name): function for name in names})
        return function

    return register


def candidates(family: str) -> list[str]:
    """The names that the cost model knows in a family."""
    return [name for work_family, name in _WORK if work_family == family]


def families() -> list[str]:
    """All families."""
    return list(dict.fromkeys(family for family, _ in _WORK))


def work(family: str, name: str, sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    """The counted work of one candidate."""
    return _WORK[family, name](sizes, machine, threads)


def predict(family: str, name: str, sizes: Sequence[int], machine: Machine, threads: int) -> float:
    """The seconds that a candidate takes, roughly: good for comparing candidates of one key."""
    counted = work(family, name, sizes, machine, threads)
    return sum(
        count * weight
        for count, weight in zip(counted, _weights(family, name, machine), strict=True)
    )


class Fit(NamedTuple):
    """What was fitted on one machine: by family and candidate the weights of its counted work."""

    machine: Machine
    weights: Mapping[str, Mapping[str, Sequence[float]]]


def read_fits(path: Path = FILE) -> list[Fit]:
    """The fits of a file, each of another kind of machine."""
    sets = json.loads(path.read_text("utf-8"))["sets"]
    return [Fit(machine_from(one["machine"]), one["weights"]) for one in sets]


def machine_from(data: Mapping[str, Any]) -> Machine:
    """The machine of a fit, without its units for dot products, on which no choice between weights
    depends.
    """
    return Machine(**{**data, "caches": Caches(**data["caches"])})


def machine_data(machine: Machine) -> dict[str, Any]:
    """Plain data for `machine_from`."""
    return {name: value for name, value in asdict(machine).items() if name != "dots"}


@lru_cache(maxsize=1)
def _fits() -> list[Fit]:
    return read_fits()


@lru_cache(maxsize=1 << 10)
def _weights(family: str, name: str, machine: Machine) -> Sequence[float]:
    """The weights that were fitted on the machine that is most like this one."""
    fits = [fit for fit in _fits() if name in fit.weights.get(family, ())]
    return min(fits, key=lambda fit: machine.distance(fit.machine)).weights[family][name]


def _up(a: int, b: int) -> int:
    return -(-a // b)


# -- convolution -----------------------------------------------------------------------------------


@counts("conv", "taps", "lines", "planar")
def _window_products(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    s = ConvSizes(*sizes)
    rows, own = s.batch * s.out_height * s.out_width, s.out_channels // s.groups
    taps, depth = (
        s.kernel_height * s.kernel_width,
        s.kernel_height * s.kernel_width * (s.channels // s.groups),
    )
    panels = s.groups * _up(own, machine.tile_columns)
    weights = panels * machine.tile_columns * depth
    row_bytes = s.stride_height * s.stride_width * s.channels * 4 + 8 * taps
    chunk = max(machine.block_bytes // 4 // row_bytes, machine.tile_rows)
    return (
        rows * depth * s.groups * _up(own, machine.lanes) / threads,
        _up(rows, machine.tile_rows) * panels / threads,
        rows * taps / threads,
        rows * s.groups * _up(own, machine.lanes) / threads,
        s.batch * s.height * s.width * s.channels / threads,
        weights,
        _passes(rows, chunk, weights, machine, threads),
        1.0,
    )


@counts("conv", "taps_bf16")
def _rounded_windows(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    fma, tiles, numbers, *rest = _window_products(sizes, machine, threads)
    return (fma, tiles, numbers * ConvSizes(*sizes).groups, *rest)


@counts("conv", "merged1")
def _merged_in_a_vector(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    return _window_products(_merged(sizes, machine.lanes), machine, threads)


@counts("conv", "merged2")
def _merged_in_two(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    return _window_products(_merged(sizes, machine.tile_columns), machine, threads)


def _merged(sizes: Sequence[int], width: int) -> ConvSizes:
    """The sizes with groups merged until their results fill `width` floats."""
    s = ConvSizes(*sizes)
    own = s.out_channels // s.groups
    count = max(
        n for n in range(1, s.groups + 1) if s.groups % n == 0 and (n == 1 or n * own <= width)
    )
    return s._replace(groups=s.groups // count)


def _passes(rows: int, chunk: int, weights: int, machine: Machine, threads: int) -> float:
    """How many weights are read again from the third level cache, for one chunk of rows after the
    other.
    """
    again = _up(rows, chunk * threads) - 1
    return again * weights if 4 * weights > machine.block_bytes // 2 else 0.0


def _tiles(sizes: Sequence[int], machine: Machine, threads: int, tile: int) -> Work:
    s = ConvSizes(*sizes)
    pair = lines(tile, (s.kernel_height, s.kernel_width), (s.stride_height, s.stride_width))
    assert pair is not None
    down, across = pair
    tiles = s.batch * _up(s.out_height, down.results) * _up(s.out_width, across.results)
    points = down.points * across.points
    products = down.products * across.products
    inner, outer = _up(s.channels, machine.lanes), _up(s.out_channels, machine.lanes)
    panels = _up(s.out_channels, machine.tile_columns)
    weights = products * s.channels * panels * machine.tile_columns
    block = max(machine.block_bytes // 4 // (products * s.channels * 4), 2 * machine.tile_rows)
    return (
        products * tiles * s.channels * outer / threads,
        points * _up(tiles, machine.tile_rows) * panels / threads,
        products * tiles * inner / threads,
        points * tiles * outer / threads,
        weights,
        _passes(tiles, block, weights, machine, threads),
        1.0,
    )


@counts("conv", "winograd2", "winograd2_bf16")
def _tiles_of_2(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    return _tiles(sizes, machine, threads, 2)


@counts("conv", "winograd4")
def _tiles_of_4(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    return _tiles(sizes, machine, threads, 4)


@counts("depthwise", "rows", "any")
def _filters(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    s = DepthwiseSizes(*sizes)
    vectors = s.batch * s.out_height * s.out_width * _up(s.channels, machine.lanes)
    pixels = s.batch * s.height * s.width
    return (
        vectors * s.kernel_height * s.kernel_width / threads,
        vectors / threads,
        pixels * s.channels / threads,
        1.0,
    )


# -- products --------------------------------------------------------------------------------------


@counts("gemm", "fp32", "bf16")
def _product(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    m, n, k = sizes
    return (
        m * k * _up(n, machine.lanes) / threads,
        _up(m, machine.tile_rows) * _up(n, machine.tile_columns) / threads,
        m * k / threads,
        m * _up(n, machine.lanes) / threads,
        k * _up(n, machine.tile_columns) * machine.tile_columns,
        1.0,
    )


def _attention(sizes: Sequence[int], machine: Machine, threads: int, block: int = 256) -> Work:
    batch, heads, queries, keys, dim, values = sizes
    units = batch * heads
    return (
        units * queries * keys * (dim + values) / machine.lanes / threads,
        units * queries * keys / machine.lanes / threads,
        units * keys * (dim + values) / threads,
        units * queries * (dim + values) / threads,
        units * queries * _up(keys, block) * (values + machine.lanes) / machine.lanes / threads,
        units * _up(queries, 252) * keys * (dim + values) / threads,
        1.0,
    )


counts("attention", "k256", "rows", "panels", "bf16")(_attention)
counts("attention", "k128")(partial(_attention, block=128))
counts("attention", "k64")(partial(_attention, block=64))
