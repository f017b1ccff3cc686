"""Products of matrices that are both computed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from infuse.targets.cpu.families.base import Arguments, Array, Size, computes, declared_in, matrix


@declared_in("matmul.hpp")
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
def matmul(call: Arguments) -> Array | None:
    """Of each pair of matrices the product, one below the other; None where functions say where
    they begin.
    """
    s = call.sizes
    a, b = call.operands
    if "a_at" in call.words:
        return None
    products = [
        matrix(a[i * s.a_batch :], (s.m, s.k), (s.a_row, s.a_col))
        @ matrix(b[i * s.b_batch :], (s.k, s.n), (s.b_row, s.b_col))
        for i in range(s.batch)
    ]
    return np.concatenate([np.empty((0, s.n)), *products])
