"""Products of 8-bit integers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuse import dtypes
from infuse.immutable import Immutable
from infuse.targets.cpu.families.base import (
    Arguments,
    Array,
    Stores,
    computes,
    matrix,
    writes,
)
from infuse.targets.cpu.families.convolution import image_of, taps
from infuse.targets.cpu.families.panels import in_tiles, panel_words, panels_of
from infuse.targets.cpu.families.windows import windowed
from infuse.targets.machine import TILE_SIDE, DotType

Integers = NDArray[np.integer[Any]]


class Layout(Immutable):
    """How kernels/integer_layouts.hpp multiplies: the name there, elements in a lane, and their
    type.
    """

    name: str
    group: int
    dtype: dtypes.DType


I16X2 = Layout("I16x2", 2, dtypes.int16)
U8S8X4 = Layout("U8S8x4", 4, dtypes.int8)


def packed_groups(k: int, n: int, lanes: int, layout: Layout, tiled: bool) -> int:
    """Elements of a packed matrix."""
    words = panel_words(-(-k // layout.group), tiled)
    return -(-n // (2 * lanes)) * words * layout.group * 2 * lanes


def pack_groups(b: Integers, lanes: int, layout: Layout, tiled: bool = False) -> Integers:
    """The matrix b[k, n] as [panel, group of rows, 2 · lanes, row of the group] for
    kernels/integer.hpp, in tiles where `tiled`.
    """
    k, n = b.shape
    width, group = 2 * lanes, layout.group
    groups, panels = panel_words(-(-k // group), tiled), -(-n // width)
    whole = np.zeros((group * groups, panels * width), layout.dtype.numpy)
    whole[:k, :n] = b
    packed = whole.reshape(groups, group, panels, width).transpose(2, 0, 3, 1)
    return in_tiles(packed) if tiled else np.ascontiguousarray(packed)


def fills_lines(depth: int, groups: int, dilation: int) -> bool:
    """Whether tile registers read lines of a window over so many channels as runs, the last block
    of which is filled up with zeros (kernels/conv_tiles.hpp).
    """
    return groups == 1 and dilation == 1 and depth % (4 * TILE_SIDE) != 0


def filled_line(size: int, layout: Layout) -> int:
    """Elements of a line of the window with those zeros."""
    return panel_words(-(-size // layout.group), True) * layout.group


def filled_lines(matrices: Integers, lines: int, layout: Layout) -> Integers:
    """Filters [groups, taps · C, n] whose lines are filled up."""
    groups, depth, columns = matrices.shape
    whole = matrices.reshape(groups, lines, depth // lines, columns)
    more = filled_line(depth // lines, layout) - depth // lines
    return np.pad(whole, ((0, 0), (0, 0), (0, more), (0, 0))).reshape(groups, -1, columns)


def pack_columns(filters: Integers, together: int, layout: Layout) -> Integers:
    """Filters [channels, height, width] as [⌈height / together⌉, width, channels, layout.group]."""
    channels, height, width = filters.shape
    blocks = -(-height // together)
    whole = np.zeros((channels, blocks, layout.group, width), layout.dtype.numpy)
    for y in range(height):
        whole[:, y // together, y % together] = filters[:, y]
    return np.ascontiguousarray(whole.transpose(1, 3, 0, 2))


FLIP = 128
"""What becomes a byte of U8S8X4 by the change of a bit is larger or smaller by this."""


@computes("integer_matmul")
def integer_matmul(call: Arguments) -> Array:
    """Rows less their zero points times the matrix; in groups of four, the sums of its columns take
    the zero points off.
    """
    m, n, k, pitch, left, zeros, step, packed, sums = call.arguments[:9]
    rows = matrix(left.astype(np.float64), (m, k), (pitch, 1))
    shifts = np.zeros(m) if zeros is None else zeros[np.arange(m) * step].astype(np.float64)
    layout = layout_of(call)
    weights = unpacked_groups(packed, k, n, call.lanes, layout, _tiled(call))
    return shifted_products(rows, shifts, weights, sums)


@computes("integer_conv")
def integer_conv(call: Arguments) -> Array:
    """Windows × filters: elements less their zero point times the filters, packed by groups."""
    windows, filters, groups, x, zero, packed, sums = call.arguments[:7]
    shift = _shift(zero)
    read = windowed(x.astype(np.float64), windows, shift)
    depth, wide, layout = read.shape[1] * windows.c // groups, filters // groups, layout_of(call)
    last, tiled = windows.axis[windows.rank - 1], _tiled(call)
    line = last.kernel * windows.c
    fills = tiled and windows.rank <= 2 and fills_lines(windows.c, groups, last.dilation)
    filled = depth // line * filled_line(line, layout) if fills else depth
    size = packed_groups(filled, wide, call.lanes, layout, tiled)
    parts = []
    for group, rows in enumerate(np.split(read, groups, axis=2)):
        part = packed[group * size :]
        own = unpacked_groups(part, filled, wide, call.lanes, layout, tiled)
        if fills:
            own = own.reshape(depth // line, -1, wide)[:, :line].reshape(depth, wide)
        own_sums = None if sums is None else sums[group * wide :]
        flat = rows.reshape(len(rows), depth)
        parts.append(shifted_products(flat, np.full(len(flat), shift), own, own_sums))
    return np.concatenate(parts, axis=1)


@computes("integer_depthwise")
def integer_depthwise(call: Arguments) -> Array:
    """Pixels × channels: elements less their zero point times filters of one channel each."""
    s, x, zero, packed, sums = call.arguments[:5]
    together, width, step = map(int, call.template[1:])
    if (s.kernel_width, s.stride_width) != (width, step):
        raise ValueError(f"windows of {width} in steps of {step}")
    layout, shift = layout_of(call), _shift(zero)
    read = taps(image_of(x.astype(np.float64), s) - shift, s)
    blocks = -(-s.kernel_height // together)
    whole = packed[: blocks * width * s.channels * layout.group].astype(np.float64)
    lines = whole.reshape(blocks, width, s.channels, -1)[..., :together].transpose(0, 3, 1, 2)
    filters = lines.reshape(-1, width, s.channels)[: s.kernel_height].reshape(-1, s.channels)
    result: Array = np.einsum("ptc,tc->pc", read, filters)
    if layout is U8S8X4:
        result = result + (shift + FLIP) * (filters.sum(0) - sums[: s.channels])
    return result


@computes("integer_depthwise_any")
def integer_depthwise_any(call: Arguments) -> Array:
    """The same of windows over any number of axes, the filters not packed."""
    windows, x, zero, weights = call.arguments[:4]
    shift = _shift(zero)
    read = windowed(x.astype(np.float64), windows, shift) - shift
    filters = weights[: read[0].size].reshape(read[0].shape)
    result: Array = np.einsum("ptc,tc->pc", read, filters.astype(np.float64))
    return result


@writes("integer_pack")
def integer_pack(call: Arguments) -> Stores:
    """Matrices of any strides less the zero points of their columns, packed one after another."""
    matrices, k, n, each, row, column, b, zeros, step, shift = call.arguments[:10]
    packed = []
    for number in range(matrices):
        own = matrix(b[number * each :].astype(np.int16), (k, n), (row, column))
        if zeros is not None:
            own = own - zeros.astype(np.int16)[(number * shift + np.arange(n)) * step]
        packed.append(pack_groups(own, call.lanes, I16X2).reshape(-1))
    return {10: np.concatenate([np.empty(0, np.int16), *packed])}


def unpacked_groups(
    packed: Array, k: int, n: int, lanes: int, layout: Layout, tiled: bool
) -> Array:
    """The matrix [k, n] that `pack_groups` packed."""
    width, groups = 2 * lanes, panel_words(-(-k // layout.group), tiled)
    panels = -(-n // width)
    whole = panels_of(packed, (panels, groups, width, layout.group), tiled).astype(np.float64)
    rows = whole.transpose(1, 3, 0, 2).reshape(groups * layout.group, panels * width)
    result: Array = rows[:k, :n]
    return result


def layout_of(call: Arguments) -> Layout:
    """The layout that a call names."""
    return U8S8X4 if call.template[0] == U8S8X4.name else I16X2


def _tiled(call: Arguments) -> bool:
    """Whether the right operand is packed in tiles."""
    return call.template[0] == U8S8X4.name and DotType.U8S8 in call.tiled


def _shift(zero: Array | None) -> float:
    return 0.0 if zero is None else float(zero[0])


def shifted_products(rows: Array, shifts: Array, weights: Array, sums: Array | None) -> Array:
    """Rows less their zero points times weights; `sums` of the weights take the zero points off."""
    if sums is None:
        return np.asarray((rows - shifts[:, None]) @ weights)
    off = np.outer(shifts + FLIP, sums[: weights.shape[1]])
    return np.asarray((rows + FLIP) @ weights - off)
