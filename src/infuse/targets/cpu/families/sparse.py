"""Products of rows and a constant matrix whose zero blocks are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from infuse.targets.cpu.families.base import Arguments, Array, Size, computes, declared_in, matrix
from infuse.targets.cpu.families.integers import layout_of, shifted_products
from infuse.targets.cpu.families.windows import windowed
from infuse.targets.cpu.families.work import Work, ceil_div, counts
from infuse.targets.machine import Machine

MOST_ROWS: Final = 1 << 16
"""Rows, or groups of rows, of a matrix in blocks at most: their numbers have 16 bits."""
MOST_FILLED: Final = 0.6
"""The part of the blocks that may not be zero; with more of them no call gains."""


@declared_in("sparse.hpp")
class SparseSizes(NamedTuple):
    """m rows of k elements, `lda` from one to the next, times a matrix of n columns that has
    `filled` blocks.
    """

    m: Size
    n: Size
    k: Size
    lda: Size
    filled: Size


@dataclass(frozen=True, eq=False)
class FilledBlocks:
    """The blocks of a matrix [k, n] that are not zero, for kernels/sparse.hpp.

    A block is `group` rows of `lanes` columns. Those of one stripe of `lanes` columns stand one
    after another: `starts` [stripes + 1] has their numbers, `places` [blocks] their rows, divided
    by `group`, and `blocks` [blocks, lanes, group] their elements.
    """

    starts: NDArray[np.int32]
    places: NDArray[np.uint16]
    blocks: NDArray[Any]


def filled_mask(b: NDArray[Any], lanes: int, group: int = 1) -> NDArray[np.bool_]:
    """Which blocks [stripe, row / group] of a matrix [k, n] are not zero; the matrix is filled up
    with zeros to whole blocks.
    """
    k, n = b.shape
    across = np.add.reduceat(b != 0, np.arange(0, n, lanes), axis=1, dtype=np.int32)
    down = np.add.reduceat(across, np.arange(0, k, group), axis=0)
    return np.asarray(down.T > 0)


def starts_of(mask: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The number of the first block of each stripe, and of all blocks."""
    return np.concatenate([[0], np.cumsum(mask.sum(1))]).astype(np.int32)


def places_of(mask: NDArray[np.bool_]) -> NDArray[np.uint16]:
    """The rows of the blocks, divided by those of a block."""
    return np.nonzero(mask)[1].astype(np.uint16)


def blocks_of(b: NDArray[Any], mask: NDArray[np.bool_], lanes: int, group: int = 1) -> NDArray[Any]:
    """The elements [blocks, lanes, group] of the blocks of a matrix."""
    (k, n), (stripes, rows) = b.shape, mask.shape
    whole = np.zeros((rows * group, stripes * lanes), b.dtype)
    whole[:k, :n] = b
    apart = whole.reshape(rows, group, stripes, lanes).transpose(2, 0, 3, 1)
    return np.ascontiguousarray(apart[mask])


def pack_filled(b: NDArray[Any], lanes: int, group: int = 1) -> FilledBlocks:
    """The blocks of a matrix [k, n] that are not zero."""
    mask = filled_mask(b, lanes, group)
    return FilledBlocks(starts_of(mask), places_of(mask), blocks_of(b, mask, lanes, group))


def unpacked_filled(
    starts: Array, places: Array, blocks: Array, k: int, n: int, lanes: int, group: int = 1
) -> Array:
    """The matrix [k, n] of which `pack_filled` made these."""
    stripes, rows = ceil_div(n, lanes), ceil_div(k, group)
    bounds = starts[: stripes + 1].astype(np.int64)
    count = int(bounds[-1])
    whole = np.zeros((stripes, rows, lanes, group), np.float64)
    stripe = np.repeat(np.arange(stripes), np.diff(bounds))
    elements = blocks[: count * lanes * group].reshape(count, lanes, group)
    whole[stripe, places[:count]] = elements
    result: Array = whole.transpose(1, 3, 0, 2).reshape(rows * group, stripes * lanes)[:k, :n]
    return result


@computes("sparse_gemm")
def sparse_gemm(call: Arguments) -> Array:
    """The rows, of which the first elements are `lda` apart, times the matrix."""
    s, left, starts, places, blocks = call.arguments[:5]
    whole = unpacked_filled(starts, places, blocks, s.k, s.n, call.lanes)
    product: Array = matrix(left.astype(np.float64), (s.m, s.k), (s.lda, 1)) @ whole
    return product


@computes("sparse_integer_matmul")
def sparse_integer_matmul(call: Arguments) -> Array:
    """Rows less their zero points times the matrix, as `integer_matmul` has it."""
    m, n, k, pitch, _, left, zeros, step, starts, places, blocks, sums = call.arguments[:12]
    rows = matrix(left.astype(np.float64), (m, k), (pitch, 1))
    shifts = np.zeros(m) if zeros is None else zeros[np.arange(m) * step].astype(np.float64)
    group = layout_of(call).group
    weights = unpacked_filled(starts, places, blocks, k, n, call.lanes, group)
    return shifted_products(rows, shifts, weights, sums)


@computes("sparse_integer_conv")
def sparse_integer_conv(call: Arguments) -> Array:
    """Windows × filters: elements less their zero point times the filters."""
    windows, filters, _, x, zero, starts, places, blocks, sums = call.arguments[:9]
    shift = 0.0 if zero is None else float(zero[0])
    read = windowed(x.astype(np.float64), windows, shift)
    rows = read.reshape(len(read), -1)
    group = layout_of(call).group
    weights = unpacked_filled(starts, places, blocks, rows.shape[1], filters, call.lanes, group)
    return shifted_products(rows, np.full(len(rows), shift), weights, sums)


# -- work ------------------------------------------------------------------------------------------


@counts("sparse", "dense")
@counts("sparse_integer", "dense")
def _dense(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    m, n, k, _ = sizes
    return (
        m * k * ceil_div(n, machine.lanes) / threads,
        ceil_div(m, machine.tile_rows) * ceil_div(n, machine.tile_columns) / threads,
        m * ceil_div(n, machine.lanes) / threads,
        k * ceil_div(n, machine.tile_columns) * machine.tile_columns,
        1.0,
    )


@counts("sparse", "blocks")
@counts("sparse_integer", "blocks")
def _blocks(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    m, n, k, filled = sizes
    rows = machine.registers // 2
    return (
        m * filled / threads,
        ceil_div(m, rows) * filled / threads,
        ceil_div(m, rows) * ceil_div(n, machine.lanes) / threads,
        m * k / threads,
        filled * machine.lanes,
        1.0,
    )
