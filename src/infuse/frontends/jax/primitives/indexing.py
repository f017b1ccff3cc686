"""Primitives that read and write at computed places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.frontends.jax.calls import JaxCall, primitive
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.tracing.semantics.windowing import (
    Windowing,
    gathered,
    is_inside,
    scattered,
    squeezed,
    starts_of,
)
from infuse.tracing.sized import highest, lowest

_INT64: Final = dtypes.int64


def _mode(call: JaxCall) -> str:
    mode = getattr(call["mode"], "name", str(call["mode"]))
    if mode not in ("CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS"):
        raise call.unsupported(f"the mode {mode} of indices out of bounds")
    return str(mode)


def _indices(call: JaxCall, value: Value) -> Value:
    return call.g.cast(value, _INT64)


@primitive("gather")
def gather(call: JaxCall) -> Value:
    """Windows of an array at computed places, put together."""
    g, numbers = call.g, call["dimension_numbers"]
    pairs = zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims)
    window = Windowing(
        call.x,
        _indices(call, call.y),
        numbers.start_index_map,
        list(pairs),
        call.sizes("slice_sizes"),
        _mode(call),
    )
    starts, inside = starts_of(g, window)
    rank = len(call.shape)
    offsets = list(numbers.offset_dims)
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    axes = [axis for axis in range(call.x.rank) if axis not in dropped]
    outer = [axis for axis in range(rank) if axis not in offsets]
    made = gathered(g, window, starts)
    # The axes of the result, in the order in which they are made.
    order = [*outer]
    order += [offsets[axes.index(axis)] for axis in window.windowed]
    order += [offsets[axes.index(axis)] for axis in window.whole if axis in axes]
    made = squeezed(g, window, made, axes)
    moved = sorted(range(len(order)), key=lambda place: order[place])
    made = g.permute(made, *moved)
    made = g.reshape(made, *call.shape)  # with axes of size one that are places only
    if inside is None:
        return made
    filling = _filling(call)
    shape = [call.shape[axis] if axis in outer else 1 for axis in range(rank)]
    return g("Where", g.reshape(inside, *shape), made, filling)


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
    window = Windowing(operand, _indices(call, indices), pointed, pairs, extents, _mode(call))
    # Axes of size one that are in no window are placed, so that every axis of updates is known.
    outer = [place for place in range(updates.rank) if place not in inner]
    order = [*outer]
    order += [inner[axes.index(axis)] for axis in window.windowed]
    ones = [axis for axis in window.placed if axis in axes and axis not in window.windowed]
    order += [inner[axes.index(axis)] for axis in ones]
    order += [inner[axes.index(axis)] for axis in window.whole if axis in axes]
    starts, inside = starts_of(g, window)
    updates = g.permute(updates, *order)
    shape = (*window.batches, *(extents[axis] for axis in (*window.windowed, *window.whole)))
    return scattered(g, window, starts, g.reshape(updates, *shape), inside, reduction)


def _replaces(jaxpr: Any) -> bool:
    """Whether what joins elements gives the new one."""
    if jaxpr is None:
        return True
    opened = getattr(jaxpr, "jaxpr", jaxpr)
    return not opened.eqns and opened.outvars[0] is opened.invars[1]


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
        clamped[axis] = start if is_inside(start, room) else g.clamp(start, zero, last)
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
