"""Convolutions of images as matrix products, with packed filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from ml_dtypes import bfloat16
from numpy.typing import NDArray

from infuse.targets.cpu.families.base import (
    Arguments,
    Array,
    Size,
    computes,
    declared_in,
    matrix,
)
from infuse.targets.cpu.families.gemm import (
    SPLIT_NUMBERS,
    pack_gemm_b,
    pack_gemm_bf16,
    pack_gemm_bf16x2,
    split_product,
    split_size,
    unpacked_gemm_b,
    unpacked_gemm_bf16,
    unpacked_gemm_bf16x2,
)
from infuse.targets.cpu.families.panels import panel_words
from infuse.targets.cpu.families.work import (
    FEW_ROWS,
    Work,
    ceil_div,
    counts,
    products_in_tiles,
    split_products,
    weights_read_again,
)
from infuse.targets.machine import TILE_SIDE, DotType, Machine


@declared_in("conv_windows.hpp")
class ConvSizes(NamedTuple):
    """A convolution of images, or of lines of height 1, channels last; `pitch`: floats from one
    pixel to the next.
    """

    batch: Size
    height: Size
    width: Size
    channels: Size
    out_height: Size
    out_width: Size
    out_channels: Size
    kernel_height: Size
    kernel_width: Size
    stride_height: Size
    stride_width: Size
    dilation_height: Size
    dilation_width: Size
    pad_top: Size
    pad_left: Size
    groups: Size
    pitch: Size


def pack_conv(
    weights: NDArray[Any], groups: int, lanes: int, kind: Any = np.float32
) -> NDArray[Any]:
    """Convolution weights [out, in / groups, kh, kw] as [group, panel, k, 2 · lanes] for
    kernels/conv.hpp.

    One row of k is one number of the window, in the order kh, kw, channel of the group.
    """
    out = weights.shape[0]
    if out % groups:
        raise ValueError(f"{out} output channels in {groups} groups")
    columns = weights.transpose(2, 3, 1, 0).reshape(-1, groups, out // groups)
    return np.stack([pack_gemm_b(columns[:, g], lanes, kind) for g in range(groups)])


def merge_groups(weights: NDArray[Any], groups: int, merged: int) -> NDArray[Any]:
    """Convolution weights of `groups` · `merged` groups as those of `groups`: zeros where groups
    did not meet.
    """
    if merged == 1:
        return weights
    out, own, *kernel = weights.shape
    whole = np.zeros((groups, merged, out // groups // merged, merged, own, *kernel), weights.dtype)
    parts = weights.reshape(groups, merged, -1, own, *kernel)
    for number in range(merged):
        whole[:, number, :, number] = parts[:, number]
    return whole.reshape(out, merged * own, *kernel)


def pack_conv_bf16(
    weights: NDArray[Any], groups: int, whole: bool, lanes: int, tiled: bool = False
) -> NDArray[Any]:
    """Convolution weights [out, in / groups, kh, kw] as [group, panel, pair, 2 · lanes, 2] for
    kernels/conv_bf16.hpp.

    A segment is a line of the window where `whole`, else the channels of one tap, filled up with
    zeros as `segment_pairs` says. The matrices are those of `pack_gemm_bf16`.
    """
    out, _, height, width = weights.shape
    segments = height if whole else height * width
    columns = weights.transpose(2, 3, 1, 0).reshape(segments, -1, groups, out // groups)
    size = columns.shape[1]
    more = 2 * segment_pairs(size, whole, tiled) - size
    padded = np.pad(columns, ((0, 0), (0, more), (0, 0), (0, 0))).reshape(-1, groups, out // groups)
    return np.stack([pack_gemm_bf16(padded[:, g], lanes, tiled) for g in range(groups)])


def pack_conv_bf16x2(weights: NDArray[Any], groups: int, lanes: int) -> NDArray[Any]:
    """Convolution weights [out, in / groups, kh, kw] for kernels/conv_bf16x2.hpp: for each group
    what `pack_gemm_bf16x2` makes, k in the order kh, kw, channel.
    """
    out = weights.shape[0]
    columns = weights.transpose(2, 3, 1, 0).reshape(-1, groups, out // groups)
    return np.stack([pack_gemm_bf16x2(columns[:, g], lanes) for g in range(groups)])


def splits(sizes: ConvSizes) -> bool:
    """Whether kernels/conv_bf16x2.hpp computes a convolution of these sizes: where the channels of
    a group are whole blocks, and windows do not step and spread at once.
    """
    own = sizes.channels // sizes.groups if isinstance(sizes.channels, int) else 0
    down = 1 in (sizes.stride_height, sizes.dilation_height)
    return bool(own and own % SPLIT_NUMBERS == 0 and down) and (
        1 in (sizes.stride_width, sizes.dilation_width)
    )


def segment_pairs(size: int, whole: bool, tiled: bool) -> int:
    """Pairs of a segment of `size` numbers: of lines of the window, tile registers take whole
    blocks.
    """
    return panel_words(-(-size // 2), whole and tiled)


def taps(image: Array, sizes: Any) -> Array:
    """What the windows read, zeros outside of the image: [N · height · width of the result, numbers
    of the window, C] of an image [N, H, W, C].
    """
    rows = _places(sizes.out_height, sizes.stride_height, sizes.pad_top)
    columns = _places(sizes.out_width, sizes.stride_width, sizes.pad_left)
    read = []
    for y, x in np.ndindex(sizes.kernel_height, sizes.kernel_width):
        down, across = rows + y * sizes.dilation_height, columns + x * sizes.dilation_width
        inside = np.ix_(_inside(down, sizes.height), _inside(across, sizes.width))
        part = np.zeros((len(image), len(down), len(across), image.shape[3]), image.dtype)
        part[:, inside[0], inside[1]] = image[:, down[inside[0]], across[inside[1]]]
        read.append(part.reshape(-1, image.shape[3]))
    return np.stack(read, axis=1)


def image_of(x: Array, sizes: Any, planar: bool = False) -> Array:
    """An image [N, H, W, C] from where it lies: channels first, or last with its pixels
    `sizes.pitch` apart (without that side by side).
    """
    batch, height, width, channels = sizes[:4]
    count = batch * height * width
    if planar:
        planes = x[: count * channels].reshape(batch, channels, height, width)
        image: Array = planes.transpose(0, 2, 3, 1)
        return image
    pixels = matrix(x, (count, channels), (getattr(sizes, "pitch", channels), 1))
    return pixels.reshape(batch, height, width, channels)


@computes("conv", "conv_fp16")
def conv(call: Arguments) -> Array:
    """Pixels of the result × channels, with filters in panels of each group."""
    s, x, packed = call.widened[:3]
    s, mark = unmarked(s)
    read = taps(image_of(x, s, mark == "as_planar"), s)
    depth, out = read.shape[1] * read.shape[2] // s.groups, s.out_channels // s.groups
    filters = [
        unpacked_gemm_b(part, depth, out, call.lanes)
        for part in _of_groups(packed, s.groups, depth, out, call.lanes)
    ]
    return _grouped(read, filters)


@computes("conv_bf16", "conv_lines_bf16")
def conv_bf16(call: Arguments) -> Array:
    """The same of operands that are rounded to bfloat16."""
    s, x, packed = call.widened[:3]
    s, mark = unmarked(s)
    read = taps(image_of(x.astype(bfloat16).astype(np.float64), s, mark == "as_planar"), s)
    channels, out = s.channels // s.groups, s.out_channels // s.groups
    lines = s.groups == 1 and s.dilation_width == 1
    segments = s.kernel_height * (1 if lines else s.kernel_width)
    size = channels * (s.kernel_width if lines else 1)
    tiled = call.has_tiled_pairs
    depth = segments * 2 * segment_pairs(size, lines, tiled)
    filters = []
    rows = 2 * panel_words(depth // 2, tiled)
    for part in _of_groups(packed, s.groups, rows, out, call.lanes):
        padded = unpacked_gemm_bf16(part, depth, out, call.lanes, tiled)
        filters.append(padded.reshape(segments, -1, out)[:, :size].reshape(-1, out))
    return _grouped(read, filters)


@computes("conv_bf16x2")
def conv_bf16x2(call: Arguments) -> Array:
    """The same of operands that are split into two bfloat16."""
    s, x, packed = call.widened[:3]
    read = taps(image_of(x, s), s)
    depth, out = read.shape[1] * read.shape[2] // s.groups, s.out_channels // s.groups
    size = split_size(depth, out, call.lanes)
    results = []
    for g, part in enumerate(np.split(read, s.groups, axis=2)):
        own = unpacked_gemm_bf16x2(packed[g * size : (g + 1) * size], depth, out, call.lanes)
        results.append(split_product(part.reshape(len(part), depth), own))
    return np.concatenate(results, axis=1)


def unmarked(sizes: Any) -> tuple[ConvSizes, str]:
    """Sizes, and the name of the function that says how the image lies, if there is one."""
    return sizes if isinstance(sizes, ConvSizes) else sizes.items[0], getattr(sizes, "type", "")


def _of_groups(packed: Array, groups: int, depth: int, out: int, lanes: int) -> list[Array]:
    panel = 2 * lanes
    return np.split(packed[: groups * depth * -(-out // panel) * panel], groups)


def _grouped(read: Array, filters: list[Array]) -> Array:
    """The products of each group's channels and filters, side by side."""
    parts = np.split(read, len(filters), axis=2)
    rows = [part.reshape(len(part), len(own)) @ own for part, own in zip(parts, filters)]
    return np.concatenate(rows, axis=1)


