"""Products of rows and a constant matrix, which is packed when a model is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from ml_dtypes import bfloat16
from numpy.typing import NDArray

from infuse import dtypes
from infuse.targets.cpu.families.base import Arguments, Array, Size, computes, declared_in, matrix
from infuse.targets.cpu.families.panels import in_tiles, panel_words, panels_of
from infuse.targets.cpu.families.work import (
    Work,
    ceil_div,
    counts,
    rounded_products,
    split_products,
)
from infuse.targets.machine import TILE_SIDE, Machine

SUFFIXES: Final = {dtypes.float32: "", dtypes.bfloat16: "_bf16", dtypes.float16: "_fp16"}
"""What the names of kernels end in, by the type of their packed weights, which are not split."""
SPLIT_NUMBERS: Final = 2 * TILE_SIDE
"""Numbers whose high halves lie side by side, and so do their low ones."""


@declared_in("gemm_sizes.hpp")
class GemmSizes(NamedTuple):
    """m rows of k elements, `lda` from one to the next, times a packed matrix of n columns."""

    m: Size
    n: Size
    k: Size
    lda: Size


def pack_gemm_b(b: NDArray[Any], lanes: int, kind: Any = np.float32) -> NDArray[Any]:
    """The matrix b[k, n] as [panel, k, 2 · lanes] for kernels/gemm.hpp, or of halves for
    kernels/gemm_fp16.hpp.
    """
    k, n = b.shape
    width = 2 * lanes
    panels = -(-n // width)
    packed = np.zeros((panels, k, width), kind)
    whole = n // width
    packed[:whole] = b[:, : whole * width].reshape(k, whole, width).transpose(1, 0, 2)
    if whole < panels:
        packed[whole, :, : n - whole * width] = b[:, whole * width :]
    return packed


def pack_gemm_bf16(b: NDArray[Any], lanes: int, tiled: bool = False) -> NDArray[Any]:
    """The matrix b[k, n], rounded, as [panel, pair of k, 2 · lanes, 2] for kernels/gemm_bf16.hpp,
    in tiles where `tiled`.
    """
    k, n = b.shape
    pairs, width = panel_words(-(-k // 2), tiled), 2 * lanes
    panels = -(-n // width)
    packed = np.zeros((panels, pairs, width, 2), bfloat16)
    rounded = b.astype(bfloat16)
    whole = n // width
    for half in range(2):
        rows = rounded[half::2]
        body = rows[:, : whole * width].reshape(len(rows), whole, width)
        packed[:whole, : len(rows), :, half] = body.transpose(1, 0, 2)
        if whole < panels:
            packed[whole, : len(rows), : n - whole * width, half] = rows[:, whole * width :]
    return in_tiles(packed) if tiled else packed


def pack_gemm_bf16x2(b: NDArray[Any], lanes: int) -> NDArray[Any]:
    """The matrix b[k, n], each number split into two bfloat16, high and low, for
    kernels/gemm_bf16x2.hpp: as `pack_gemm_bf16` in tiles, the high halves of 32 rows before their
    low ones.
    """
    k, n = b.shape
    high = b.astype(bfloat16)
    with np.errstate(invalid="ignore"):
        low = (b - high.astype(np.float32)).astype(bfloat16)
    blocks = split_rows(k) // (2 * SPLIT_NUMBERS)
    parts = np.zeros((blocks, 2, SPLIT_NUMBERS, n), bfloat16)
    for number, part in enumerate((high, low)):
        whole = np.zeros((blocks * SPLIT_NUMBERS, n), bfloat16)
        whole[:k] = part
        parts[:, number] = whole.reshape(blocks, SPLIT_NUMBERS, n)
    return pack_gemm_bf16(parts.reshape(split_rows(k), n), lanes, tiled=True)


def split_rows(k: int) -> int:
    """Rows of bfloat16 that k rows are split into."""
    return -(-k // SPLIT_NUMBERS) * 2 * SPLIT_NUMBERS


def split_size(k: int, n: int, lanes: int) -> int:
    """Elements of a packed matrix [k, n] of split numbers."""
    return -(-n // (2 * lanes)) * 2 * lanes * split_rows(k)


def unpacked_gemm_b(packed: Array, k: int, n: int, lanes: int) -> Array:
    """The matrix [k, n] that `pack_gemm_b` packed."""
    panels, width = -(-n // (2 * lanes)), 2 * lanes
    whole = packed[: panels * k * width].reshape(panels, k, width)
    result: Array = whole.transpose(1, 0, 2).reshape(k, -1)[:, :n]
    return result


def unpacked_gemm_bf16(packed: Array, k: int, n: int, lanes: int, tiled: bool) -> Array:
    """The matrix [k, n] that `pack_gemm_bf16` packed, rounded."""
    pairs, width = panel_words(-(-k // 2), tiled), 2 * lanes
    whole = panels_of(packed, (-(-n // width), pairs, width, 2), tiled)
    result: Array = whole.transpose(1, 3, 0, 2).reshape(2 * pairs, -1)[:k, :n]
    return result


def unpacked_gemm_bf16x2(packed: Array, k: int, n: int, lanes: int) -> tuple[Array, Array]:
    """The high and the low halves of the matrix [k, n] that `pack_gemm_bf16x2` packed."""
    rows = unpacked_gemm_bf16(packed, split_rows(k), n, lanes, tiled=True)
    blocks = split_rows(k) // (2 * SPLIT_NUMBERS)
    parts = rows.reshape(blocks, 2, SPLIT_NUMBERS, n)
    whole = blocks * SPLIT_NUMBERS, n
    high, low = (parts[:, number].reshape(whole)[:k] for number in range(2))
    return high, low


def halves(numbers: Array) -> tuple[Array, Array]:
    """The two bfloat16 that stand for each of float32 numbers, in float64."""
    high = numbers.astype(np.float32).astype(bfloat16).astype(np.float64)
    low = (numbers - high).astype(np.float32).astype(bfloat16).astype(np.float64)
    return high, low


def split_product(rows: Array, matrix: tuple[Array, Array]) -> Array:
    """Rows in float64 times a split matrix, as kernels/gemm_bf16x2.hpp has it."""
    high, low = halves(rows)
    product: Array = (low + high) @ matrix[0] + high @ matrix[1]
    return product


@computes("gemm", "gemm_fp16")
def gemm(call: Arguments) -> Array:
    """The rows, of which the first elements are `lda` apart, times the matrix."""
    s, left, packed = call.widened[:3]
    product: Array = _rows(left, s) @ unpacked_gemm_b(packed, s.k, s.n, call.lanes)
    return product


@computes("gemm_bf16")
def gemm_bf16(call: Arguments) -> Array:
    """The same of operands that are rounded to bfloat16."""
    s, left, packed = call.widened[:3]
    rows = _rows(left.astype(bfloat16).astype(np.float64), s)
    product: Array = rows @ unpacked_gemm_bf16(packed, s.k, s.n, call.lanes, call.has_tiled_pairs)
    return product


@computes("gemm_bf16x2")
def gemm_bf16x2(call: Arguments) -> Array:
    """The same of operands that are split into two bfloat16, without low · low."""
    s, left, packed = call.widened[:3]
    return split_product(_rows(left, s), unpacked_gemm_bf16x2(packed, s.k, s.n, call.lanes))


def _rows(left: Array, sizes: GemmSizes) -> Array:
    return matrix(left, (sizes.m, sizes.k), (sizes.lda, 1))


# -- work ------------------------------------------------------------------------------------------


@counts("gemm", "fp32")
def _product(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    m, n, k = sizes
    return (
        m * k * ceil_div(n, machine.lanes) / threads,
        ceil_div(m, machine.tile_rows) * ceil_div(n, machine.tile_columns) / threads,
        m * k / threads,
        m * ceil_div(n, machine.lanes) / threads,
        k * ceil_div(n, machine.tile_columns) * machine.tile_columns,
        1.0,
    )


@counts("gemm", "bf16")
def _rounded_product(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    fma, *rest = _product(sizes, machine, threads)
    return (rounded_products(fma, sizes[0], machine), *rest)


@counts("gemm", "bf16x2")
def _split_product(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    m, n, k = sizes
    rows, depth = ceil_div(m, TILE_SIDE) * TILE_SIDE, split_rows(k) // 2
    fma, *rest = _product((rows, n, depth), machine, threads)
    return (split_products(fma, machine), *rest)
