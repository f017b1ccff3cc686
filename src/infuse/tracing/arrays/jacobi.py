"""Eigenvalues and singular values by Jacobi's rotations, over stacks of matrices at once.

All columns are rotated at the same time, pair by pair, and after each round they change places as
the players of a tournament do, so that all pairs have met after a sweep (R. Brent, F. Luk, SIAM J.
Sci. Stat. Comput. 6, 1985). Complex numbers are allowed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.tracing.arrays.array import Array, lifted, node
from infuse.tracing.arrays.control import loop
from infuse.tracing.arrays.creation import arange, eye
from infuse.tracing.arrays.elementwise import abs, maximum, where
from infuse.tracing.arrays.elimination import (
    adjoint,
    in_range,
    least,
    level,
    real_type,
    reflected,
    squares,
    stacked,
    unitary,
    upright,
)
from infuse.tracing.arrays.indexing import take_along_axis
from infuse.tracing.arrays.manipulation import concat
from infuse.tracing.arrays.parts import conj, real
from infuse.tracing.arrays.reduction import any, argsort, sum
from infuse.tracing.arrays.sizes import listed

_FAR = np.iinfo(np.int64).max
_SHARE = 0.1
"""Elements below this share of the root mean square beside the diagonal wait: rotations of equal
eigenvalues would only bring back what others have removed.
"""
_SWEEPS = 60
"""More than any matrix needs: they become diagonal quadratically, after some ten to twenty."""


def eigen(x: Array, with_vectors: bool = True) -> tuple[Array, Array | None]:
    """The eigenvalues, ascending, and the eigenvectors of matrices whose lower triangles are read;
    all NaN where an element is not finite.
    """
    below = node("Trilu", x, lifted(np.int64(-1)), upper=0)
    diagonal = real(node("Trilu", node("Trilu", x, None, upper=0), None, upper=1))
    x, scale = in_range(below + adjoint(below) + diagonal)
    count = x.shape[-1]
    half = (count + 1) // 2
    matrix = _even(_even(x, -1), -2)
    tolerance = sum(squares(matrix), axis=(-2, -1)) * float(np.finfo(real_type(x)).eps / 4) ** 2
    vectors = _start(x, count, half, with_vectors)
    order, unit = _next_places(half), eye(half, dtype=np.bool_)
    whole = eye(2 * half, dtype=np.bool_)

    def beside_diagonal(rest: Array) -> Array:
        return sum(where(whole, lifted(0, scale.dtype), squares(rest)), axis=(-2, -1))

    def step(k: Array, rest: Array, vectors: Array, off: Array) -> tuple[Any, ...]:
        (a, b), (c, d) = (_halves(side, half, -1) for side in _halves(rest, half, -2))
        first, last, beside = _diagonal(real(a)), _diagonal(real(d)), _diagonal(b)
        share = _SHARE / lifted(2 * half).astype(off.dtype)
        is_small = abs(beside) <= upright(node("Sqrt", off) * share)
        t, cosine, sine, phase = _rotation(first, last, where(is_small, 0, beside))
        is_turned = unit & level(t != 0)
        left, right = _rotated(
            concat([a, c], axis=-2), concat([b, d], axis=-2), cosine, sine, phase
        )
        upper, lower = _rotated_rows(left, right, half, cosine, sine, phase)
        change = t * abs(beside)
        upper = [where(unit, level(first - change), upper[0]), where(is_turned, 0, upper[1])]
        lower = [where(is_turned, 0, lower[0]), where(unit, level(last + change), lower[1])]
        rest = concat([concat(upper, axis=-1), concat(lower, axis=-1)], axis=-2)
        rest = _moved(_moved(rest, order, -1), order, -2)
        pair = _rotated(*_halves(vectors, half, -1), cosine, sine, phase)
        vectors = _moved(concat(pair, axis=-1), order, -1)
        return k + 1, rest, vectors, beside_diagonal(rest)

    def is_unfinished(k: Array, rest: Array, vectors: Array, off: Array) -> Array:
        going: Array = (k < _SWEEPS * 2 * half) & any(off > tolerance)
        return going

    state = (np.int64(0), matrix, vectors, beside_diagonal(matrix))
    _, matrix, vectors, _ = loop(is_unfinished, step, state)
    values = _diagonal(real(matrix))
    places = _sorted_places(values, vectors, count, half)
    values = take_along_axis(values, places, axis=-1) * node("Squeeze", scale, listed(-1))
    if not with_vectors:
        return values, None
    vectors = _part(_orthonormal(vectors), 0, count, -2)
    return values, take_along_axis(vectors, level(places), axis=-1) * (scale / scale)


def singular(
    x: Array, with_vectors: bool = True, whole: bool = True
) -> tuple[Array | None, Array, Array | None]:
    """U, the singular values, descending, and Vᴴ; `whole`: with all columns of U and all rows of
    Vᴴ. All NaN where an element is not finite.

    Columns are made orthogonal to each other (M. Hestenes' method), and reflections make those of U
    from them, which are orthogonal then also where singular values are 0.
    """
    rows, count = x.shape[-2:]
    if isinstance(rows, int) and isinstance(count, int) and rows < count:
        left, values, right = singular(adjoint(x), with_vectors, whole)
        if left is None or right is None:
            return None, values, None
        return adjoint(right), values, adjoint(left)
    x, scale = in_range(x)
    half = (count + 1) // 2
    rotations = _start(x, count, half, with_vectors)
    order = _next_places(half)
    eps = float(np.finfo(scale.dtype).eps)
    tolerance = eps * node("Sqrt", lifted(rows).astype(scale.dtype))
    negligible = sum(squares(x), axis=(-2, -1), keepdims=True)[..., 0] * eps**3

    def step(k: Array, quiet: Array, turned: Array, rotations: Array) -> tuple[Any, ...]:
        left, right = _halves(turned, half, -1)
        first, last = (sum(squares(side), axis=-2) for side in (left, right))
        beside = sum(conj(left) * right, axis=-2)
        bound = tolerance * node("Sqrt", first) * node("Sqrt", last)
        is_right = abs(beside) <= maximum(bound, negligible)
        beside = where(is_right, lifted(0, x.dtype), beside)
        _, cosine, sine, phase = _rotation(first, last, beside)
        turned = _moved(concat(_rotated(left, right, cosine, sine, phase), axis=-1), order, -1)
        pair = _rotated(*_halves(rotations, half, -1), cosine, sine, phase)
        rotations = _moved(concat(pair, axis=-1), order, -1)
        return k + 1, where(any(~is_right), 0, quiet + 1), turned, rotations

    def is_unfinished(k: Array, quiet: Array, *_: Array) -> Array:
        going: Array = (k < _SWEEPS * 2 * half) & (quiet < 2 * half - 1)
        return going

    zero = np.int64(0)
    _, _, turned, rotations = loop(is_unfinished, step, (zero, zero, _even(x, -1), rotations))
    if with_vectors:
        turned = turned / _lengths(rotations)  # rotations that are rounded make columns longer
        rotations = _orthonormal(rotations)
    lengths = node("Squeeze", _lengths(turned), listed(-2))
    places = _sorted_places(-lengths, rotations, count, half)
    values = take_along_axis(lengths, places, axis=-1)
    short = least(rows, count)
    values = _part(values, 0, short, -1) * node("Squeeze", scale, listed(-1))
    if not with_vectors:
        return None, values, None
    turned = take_along_axis(turned, level(places), axis=-1)
    rotations = take_along_axis(_part(rotations, 0, count, -2), level(places), axis=-1)
    left, right = _singular_vectors(x, turned, rotations, short, whole)
    return left * (scale / scale), values, right * (scale / scale)


def _singular_vectors(
    x: Array, turned: Array, rotations: Array, short: Any, whole: bool
) -> tuple[Array, Array]:
    """U and Vᴴ of x: of its columns, `turned` by rotations until they are orthogonal, the longest
    first; `short` is the number of singular values.
    """
    rows = x.shape[-2]
    upper, vectors, steps = reflected(turned)
    left = unitary(vectors, steps, rows if whole else short)
    heads = _diagonal(_part(_part(upper, 0, short, -1), 0, short, -2))
    size = abs(heads)
    phase = where(size == 0, lifted(1, x.dtype), heads / where(size == 0, 1, size))
    if whole:
        ones = stacked(x, node("Expand", lifted(1, x.dtype), listed(rows - short)))
        phase = concat([phase, ones], axis=-1)
    right = adjoint(rotations if whole else _part(rotations, 0, short, -1))
    return left * level(phase), right


def _rotation(first: Array, last: Array, beside: Array) -> tuple[Array, Array, Array, Array]:
    """Tangent, cosine, sine and phase of the rotations that make [[first, beside], [·, last]]
    diagonal.
    """
    size = abs(beside)
    limits = np.finfo(size.dtype)
    none = size <= float(limits.smallest_normal / limits.eps)  # too small for an exact phase
    one = lifted(1, size.dtype)
    ratio = (last - first) / where(none, one, 2 * size)
    side = where(ratio < 0, -one, one)
    tangent = side / (abs(ratio) + node("Sqrt", 1 + ratio * ratio))
    tangent = where(none, lifted(0, size.dtype), tangent)
    cosine = 1 / node("Sqrt", 1 + tangent * tangent)
    phase = where(none, lifted(1, beside.dtype), conj(beside) / where(none, one, size))
    return tangent, cosine, tangent * cosine, phase


def _rotated(
    left: Array, right: Array, cosine: Array, sine: Array, phase: Array
) -> tuple[Array, Array]:
    """Pairs of columns, the first ones and the last, rotated."""
    right = right * level(phase)
    cosine, sine = level(cosine), level(sine)
    return left * cosine - right * sine, left * sine + right * cosine


def _rotated_rows(
    left: Array, right: Array, half: Any, cosine: Array, sine: Array, phase: Array
) -> tuple[list[Array], list[Array]]:
    """Pairs of rows of the left and right columns, rotated the other way."""
    upper, lower = [], []
    cosine, sine, phase = upright(cosine), upright(sine), upright(conj(phase))
    for side in (left, right):
        above, below = _halves(side, half, -2)
        below = below * phase
        upper.append(above * cosine - below * sine)
        lower.append(above * sine + below * cosine)
    return upper, lower


def _start(x: Array, count: Any, half: Any, with_vectors: bool) -> Array:
    """What rotations are applied to besides: the rows of 1, or those alone that tell where a column
    is that was added.
    """
    rows = eye(2 * half, dtype=x.dtype)
    return stacked(x, rows if with_vectors else _part(rows, count, _FAR, -2))


def _lengths(x: Array) -> Array:
    """The lengths of columns, in one row."""
    return node("Sqrt", sum(squares(x), axis=-2, keepdims=True))


def _orthonormal(x: Array) -> Array:
    """The unitary matrices next to matrices that nearly are: one step of Newton's and Schulz'
    iteration, after which nothing is left of the roundings of many rotations.
    """
    unit = eye(x.shape[-1], dtype=x.dtype)
    return x + x @ ((unit - adjoint(x) @ x) * 0.5)


def _next_places(half: Any) -> Array:
    """Which columns stand where in the next round: the first stays, all others move on by one place
    around the two rows of a tournament.
    """
    i = arange(2 * half)
    upper = where(i < 2, half, i - 1)
    lower = where(i == 2 * half - 1, half - 1, i + 1)
    order = where(i == 0, 0, where(i < half, upper, lower))
    return where(lifted(half) == 1, i, order)


def _sorted_places(keys: Array, vectors: Array, count: Any, half: Any) -> Array:
    """Where the `count` smallest keys are, that of a column of zeros, which was added to make their
    number even, left out.
    """
    if not _is_even(count):
        last = vectors.shape[-2] - (2 * half - count)
        is_extra = any(_part(vectors, last, _FAR, -2) != 0, axis=-2)
        keys = where(is_extra, lifted(np.inf, keys.dtype), keys)
    return _part(argsort(keys, axis=-1), 0, count, -1)


def _is_even(count: Any) -> bool:
    return isinstance(count, int) and count % 2 == 0


def _even(x: Array, axis: int) -> Array:
    """With a line of zeros more where their number is odd."""
    count = x.shape[axis]
    if _is_even(count):
        return x
    shape = list(x.shape)
    shape[axis] = count % 2
    return concat([x, node("Expand", lifted(0, x.dtype), listed(shape))], axis=axis)


def _part(x: Array, begin: Any, end: Any, axis: int) -> Array:
    place = listed(axis % x.ndim)
    return node("Slice", x, listed(begin), listed(end), place)


def _halves(x: Array, half: Any, axis: int) -> tuple[Array, Array]:
    return _part(x, 0, half, axis), _part(x, half, 2 * half, axis)


def _moved(x: Array, order: Array, axis: int) -> Array:
    return node("Gather", x, order, axis=axis % x.ndim)


def _diagonal(x: Array) -> Array:
    unit = eye(x.shape[-1], dtype=np.bool_)
    return sum(where(unit, x, lifted(0, x.dtype)), axis=-1)
