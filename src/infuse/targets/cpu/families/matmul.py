"""Products of matrices that are both computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from ml_dtypes import bfloat16

from infuse.targets.cpu.families.base import Arguments, Array, Size, computes, declared_in, matrix
from infuse.targets.cpu.families.gemm import halves, split_product
from infuse.targets.cpu.families.work import (
    Work,
    ceil_div,
    counts,
    rounded_products,
    split_products,
)
from infuse.targets.machine import TILE_SIDE, Machine


@declared_in("matmul_few.hpp")
class MatmulSizes(NamedTuple):
    """Products of `batch` pairs of computed matrices with any strides."""

    batch: Size
    m: Size
    n: Size
    k: Size
    a_batch: Size
    a_row: Size
    a_col: Size
    b_batch: Size
    b_row: Size
    b_col: Size


@computes("matmul")
def matmul(call: Arguments) -> Array:
    """Of each pair of matrices the product, one below the other; functions may say where they
    begin.
    """
    return _products(call, np.matmul)


@computes("matmul_bf16")
def matmul_bf16(call: Arguments) -> Array:
    """The same of operands that are rounded to bfloat16."""

    def product(a: Array, b: Array) -> Array:
        left, right = (each.astype(bfloat16).astype(np.float64) for each in (a, b))
        return np.asarray(left @ right)

    return _products(call, product)


@computes("matmul_bf16x2")
def matmul_bf16x2(call: Arguments) -> Array:
    """The same of operands that are split into two bfloat16, without low · low."""
    return _products(call, lambda a, b: split_product(a, halves(b)))


def _products(call: Arguments, product: Callable[[Array, Array], Array]) -> Array:
    s, a, b, *starts = call.widened[:-1]
    if not starts:
        starts = [lambda i: i * s.a_batch, lambda i: i * s.b_batch]
    a_at, b_at = starts
    products = [
        product(
            matrix(a[a_at(i=i) :], (s.m, s.k), (s.a_row, s.a_col)),
            matrix(b[b_at(i=i) :], (s.k, s.n), (s.b_row, s.b_col)),
        )
        for i in range(s.batch)
    ]
    return np.concatenate([np.empty((0, s.n)), *products])


# -- work ------------------------------------------------------------------------------------------

_FEW: Final = 4
"""Rows whose other operand is not packed (kernels/matmul_few.hpp)."""


@counts("matmul", "fp32")
def _product(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    batch, m, n, k = sizes
    each = batch / threads
    return (
        each * m * k * ceil_div(n, machine.lanes),
        each * k * n if m > _FEW else 0,
        each * m * k,
        each * m * ceil_div(n, machine.lanes),
        1.0,
    )


@counts("matmul", "bf16")
def _rounded_product(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    fma, *rest = _product(_in_whole_tiles(sizes), machine, threads)
    return (fma if _is_thin(sizes) else rounded_products(fma, TILE_SIDE, machine), *rest)


@counts("matmul", "bf16x2")
def _split_product(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    fma, *rest = _product(_in_whole_tiles(sizes), machine, threads)
    return (fma if _is_thin(sizes) else split_products(fma, machine), *rest)


def _is_thin(sizes: Sequence[int]) -> bool:
    """Whether vectors multiply, as in float32."""
    return sizes[1] <= _FEW or sizes[2] == 1


def _in_whole_tiles(sizes: Sequence[int]) -> tuple[int, int, int, int]:
    batch, m, n, k = sizes
    return batch, ceil_div(m, TILE_SIDE) * TILE_SIDE, n, k