def _places(count: int, step: int, before: int) -> Array:
    return np.arange(count) * step - before


def _inside(places: Array, size: int) -> Array:
    return np.flatnonzero((places >= 0) & (places < size))


# -- forms -----------------------------------------------------------------------------------------

FEW: Final = 32
"""Channels below which lines of an image are copied (kernels/conv.hpp)."""
AS_LINES: Final = {"lines_bf16": "lines", "planar_bf16": "planar"}
"""Forms that round the lines they copy, and those that do the same in float32."""
MODES: Final = {"taps": "TAPS", "lines": "LINES", "planar": "LINES"}
"""How kernels/conv.hpp finds the rows of the product, by form."""


def forms(sizes: ConvSizes, *, planes: bool, precision: str, tiled: bool = False) -> list[str]:
    """The forms of a convolution without those by tiles and with merged groups. `planes`: the image
    lies as planes; `precision`: what products with constant filters may compute in; `tiled`: tile
    registers multiply what is rounded.
    """
    static = isinstance(sizes.channels, int)
    few = static and sizes.channels < FEW and sizes.groups == 1 and sizes.dilation_width == 1
    rounded = precision == "bf16" and not tiled
    fits = {
        "planar": few and planes,
        "lines": few and sizes.kernel_width != 1,
        "planar_bf16": few and planes and rounded,
        "lines_bf16": few and sizes.kernel_width != 1 and rounded,
        "taps": True,
        "taps_bf16": precision == "bf16",
        "taps_bf16x2": precision == "bf16x2" and splits(sizes),
    }
    return [name for name, fitting in fits.items() if fitting]


