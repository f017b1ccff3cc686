"""Gather and scatter as XLA has them: windows of an operand at computed starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from infuse import dtypes
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.tracing.sized import SizedImporter

_INT64: Final = dtypes.int64


@dataclass
class Windowing:
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


def starts_of(g: SizedImporter, window: Windowing) -> tuple[dict[int, Value], Value | None]:
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
        starts[axis] = start if is_inside(start, room) else g.clamp(start, zero, last)
    return starts, inside


def is_inside(start: Value, room: int | Value) -> bool:
    """Whether constant starts are certainly in bounds."""
    if start.const is None or not isinstance(room, int):
        return False
    return bool(np.all((start.const >= 0) & (start.const <= room)))


def places_of(g: SizedImporter, window: Windowing, starts: dict[int, Value]) -> Value:
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


def squeezed(g: SizedImporter, window: Windowing, made: Value, axes: Sequence[int]) -> Value:
    """What was gathered without whole axes of size one that the result does not have."""
    first = made.rank - len(window.whole)
    shape = [
        size
        for place, size in enumerate(made.shape)
        if place < first or window.whole[place - first] in axes
    ]
    return g.reshape(made, *shape)


def gathered(g: SizedImporter, window: Windowing, starts: dict[int, Value]) -> Value:
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
    return g("GatherND", moved, places_of(g, window, starts))


def scattered(
    g: SizedImporter,
    window: Windowing,
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
        plain = Windowing(
            g.cast(window.operand, dtypes.uint8), window.indices, window.pointed, window.batched,
            window.extents, window.mode,
        )  # fmt: skip
        made = scattered(g, plain, starts, g.cast(updates, dtypes.uint8), inside, reduction)
        return g.cast(made, dtypes.bool_)
    operand = window.operand
    if not window.placed:
        window.placed, window.whole = [0], window.whole[1:]
        raise_rank = g.reshape(operand, 1, *operand.shape)
        made = _row(g, raise_rank, window, updates, inside, reduction)
        return g.reshape(made, *operand.shape)
    order = [*window.placed, *window.whole]
    data = g.permute(operand, *order)
    places = places_of(g, window, starts)
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


def _longer(g: SizedImporter, data: Value) -> Value:
    zeros = g.expand(g.number(0, data.dtype), 1, *data.shape[1:])
    return g("Concat", data, zeros, axis=0)


def _row(
    g: SizedImporter,
    data: Value,
    window: Windowing,
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
