"""Operations of `keras.ops` on matrices: turned round, diagonals, norms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infuse.frontends.keras.calls import KerasCall
from infuse.frontends.keras.layers.operations import OPERATIONS, operation, real, tensor, together
from infuse.ir.graph import Value
from infuse.tracing.axes import axes_of
from infuse.tracing.semantics import movement

operation("Fliplr")(lambda call, x: call.reversed(tensor(call, x), 1))
operation("Flipud")(lambda call, x: call.reversed(tensor(call, x), 0))


@operation("Rot90")
def turned(call: KerasCall, array: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Value:
    """A plane turned by so many right angles, from the first axis towards the second."""
    value = tensor(call, array)
    first, second = axes_of(list(axes), value.rank)
    order = list(range(value.rank))
    order[first], order[second] = second, first
    if k % 4 == 2:
        return call.reversed(call.reversed(value, first), second)
    if k % 4 == 1:
        return call.g.permute(call.reversed(value, second), *order)
    return call.reversed(call.g.permute(value, *order), second) if k % 4 else value


@operation("Append")
def append(call: KerasCall, x1: Any, x2: Any, axis: int | None = None) -> Value:
    """Operands behind each other along an axis, or all their elements."""
    values = together(call, x1, x2)
    if axis is None:
        return call.g("Concat", *(call.shaped(v, -1) for v in values), axis=0)
    return call.g("Concat", *values, axis=axes_of(axis, values[0].rank)[0])


@operation("Diagonal")
def diagonal(call: KerasCall, x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    """A diagonal of each matrix that two axes are, as the last axis."""
    value = tensor(call, x)
    return movement.diagonal(call.g, value, offset, *axes_of([axis1, axis2], value.rank))


@operation("Trace")
def trace(call: KerasCall, x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    """The sum of a diagonal."""
    on_it = diagonal(call, x, offset, axis1, axis2)
    total: Value = OPERATIONS["Sum"](call, on_it, axis=-1)
    return total


@operation("Norm")
def norm(
    call: KerasCall, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False
) -> Value:
    """The norm of vectors, or Frobenius' of matrices (of all elements, where no axis is given)."""
    g, value = call.g, real(call, x)
    axes = axes_of(axis, value.rank)
    is_plain = ord is None or (ord == "fro" and len(axes) == 2) or (ord == 2 and len(axes) == 1)
    if is_plain:
        return g("Sqrt", call.reduced("ReduceSum", g("Mul", value, value), axes, keepdims))
    if len(axes) != 1 or isinstance(ord, str):
        raise call.unsupported(f"a norm of the order {ord!r} over {len(axes)} axes")
    size = g("Abs", value)
    if abs(ord) == float("inf"):
        return call.reduced("ReduceMax" if ord > 0 else "ReduceMin", size, axes, keepdims)
    if ord == 0:
        some = g.cast(g("Not", g("Equal", value, call.number(0, value))), value.dtype)
        return call.reduced("ReduceSum", some, axes, keepdims)
    if ord == 1:
        return call.reduced("ReduceSum", size, axes, keepdims)
    powers = call.reduced(
        "ReduceSum", g("Pow", size, call.number(float(ord), size)), axes, keepdims
    )
    return g("Pow", powers, call.number(1.0 / ord, size))
