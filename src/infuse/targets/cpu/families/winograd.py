"""Winograd's transform of filters, as kernels/winograd.hpp and kernels/winograd_lines.hpp read
them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from itertools import product
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
from ml_dtypes import bfloat16
from numpy.typing import NDArray

from infuse.targets.cpu.families.base import Arguments, Array, computes
from infuse.targets.cpu.families.convolution import ConvSizes, image_of, taps, unmarked
from infuse.targets.cpu.families.gemm import (
    pack_gemm_b,
    pack_gemm_bf16,
    unpacked_gemm_b,
    unpacked_gemm_bf16,
)
from infuse.targets.cpu.families.panels import panel_words
from infuse.targets.cpu.families.work import (
    Work,
    ceil_div,
    counts,
    rounded_products,
    weights_read_again,
)
from infuse.targets.machine import Machine

_POINTS: Final = {
    1: (1.0,),
    2: (0.5**0.5, 2.0**0.5),
    3: (0.5, 1.0, 2.0),
    4: (0.4375, 0.8125, 1.25, 2.1875),
}
_POINTS_OF_STEPS: Final = {1: (1.0,), 2: (0.5, 1.1875)}
_ERRORS: Final = {
    (1, 1, 1): 1.0,
    (1, 1, 2): 1.0,
    (2, 3, 1): 1.3,
    (4, 3, 1): 2.7,
    (2, 5, 1): 2.3,
    (4, 5, 1): 5.5,
    (2, 7, 1): 5.0,
    (4, 7, 1): 12.5,
    (3, 2, 1): 1.4,
    (5, 2, 1): 3.1,
    (2, 3, 2): 1.5,
    (4, 3, 2): 2.1,
}
"""How much larger rounding errors can be than without Winograd (kernels/winograd_lines.hpp), by
line.
"""
_LARGEST_ERROR: Final = 13.0
_RESULTS: Final = (2, 3, 4, 5)
"""Results a line; windows of an even number have an odd number of them."""
AS_MANY_POINTS: Final = {"winograd3": "winograd2", "winograd5": "winograd4"}
"""Forms for windows of two numbers, and those with the same points, which take as long for the same
work.
"""
OBLONG: Final = "winograd2x4_bf16"
"""Tiles of 2 × 4 results, of rounded operands."""
AS_SQUARE: Final = {OBLONG: "winograd2_bf16"}
"""Forms whose work takes as long as that of square tiles."""
_LEAST: Final = 16
"""Channels below which tiles are not worth their transforms."""
_PRODUCT: Final = 1 << 17
"""Multiplications of a product of filters: OpenBLAS divides those of twice as many."""
Results = int | tuple[int, int]
"""Results of a tile: of each line, or down and across."""
_FORM: Final = re.compile(r"winograd(\d)(?:x(\d))?")
_LINE: Final = re.compile(r"Line<(\d+), (\d+)(?:, (\d+))?>")


class Line(NamedTuple):
    """One dimension of a tile: results, numbers of the window, and the step of the window."""

    results: int
    window: int
    step: int

    def __str__(self) -> str:
        """The type in C++."""
        return f"Line<{self.results}, {self.window}{f', {self.step}' if self.step > 1 else ''}>"

    @property
    def points(self) -> int:
        """Points at which the window is evaluated."""
        return self.results + 1 if self._is_split else self.results + self.window - 1

    @property
    def products(self) -> int:
        """Multiplications for the results."""
        return 2 * self.results + 1 if self._is_split else self.points

    @property
    def _is_split(self) -> bool:
        return self.step == 2 and self.window > 1

    def planes(self) -> list[tuple[list[int], NDArray[np.float64]]]:
        """The numbers of the window that belong to each plane, and the matrix G that evaluates
        them.
        """
        if self.window == 1:
            return [([0], np.ones((1, 1)))]
        if self._is_split:
            points = _signed(_POINTS_OF_STEPS[self.results // 2])
            return [([0, 2], _evaluation(points, 2, True)), ([1], _evaluation(points, 1, False))]
        points = [0.0, *_signed(_POINTS[self.points // 2 - 1])]
        return [(list(range(self.window)), _evaluation(points, self.window, True))]


def results_of(form: str) -> Results:
    """Results of a form's tiles."""
    match = _FORM.match(form)
    assert match is not None
    down, across = match.groups()
    return (int(down), int(across)) if across else int(down)


