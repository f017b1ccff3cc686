"""Products of matrices that are both computed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from infuse.targets.cpu.families.base import Arguments, Array, Size, computes, declared_in, matrix


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
    s, a, b, *starts = call.widened[:-1]
    if not starts:
        starts = [lambda i: i * s.a_batch, lambda i: i * s.b_batch]
    a_at, b_at = starts
    products = [
        matrix(a[a_at(i=i) :], (s.m, s.k), (s.a_row, s.a_col))
        @ matrix(b[b_at(i=i) :], (s.k, s.n), (s.b_row, s.b_col))
        for i in range(s.batch)
    ]
    return np.concatenate([np.empty((0, s.n)), *products])
