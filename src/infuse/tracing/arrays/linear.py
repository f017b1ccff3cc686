"""Products of matrices and vectors, diagonals and the norms of vectors."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import Any

import numpy as np

from infuse.tracing.arrays.array import Array, lifted, node, together
from infuse.tracing.arrays.creation import arange
from infuse.tracing.arrays.elementwise import abs as absolute, floating, maximum
from infuse.tracing.arrays.manipulation import matrix_transpose, permute_dims, reshape
from infuse.tracing.arrays.parts import conj
from infuse.tracing.arrays.reduction import max, min, sum
from infuse.tracing.arrays.sizes import axes_of, axis_of, listed

__all__ = ["cross", "diagonal", "einsum", "matmul", "matrix_transpose", "outer", "tensordot"]
__all__ += ["trace", "vecdot", "vector_norm"]


def matmul(x1: Any, x2: Any, /) -> Array:
    """The product of matrices along the last two axes."""
    return node("MatMul", *together(x1, x2))


def einsum(equation: str, /, *operands: Any) -> Array:
    """Einstein's sum, as NumPy writes it."""
    return node("Einsum", *together(*operands), equation=equation)


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """Sums of products along an axis."""
    a, b = together(x1, x2)
    return sum(conj(a) * b, axis=axis, dtype=a.dtype)


def outer(x1: Array, x2: Array, /) -> Array:
    """All products of two vectors' elements."""
    return reshape(x1, (-1, 1)) * reshape(x2, (1, -1))


def tensordot(x1: Array, x2: Array, /, *, axes: Any = 2) -> Array:
    """Sums of products over axes of both arrays."""
    if isinstance(axes, int):
        axes = list(range(x1.ndim - axes, x1.ndim)), list(range(axes))
    left, right = axes_of(axes[0], x1.ndim), axes_of(axes[1], x2.ndim)
    rows = [axis for axis in range(x1.ndim) if axis not in left]
    columns = [axis for axis in range(x2.ndim) if axis not in right]
    shape = [*(x1.shape[i] for i in rows), *(x2.shape[i] for i in columns)]
    inner = _product(x1.shape[axis] for axis in left)
    height = _product(x1.shape[axis] for axis in rows)
    width = _product(x2.shape[axis] for axis in columns)
    a = reshape(permute_dims(x1, [*rows, *left]), (height, inner))
    b = reshape(permute_dims(x2, [*right, *columns]), (inner, width))
    return reshape(matmul(a, b), tuple(shape))


def _product(sizes: Iterable[Any]) -> Any:
    result: Any = 1
    for size in sizes:
        result = size * result
    return result


def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The vector product of vectors of three elements along an axis."""
    a, b = together(x1, x2)
    place = axis_of(axis, a.ndim)

    def turned(x: Array, order: list[int]) -> Array:
        return node("Gather", x, listed(order), axis=place)

    first, second = [1, 2, 0], [2, 0, 1]
    return turned(a, first) * turned(b, second) - turned(a, second) * turned(b, first)


def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """The diagonals of matrices."""
    rows, columns = x.shape[-2:]
    down, right = builtins.max(-offset, 0), builtins.max(offset, 0)
    if isinstance(rows, int) and isinstance(columns, int):
        count: Any = builtins.max(0, builtins.min(rows - down, columns - right))
    else:
        sizes = [lifted(size).astype(np.int64) for size in (rows - down, columns - right)]
        count = node("Max", node("Min", *sizes), lifted(np.int64(0)))
    places = (down * columns + right) + arange(count) * (columns + 1)
    flat = reshape(x, (*x.shape[:-2], rows * columns))
    return node("Gather", flat, places, axis=x.ndim - 2)


def trace(x: Array, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sums of diagonals."""
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(x: Array, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Array:
    """The norm of vectors over axes."""
    array = absolute(floating(x))
    if ord == np.inf:
        return maximum(max(array, axis=axis, keepdims=keepdims), 0)  # also of no elements
    if ord == -np.inf:
        return min(array, axis=axis, keepdims=keepdims)
    if ord == 0:
        return sum((array != 0).astype(array.dtype), axis=axis, keepdims=keepdims)
    if ord == 1:
        return sum(array, axis=axis, keepdims=keepdims)
    if ord == 2:
        return node("Sqrt", sum(array * array, axis=axis, keepdims=keepdims))
    return sum(array**ord, axis=axis, keepdims=keepdims) ** (1 / ord)
