"""Matrices as products of others, their inverses in the wider sense, and their exponentials; where
torch raises an error for what has no result, there is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.arrays import decompositions
from infuse.tracing.arrays.array import Array, applied, lifted
from infuse.tracing.arrays.creation import tril
from infuse.tracing.arrays.elementwise import maximum, where
from infuse.tracing.arrays.exponentials import matrix_exponential
from infuse.tracing.arrays.manipulation import expand_dims
from infuse.tracing.arrays.reduction import max
from infuse.tracing.aten.calls import TorchImporter, aten

_Function = Callable[[Array, Callable[[Array], Array]], Array]


@aten("linalg_qr", "qr")
def orthogonal(g: TorchImporter, A: Value, mode: Any = "reduced") -> list[Value]:
    """Orthonormal columns and upper triangles; of the mode "r" triangles alone."""
    if isinstance(mode, bool):  # of the older function: whether to leave out columns
        mode = "reduced" if mode else "complete"
    whole = "reduced" if mode == "r" else mode
    columns, triangle = applied(g, lambda x: tuple(decompositions.qr(x, mode=whole)), A)
    return [g.constant(np.empty(0, A.dtype.numpy)) if mode == "r" else columns, triangle]


@aten("linalg_matrix_exp", "matrix_exp")
def exponential(g: TorchImporter, x: Value) -> Value:
    """1 + x + x² / 2 + …"""
    wide = x if x.dtype.bits >= 32 else g.cast(x, dtypes.float32)
    return g.cast(applied(g, matrix_exponential, wide)[0], x.dtype)


def _limits(x: Array, values: Array, atol: Any, rtol: Any) -> Array:
    """The singular values up to which all count as 0, with an axis of size one."""
    rows, columns = x.shape[-2:]
    eps = float(np.finfo(values.dtype).eps)
    share = maximum(lifted(rows, values.dtype), lifted(columns, values.dtype)) * eps
    if rtol is not None:
        share = _upright(rtol, values)
    elif isinstance(atol, float):
        share = lifted(0 if atol > 0 else share, values.dtype)
    elif atol is not None:
        share = where(_upright(atol, values) > 0, lifted(0, values.dtype), share)
    limit = share * max(values, axis=-1, keepdims=True)
    return limit if atol is None else maximum(limit, _upright(atol, values))


def _upright(number: Any, values: Array) -> Array:
    array = lifted(number).astype(values.dtype)
    return expand_dims(array, axis=array.ndim) if array.ndim else array


def _symmetric(x: Array) -> Array:
    """Matrices of which the lower triangle is read."""
    below = tril(x, k=-1)
    return below + tril(x).mT


def _above(
    g: TorchImporter, function: _Function, x: Value, atol: Any, rtol: Any, hermitian: bool
) -> Value:
    """What a function makes of matrices and of the limit of their singular values."""

    def built(x: Array, *numbers: Array) -> Array:
        given = iter(numbers)
        least, share = (next(given) if isinstance(n, Value) else n for n in (atol, rtol))
        x = _symmetric(x) if hermitian else x
        return function(x, lambda s: _limits(x, s, least, share))

    return applied(g, built, x, *(n for n in (atol, rtol) if isinstance(n, Value)))[0]


@aten("linalg_pinv", "pinverse")
def pseudo_inverse(
    g: TorchImporter,
    x: Value,
    rcond: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Value:
    """Moore's and Penrose's inverses of matrices; of Hermitian ones, one triangle is read."""
    share = rtol if rcond is None else rcond
    return _above(g, decompositions.inverse_above, x, atol, share, hermitian)


@aten("linalg_matrix_rank")
def matrix_rank(
    g: TorchImporter,
    x: Value,
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Value:
    """How many singular values are above a limit; `tol` is one by itself."""
    if tol is not None:
        atol, rtol = tol, 0.0
    return _above(g, decompositions.rank_above, x, atol, rtol, hermitian)