def lines(tile: Results, window: Sequence[int], steps: Sequence[int]) -> tuple[Line, Line] | None:
    """The dimensions of tiles with `tile` results in every dimension where the window is wider than
    one number.

    None where no such tiles exist, or where they are too inexact.
    """
    results = (tile, tile) if isinstance(tile, int) else tile
    down, across = (
        Line(1 if size == 1 else count, size, step)
        for count, size, step in zip(results, window, steps, strict=True)
    )
    if down.window == across.window == 1 or not {down, across} <= _ERRORS.keys():
        return None
    return (down, across) if _ERRORS[down] * _ERRORS[across] <= _LARGEST_ERROR else None


def tiles_of(
    channels: int,
    out: int,
    kh: int,
    kw: int,
    stride_h: int,
    stride_w: int,
    dil_h: int,
    dil_w: int,
    *_: int,
) -> list[str]:
    """The forms of a convolution without groups that go by tiles, winogradM for tiles of M results
    a line.
    """
    if min(channels, out) < _LEAST or (dil_h, dil_w) != (1, 1):
        return []
    return [
        f"winograd{tile}"
        for tile in _RESULTS
        if lines(tile, (kh, kw), (stride_h, stride_w)) is not None
    ]


def tile_forms(sizes: ConvSizes, precision: str, tiled: bool) -> list[str]:
    """The forms of a convolution of known filters that go by tiles: winogradM, M results a line.

    Operands are rounded, and weights stored as halves, in small tiles of 3 × 3 alone: others lose
    too much. Where registers are `tiled`, these multiply so fast that transforms count for more.
    """
    shape = [sizes.channels, *sizes[6:13]]
    extents = [size for size in shape if isinstance(size, int)]
    if len(extents) < len(shape) or sizes.groups != 1:
        return []
    tiles = tiles_of(*extents)
    plain = extents[2:] == [3, 3, 1, 1, 1, 1]
    if precision == "bf16" and plain:
        tiles += ["winograd2_bf16"] if tiled else ["winograd2_bf16", OBLONG]
    return tiles if plain or precision != "fp16" else []


def growth(down: Line, across: Line) -> float:
    """How much larger than a weight a transformed one can be."""
    return prod(
        max(float(np.abs(g).sum(1).max()) for _, g in line.planes()) for line in (down, across)
    )


