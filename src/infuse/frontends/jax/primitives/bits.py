"""Primitives of the bits of elements."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.frontends.jax.calls import JaxCall, JaxImporter, primitive
from infuse.ir.graph import Value


@primitive("bitcast_convert_type")
def bitcast_convert_type(call: JaxCall) -> Value:
    """The same bits as elements of another type of the same width."""
    if call.x.dtype.bits != call.dtype.bits:
        raise call.unsupported(f"a bitcast from {call.x.dtype} to {call.dtype}, of another width,")
    return call.x if call.x.dtype == call.dtype else call.g("BitCast", call.x, to=call.dtype)


primitive("shift_left")(lambda call: call.g("BitShift", call.x, call.y, direction="LEFT"))
primitive("population_count")(lambda call: call.g.cast(_count(call.g, _wide(call)), call.dtype))


@primitive("shift_right_arithmetic")
def shift_right_arithmetic(call: JaxCall) -> Value:
    """Integers without their last bits, with their first one before the others."""
    g, dtype = call.g, signed(call.dtype)
    x, y = (bits_as(g, value, dtype) for value in (call.x, call.y))
    return bits_as(g, g("BitShift", x, y, direction="RIGHT"), call.dtype)


@primitive("shift_right_logical")
def shift_right_logical(call: JaxCall) -> Value:
    """Integers without their last bits, with zeros before the others."""
    g, plain = call.g, unsigned(call.dtype)
    x, y = (bits_as(g, value, plain) for value in (call.x, call.y))
    return bits_as(g, g("BitShift", x, y, direction="RIGHT"), call.dtype)


def signed(dtype: DType) -> DType:
    """The signed integers of the same width."""
    return dtypes.by_name(f"int{dtype.bits}")


def unsigned(dtype: DType) -> DType:
    """The unsigned integers of the same width."""
    return dtypes.by_name(f"uint{dtype.bits}")


def bits_as(g: JaxImporter, value: Value, dtype: DType) -> Value:
    """The bits of integers as those of another type."""
    return value if value.dtype == dtype else g("BitCast", value, to=dtype)


@primitive("clz")
def clz(call: JaxCall) -> Value:
    """How many bits are zero before the first that is set."""
    g, bits = call.g, _wide(call)
    for step in (1, 2, 4, 8, 16, 32):
        bits = g("BitwiseOr", bits, _right(g, bits, step))
    width = g.number(call.dtype.bits, dtypes.uint64)
    return g.cast(g("Sub", width, _count(g, bits)), call.dtype)


def _wide(call: JaxCall) -> Value:
    plain = bits_as(call.g, call.x, unsigned(call.x.dtype))
    return call.g.cast(plain, dtypes.uint64)


def _right(g: JaxImporter, bits: Value, step: int) -> Value:
    return g("BitShift", bits, g.number(step, dtypes.uint64), direction="RIGHT")


def _count(g: JaxImporter, bits: Value) -> Value:
    """The sums of neighbouring groups of bits, in groups of twice the width."""
    for step in (1, 2, 4, 8, 16, 32):
        mask = sum(((1 << step) - 1) << place for place in range(0, 64, 2 * step))
        group = g.number(np.uint64(mask), dtypes.uint64)
        halves = (g("BitwiseAnd", part, group) for part in (bits, _right(g, bits, step)))
        bits = g("Add", *halves)
    return bits
