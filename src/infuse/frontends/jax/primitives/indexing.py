"""Primitives that read and write at computed places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.frontends.jax.calls import JaxCall, JaxImporter, highest, lowest, primitive
from infuse.ir.dims import Dim
from infuse.ir.graph import Value

_INT64: Final = dtypes.int64


@dataclass
class Window:
    """Where windows of an operand lie: `pointed` are the axes that the last axis of `indices` has
    starts of, in its order; `batched` pairs of an axis of the operand and one of the indices that
    go together; `extents` the sizes of a window along all axes of the operand.
    """

    operand: Value
    indices: Value
    pointed: Sequence[int]
    batched: Sequence[tuple[int, int]]
    extents: Sequence[Dim]
    mode: str

    def __post_init__(self) -> None:
        """Axes that no index and no batch moves along are whole, and follow the others."""
        moved = {*self.pointed, *(axis for axis, _ in self.batched)}
        rank = self.operand.rank
        self.placed = [
            axis
            for axis in range(rank)
            if axis in moved or self.extents[axis] != self.operand.shape[axis]
        ]
        self.whole = [axis for axis in range(rank) if axis not in self.placed]
        batched = {axis for axis, _ in self.batched}
        self.windowed = [
            axis for axis in self.placed if axis not in batched and self.extents[axis] != 1
        ]

    @property
    def batches(self) -> tuple[Dim, ...]:
        """The sizes of the indices, without the axis of starts."""
        return self.indices.shape[:-1]


def _mode(call: JaxCall) -> str:
    mode = getattr(call["mode"], "name", str(call["mode"]))
    if mode not in ("CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS"):
        raise call.unsupported(f"the mode {mode} of indices out of bounds")
    return str(mode)


def _starts(g: JaxImporter, window: Window) -> tuple[dict[int, Value], Value | None]:
    """The starts of windows by axis, within bounds, and whether they were; None where that is not
    asked.
    """
    inside: Value | None = None
    starts: dict[int, Value] = {}
    zero = g.number(0, _INT64)
    for place, axis in enumerate(window.pointed):
        column = g.slice(window.indices, window.indices.rank - 1, place, place + 1)
        start = g.reshape(g.cast(column, _INT64), *window.batches)
        room = g.extent(window.operand.shape[axis] - window.extents[axis])
        last = room if isinstance(room, Value) else g.number(room, _INT64)
        if window.mode == "FILL_OR_DROP":
            within = g("And", g("GreaterOrEqual", start, zero), g("LessOrEqual", start, last))
            inside = within if inside is None else g("And", inside, within)
        starts[axis] = start if _within(start, room) else g.clamp(start, zero, last)
    return starts, inside


def _within(start: Value, room: int | Value) -> bool:
    """Whether constant starts are certainly in bounds."""
    if start.const is None or not isinstance(room, int):
        return False
    return bool(np.all((start.const >= 0) & (start.const <= room)))


def _places(g: JaxImporter, window: Window, starts: dict[int, Value]) -> Value:
    """Indices of GatherND and ScatterND: axes of batches and windows, then one of places."""
    batches, rank = len(window.batches), len(window.batches) + len(window.windowed)
    batch_axes = dict(window.batched)
    shape = (*window.batches, *(window.extents[axis] for axis in window.windowed))
    columns = []
    for axis in window.placed:
        if axis in batch_axes:
            number = g.indices(window.operand.shape[axis])
            place = g.axis_shape(number, batch_axes[axis], rank)
        else:
            start = starts.get(axis, g.number(0, _INT64))
            if start.rank:
                start = g.reshape(start, *start.shape, *[1] * len(window.windowed))
            place = start
            if axis in window.windowed:
                steps = g.indices(window.extents[axis])
                along = batches + window.windowed.index(axis)
                place = g("Add", start, g.axis_shape(steps, along, rank))
        columns.append(g.reshape(g.expand(place, *shape), *shape, 1))
    return columns[0] if len(columns) == 1 else g("Concat", *columns, axis=rank)


def _indices(call: JaxCall, value: Value) -> Value:
    return call.g.cast(value, _INT64)


@primitive("gather")
def gather(call: JaxCall) -> Value:
    """Windows of an array at computed places, put together."""
    g, numbers = call.g, call["dimension_numbers"]
    pairs = zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims)
    window = Window(
        call.x,
        _indices(call, call.y),
        numbers.start_index_map,
        list(pairs),
        call.sizes("slice_sizes"),
        _mode(call),
    )
    starts, inside = _starts(g, window)
    rank = len(call.shape)
    offsets = list(numbers.offset_dims)
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    axes = [axis for axis in range(call.x.rank) if axis not in dropped]
    outer = [axis for axis in range(rank) if axis not in offsets]
    made = _gathered(g, window, starts)
    # The axes of the result, in the order in which they are made.
    order = [*outer]
    order += [offsets[axes.index(axis)] for axis in window.windowed]
    order += [offsets[axes.index(axis)] for axis in window.whole if axis in axes]
    made = _squeezed(g, window, made, axes)
    moved = sorted(range(len(order)), key=lambda place: order[place])
    made = g.permute(made, *moved)
    made = g.reshape(made, *call.shape)  # with axes of size one that are places only
    if inside is None:
        return made
    filling = _filling(call)
    shape = [call.shape[axis] if axis in outer else 1 for axis in range(rank)]
    return g("Where", g.reshape(inside, *shape), made, filling)


def _squeezed(g: JaxImporter, window: Window, made: Value, axes: Sequence[int]) -> Value:
    """What was gathered without whole axes of size one that the result does not have."""
    first = made.rank - len(window.whole)
    shape = [
        size
        for place, size in enumerate(made.shape)
        if place < first or window.whole[place - first] in axes
    ]
    return g.reshape(made, *shape)


def _gathered(g: JaxImporter, window: Window, starts: dict[int, Value]) -> Value:
    """Axes of batches, of windows, and those that are whole."""
    operand = window.operand
    if not window.placed:
        return g.expand(operand, *window.batches, *operand.shape)
    if len(window.placed) == 1 and not window.windowed and window.placed[0] in starts:
        (axis,) = window.placed
        value = g("Gather", operand, starts[axis], axis=axis)
        count = len(window.batches)
        order = [*range(axis, axis + count), *range(axis), *range(axis + count, value.rank)]
        return g.permute(value, *order)
    moved = g.permute(operand, *window.placed, *window.whole)
    return g("GatherND", moved, _places(g, window, starts))


def _filling(call: JaxCall) -> Value:
    """The element for what lies out of bounds."""
    dtype, filling = call.dtype, call["fill_value"]
    if filling is None:
        ended = lowest(dtype) if dtype.is_signed else highest(dtype)
        filling = np.nan if dtype.is_float else ended
    return call.g.constant(np.asarray(filling).astype(dtype.numpy))


_REDUCTIONS: Final = {
    "scatter": "none", "scatter-add": "add", "scatter_add": "add", "scatter-sub": "add",
    "scatter_sub": "add", "scatter-mul": "mul", "scatter_mul": "mul", "scatter-min": "min",
    "scatter_min": "min", "scatter-max": "max", "scatter_max": "max",
}  # fmt: skip


@primitive(*_REDUCTIONS)
def scatter(call: JaxCall) -> Value:
    """An array with windows at computed places replaced, or joined with others."""
    g, numbers = call.g, call["dimension_numbers"]
    reduction = _REDUCTIONS[call.name]
    if call.name == "scatter" and not _replaces(call["update_jaxpr"]):
        raise call.unsupported("a scatter with a function of its own")
    operand, indices, updates = call.operands
    if call.name.endswith("sub"):
        updates = g("Neg", updates)
    pairs = list(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims))
    dropped = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    inner = list(numbers.update_window_dims)
    axes = [axis for axis in range(operand.rank) if axis not in dropped]
    extents: list[Dim] = [1] * operand.rank
    for axis, place in zip(axes, inner):
        extents[axis] = updates.shape[place]
    pointed = numbers.scatter_dims_to_operand_dims
    window = Window(operand, _indices(call, indices), pointed, pairs, extents, _mode(call))
    # Axes of size one that are in no window are placed, so that every axis of updates is known.
    outer = [place for place in range(updates.rank) if place not in inner]
    order = [*outer]
    order += [inner[axes.index(axis)] for axis in window.windowed]
    ones = [axis for axis in window.placed if axis in axes and axis not in window.windowed]
    order += [inner[axes.index(axis)] for axis in ones]
    order += [inner[axes.index(axis)] for axis in window.whole if axis in axes]
    starts, inside = _starts(g, window)
    updates = g.permute(updates, *order)
    shape = (*window.batches, *(extents[axis] for axis in (*window.windowed, *window.whole)))
    return _scattered(g, window, starts, g.reshape(updates, *shape), inside, reduction)


def _replaces(jaxpr: Any) -> bool:
    """Whether what joins elements gives the new one."""
    if jaxpr is None:
        return True
    opened = getattr(jaxpr, "jaxpr", jaxpr)
    return not opened.eqns and opened.outvars[0] is opened.invars[1]


def _scattered(
    g: JaxImporter,
    window: Window,
    starts: dict[int, Value],
    updates: Value,
    inside: Value | None,
    reduction: str,
) -> Value:
    """The operand with these updates, whose axes are those of batches, windows and the rest.

    Where some windows lie out of bounds, they go to one more place of the first axis, which is cut
    off in the end.
    """
    if reduction in ("min", "max") and updates.dtype.is_bool:
        plain = Window(
            g.cast(window.operand, dtypes.uint8), window.indices, window.pointed, window.batched,
            window.extents, window.mode,
        )  # fmt: skip
        made = _scattered(g, plain, starts, g.cast(updates, dtypes.uint8), inside, reduction)
        return g.cast(made, dtypes.bool_)
    operand = window.operand
    if not window.placed:
        window.placed, window.whole = [0], window.whole[1:]
        raise_rank = g.reshape(operand, 1, *operand.shape)
        made = _row(g, raise_rank, window, updates, inside, reduction)
        return g.reshape(made, *operand.shape)
    order = [*window.placed, *window.whole]
    data = g.permute(operand, *order)
    places = _places(g, window, starts)
    size = data.shape[0]
    if inside is not None:
        extra = g.pad(data, 0, 0, 1) if not data.dtype.is_bool else _longer(g, data)
        outside = g.extent(size)
        place = outside if isinstance(outside, Value) else g.number(outside, _INT64)
        first = g.slice(places, places.rank - 1, 0, 1)
        shape = [*window.batches, *[1] * (places.rank - len(window.batches))]
        sent = g("Where", g.reshape(inside, *shape), first, place)
        rest = len(window.placed)
        places = (
            sent
            if rest == 1
            else g("Concat", sent, g.slice(places, places.rank - 1, 1, rest), axis=places.rank - 1)
        )
        data = extra
    made = g("ScatterND", data, places, updates, reduction=reduction)
    if inside is not None:
        made = g.slice(made, 0, 0, size)
    return g.permute(made, *(order.index(axis) for axis in range(operand.rank)))


def _longer(g: JaxImporter, data: Value) -> Value:
    zeros = g.expand(g.number(0, data.dtype), 1, *data.shape[1:])
    return g("Concat", data, zeros, axis=0)


def _row(
    g: JaxImporter,
    data: Value,
    window: Window,
    updates: Value,
    inside: Value | None,
    reduction: str,
) -> Value:
    """Updates of a whole array, which is the one row of `data`."""
    places = g.expand(g.number(0, _INT64), *window.batches, 1)
    if inside is not None:
        data = _longer(g, data)
        shape = (*window.batches, 1)
        one = g.number(1, _INT64)
        places = g("Where", g.reshape(inside, *shape), places, one)
    made = g("ScatterND", data, places, updates, reduction=reduction)
    return g.slice(made, 0, 0, 1)


# -- slices at computed places ---------------------------------------------------------------------


def _clamped(call: JaxCall, starts: Sequence[Value], extents: Sequence[Dim]) -> dict[int, Value]:
    """Starts by axis, where a slice is not all of it."""
    g = call.g
    zero = g.number(0, _INT64)
    clamped = {}
    for axis, (start, extent) in enumerate(zip(starts, extents)):
        size = call.x.shape[axis]
        if size == extent:
            continue
        room = g.extent(size - extent)
        last = room if isinstance(room, Value) else g.number(room, _INT64)
        start = g.cast(start, _INT64)
        clamped[axis] = start if _within(start, room) else g.clamp(start, zero, last)
    return clamped


@primitive("dynamic_slice")
def dynamic_slice(call: JaxCall) -> Value:
    """A part of this size from a computed start, which is moved so that the part is inside."""
    g, value, extents = call.g, call.x, call.sizes("slice_sizes")
    starts = call.operands[1 : 1 + value.rank]
    if len(call.operands) > 1 + value.rank:
        raise call.unsupported("a slice whose sizes are computed")
    for axis, start in _clamped(call, starts, extents).items():
        extent = extents[axis]
        if start.const is not None:
            first = int(start.const)
            value = g.slice(value, axis, first, first + extent)
        else:
            places = g("Add", g.indices(extent), start)
            value = g("Gather", value, places, axis=axis)
    return value


@primitive("dynamic_update_slice")
def dynamic_update_slice(call: JaxCall) -> Value:
    """The operand with a part of it replaced, from a computed start on."""
    g = call.g
    operand, updates, *listed = call.operands
    extents = updates.shape
    starts = _clamped(call, listed, extents)
    if not starts:
        return updates
    if not all(extents):
        return operand
    placed = list(starts)
    whole = [axis for axis in range(operand.rank) if axis not in starts]
    shape = [extents[axis] for axis in placed]
    columns = []
    for place, axis in enumerate(placed):
        steps = g.axis_shape(g.indices(extents[axis]), place, len(placed))
        column = g.expand(g("Add", steps, starts[axis]), *shape)
        columns.append(g.reshape(column, *shape, 1))
    places = columns[0] if len(columns) == 1 else g("Concat", *columns, axis=len(placed))
    order = [*placed, *whole]
    moved = (g.permute(value, *order) for value in (operand, updates))
    data, new = moved
    made = g("ScatterND", data, places, new)
    return g.permute(made, *(order.index(axis) for axis in range(operand.rank)))
