"""Operators that bring the elements of axes together."""

from __future__ import annotations

from collections.abc import Callable

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.axes import axis_of
from infuse.tracing.tensorflow.calls import OperandCall, shared


def over(call: OperandCall, kind: str, x: Value) -> Value:
    """A reduction of a tensor over the axes of operand 1."""
    keep = int(bool(call.option("keep_dims", False)))
    return call.g(kind, x, call.list_of(1), keepdims=keep, noop_with_empty_axes=1)


def reduced(kind: str) -> Callable[[OperandCall], Value]:
    """A reduction of real numbers."""

    def build(call: OperandCall) -> Value:
        x = call.real(0)
        if kind == "ReduceMean" and not x.dtype.is_float:
            return call.g.cast(over(call, kind, call.g.cast(x, dtypes.float64)), x.dtype)
        return over(call, kind, x)

    return build


def _extreme(kind: str) -> Callable[[OperandCall], Value]:
    """The largest or least element, whatever elements mean."""
    return lambda call: over(call, kind, call.moved(0)[0])


def _truth(kind: str) -> Callable[[OperandCall], Value]:
    """Whether any or all elements hold."""

    def build(call: OperandCall) -> Value:
        x = call.g.cast(call.raw(0), dtypes.uint8)
        return call.g.cast(over(call, kind, x), dtypes.bool_)

    return build


def _running(kind: str) -> Callable[[OperandCall], Value]:
    """Sums or products of the elements of an axis up to each one."""

    def build(call: OperandCall) -> Value:
        x = call.real(0)
        axis = call.g.ints(axis_of(call.one(1), x.rank))
        exclusive, backward = (int(call.option(o, False)) for o in ("exclusive", "reverse"))
        return call.g(kind, x, axis, exclusive=exclusive, reverse=backward)

    return build


for _name in ("Sum", "Mean", "Prod"):
    shared(_name)(reduced(f"Reduce{_name}"))
for _name in ("Max", "Min"):
    shared(_name)(_extreme(f"Reduce{_name}"))
shared("EuclideanNorm")(reduced("ReduceL2"))
shared("Any")(_truth("ReduceMax"))
shared("All")(_truth("ReduceMin"))
shared("Cumsum")(_running("CumSum"))
shared("Cumprod")(_running("CumProd"))


def _part(number: int) -> Callable[[OperandCall], Value]:
    """The real (0) or the imaginary (1) parts of complex numbers."""

    def build(call: OperandCall) -> Value:
        parts = call.parts(0)
        return call.g("Gather", parts, call.g.constant(number), axis=parts.rank - 1)

    return build


shared("Real")(_part(0))
shared("Imag")(_part(1))


shared("ComplexAbs")(lambda call: call.g("ReduceL2", call.parts(0), call.g.ints(-1), keepdims=0))
