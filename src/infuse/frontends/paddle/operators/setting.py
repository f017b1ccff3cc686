"""A tensor with other elements in a part of it."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.paddle.calls import PaddleCall, front, operator
from infuse.ir.graph import Value

_Limit = tuple[int, Value, Value, Value]
"""An axis, where the part begins and ends on it, and its step."""


@operator("set_value", "set_value_with_tensor")
def set_value(call: PaddleCall) -> Value:
    """A tensor with other elements in a part; they repeat as in broadcasting."""
    x = call("x")
    if call.attribute("none_axes", []):
        raise call.unsupported("an assignment with new axes")
    axes = [front(int(axis), x.rank) for axis in call.attribute("axes", [])]
    decreased = [front(int(axis), x.rank) for axis in call.attribute("decrease_axes", [])]
    starts, ends, steps = (call.listed(name, []) for name in ("starts", "ends", "steps"))
    for bounds in (starts, ends, steps):
        if bounds.shape != (len(axes),):
            raise ModelFileError(f"it has {len(axes)} axes and {bounds.type} limits")

    def at(bounds: Value, i: int) -> Value:
        return call.g.slice(bounds, 0, i, i + 1)

    limits = [(axis, at(starts, i), at(ends, i), at(steps, i)) for i, axis in enumerate(axes)]
    return _assigned(call, x, limits, decreased, _values(call, x))


def _values(call: PaddleCall, x: Value) -> Value:
    shape, stored = call.attribute("shape", []), call.attribute("values", [])
    call.attribute("dtype")
    if call.has("values"):
        return call.g.cast(call("values"), x.dtype)
    elements = np.array(stored).astype(x.dtype.numpy)
    if elements.size != int(np.prod(shape, initial=1)):
        raise ModelFileError(f"it has {elements.size} elements of the shape {list(shape)[:8]}")
    return call.g.constant(elements.reshape([int(size) for size in shape]))


def _assigned(
    call: PaddleCall, x: Value, limits: list[_Limit], decreased: list[int], values: Value
) -> Value:
    """One axis after another: the part with other elements, put back in its places."""
    g = call.g
    if not limits:
        shape = g("Squeeze", x, g.ints(*decreased)) if decreased else x
        extra = values.rank - shape.rank
        if extra > 0:
            values = g("Squeeze", values, g.ints(*range(extra)))
        made = g("Expand", values, g("Shape", shape))
        return g("Unsqueeze", made, g.ints(*decreased)) if decreased else made
    axis, start, end, step = limits[0]
    place = g.ints(axis)
    part = _assigned(call, g("Slice", x, start, end, place, step), limits[1:], decreased, values)
    size = g("Squeeze", g("Shape", x, start=axis, end=axis + 1), g.ints(0))
    count = (g.number(0, dtypes.int64), size, g.number(1, dtypes.int64))
    index = g("Slice", g("Range", *count), start, end, g.ints(0), step)
    order = [axis, *(i for i in range(x.rank) if i != axis)]
    rows = g("Unsqueeze", index, g.ints(1))
    made = g("ScatterND", g.permute(x, *order), rows, g.permute(part, *order))
    return g.permute(made, *np.argsort(order).tolist())
