"""Operators that bring the elements of axes together."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.tflite.builtins.movement import axis_of
from infuse.frontends.tflite.builtins.units import scales
from infuse.frontends.tflite.calls import Call, builtin
from infuse.ir.contents import known_ints
from infuse.ir.graph import Value

_REDUCED: Final = {"SUM": "ReduceSum", "MEAN": "ReduceMean", "REDUCE_PROD": "ReduceProd"}
_EXTREME: Final = {"REDUCE_MAX": "ReduceMax", "REDUCE_MIN": "ReduceMin"}
_TRUTH: Final = {"REDUCE_ANY": "ReduceMax", "REDUCE_ALL": "ReduceMin"}


def _over(call: Call, kind: str, x: Value) -> Value:
    keep = int(bool(call.option("keep_dims", False)))
    return call.g(kind, x, call.list_of(1), keepdims=keep, noop_with_empty_axes=1)


def reduced(kind: str) -> Callable[[Call], Value]:
    """A reduction of real numbers."""

    def build(call: Call) -> Value:
        x = call.real(0)
        if kind == "ReduceMean" and not x.dtype.is_float:
            return call.g.cast(_over(call, kind, call.g.cast(x, dtypes.float64)), x.dtype)
        mean = _stored_mean(call) if kind == "ReduceMean" else None
        return _over(call, kind, x) if mean is None else mean

    return build


def _stored_mean(call: Call) -> Value | None:
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
    places = g("Add", g("Mul", _over(call, "ReduceSum", x), share), float(shift))
    return g("QuantizeLinear", places, g.constant(one), g.constant(np.zeros((), dtype)))


def extreme(kind: str) -> Callable[[Call], Value]:
    """The largest or least element, whatever elements mean."""
    return lambda call: _over(call, kind, call.moved(0)[0])


def truth(kind: str) -> Callable[[Call], Value]:
    """Whether any or all elements hold."""

    def build(call: Call) -> Value:
        x = call.g.cast(call.raw(0), dtypes.uint8)
        return call.g.cast(_over(call, kind, x), dtypes.bool_)

    return build


for _name, _kind in _REDUCED.items():
    builtin(_name)(reduced(_kind))
for _name, _kind in _EXTREME.items():
    builtin(_name)(extreme(_kind))
for _name, _kind in _TRUTH.items():
    builtin(_name)(truth(_kind))


def place(kind: str) -> Callable[[Call], Value]:
    """Where the largest or least element is."""

    def build(call: Call) -> Value:
        x = call.raw(0)
        if x.dtype.is_bool:
            x = call.g.cast(x, dtypes.uint8)
        axis = axis_of(call.one(1), x.rank)
        return call.as_result(call.g(kind, x, axis=axis, keepdims=0))

    return build


builtin("ARG_MAX")(place("ArgMax"))
builtin("ARG_MIN")(place("ArgMin"))


@builtin("CUMSUM")
def cumsum(call: Call) -> Value:
    """Sums of the elements of an axis up to each one."""
    x = call.real(0)
    axis = call.g.ints(axis_of(call.one(1), x.rank))
    exclusive, backward = (int(call.option(o, False)) for o in ("exclusive", "reverse"))
    return call.g("CumSum", x, axis, exclusive=exclusive, reverse=backward)


@builtin("TOPK_V2")
def top_k(call: Call) -> list[Value]:
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
def rfft2d(call: Call) -> Value:
    """The Fourier transform of the last two axes of real numbers, without what follows of it."""
    g, x = call.g, call.raw(0)
    lengths = call.list_of(1)
    if x.rank < 2:
        raise ModelFileError(f"its operand has {x.rank} axes")
    height, width = (g("Gather", lengths, i) for i in (g.constant(0), g.constant(1)))
    parts = g("Unsqueeze", x, g.ints(-1))
    parts = _transformed(call, parts, width, x.rank - 1, onesided=1)
    return _transformed(call, parts, height, x.rank - 2, onesided=0)


def _transformed(call: Call, parts: Value, length: Value, axis: int, onesided: int) -> Value:
    return call.g("DFT", parts, length, call.g.constant(axis), onesided=onesided)


@builtin("REAL")
def real(call: Call) -> Value:
    """The real parts."""
    return _part(call, 0)


@builtin("IMAG")
def imaginary(call: Call) -> Value:
    """The imaginary parts."""
    return _part(call, 1)


def _part(call: Call, number: int) -> Value:
    parts = call.parts(0)
    return call.g("Gather", parts, call.g.constant(number), axis=parts.rank - 1)


@builtin("COMPLEX_ABS")
def complex_abs(call: Call) -> Value:
    """The absolute values of complex numbers."""
    return call.g("ReduceL2", call.parts(0), call.g.ints(-1), keepdims=0)
