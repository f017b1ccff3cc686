"""Functions over axes: sums, extremes, statistics, sorting and searching."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from infuse.errors import ShapeError, UnsupportedOperatorError
from infuse.tracing.arrays.array import (
    Array,
    Complex,
    built,
    lifted,
    node,
    nodes,
    source_line,
    together,
)
from infuse.tracing.arrays.elementwise import abs as absolute, floating, isnan, maximum
from infuse.tracing.arrays.manipulation import concat, expand_dims, reshape
from infuse.tracing.arrays.sizes import axes_of, axis_of, listed
from infuse.tracing.semantics import ordering

Axis = int | tuple[int, ...] | None


def _reduced(kind: str, x: Array, axis: Axis, keepdims: bool) -> Array:
    axes = axes_of(axis, x.ndim)
    if not axes:
        return x.copy()
    return node(kind, x, listed(axes), keepdims=int(keepdims))


def _wide(x: Array, dtype: Any) -> Array:
    """Small integers in the type in which NumPy adds them."""
    if dtype is not None:
        return x.astype(dtype)
    if x.dtype.kind == "b" or (x.dtype.kind == "i" and x.dtype.itemsize < 8):
        return x.astype(np.int64)
    return x.astype(np.uint64) if x.dtype.kind == "u" and x.dtype.itemsize < 8 else x


def sum(x: Array, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The sum over axes."""
    return _reduced("ReduceSum", _wide(x, dtype), axis, keepdims)


