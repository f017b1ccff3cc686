"""Matrices taken apart column by column: Cholesky's factor, elimination with pivots, Householder's
reflections. Loops run at run time, over stacks of matrices at once, so that sizes may be symbolic.

Complex numbers are allowed throughout. The methods are those of G. Golub, C. Van Loan, "Matrix
Computations", 4th edition: 4.2 (outer products), 3.4 (partial pivoting), 5.2 (reflections).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from infuse.tracing.arrays.array import Array, Complex, lifted, node
from infuse.tracing.arrays.control import loop
from infuse.tracing.arrays.creation import arange, eye, zeros_like
from infuse.tracing.arrays.elementwise import FUNCTIONS, where
from infuse.tracing.arrays.indexing import take_along_axis
from infuse.tracing.arrays.manipulation import expand_dims
from infuse.tracing.arrays.parts import conj, real
from infuse.tracing.arrays.reduction import all, any, argmax, max, sum
from infuse.tracing.arrays.sizes import listed


def adjoint(x: Array) -> Array:
    """The conjugate transposes of matrices."""
    return conj(x).mT


def column(x: Array, k: Any) -> Array:
    """The columns k of matrices, as vectors."""
    return node("Gather", x, lifted(k).astype(np.int64), axis=x.ndim - 1)


def row(x: Array, k: Any) -> Array:
    """The rows k of matrices, as vectors."""
    return node("Gather", x, lifted(k).astype(np.int64), axis=x.ndim - 2)


def entry(x: Array, k: Any) -> Array:
    """The elements k of vectors, with an axis of size one."""
    return node("Gather", x, node("Reshape", lifted(k), listed(1)), axis=x.ndim - 1)


def upright(x: Array) -> Array:
    """Vectors as matrices of one column."""
    return expand_dims(x, axis=-1)


def level(x: Array) -> Array:
    """Vectors as matrices of one row."""
    return expand_dims(x, axis=x.ndim - 1)


def real_type(x: Array) -> Any:
    """The element type of an array's parts."""
    return x.real_part.dtype if isinstance(x, Complex) else x.dtype


def stacked(x: Array, block: Array) -> Array:
    """A block for every matrix of a stack."""
    batch = node("Shape", x, end=x.ndim - 2)
    return node("Expand", block, node("Concat", batch, node("Shape", block), axis=0))


def nan_where(bad: Array, x: Array) -> Array:
    """NaN where a flag of each matrix is set."""
    return where(bad, lifted(np.nan, real_type(x)), x)


def squares(x: Array) -> Array:
    """|x|² of every element."""
    return x.real_part**2 + x.imag_part**2 if isinstance(x, Complex) else x * x


def scale_of(x: Array) -> Array:
    """What each matrix is divided by so that its elements may be squared: 1, but its largest
    element where that is very large or very small.
    """
    sizes = abs(x)
    finite = FUNCTIONS["isfinite"](sizes)
    largest = max(where(finite, sizes, lifted(0, sizes.dtype)), axis=(-2, -1), keepdims=True)
    far = float(np.finfo(largest.dtype).max) ** 0.125
    extreme = (largest > far) | ((largest < 1 / far) & (largest > 0))
    return where(extreme, largest, lifted(1, largest.dtype))


def in_range(x: Array) -> tuple[Array, Array]:
    """Matrices whose elements may be squared, and `scale_of` each, by which it was divided. No NaN
    or infinity is left: they make zeros, and the divisor is NaN.
    """
    divisor = scale_of(x)
    one = lifted(1, divisor.dtype)
    is_bad = ~all(FUNCTIONS["isfinite"](x), axis=(-2, -1), keepdims=True)
    x = where(is_bad, lifted(0, x.dtype), x)
    return x / where(is_bad, one, divisor), nan_where(is_bad, divisor)


def cholesky_factor(x: Array) -> Array:
    """L of L Lᴴ for matrices whose lower triangles are read; all NaN where a pivot is not positive.

    Column by column, with outer products.
    """
    count = x.shape[-1]
    places = arange(count)

    def step(k: Array, rest: Array, factor: Array) -> tuple[Any, ...]:
        below = column(rest, k)
        pivot = real(entry(below, k))
        root = node("Sqrt", where(pivot > 0, pivot, lifted(np.nan, pivot.dtype)))
        line = where(places > k, below / root, lifted(0, x.dtype))
        line = where(places == k, root, line)
        rest = rest - upright(line) * level(conj(line))
        return k + 1, rest, where(places == k, upright(line), factor)

    _, _, factor = loop(lambda k, *_: k < count, step, (np.int64(0), x, zeros_like(x)))
    return nan_where(any(FUNCTIONS["isnan"](factor), axis=(-2, -1), keepdims=True), factor)


class Eliminated(NamedTuple):
    """Triangular matrices, the right sides beside them, and the signs of their permutations."""

    upper: Array
    right: Array
    sign: Array


