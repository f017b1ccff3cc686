"""Elements at other places along axes: moved around, mirrored, on a diagonal, in windows."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.ir.graph import Value, constant
from infuse.ops.core.building import GraphBuilder
from infuse.tracing.importer import Importer
from infuse.tracing.semantics.padding import reversed_along


def rolled(g: Importer, x: Value, axis: int, shift: int | Value) -> Value:
    """Elements moved along an axis; those that leave one end come in at the other."""
    size = g.size_of(x, axis)
    if isinstance(size, int) and isinstance(shift, int):
        first = -shift % size if size else 0
        if not first:
            return x
        parts = g.slice(x, axis, first, size), g.slice(x, axis, 0, first)
        return g("Concat", *parts, axis=axis)
    sources = g.calculated("Sub", _numbers(g, size), shift)
    return g("Gather", x, g("Mod", sources, size), axis=axis)


def mirrored(g: GraphBuilder, x: Value, axis: int, before: int, after: int) -> Value:
    """An axis with its own elements backwards around them, those at the border twice.
    UnsupportedOperatorError where its size is not known, ModelFileError where it is too small.
    """
    size = x.shape[axis]
    if not before and not after:
        return x
    if not isinstance(size, int):
        raise UnsupportedOperatorError(
            "symmetric padding of an axis of unknown length is not supported"
        )
    if max(before, after) > size:
        raise ModelFileError(f"{size} elements have no {max(before, after)} at their border")
    first, last = g.slice(x, axis, 0, before), g.slice(x, axis, size - after, size)
    parts = [reversed_along(g, first, axis)] if before else []
    parts += [x, *([reversed_along(g, last, axis)] if after else [])]
    return g("Concat", *parts, axis=axis)


def diagonal(g: Importer, x: Value, offset: int, first: int, second: int) -> Value:
    """The diagonal of two axes as the last axis: so many places to the right of the main one, or
    below it.
    """
    others = [axis for axis in range(x.rank) if axis not in (first, second)]
    y = g.permute(x, *others, first, second)
    *outer, rows, columns = (g.size_of(y, axis) for axis in range(y.rank))
    down, right = max(0, -offset), max(0, offset)
    counts = (g.calculated("Sub", rows, down), g.calculated("Sub", columns, right))
    count = g.calculated("Max", g.calculated("Min", *counts), 0)
    step = g.calculated("Add", columns, 1)
    start = g.calculated("Add", g.calculated("Mul", columns, down), right)
    end = g.calculated("Add", start, g.calculated("Mul", count, step))
    shape = g.ints(*outer, g.calculated("Mul", rows, columns))
    flat = g("Reshape", y, shape, allowzero=1)
    return g("Slice", flat, g.ints(start), g.ints(end), g.ints(len(outer)), g.ints(step))


def unfolded(
    g: GraphBuilder, x: Value, axis: int, length: int | Value, size: int, step: int
) -> Value:
    """Windows of `size` elements along an axis of this length, each so many steps behind the one
    before; their elements are a new last axis.
    """
    if isinstance(length, int):
        starts = constant(np.arange(0, length - size + 1, step, dtype=np.int64)[:, None])
    else:
        limits = constant(np.int64(0)), g("Sub", length, constant(np.int64(size - 1)))
        starts = g("Unsqueeze", g("Range", *limits, constant(np.int64(step))), g.ints(1))
    places = g("Add", starts, constant(np.arange(size, dtype=np.int64)))
    windows = g("Gather", x, places, axis=axis)
    if axis == x.rank - 1:
        return windows
    order = (*range(axis + 1), *range(axis + 2, x.rank + 1), axis + 1)
    return g("Transpose", windows, perm=order)


def columns(
    g: Importer, x: Value, kernel: list[int], strides: list[int], rates: list[int]
) -> Value:
    """The windows of images [..., channels, rows, columns] as columns: [..., channels × places of a
    window, windows].
    """
    sizes: list[Any] = [g.size_of(x, axis) for axis in range(x.rank)]
    parts = []
    for place in product(*map(range, kernel)):
        part = x
        for i, axis in enumerate((x.rank - 2, x.rank - 1)):
            end = g.calculated("Sub", sizes[axis], (kernel[i] - 1 - place[i]) * rates[i])
            limits = (place[i] * rates[i], end, axis, strides[i])
            part = g("Slice", part, *(g.ints(limit) for limit in limits))
        parts.append(g("Unsqueeze", part, g.ints(x.rank - 2)))
    y = parts[0] if len(parts) == 1 else g("Concat", *parts, axis=x.rank - 2)
    channels = g.calculated("Mul", sizes[-3], len(parts))
    count = g.calculated("Mul", g.size_of(y, y.rank - 2), g.size_of(y, y.rank - 1))
    return g("Reshape", y, g.ints(*sizes[:-3], channels, count), allowzero=1)


def _numbers(g: Importer, count: int | Value) -> Value:
    """0, 1, … below `count`."""
    if isinstance(count, int):
        return g.constant(np.arange(count, dtype=np.int64))
    return g("Range", g.number(0, dtypes.int64), count, g.number(1, dtypes.int64))
