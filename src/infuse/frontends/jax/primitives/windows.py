"""Primitives that join the elements of windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from infuse.frontends.jax.calls import JaxCall, primitive
from infuse.frontends.jax.primitives.reductions import join, joined_by
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.tracing.semantics.padding import padded
from infuse.tracing.sized import highest, lowest


@dataclass
class Windows:
    """The parameters of a window, a number for each axis."""

    extents: list[int]
    strides: list[int]
    pads: list[tuple[Dim, ...]]
    spread: list[int]
    dilations: list[int]

    @staticmethod
    def of(call: JaxCall) -> Windows:
        """Those of a call. UnsupportedOperatorError where an extent is a symbol."""
        extents = call.sizes("window_dimensions")
        if not all(isinstance(size, int) for size in extents):
            raise call.unsupported("a window whose size is a symbol")
        return Windows(
            [int(size) for size in extents if isinstance(size, int)],
            [int(step) for step in call["window_strides"]],
            [tuple(map(call.size, pair)) for pair in call["padding"]],
            [int(step) for step in call["base_dilation"]],
            [int(step) for step in call["window_dilation"]],
        )

    @property
    def moving(self) -> list[int]:
        """The axes along which a window is more than each element."""
        rows = zip(self.extents, self.strides, self.pads, self.spread, self.dilations)
        return [i for i, row in enumerate(rows) if row[:4] != (1, 1, (0, 0), 1)]

    def pools(self) -> bool:
        """Whether a pooling operator has such windows: pads within them, no zeros in between."""
        spans = [(n - 1) * step + 1 for n, step in zip(self.extents, self.dilations)]
        inside = all(
            isinstance(pad, int) and 0 <= pad < span
            for pair, span in zip(self.pads, spans)
            for pad in pair
        )
        return inside and set(self.spread) == {1}


def _pooled(call: JaxCall, kind: str, windows: Windows, **attributes: Any) -> Value:
    """A pooling operator, with the axes that windows move along behind two others."""
    g, x = call.g, call.x
    moving = windows.moving
    others = [axis for axis in range(x.rank) if axis not in moving]
    order = [*others, *moving]
    moved = g.permute(x, *order)
    outer = moved.shape[: len(others)]
    if len(others) != 2:
        # Pooling has one axis of a batch, and one of channels.
        batch, channels = (1, 1) if not outer else (1, outer[0])
        moved = g.reshape(moved, batch, channels, *moved.shape[len(others) :])
    pads = [windows.pads[axis] for axis in moving]
    made = g(
        kind, moved, **attributes,
        kernel_shape=tuple(windows.extents[axis] for axis in moving),
        strides=tuple(windows.strides[axis] for axis in moving),
        dilations=tuple(windows.dilations[axis] for axis in moving),
        pads=tuple(pair[end] for end in (0, 1) for pair in pads),
    )  # fmt: skip
    if len(others) != 2:
        made = g.reshape(made, *outer, *made.shape[2:])
    return g.permute(made, *(order.index(axis) for axis in range(x.rank)))


def _joined(call: JaxCall, joins: str, windows: Windows, filling: Value) -> Value:
    """The elements of windows joined along one axis after the other."""
    g, rows = call.g, zip(windows.pads, windows.spread)
    config = [(*pair, step - 1) for pair, step in rows]
    value = padded(g, call.x, filling, config)
    for axis in windows.moving:
        step, stride = windows.dilations[axis], windows.strides[axis]
        reach = (call.shape[axis] - 1) * stride + 1
        parts = [
            g.slice(value, axis, place * step, place * step + reach, stride)
            for place in range(windows.extents[axis])
        ]
        value = parts[0]
        for part in parts[1:]:
            value = join(g, joins, value, part)
    return value


def _neutral(joins: str, call: JaxCall) -> Any:
    if joins == "max":
        return lowest(call.dtype)
    if joins == "min":
        return highest(call.dtype)
    return 1 if joins in ("mul", "and") else 0


def _window(joins: str) -> Callable[[JaxCall], Value]:
    def build(call: JaxCall) -> Value:
        g, windows = call.g, Windows.of(call)
        rank, moving = call.x.rank, windows.moving
        plain = call.dtype.is_float and windows.pools() and 0 not in call.shape
        if plain and 1 <= len(moving) <= 3 and rank - len(moving) <= 2:
            if joins == "max":
                return _pooled(call, "MaxPool", windows)
            if joins == "add" and call.dtype.bits >= 32:
                mean = _pooled(call, "AveragePool", windows, count_include_pad=1)
                return g("Mul", mean, float(prod(windows.extents)))
        if 0 in call.shape:
            return g.expand(g.number(0, call.dtype), *call.shape)
        filling = g.constant(_neutral(joins, call), dtype=call.dtype)
        return _joined(call, joins, windows, filling)

    return build


primitive("reduce_window_max")(_window("max"))
primitive("reduce_window_min")(_window("min"))
primitive("reduce_window_sum")(_window("add"))


@primitive("reduce_window")
def reduce_window(call: JaxCall) -> Value:
    """Windows joined by a function, with one more element."""
    if len(call.operands) != 2:
        raise call.unsupported("windows of several arrays")
    joins = joined_by(call, call["jaxpr"])
    filling = call.g.constant(_neutral(joins, call), dtype=call.dtype)
    made = _joined(call, joins, Windows.of(call), filling)
    return join(call.g, joins, made, call.y)
