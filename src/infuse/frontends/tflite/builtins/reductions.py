"""Operators that bring the elements of axes together."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.tflite.builtins.units import scales
from infuse.frontends.tflite.calls import BYTES, LiteCall, builtin
from infuse.ir.contents import known_ints
from infuse.ir.graph import Value
from infuse.tracing.axes import axis_of
from infuse.tracing.tensorflow.reductions import over, reduced


@builtin("MEAN")
def mean(call: LiteCall) -> Value:
    """The means of axes; of bytes, as the delegate rounds them."""
    stored = _stored_mean(call) if call.raw(0).dtype in BYTES else None
    return reduced("ReduceMean")(call) if stored is None else stored


def _stored_mean(call: LiteCall) -> Value | None:
    """Means of bytes as bytes, which the delegate rounds when the zero point has been added; None
    where it takes no such call.
    """
    known, sizes = scales(call), call.raw(0).shape
    axes = known_ints(call.list_of(1))
    if known is None or axes is None or not axes:
        return None
    counts = [sizes[axis] for axis in axes if isinstance(axis, int)]
    if not all(isinstance(count, int) and count for count in counts):
        return None
    g, (scale, zero, step, shift) = call.g, known
    one, dtype = np.float32(1), call.dtype.numpy
    x = g("DequantizeLinear", call.raw(0), g.constant(one), g.constant(np.asarray(zero, dtype)))
    ratio = np.float32(scale) / np.float32(step)
    share = ratio * (one / np.float32(math.prod(int(n) for n in counts if isinstance(n, int))))
    places = g("Add", g("Mul", over(call, "ReduceSum", x), share), float(shift))
    return g("QuantizeLinear", places, g.constant(one), g.constant(np.zeros((), dtype)))


def place(kind: str) -> Callable[[LiteCall], Value]:
    """Where the largest or least element is."""

    def build(call: LiteCall) -> Value:
        x = call.raw(0)
        if x.dtype.is_bool:
            x = call.g.cast(x, dtypes.uint8)
        axis = axis_of(call.one(1), x.rank)
        return call.as_result(call.g(kind, x, axis=axis, keepdims=0))

    return build


builtin("ARG_MAX")(place("ArgMax"))
builtin("ARG_MIN")(place("ArgMin"))


@builtin("TOPK_V2")
def top_k(call: LiteCall) -> list[Value]:
    """The largest elements of the last axis in order, and their places; NaN comes last."""
    g, (x,) = call.g, call.moved(0)
    if x.dtype.is_float:
        negative = g("Neg", x)
        values, places = g.several(2, "TopK", negative, call.list_of(1), axis=-1, largest=0)
        values = g("Neg", values)
    else:
        values, places = g.several(2, "TopK", x, call.list_of(1), axis=-1)
    return [values, call.as_result(places, 1)]


@builtin("RFFT2D")
def rfft2d(call: LiteCall) -> Value:
    """The Fourier transform of the last two axes of real numbers, without what follows of it."""
    g, x = call.g, call.raw(0)
    lengths = call.list_of(1)
    if x.rank < 2:
        raise ModelFileError(f"its operand has {x.rank} axes")
    height, width = (g("Gather", lengths, i) for i in (g.constant(0), g.constant(1)))
    parts = g("Unsqueeze", x, g.ints(-1))
    parts = _transformed(call, parts, width, x.rank - 1, onesided=1)
    return _transformed(call, parts, height, x.rank - 2, onesided=0)


def _transformed(call: LiteCall, parts: Value, length: Value, axis: int, onesided: int) -> Value:
    return call.g("DFT", parts, length, call.g.constant(axis), onesided=onesided)
