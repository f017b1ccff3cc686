"""Functions that move elements and change shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.tracing.arrays.array import Array, lifted, node, nodes, source_line, together
from infuse.tracing.arrays.sizes import axes_of, axis_of, joint_sizes, listed


def reshape(x: Array, /, shape: Any, *, copy: bool | None = None) -> Array:
    """The elements in another shape; one size may be -1. Arrays are no views of each other, so that
    `copy` may not be False.
    """
    if copy is False:
        raise UnsupportedOperatorError("reshape gives a new array", where=source_line())
    return node("Reshape", x, listed(shape), allowzero=1)


def permute_dims(x: Array, /, axes: Sequence[int]) -> Array:
    """The axes in another order."""
    return node("Transpose", x, perm=tuple(axis_of(a, x.ndim) for a in axes))


def matrix_transpose(x: Array, /) -> Array:
    """The last two axes exchanged."""
    return x.mT


def moveaxis(x: Array, source: Any, destination: Any, /) -> Array:
    """Axes at other places."""
    moved, places = axes_of(source, x.ndim), axes_of(destination, x.ndim)
    order = [axis for axis in range(x.ndim) if axis not in moved]
    for place, axis in sorted(zip(places, moved, strict=True)):
        order.insert(place, axis)
    return permute_dims(x, order)


def expand_dims(x: Array, /, axis: int = 0) -> Array:
    """A new axis of size one."""
    return node("Unsqueeze", x, listed(axis_of(axis, x.ndim + 1)))


def squeeze(x: Array, /, axis: int | tuple[int, ...]) -> Array:
    """Without axes of size one."""
    return node("Squeeze", x, listed(axes_of(axis, x.ndim)))


def concat(arrays: Sequence[Array], /, *, axis: int | None = 0) -> Array:
    """Arrays one after another; flat for no axis."""
    operands = together(*arrays)
    if axis is None:
        operands, axis = [reshape(x, (-1,)) for x in operands], 0
    return node("Concat", *operands, axis=axis_of(axis, operands[0].ndim))


def stack(arrays: Sequence[Array], /, *, axis: int = 0) -> Array:
    """Arrays of one shape along a new axis."""
    operands = together(*arrays)
    place = axis_of(axis, operands[0].ndim + 1)
    return concat([expand_dims(x, axis=place) for x in operands], axis=place)


def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The parts along an axis of known size."""
    place = axis_of(axis, x.ndim)
    count = x.shape[place].__index__()
    if count == 0:
        return ()
    parts = nodes(count, "Split", x, axis=place, num_outputs=count)
    return tuple(squeeze(part, axis=place) for part in parts)


def flip(x: Array, /, *, axis: Any = None) -> Array:
    """Elements in reverse along axes."""
    axes = axes_of(axis, x.ndim)
    if not axes:
        return x.copy()
    count = len(axes)
    ends = [np.iinfo(np.int64).min + 1] * count
    return node("Slice", x, listed([-1] * count), listed(ends), listed(axes), listed([-1] * count))


def roll(x: Array, /, shift: Any, *, axis: Any = None) -> Array:
    """Elements moved along axes; those that leave an end come in at the other."""
    if axis is None:
        return reshape(roll(reshape(x, (-1,)), shift, axis=0), x.shape)
    axes = [axis] if isinstance(axis, int) else list(axis)
    shifts = list(shift) if isinstance(shift, (list, tuple)) else [shift] * len(axes)
    for place, count in zip(axes, shifts, strict=True):
        size = x.shape[axis_of(place, x.ndim)]
        if isinstance(size, int) and size == 0:
            continue
        first = (-count) % (size if isinstance(size, int) else at_least_one(size))
        x = concat([_part(x, place, first, size), _part(x, place, 0, first)], axis=place)
    return x.copy()


def at_least_one(size: Array) -> Array:
    """A size, or 1 where it is 0."""
    return node("Max", size, lifted(np.int64(1)))


def _part(x: Array, axis: int, begin: Any, end: Any) -> Array:
    place = axis_of(axis, x.ndim)
    return node("Slice", x, listed(begin), listed(end), listed(place))


def repeat(x: Array, repeats: Any, /, *, axis: int | None = None) -> Array:
    """Every element so many times, one behind the other."""
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    place = axis_of(axis, x.ndim)
    if isinstance(repeats, int):
        sizes = list(x.shape)
        wide = broadcast_to(
            expand_dims(x, axis=place + 1), (*sizes[: place + 1], repeats, *sizes[place + 1 :])
        )
        return reshape(wide, (*sizes[:place], sizes[place] * repeats, *sizes[place + 1 :]))
    counts = lifted(repeats).astype(np.int64)
    ends = node("CumSum", counts, lifted(np.int64(0)))
    total = node("ReduceSum", counts, keepdims=0)
    places = node("Range", lifted(np.int64(0)), total, lifted(np.int64(1)))
    before = expand_dims(ends, axis=0) <= expand_dims(places, axis=1)
    index = node("ReduceSum", before.astype(np.int64), listed(1), keepdims=0)
    return node("Gather", x, index, axis=place)


def tile(x: Array, repetitions: Sequence[Any], /) -> Array:
    """The array side by side with itself."""
    counts = [1] * (x.ndim - len(repetitions)) + list(repetitions)
    for _ in range(len(counts) - x.ndim):
        x = expand_dims(x, axis=0)
    return node("Tile", x, listed(counts))


def broadcast_to(x: Array, /, shape: Any) -> Array:
    """The array in a larger shape, along which it is repeated."""
    return node("Expand", x, listed(shape))


def broadcast_shapes(*shapes: Sequence[Any]) -> tuple[Any, ...]:
    """The shape that arrays of these shapes have together."""
    return joint_sizes(*shapes)


def broadcast_arrays(*arrays: Array) -> list[Array]:
    """Arrays in the shape that they have together."""
    zero = lifted(np.zeros((), np.bool_))
    for x in arrays:
        zero = node("Or", zero, node("Expand", lifted(False), node("Shape", x)))
    shape = node("Shape", zero)
    return [node("Expand", x, shape) for x in arrays]