def depths(
    down: Line,
    across: Line,
    channels: int,
    lanes: int,
    pairs: bool = False,
    tiled: bool = False,
) -> int:
    """Numbers of all points for one column of weights."""
    depth = _depth(channels, pairs, tiled)
    points = product(_counts(down), _counts(across))
    return sum(depth if a * b == 1 else a * b * -(-depth // lanes) * lanes for a, b in points)


def _depth(numbers: int, pairs: bool, tiled: bool) -> int:
    """Numbers along k of a packed matrix of so many rows."""
    return 2 * panel_words(-(-numbers // 2), tiled) if pairs else numbers


def winograd_weights(
    weights: NDArray[Any],
    tile: Results,
    lanes: int,
    pairs: bool = False,
    kind: Any = np.float32,
    steps: Any = (1, 1),
    tiled: bool = False,
) -> NDArray[Any]:
    """Weights [out, in, kh, kw] as G g Gᵀ in [panel, point, plane and channel, 2 · lanes] (points
    and depths flat).

    Computed in float64 and rounded once, to `kind`. With `pairs`, the matrices are those of
    `pack_gemm_bf16`.
    """
    pair = lines(tile, weights.shape[2:], steps)
    assert pair is not None
    planes = [
        (np.ix_(rows, columns), np.kron(g, h), (len(g), len(h)))
        for rows, g in pair[0].planes()
        for columns, h in pair[1].planes()
    ]
    out, channels = weights.shape[:2]
    width = 2 * lanes
    starts = range(0, out, width)
    size = depths(*pair, channels, lanes, pairs, tiled) * width
    packed = np.zeros((len(starts), size), bfloat16 if pairs else kind)
    for panel, first in zip(packed, starts):
        window = np.zeros((*weights.shape[2:], channels, width))
        part = weights[first : first + width]
        window[..., : len(part)] = part.transpose(2, 3, 1, 0)
        if len(planes) == 1 and not pairs:
            _multiply(planes[0][1], window, panel)
            continue
        turned = [np.empty((*shape, channels, width)) for *_, shape in planes]
        for (own, matrix, _), result in zip(planes, turned):
            _multiply(matrix, window[own], result)
        panel[:] = _panel(turned, pair, lanes, pairs, kind, tiled)
    return packed


def _multiply(matrix: NDArray[Any], window: NDArray[Any], result: NDArray[Any]) -> None:
    """Write matrix @ window, of float64, to `result`, in products that stay in the cache and that
    BLAS does not divide among threads, which costs more than they do.
    """
    numbers, results = window.reshape(matrix.shape[1], -1), result.reshape(len(matrix), -1)
    columns = max(_PRODUCT // matrix.size, 1)
    for start in range(0, numbers.shape[1], columns):
        part = slice(start, start + columns)
        results[:, part] = matrix @ numbers[:, part]


def _panel(
    turned: Sequence[NDArray[Any]],
    pair: tuple[Line, Line],
    lanes: int,
    pairs: bool,
    kind: Any,
    tiled: bool,
) -> NDArray[Any]:
    """The transformed weights [point, point, channel, column] of all planes, point by point."""
    pack = partial(pack_gemm_bf16, tiled=tiled) if pairs else partial(pack_gemm_b, kind=kind)
    packed = []
    for i, j in np.ndindex(pair[0].points, pair[1].points):
        planes = [t[i, j] for t in turned if i < t.shape[0] and j < t.shape[1]]
        whole = planes if len(planes) == 1 else [_whole(plane, lanes) for plane in planes]
        packed.append(pack(np.concatenate(whole), lanes).reshape(-1))
    return np.concatenate(packed)


def _whole(plane: NDArray[Any], lanes: int) -> NDArray[Any]:
    return np.pad(plane, ((0, -len(plane) % lanes), (0, 0)))


def _counts(line: Line) -> list[int]:
    """Planes of every point."""
    sizes = [len(g) for _, g in line.planes()]
    return [sum(point < size for size in sizes) for point in range(line.points)]


def _signed(points: Sequence[float]) -> list[float]:
    return [sign * point for point in points for sign in (1.0, -1.0)]


def _evaluation(points: Sequence[float], window: int, infinity: bool) -> NDArray[np.float64]:
    """The matrix G: powers of every point over the derivative there of the polynomial with these
    zeros.
    """
    rows = []
    for i, point in enumerate(points):
        slope = prod(point - other for j, other in enumerate(points) if j != i)
        rows.append([point**k / slope for k in range(window)])
    if infinity:
        rows.append([0.0] * (window - 1) + [1.0])
    return np.array(rows)


# -- meaning ---------------------------------------------------------------------------------------


@computes("winograd")
def winograd(call: Arguments) -> Array:
    """Pixels of the result × channels, with filters of which the transforms are packed."""
    s, x, packed = call.widened[:3]
    s, _ = unmarked(s)
    kinds = _LINE.findall(call.template[0])
    down, across = (Line(int(m), int(r), int(step or 1)) for m, r, step in kinds)
    pairs = "WinogradPairs" in call.template[0]
    tiled = pairs and call.has_tiled_pairs
    channels = s.channels, s.out_channels
    filters = _filters(packed, (down, across), channels, call.lanes, pairs, tiled)
    read = taps(image_of(x, s), s)
    product: Array = read.reshape(len(read), -1) @ filters.reshape(-1, s.out_channels)
    return product


def _filters(
    packed: Array,
    pair: tuple[Line, Line],
    sizes: tuple[int, int],
    lanes: int,
    pairs: bool,
    tiled: bool,
) -> Array:
    """The weights [kh, kw, in, out] of which `winograd_weights` packed the transforms."""
    channels, out = sizes
    panel, panels = 2 * lanes, -(-out // (2 * lanes))
    total = depths(*pair, channels, lanes, pairs, tiled)
    whole = packed[: panels * total * panel].reshape(panels, total * panel)
    planes = [(a, b) for a in pair[0].planes() for b in pair[1].planes()]
    turned = [np.zeros((len(g), len(h), channels, out)) for (_, g), (_, h) in planes]
    at = 0
    for i, j in np.ndindex(pair[0].points, pair[1].points):
        here = [plane[i, j] for plane in turned if i < len(plane) and j < plane.shape[1]]
        alone = len(here) == 1
        each = channels if alone else -(-channels // lanes) * lanes
        depth = _depth(each * len(here), pairs, tiled)
        unpack = partial(unpacked_gemm_bf16, tiled=tiled) if pairs else unpacked_gemm_b
        rows = unpack(whole[:, at : at + depth * panel].reshape(-1), depth, out, lanes)
        for number, plane in enumerate(here):
            plane[:] = rows[number * each : number * each + channels]
        at += depth * panel
    weights = np.zeros((pair[0].window, pair[1].window, channels, out))
    for ((rows_of, g), (columns_of, h)), plane in zip(planes, turned):
        inverse = np.linalg.pinv(g), np.linalg.pinv(h)
        weights[np.ix_(rows_of, columns_of)] = np.einsum(
            "ri,ijco,sj->rsco", inverse[0], plane, inverse[1]
        )
    return weights


# -- work ------------------------------------------------------------------------------------------


def _tiles(sizes: Sequence[int], machine: Machine, threads: int, tile: Results) -> Work:
    s = ConvSizes(*sizes)
    pair = lines(tile, (s.kernel_height, s.kernel_width), (s.stride_height, s.stride_width))
    assert pair is not None
    down, across = pair
    tiles = s.batch * ceil_div(s.out_height, down.results) * ceil_div(s.out_width, across.results)
    points = down.points * across.points
    products = down.products * across.products
    inner, outer = ceil_div(s.channels, machine.lanes), ceil_div(s.out_channels, machine.lanes)
    panels = ceil_div(s.out_channels, machine.tile_columns)
    weights = products * s.channels * panels * machine.tile_columns
    block = max(machine.block_bytes // 4 // (products * s.channels * 4), 2 * machine.tile_rows)
    return (
        products * tiles * s.channels * outer / threads,
        points * ceil_div(tiles, machine.tile_rows) * panels / threads,
        products * tiles * inner / threads,
        points * tiles * outer / threads,
        weights,
        weights_read_again(tiles, block, weights, machine, threads),
        1.0,
    )


@counts("conv", "winograd2_bf16")
def _rounded_tiles(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    s = ConvSizes(*sizes)
    fma, *rest = _tiles(sizes, machine, threads, 2)
    tiles = s.batch * ceil_div(s.out_height, 2) * ceil_div(s.out_width, 2)
    return (rounded_products(fma, tiles, machine), *rest)


for _form in ("winograd2", "winograd3", "winograd4", "winograd5", OBLONG):
    counts("conv", _form)(partial(_tiles, tile=results_of(_form)))
