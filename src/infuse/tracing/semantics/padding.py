"""Arrays backwards, and with elements before, after and between their own."""

from __future__ import annotations

from infuse.errors import UnsupportedOperatorError
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ops.core.building import GraphBuilder
from infuse.tracing.sized import SizedImporter

_END = -(2**62)


def reversed_along(g: GraphBuilder, value: Value, *axes: int) -> Value:
    """The elements backwards along these axes."""
    if not axes:
        return value
    count = len(axes)
    limits = ([-1] * count, [_END] * count, axes, [-1] * count)
    made = g("Slice", value, *(g.ints(*numbers) for numbers in limits))
    made.type = value.type
    return made


def padded(g: SizedImporter, x: Value, filling: Value, config: list[tuple[Dim, ...]]) -> Value:
    """`x` with so many elements before, after and between those of each axis."""
    for axis, (_, _, between) in enumerate(config):
        x = _spread(g, x, filling, axis, between)
    for axis, (low, high, _) in enumerate(config):
        # What is taken away may be what was put in between, so that both are done in this order.
        (before, first), (after, last) = _parts(low), _parts(high)
        if (before, after) != (0, 0):
            x = g("Pad", x, g.ints(before, after), filling, g.ints(axis))
        if (first, last) != (0, 0):
            x = g.slice(x, axis, first, x.shape[axis] - last)
    return x


def _parts(size: Dim) -> tuple[Dim, Dim]:
    """How many elements are added, and how many taken away."""
    if dims.is_nonnegative(size):
        return size, 0
    if dims.is_nonnegative(-size):
        return 0, -size
    raise UnsupportedOperatorError(f"a padding of {size}, of either sign, is not supported")


def _spread(g: SizedImporter, x: Value, filling: Value, axis: int, between: Dim) -> Value:
    """`x` with so many elements between those of an axis."""
    size = x.shape[axis]
    if between == 0 or size in (0, 1):
        return x
    shape = x.shape
    columns = g.reshape(x, *shape[: axis + 1], 1, *shape[axis + 1 :])
    wide = g("Pad", columns, g.ints(0, between), filling, g.ints(axis + 1))
    joined = g.reshape(wide, *shape[:axis], size * (between + 1), *shape[axis + 1 :])
    return g.slice(joined, axis, 0, size * (between + 1) - between)