def prod(x: Array, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The product over axes."""
    return _reduced("ReduceProd", _wide(x, dtype), axis, keepdims)


def max(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The largest element over axes."""
    return _reduced("ReduceMax", x, axis, keepdims)


def min(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The smallest element over axes."""
    return _reduced("ReduceMin", x, axis, keepdims)


def mean(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The mean over axes."""
    return _reduced("ReduceMean", floating(x), axis, keepdims)


def var(
    x: Array, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Array:
    """The mean square distance from the mean, over the number of elements less `correction`."""
    array = floating(x)
    distance = array - mean(array, axis=axis, keepdims=True)
    distance = absolute(distance) if array.dtype.kind == "c" else distance
    count: Any = 1
    for place in axes_of(axis, x.ndim):
        count = x.shape[place] * count
    total = _reduced("ReduceSum", distance * distance, axis, keepdims)
    if isinstance(count, int):
        return total / lifted(np.maximum(count - correction, 0), total.dtype)
    return total / maximum(count.astype(np.float64) - correction, 0.0).astype(total.dtype)


def std(
    x: Array, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Array:
    """The square root of the variance."""
    return node("Sqrt", var(x, axis=axis, correction=correction, keepdims=keepdims))


def any(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Whether an element over axes is true."""
    return _reduced("ReduceMax", lifted(x).astype(np.bool_), axis, keepdims)


def all(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Whether all elements over axes are true."""
    return _reduced("ReduceMin", lifted(x).astype(np.bool_), axis, keepdims)


def count_nonzero(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """How many elements over axes are not zero."""
    return sum(lifted(x).astype(np.bool_).astype(np.int64), axis=axis, keepdims=keepdims)


def _running(kind: str, x: Array, axis: int | None, dtype: Any, include_initial: bool) -> Array:
    if axis is None:
        if x.ndim > 1:
            raise ShapeError("axis is needed where there are several", where=source_line())
        axis = 0
    place = axis_of(axis, x.ndim)
    result = node(kind, _wide(x, dtype), lifted(np.int64(place)))
    if not include_initial:
        return result
    shape = list(x.shape)
    shape[place] = 1
    first = node("Expand", lifted(0 if kind == "CumSum" else 1, result.dtype), listed(shape))
    return concat([first, result], axis=place)


def cumulative_sum(
    x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Sums of all elements up to each."""
    return _running("CumSum", x, axis, dtype, include_initial)


def cumulative_prod(
    x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Products of all elements up to each."""
    return _running("CumProd", x, axis, dtype, include_initial)


def diff(
    x: Array,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Array | None = None,
    append: Array | None = None,
) -> Array:
    """Differences of neighbours, n times."""
    place = axis_of(axis, x.ndim)
    around = [part for part in (prepend, x, append) if part is not None]
    x = concat(around, axis=place) if len(around) > 1 else x
    for _ in range(n):
        far = np.iinfo(np.int64).max
        later = node("Slice", x, listed(1), listed(far), listed(place))
        x = later - node("Slice", x, listed(0), listed(-1), listed(place))
    return x


def _argument(kind: str, x: Array, axis: int | None, keepdims: bool) -> Array:
    if axis is None:
        flat = node(kind, reshape(x, (-1,)), axis=0, keepdims=0)
        return reshape(flat, (1,) * x.ndim) if keepdims else flat
    return node(kind, x, axis=axis_of(axis, x.ndim), keepdims=int(keepdims))


def argmax(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Where the largest element is, the first of several."""
    return _argument("ArgMax", x, axis, keepdims)


def argmin(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Where the smallest element is, the first of several."""
    return _argument("ArgMin", x, axis, keepdims)


def _sorted(x: Array, axis: int, descending: bool) -> list[Array]:
    place = axis_of(axis, x.ndim)
    size = node("Shape", x, start=place, end=place + 1)
    return nodes(2, "TopK", x, size, axis=place, largest=int(descending), sorted=1)


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The elements in order."""
    return _sorted(x, axis, descending)[0]


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Where the elements in order are, equal ones in the order in which they stand."""
    return _sorted(x, axis, descending)[1]


def nonzero(x: Array, /) -> tuple[Array, ...]:
    """Where elements are not zero: indices by axis, of which there must be one."""
    if x.ndim == 0:
        raise ShapeError("an array without axes has no places", where=source_line())
    places = node("NonZero", x)
    return tuple(node("Gather", places, lifted(np.int64(i)), axis=0) for i in range(x.ndim))


def searchsorted(
    x1: Array, x2: Array, /, *, side: str = "left", sorter: Array | None = None
) -> Array:
    """Where elements of x2 belong in x1, which is in order."""
    if side not in ("left", "right"):
        raise UnsupportedOperatorError(f"side is {side!r}", where=source_line())
    ordered = x1 if sorter is None else node("Gather", x1, sorter, axis=0)
    values = expand_dims(x2, axis=x2.ndim)
    ordered, values = together(ordered, values)
    before = ordered < values if side == "left" else ordered <= values
    if ordered.dtype.kind not in "biu":  # NaN lies above all numbers, as in sorting
        lost = isnan(values) if side == "right" else isnan(values) & ~isnan(ordered)
        before = before | lost
    return sum(before.astype(np.int64), axis=-1)


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Array:
    """Whether elements of x1 are among those of x2."""
    a, b = together(x1, x2)
    same = expand_dims(a, axis=a.ndim) == reshape(b, (-1,))
    among = any(same, axis=-1)
    return node("Not", among) if invert else among


class UniqueCounts(NamedTuple):
    """Different elements, and how often each occurs."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """Different elements, and which of them each element is."""

    values: Array
    inverse_indices: Array


class UniqueAll(NamedTuple):
    """Different elements, where each occurs first, which of them each element is, counts."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


def _unique(x: Array, count: int) -> list[Array]:
    """Each element once, every NaN among them, and what else Unique gives."""
    flat = reshape(x, (-1,))
    if isinstance(flat, Complex):
        return nodes(count, "Unique", flat, sorted=1)
    return built(ordering.distinct, flat)[:count]


def unique_values(x: Array, /) -> Array:
    """The different elements, in order."""
    return _unique(x, 1)[0]


def unique_counts(x: Array, /) -> UniqueCounts:
    """The different elements, and how often each occurs."""
    values, _, _, counts = _unique(x, 4)
    return UniqueCounts(values, counts)


def unique_inverse(x: Array, /) -> UniqueInverse:
    """The different elements, and which of them each element is."""
    values, _, inverse = _unique(x, 3)
    return UniqueInverse(values, reshape(inverse, x.shape))


def unique_all(x: Array, /) -> UniqueAll:
    """The different elements, where each occurs first, which of them each element is, counts."""
    values, first, inverse, counts = _unique(x, 4)
    return UniqueAll(values, first, reshape(inverse, x.shape), counts)