def merged_forms(sizes: ConvSizes, lanes: int) -> list[str]:
    """The forms that compute several groups as one."""
    first, second = (merged(sizes, vectors, lanes) for vectors in (1, 2))
    return [*(["merged1"] if first > 1 else []), *(["merged2"] if second > first else [])]


def merged(sizes: ConvSizes, vectors: int, lanes: int) -> int:
    """How many groups are computed as one, with zeros among its filters, so that its results fill
    these vectors.
    """
    own = sizes.out_channels // sizes.groups
    whole = [n for n in range(1, sizes.groups + 1) if sizes.groups % n == 0]
    return max(n for n in whole if n == 1 or n * own <= vectors * lanes)


# -- work ------------------------------------------------------------------------------------------


@counts("conv", "taps", "lines", "planar")
def _window_products(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    s = ConvSizes(*sizes)
    rows, own = s.batch * s.out_height * s.out_width, s.out_channels // s.groups
    taps, depth = (
        s.kernel_height * s.kernel_width,
        s.kernel_height * s.kernel_width * (s.channels // s.groups),
    )
    panels = s.groups * ceil_div(own, machine.tile_columns)
    weights = panels * machine.tile_columns * depth
    row_bytes = s.stride_height * s.stride_width * s.channels * 4 + 8 * taps
    chunk = max(machine.block_bytes // 4 // row_bytes, machine.tile_rows)
    return (
        rows * depth * s.groups * ceil_div(own, machine.lanes) / threads,
        ceil_div(rows, machine.tile_rows) * panels / threads,
        rows * taps / threads,
        rows * s.groups * ceil_div(own, machine.lanes) / threads,
        s.batch * s.height * s.width * s.channels / threads,
        weights,
        weights_read_again(rows, chunk, weights, machine, threads),
        1.0,
    )


@counts("conv", "taps_bf16")
def _rounded_windows(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    s = ConvSizes(*sizes)
    fma, tiles, numbers, *rest = _window_products(sizes, machine, threads)
    rows = s.batch * s.out_height * s.out_width
    if not machine.has_bf16_tiles or rows <= FEW_ROWS[DotType.BF16]:
        return (fma, tiles, numbers * s.groups, *rest)
    own, depth, in_place = s.out_channels // s.groups, s.channels // s.groups, _in_place(s)
    segments = s.kernel_height * (1 if s.groups == 1 else s.kernel_width)
    pairs = segments * segment_pairs(
        depth * s.kernel_width if s.groups == 1 else depth, s.groups == 1, True
    )
    products = rows * 2 * panel_words(pairs, True) * s.groups * ceil_div(own, machine.lanes)
    return (
        products_in_tiles(products / threads, rows, DotType.BF16, machine),
        ceil_div(rows, 2 * TILE_SIDE) * s.groups * ceil_div(own, machine.tile_columns) / threads,
        0.0 if in_place else numbers * s.groups,
        *rest,
    )


@counts("conv", *AS_LINES)
def _rounded_lines(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    """Windows that are read in place, two numbers at a time."""
    fma, *rest = _window_products(sizes, machine, threads)
    return (fma / 2, *rest)


@counts("conv", "taps_bf16x2")
def _split_windows(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    products, tiles, _, *rest = _window_products(sizes, machine, threads)
    return (split_products(products, machine), tiles, *rest)


def _in_place(s: ConvSizes) -> bool:
    """Whether tile registers read the windows where they lie (kernels/conv_tiles.hpp)."""
    blocks = s.channels // s.groups % (2 * TILE_SIDE) == 0
    return bool(blocks or (s.groups == 1 and s.dilation_width == 1))


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
