"""Reading and writing by index."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from infuse.targets.cpu.families.base import Arguments, Array, Stores, leading, writes

_JOINS: Final[dict[str, Any]] = {
    "Add": np.add,
    "Multiply": np.multiply,
    "Smaller": np.minimum,
    "Larger": np.maximum,
}


@writes("gather", "gather_fp16")
def gather(call: Arguments) -> Stores:
    """y[outer, i, inner] = x[outer, index[i], inner]."""
    outer, size, inner, count, x, index, y = call.arguments
    _require_width(call, x)
    rows = x[: outer * size * inner].reshape(outer, size, inner)[
        :, _inside(leading(index, count), size)
    ]
    return {6: rows.astype(y.dtype)}


@writes("gather_elements")
def gather_elements(call: Arguments) -> Stores:
    """y[.., i, ..] = x[.., index[.., i, ..], ..] along an axis."""
    rank, shape, sizes, axis, x, index = call.arguments[:6]
    _require_width(call, x)
    elements = _shaped(x, sizes[:rank])
    return {6: elements[_places(_shaped(index, shape[:rank]), axis, sizes[axis])]}


@writes("gather_nd")
def gather_nd(call: Arguments) -> Stores:
    """y[batch, point, :] = x[batch][index[batch, point, ..]][:]."""
    batch, points, depth, sizes, part, x, index = call.arguments[:7]
    _require_width(call, x)
    block = int(np.prod(sizes[:depth]))
    rows = x[: batch * block * part].reshape(batch, block, part)
    flat = _flat(index[: batch * points * depth].reshape(-1, depth), sizes)
    return {7: rows[np.repeat(np.arange(batch), points), flat]}


@writes("scatter_nd")
def scatter_nd(call: Arguments) -> Stores:
    """Y = x, then y[index[point, ..]][:] joins updates[point, :]."""
    points, depth, sizes, part, x, index, updates = call.arguments[:7]
    rows = x[: int(np.prod(sizes[:depth])) * part].reshape(-1, part)
    flat = _flat(index[: points * depth].reshape(-1, depth), sizes)
    return {7: _joined(call, rows, (flat,), updates[: points * part].reshape(-1, part))}


@writes("scatter_elements")
def scatter_elements(call: Arguments) -> Stores:
    """Y = x, then y[.., index[.., i, ..], ..] joins updates[.., i, ..] along an axis."""
    rank, shape, sizes, axis, x, index, updates = call.arguments[:7]
    places = _places(_shaped(index, shape[:rank]), axis, sizes[axis])
    new = _shaped(updates, shape[:rank])
    return {7: _joined(call, _shaped(x, sizes[:rank]), places, new)}


@writes("compress")
def compress(call: Arguments) -> Stores:
    """The slices, of so many bytes, whose condition holds."""
    x, condition, conditions, outer, size, inner, y = call.arguments
    slices = x.view(np.uint8)[: outer * size * inner].reshape(outer, size, inner)
    chosen = np.flatnonzero(leading(condition, min(conditions, size)))
    return {6: _elements(slices[:, chosen], y)}


@writes("one_hot")
def one_hot(call: Arguments) -> Stores:
    """Rows of one value where their number is the index, else of another: [outer, depth, inner]."""
    index, outer, depth, inner, values = call.arguments[:5]
    place = np.trunc(index[: outer * inner].astype(np.float64)).reshape(outer, 1, inner)
    place = np.where(place < 0, place + depth, place)
    return {5: values[(place == np.arange(depth)[:, None]).astype(np.int64)]}


@writes("take_slices")
def take_slices(call: Arguments) -> Stores:
    """Slices, of so many bytes, at places."""
    x, outer, size, inner, places, count, y = call.arguments
    slices = x.view(np.uint8)[: outer * size * inner].reshape(outer, size, inner)
    return {6: _elements(slices[:, _inside(leading(places, count), size)], y)}


@writes("unique_elements", "unique_slices")
def unique(call: Arguments) -> Stores:
    """Where each different slice occurs first, which one every slice is, and how often it occurs;
    elements that are no numbers are equal, slices with some are not.
    """
    x, *sizes, is_sorted = call.arguments[:-4]
    outer, n, inner = sizes if len(sizes) == 3 else (1, sizes[0], 1)
    slices = x[: outer * n * inner].reshape(outer, n, inner).transpose(1, 0, 2).reshape(n, -1)
    order = np.lexsort(slices.T[::-1]) if slices.size else np.arange(n)
    before, after = slices[order[:-1]], slices[order[1:]]
    equal = before == after
    if len(sizes) == 1:
        equal = equal | ((before != before) & (after != after))
    group = np.cumsum(np.append(False, ~equal.all(1))[:n])
    numbers = np.empty(n, np.int64)
    numbers[order] = group
    _, first, inverse, counts = np.unique(numbers, True, True, True)
    if not is_sorted:
        rank = np.argsort(first)
        first, counts, inverse = first[rank], counts[rank], np.argsort(rank)[inverse]
    written = (a.reshape(-1).astype(np.int64) for a in (first, inverse, counts))
    places = (len(sizes) + 3 + i for i in range(3))
    return {"result": np.array(len(first)), **dict(zip(places, written))}


@writes("reverse_lines")
def reverse_lines(call: Arguments) -> Stores:
    """Of each line of slices, of so many bytes, the first ones in reverse order."""
    count, size, inner, x, lengths, y = call.arguments
    lines = x.view(np.uint8)[: count * size * inner].reshape(count, size, inner)
    at = np.arange(size)
    first = leading(lengths, count).astype(np.int64)[:, None]
    reverse = np.where(at < first, first - 1 - at, at)
    return {5: _elements(np.take_along_axis(lines, reverse[:, :, None], 1), y)}


@writes("tensor_scatter")
def tensor_scatter(call: Arguments) -> Stores:
    """Updates in a cache from their starts on, around the end where that is circular."""
    batch, outer, size, count, inner, circular, update, starts, y = call.arguments
    width = y.dtype.itemsize
    first = np.zeros(batch, np.int64) if starts is None else leading(starts, batch)
    at = np.repeat(first, outer)[:, None] + np.arange(count)
    at = at % size if circular else _inside(at, size)
    rows = np.arange(batch * outer)[:, None] * size + at
    places = rows[..., None] * (inner // width) + np.arange(inner // width)
    return {8: (places, leading(update, places.size))}


@writes("triangle")
def triangle(call: Arguments) -> Stores:
    """Matrices with zeros below or above a diagonal."""
    batch, rows, columns, diagonal, upper, x = call.arguments[:6]
    matrices = x[: batch * rows * columns].reshape(batch, rows, columns)
    above = np.subtract.outer(np.arange(rows), np.arange(columns)) + diagonal
    return {6: np.where(above <= 0 if upper else above >= 0, matrices, x.dtype.type(0))}


@writes("top_k")
def top_k(call: Arguments) -> Stores:
    """The largest or smallest elements of lines, equal ones in order, and where they lie."""
    outer, size, inner, count, x = call.arguments[:5]
    lines = x[: outer * size * inner].reshape(outer, size, inner)
    # Ranks of values in place of values, so that the order of what is no number can be stated.
    _, ranks = np.unique(lines, return_inverse=True)
    order = ranks.reshape(lines.shape)
    places = np.argsort(-order if call.template[0] == "true" else order, axis=1, kind="stable")
    places = places[:, :count]
    return {5: np.take_along_axis(lines, places, 1), 6: places.astype(np.int64)}


@writes("nonzero")
def nonzero(call: Arguments) -> Stores:
    """The places of elements other than zero: a row an axis."""
    x, sizes, rank, total, count = call.arguments[:5]
    at = np.flatnonzero(leading(x, total))
    if len(at) != count:
        raise ValueError(f"{count} places of {len(at)} elements")
    places = np.stack(np.unravel_index(at, sizes[:rank])) if rank else np.empty((0, count))
    return {5: places.astype(np.int64)}


def _require_width(call: Arguments, x: Array) -> None:
    if call.template and int(call.template[0]) != x.dtype.itemsize:
        raise ValueError(f"elements of {call.template[0]} bytes in place of {x.dtype.itemsize}")


def _shaped(x: Array, sizes: tuple[int, ...]) -> Array:
    shaped: Array = x[: int(np.prod(sizes))].reshape(sizes)
    return shaped


def _inside(index: Array, size: int) -> Array:
    """Indices from the start; IndexError where one lies outside."""
    at: Array = index.astype(np.int64)
    if ((at < -size) | (at >= size)).any():
        raise IndexError(f"an index outside of {size}")
    return np.asarray(np.where(at < 0, at + size, at))


def _places(index: Array, axis: int, size: int) -> tuple[Array, ...]:
    """The places in all axes that indices along one name."""
    places: list[Array] = list(np.indices(index.shape))
    places[axis] = _inside(index, size)
    return tuple(places)


def _flat(tuples: Array, sizes: tuple[int, ...]) -> Array:
    """The number of the slice that each tuple of indices names."""
    flat = np.zeros(len(tuples), np.int64)
    for number, size in zip(tuples.T, sizes):
        flat = flat * size + _inside(number, size)
    return flat


def _joined(call: Arguments, x: Array, places: tuple[Array, ...], new: Array) -> Array:
    result: Array = x.copy()
    if call.template[0] == "Assign":
        result[places] = new
    else:
        _JOINS[call.template[0]].at(result, places, new)
    return result


def _elements(held: Array, y: Array) -> Array:
    """Bytes as elements of what is written."""
    elements: Array = np.ascontiguousarray(held).reshape(-1).view(y.dtype)
    return elements