def eliminated(x: Array, right: Array) -> Eliminated:
    """Square matrices and the right sides of their equations, eliminated with partial pivoting; a
    column without a pivot is left out.
    """
    count = x.shape[-1]
    places = arange(count)
    sign = stacked(x, lifted(1, real_type(x)))
    if isinstance(count, int) and count == 0:
        return Eliminated(x, right, sign)

    def step(k: Array, upper: Array, right: Array, sign: Array) -> tuple[Any, ...]:
        sizes = abs(column(upper, k))
        pivot = argmax(where(places < k, lifted(-1, sizes.dtype), sizes), axis=-1, keepdims=True)
        order = upright(where(places == k, pivot, where(places == pivot, k, places)))
        upper = take_along_axis(upper, order, axis=-2)
        right = take_along_axis(right, order, axis=-2)
        sign = where(node("Squeeze", pivot, listed(-1)) == k, sign, -sign)
        line = column(upper, k)
        head = entry(line, k)
        factors = line / where(head == 0, lifted(1, x.dtype), head)
        factors = upright(where(places > k, factors, lifted(0, x.dtype)))
        upper = upper - factors * level(row(upper, k))
        right = right - factors * level(row(right, k))
        return k + 1, upper, right, sign

    state = (np.int64(0), x, right, sign)
    _, upper, right, sign = loop(lambda k, *_: k < count, step, state)
    return Eliminated(upper, right, sign)


def solved(x: Array, right: Array) -> Array:
    """What square matrices take to the columns of `right`; NaN for singular matrices."""
    upper, rest, _ = eliminated(x, right)
    count = x.shape[-1]
    places = upright(arange(count))
    diagonal = sum(where(places == arange(count), upper, lifted(0, x.dtype)), axis=-1)

    def step(k: Array, rest: Array) -> tuple[Any, ...]:
        line = level(row(rest, k) / entry(diagonal, k))
        above = where(places < k, rest - upright(column(upper, k)) * line, rest)
        return k - 1, where(places == k, line, above)

    last = lifted(count).astype(np.int64) - 1
    _, result = loop(lambda k, *_: k >= 0, step, (last, rest))
    is_singular = any(diagonal == 0, axis=-1, keepdims=True)
    return nan_where(upright(is_singular), result)


class Reflected(NamedTuple):
    """Matrices above whose diagonals all of their substance is, and the vectors w of the
    reflections 1 - w wᴴ that brought it there, column by column.
    """

    upper: Array
    vectors: Array
    count: Any


def reflected(x: Array) -> Reflected:
    """Householder's reflections of matrices whose elements may be squared; a column of real numbers
    below which nothing is stays as it is, as in LAPACK.
    """
    rows, columns = x.shape[-2:]
    count = least(rows, columns)
    places, across = arange(rows), arange(columns)
    kind = real_type(x)
    zero, one = lifted(0, kind), lifted(1, kind)

    def step(k: Array, upper: Array, vectors: Array) -> tuple[Any, ...]:
        line = where(places >= k, column(upper, k), lifted(0, x.dtype))
        length = node("Sqrt", sum(squares(line), axis=-1, keepdims=True))
        head = entry(line, k)
        size = abs(head)
        phase = where(size == 0, one, head / where(size == 0, one, size))
        image = -phase * length
        vector = where(places == k, line - image, line)
        norm = node("Sqrt", length * (length + size))  # ‖vector‖ / √2
        if not isinstance(x, Complex):
            below = any((line != 0) & (places > k), axis=-1, keepdims=True)
            norm = where(below, norm, zero)
        vector = where(norm == 0, zero, vector / where(norm == 0, one, norm))
        image = where(norm == 0, head, image)
        products = level(conj(vector)) @ upper
        ahead = (upright(places) >= k) & (across >= k)  # what is behind may not meet NaN
        upper = where(ahead, upper - upright(vector) * products, upper)
        done = where(upright(places) == k, upright(image), zero)
        upper = where((across == k) & (upright(places) >= k), done, upper)
        return k + 1, upper, where(across == k, upright(vector), vectors)

    _, upper, vectors = loop(lambda k, *_: k < count, step, (np.int64(0), x, zeros_like(x)))
    return Reflected(upper, vectors, count)


def unitary(vectors: Array, count: Any, width: Any) -> Array:
    """The first `width` columns of the product of `count` reflections."""
    start = stacked(vectors, eye(vectors.shape[-2], width, dtype=vectors.dtype))

    def step(k: Array, product: Array) -> tuple[Any, ...]:
        vector = column(vectors, k)
        turned = product - upright(vector) * (level(conj(vector)) @ product)
        return k - 1, where(arange(width) >= k, turned, product)

    last = lifted(count).astype(np.int64) - 1
    _, product = loop(lambda k, *_: k >= 0, step, (last, start))
    return product


def least(a: Any, b: Any) -> Any:
    """The smaller of two sizes."""
    if isinstance(a, int) and isinstance(b, int):
        return a if a < b else b
    return node("Min", lifted(a).astype(np.int64), lifted(b).astype(np.int64))
