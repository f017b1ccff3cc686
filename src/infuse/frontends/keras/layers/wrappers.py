"""Layers around layers."""

from __future__ import annotations

from infuse.errors import ModelFileError
from infuse.frontends.keras.calls import KerasCall, layer
from infuse.ir.graph import Value


@layer("TimeDistributed", children=lambda config: {"layer": config.get("layer")}, masking=True)
def time_distributed(call: KerasCall, x: Value, mask: Value | None = None) -> Value:
    """A layer applied to every time by itself: times are further elements of the batch."""
    g = call.g
    if x.rank < 3:
        raise ModelFileError(f"its operand has {x.rank} axes")
    rest = [g.size_of(x, axis) for axis in range(2, x.rank)]
    times = g.size_of(x, 1)
    rows = call.shaped(x, -1, *rest)
    mask = mask if mask is not None else call.mask(x)
    if mask is not None and mask.rank > 2:
        sizes = [g.size_of(mask, axis) for axis in range(2, mask.rank)]
        call.set_mask(rows, call.shaped(mask, -1, *sizes))
    made = call.inner("layer", rows)
    if not isinstance(made, Value):
        raise call.unsupported("a layer with several results")
    call.set_mask(made, None)
    behind = [g.size_of(made, axis) for axis in range(1, made.rank)]
    return call.shaped(made, -1, times, *behind)


@layer("Wrapper", children=lambda config: {"layer": config.get("layer")})
def wrapper(call: KerasCall, x: Value) -> Value:
    """The layer inside."""
    result: Value = call.inner("layer", x)
    return result
