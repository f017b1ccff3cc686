"""Primitives that make, move, repeat and cut arrays."""

from __future__ import annotations

from infuse.frontends.jax.calls import JaxCall, primitive
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.tracing.semantics.padding import padded, reversed_along


@primitive("broadcast_in_dim")
def broadcast_in_dim(call: JaxCall) -> Value:
    """The operand, its axes at these places among others, repeated along those of size one."""
    shape: list[Dim] = [1] * len(call.shape)
    for axis, size in zip(call["broadcast_dimensions"], call.x.shape):
        shape[axis] = size
    return call.g.expand(call.g.reshape(call.x, *shape), *call.shape)


@primitive("reshape")
def reshape(call: JaxCall) -> Value:
    """The elements in another shape."""
    if call["dimensions"] is not None:
        raise call.unsupported("a reshape that moves axes")
    return call.g.reshape(call.x, *call.shape)


@primitive("squeeze", "expand_dims")
def squeeze(call: JaxCall) -> Value:
    """The operand with fewer or more axes of size one."""
    return call.g.reshape(call.x, *call.shape)


@primitive("transpose")
def transpose(call: JaxCall) -> Value:
    """The axes in another order."""
    return call.g.permute(call.x, *(int(axis) for axis in call["permutation"]))


@primitive("concatenate")
def concatenate(call: JaxCall) -> Value:
    """Arrays one behind the other."""
    if len(call.operands) == 1:
        return call.x
    return call.g("Concat", *call.operands, axis=int(call["dimension"]))


@primitive("stack")
def stack(call: JaxCall) -> Value:
    """Arrays one behind the other along an axis of their own."""
    g, axis = call.g, int(call["axis"])
    shape = call.x.shape
    rows = [g.reshape(value, *shape[:axis], 1, *shape[axis:]) for value in call.operands]
    return rows[0] if len(rows) == 1 else g("Concat", *rows, axis=axis)


primitive("tile")(lambda call: call.g("Tile", call.x, call.g.ints(*call.sizes("reps"))))


@primitive("split")
def split(call: JaxCall) -> list[Value]:
    """Parts of these sizes."""
    sizes = call.sizes("sizes")
    if len(sizes) == 1:
        return [call.x]
    axis = int(call["axis"])
    return call.g.several(len(sizes), "Split", call.x, call.g.ints(*sizes), axis=axis)


@primitive("iota")
def iota(call: JaxCall) -> Value:
    """The number of each place along one axis."""
    g, axis = call.g, int(call["dimension"])
    counted = g.cast(g.indices(call.shape[axis]), call.dtype)
    return g.expand(g.axis_shape(counted, axis, len(call.shape)), *call.shape)


@primitive("dim_as_value")
def dim_as_value(call: JaxCall) -> Value:
    """A size as a number."""
    g = call.g
    size = g.extent(call.size(call["dim"]))
    return g.cast(size, call.dtype) if isinstance(size, Value) else g.number(size, call.dtype)


@primitive("slice")
def slice_(call: JaxCall) -> Value:
    """Elements from a start to a limit of every axis, some of them left out."""
    value = call.x
    starts, limits = call.sizes("start_indices"), call.sizes("limit_indices")
    steps = [int(step) for step in call["strides"] or [1] * len(starts)]
    for axis, (start, limit, step) in enumerate(zip(starts, limits, steps)):
        if (start, limit, step) != (0, value.shape[axis], 1):
            value = call.g.slice(value, axis, start, limit, step)
    return value


@primitive("rev")
def rev(call: JaxCall) -> Value:
    """The elements backwards along these axes."""
    return reversed_along(call.g, call.x, *(int(axis) for axis in call["dimensions"]))


@primitive("pad")
def pad(call: JaxCall) -> Value:
    """Elements before, after and between those of each axis; negative numbers take some away."""
    x, filling = call.operands
    config = [tuple(call.size(number) for number in entry) for entry in call["padding_config"]]
    return padded(call.g, x, filling, config)
