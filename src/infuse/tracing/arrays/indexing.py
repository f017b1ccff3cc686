"""Elements of arrays by position: `x[…]`, `x[…] = y`, take."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.errors import ShapeError, UnsupportedOperatorError
from infuse.tracing.arrays.array import Array, lifted, node, source_line
from infuse.tracing.arrays.manipulation import broadcast_arrays, expand_dims, reshape, squeeze
from infuse.tracing.arrays.operators import OPERATORS
from infuse.tracing.arrays.sizes import axis_of, listed

_FAR = np.iinfo(np.int64).max


def take(x: Array, indices: Any, /, *, axis: int | None = None) -> Array:
    """Elements along an axis by their places; negative ones count from the end."""
    if axis is None:
        if x.ndim != 1:
            raise ShapeError("axis is needed where there are several", where=source_line())
        axis = 0
    return node("Gather", x, lifted(indices).astype(np.int64), axis=axis_of(axis, x.ndim))


def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    """Elements along an axis, at every place one."""
    place = axis_of(axis, x.ndim)
    sizes = x.shape
    shape = [sizes[i] if i != place else indices.shape[i] for i in range(x.ndim)]
    return node(
        "GatherElements", x, node("Expand", indices.astype(np.int64), listed(shape)), axis=place
    )


def take_key(x: Array, key: Any) -> Array:
    """`x[key]`: integers, slices, new axes, an ellipsis, arrays of integers, one array of truth
    values.
    """
    entries = _expanded(x, key if isinstance(key, tuple) else (key,))
    if len(entries) == 1 and _is_mask(entries[0]):
        return _masked(x, lifted(entries[0]))
    x, rest = _sliced(x, entries)
    arrays = [(place, lifted(entry)) for place, entry in enumerate(rest) if _is_index(entry)]
    if len(arrays) == 1:
        place, index = arrays[0]
        return node("Gather", x, index.astype(np.int64), axis=place)
    return _gathered(x, arrays) if arrays else x


def put_key(x: Array, key: Any, value: Any) -> Array:
    """The array with other elements at a key."""
    if _is_mask(key):
        mask, fill = lifted(key), lifted(value, x.dtype)
        if fill.ndim == 0:
            for _ in range(x.ndim - mask.ndim):
                mask = expand_dims(mask, axis=mask.ndim)
            return node("Where", mask, fill, x)
    flat = node("Range", lifted(np.int64(0)), lifted(x.size).astype(np.int64), lifted(np.int64(1)))
    places = take_key(reshape(flat, x.shape), key)
    fill = node("Expand", lifted(value, x.dtype), node("Shape", places))
    written = node(
        "ScatterElements", reshape(x, (-1,)), reshape(places, (-1,)), reshape(fill, (-1,)), axis=0
    )
    return reshape(written, x.shape)


def _is_mask(entry: Any) -> bool:
    return isinstance(entry, (bool, np.bool_)) or (
        isinstance(entry, (Array, np.ndarray)) and entry.dtype == np.bool_
    )


def _is_index(entry: Any) -> bool:
    return isinstance(entry, (Array, np.ndarray, list))


def _expanded(x: Array, key: tuple[Any, ...]) -> list[Any]:
    """The key with an entry for every axis, without an ellipsis."""
    if len(key) == 1 and _is_mask(key[0]):
        return list(key)
    used = sum(entry is not None and entry is not Ellipsis for entry in key)
    dots = [place for place, entry in enumerate(key) if entry is Ellipsis]
    if len(dots) > 1 or used > x.ndim:
        raise ShapeError(
            f"{used} indices and {len(dots)} ellipses for {x.ndim} axes", where=source_line()
        )
    fill = [slice(None)] * (x.ndim - used)
    place = dots[0] if dots else len(key)
    return [*key[:place], *fill, *key[place + 1 :]]


def _sliced(x: Array, entries: list[Any]) -> tuple[Array, list[Any]]:
    """What slices, numbers and new axes leave, and the arrays of indices by axis."""
    cuts: list[tuple[int, Any, Any, int]] = []
    gone: list[int] = []
    axis = 0
    left: list[Any] = []
    for entry in entries:
        if entry is None:
            left.append(None)
            continue
        if isinstance(entry, slice):
            if entry != slice(None):
                cuts.append((axis, *_limits(entry)))
            left.append(slice(None))
        elif isinstance(entry, (int, np.integer)):
            cuts.append((axis, int(entry), int(entry) + 1 or _FAR, 1))
            gone.append(axis)
        elif isinstance(entry, Array) and entry.ndim == 0 and entry.dtype.kind in "iu":
            x = node("Gather", x, reshape(entry, (1,)).astype(np.int64), axis=axis)
            gone.append(axis)
        elif _is_index(entry):
            left.append(entry)
        else:
            raise UnsupportedOperatorError(
                f"an index of type {type(entry).__name__}", where=source_line()
            )
        axis += 1
    if cuts:
        axes, begins, ends, steps = map(list, zip(*cuts))
        x = node("Slice", x, listed(begins), listed(ends), listed(axes), listed(steps))
    if gone:
        x = squeeze(x, axis=tuple(gone))
    for place, entry in enumerate(left):
        if entry is None:
            x = expand_dims(x, axis=place)
    return x, [slice(None) if entry is None else entry for entry in left]


def _limits(entry: slice) -> tuple[Any, Any, int]:
    step = 1 if entry.step is None else int(entry.step)
    begin, end = entry.start, entry.stop
    if step > 0:
        return (0 if begin is None else begin), (_FAR if end is None else end), step
    return (_FAR if begin is None else begin), (-_FAR if end is None else end), step


def _masked(x: Array, mask: Array) -> Array:
    """The elements where a mask is true, along the axes that it has."""
    places = node("Transpose", node("NonZero", mask), perm=(1, 0))
    return node("GatherND", x, places)


def _gathered(x: Array, arrays: list[tuple[int, Array]]) -> Array:
    """Elements by arrays of indices at several neighbouring axes."""
    axes = [axis for axis, _ in arrays]
    first = axes[0]
    if axes != list(range(first, first + len(axes))):
        raise UnsupportedOperatorError(
            "arrays of indices that are apart", where=source_line(), hint="use take, axis by axis"
        )
    indices = broadcast_arrays(*(index.astype(np.int64) for _, index in arrays))
    together = [expand_dims(index, axis=index.ndim) for index in indices]
    places = node("Concat", *together, axis=indices[0].ndim)
    order = [*axes, *(axis for axis in range(x.ndim) if axis not in axes)]
    front = node("Transpose", x, perm=tuple(order)) if first else x
    result = node("GatherND", front, places)
    if not first:
        return result
    new = indices[0].ndim
    perm = [*range(new, new + first), *range(new), *range(new + first, result.ndim)]
    return node("Transpose", result, perm=tuple(perm))


OPERATORS.update({"getitem": take_key, "setitem": put_key})
