"""Sparse tensors as TensorFlow Lite stores them, made dense."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from infuse.errors import ModelFileError
from infuse.frontends.tflite.wire import Record, Wire
from infuse.ir.graph import Array

_INDICES: Final = {1: "Int32Vector", 2: "Uint16Vector", 3: "Uint8Vector"}
_SPARSE: Final = 1
_MOST_ZEROS: Final = 1000
"""Elements for each stored one, above which a tensor is taken for a lie."""


def densify(stored: Array, shape: tuple[int, ...], sparsity: Record, wire: Wire) -> Array:
    """The tensor of this shape whose elements that are not zero are `stored`.

    Its levels are walked from the outermost: a dense one has all places below each place above, a
    sparse one those that its segments list. Levels after the first `len(shape)` are those inside
    blocks.
    """
    if math.prod(shape) > _MOST_ZEROS * (stored.size + 1000):
        raise ModelFileError(f"a sparse tensor of {stored.size} elements says it is {list(shape)}")
    levels = sparsity["dim_metadata"] or []
    order = [int(axis) for axis in _listed(sparsity["traversal_order"])]
    blocks = [int(axis) for axis in _listed(sparsity["block_map"])]
    if sorted(order) != list(range(len(shape) + len(blocks))) or len(levels) != len(order):
        raise ModelFileError(f"a sparse tensor has {len(levels)} levels in the order {order}")
    if any(not 0 <= axis < len(shape) for axis in blocks):
        raise ModelFileError(f"a sparse tensor has blocks along {blocks}, and {len(shape)} axes")
    places: dict[int, Array] = {}
    count = 1
    for level, axis in zip(levels, order):
        owners, at = _walk(level, count, stored.size, wire)
        places = {a: p[owners] for a, p in places.items()} | {axis: at}
        count = len(at)
    if count != stored.size:
        raise ModelFileError(f"a sparse tensor lists {count} places of {stored.size} elements")
    rank = len(shape)
    sizes = {axis: int(level["dense_size"]) for level, axis in zip(levels, order)}
    index = [places[axis] for axis in range(rank)]
    for number, axis in enumerate(blocks):
        index[axis] = index[axis] * sizes[rank + number] + places[rank + number]
    if any(at.size and not 0 <= at.min() <= at.max() < n for at, n in zip(index, shape)):
        raise ModelFileError(f"a sparse tensor has elements outside of {list(shape)}")
    dense = np.zeros(shape, stored.dtype)
    dense[tuple(index)] = stored
    return dense


def _walk(level: Record, count: int, most: int, wire: Wire) -> tuple[Array, Array]:
    """For each place of a level, the number of the one above that it belongs to, and its index."""
    if level["format"] != _SPARSE:
        size = int(level["dense_size"])
        if size < 1 or count * size > most:
            raise ModelFileError(f"a level of a sparse tensor has {count} × {size} places")
        return np.repeat(np.arange(count), size), np.tile(np.arange(size), count)
    segments, indices = (_indices(level, part, wire) for part in ("segments", "indices"))
    lengths = np.diff(segments)
    fits = len(segments) == count + 1 and segments[0] == 0 and segments[-1] == len(indices)
    if not fits or np.any(lengths < 0):
        raise ModelFileError("the segments of a sparse tensor do not fit its indices")
    return np.repeat(np.arange(count), lengths), indices


def _indices(level: Record, part: str, wire: Wire) -> Array:
    table = _INDICES.get(level[f"{part}_type"])
    if table is None or level[part] is None:
        raise ModelFileError(f"a level of a sparse tensor has no {part}")
    return _listed(wire.table(table, level[part])["values"]).astype(np.int64)


def _listed(values: Array | None) -> Array:
    return np.zeros(0, np.int64) if values is None else values
