"""Operators that compute every element by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.semantics import arithmetic
from infuse.tracing.tensorflow.calls import OperandCall, shared

_UNARY: Final = "Abs Ceil Cos Elu Floor Neg Relu Sign Sin"
_PAIRS: Final = {"Pow": "Pow", "Prelu": "PRelu"}
_STORED: Final = {"LogicalAnd": "And", "LogicalOr": "Or", "BitwiseXor": "BitwiseXor"}
"""Operators that take elements as the file has them."""


def _unary(kind: str) -> Callable[[OperandCall], Value]:
    return lambda call: call.g(kind, call.real(0))


def _pair(kind: str) -> Callable[[OperandCall], Value]:
    return lambda call: call.g(kind, call.real(0), call.real(1))


def _stored(kind: str) -> Callable[[OperandCall], Value]:
    return lambda call: call.g(kind, call.raw(0), call.raw(1))


for _name in _UNARY.split():
    shared(_name)(_unary(_name))
for _name, _kind in _PAIRS.items():
    shared(_name)(_pair(_kind))
for _name, _kind in _STORED.items():
    shared(_name)(_stored(_kind))
shared("AddN", "AccumulateNV2")(lambda call: arithmetic.summed(call.g, call.reals()))
shared("LogicalNot")(lambda call: call.g("Not", call.raw(0)))
shared("LogSoftmax")(lambda call: call.g("LogSoftmax", call.real(0), axis=-1))
shared("FloorMod")(lambda call: arithmetic.floor_mod(call.g, call.real(0), call.real(1)))
shared("Atan2")(lambda call: arithmetic.atan2(call.g, call.real(0), call.real(1)))


@shared("Round")
def round_(call: OperandCall) -> Value:
    """The next whole number, the even one of two."""
    x = call.real(0)
    return call.g("Round", x) if x.dtype.is_float else x


@shared("Square")
def square(call: OperandCall) -> Value:
    """X · x."""
    x = call.real(0)
    return call.g("Mul", x, x)


@shared("SquaredDifference")
def squared_difference(call: OperandCall) -> Value:
    """The square of the difference."""
    difference = call.g("Sub", call.real(0), call.real(1))
    return call.g("Mul", difference, difference)


@shared("FloorDiv")
def floor_div(call: OperandCall) -> Value:
    """The quotient, rounded down."""
    g, x, y = call.g, call.real(0), call.real(1)
    if x.dtype.is_float:
        return g("Floor", g("Div", x, y))
    return arithmetic.floor_quotient(g, x, y)


def _shifted(direction: str) -> Callable[[OperandCall], Value]:
    """Integers with their bits moved, the sign kept; one bit is left at least."""
    return lambda call: arithmetic.shifted_within(call.g, call.raw(0), call.raw(1), direction)


shared("RightShift")(_shifted("RIGHT"))
shared("LeftShift")(_shifted("LEFT"))


def _filled(number: int) -> Callable[[OperandCall], Value]:
    def build(call: OperandCall) -> Value:
        x = call.raw(0)
        return call.g("Expand", call.g.number(number, x.dtype), call.g("Shape", x))

    return build


shared("ZerosLike")(_filled(0))
shared("OnesLike")(_filled(1))


@shared("Bitcast")
def bitcast(call: OperandCall) -> Value:
    """The same bytes as elements of another type."""
    x, to = call.raw(0), call.dtype
    if x.dtype.bits != to.bits:
        raise call.unsupported(f"a bitcast from {x.dtype} to {to}, of another size,")
    return call.g("BitCast", x, to=to)


@shared("Bucketize")
def bucketize(call: OperandCall) -> Value:
    """How many boundaries, which ascend, are not above each element: all for NaN."""
    g, x = call.g, call.raw(0)
    stated = call.option("boundaries", None)
    boundaries = np.asarray([] if stated is None else stated, np.float32)
    if not boundaries.size:
        return g("Mul", g.cast(x, dtypes.int32), 0)
    columns = g("Unsqueeze", g.cast(x, dtypes.float32), g.ints(-1))
    reached = g("Not", g("Less", columns, g.constant(boundaries)))
    return g("ReduceSum", g.cast(reached, dtypes.int32), g.ints(-1), keepdims=0)
