"""Quantization in elementwise operators, as bodies of operators and code generation write it."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir.graph import Value, constant
from infuse.ops.arithmetic import Div, Mul, Sub
from infuse.ops.core.base import Op
from infuse.ops.core.building import GraphBuilder
from infuse.ops.quantization import limits
from infuse.ops.scalars import MultiplyAdd


def quantized(
    make: GraphBuilder, steps: Value, zero: Value | None, to: DType, saturate: bool = True
) -> Value:
    """Multiples of the scale as elements of `to`, as `ops.quantization.quantize` has it."""
    if not to.is_integer:
        if zero is not None and to.bits < 8:
            steps = make("Add", steps, make.cast(zero, steps.dtype))
        return make("Cast", steps, to=to, saturate=int(saturate))
    low, high = limits(to)
    whole = (
        make.cast(make("Round", steps), dtypes.float32)
        if steps.dtype.bits < 64
        else make("Round", steps)
    )
    if zero is not None and not is_zero(zero):
        whole = make("Add", whole, make.cast(zero, whole.dtype))
    if whole.dtype == dtypes.float32 and to in (*_UNSIGNED, *_UNSIGNED.values()):
        return _limited(make, whole, to)
    limited = make(
        "Where",
        make("Greater", whole, low),
        make("Min", whole, high),
        make.number(low, whole.dtype),
    )
    return make("Cast", limited, to=to)


_UNSIGNED = {dtypes.int8: dtypes.uint8, dtypes.int16: dtypes.uint16}


def _limited(make: GraphBuilder, whole: Value, to: DType) -> Value:
    """The same as a chain that reads every value once, so that it is one formula.

    NaN becomes zero when it is cast, which is the least number only of unsigned types.
    """
    low, high = limits(to)
    if to not in _UNSIGNED:
        return make("Cast", make("Clip", whole, low, high), to=to)
    bits = make("Cast", make("Clip", make("Add", whole, -low), 0, high - low), to=_UNSIGNED[to])
    return make("Cast", make("Add", make("Cast", bits, to=dtypes.float32), low), to=to)


def quantized_sum(
    make: GraphBuilder,
    a: tuple[Value, Value, Value | None],
    b: tuple[Value, Value, Value | None],
    to: tuple[Value, Value | None],
) -> Value:
    """The sum of two quantized tensors in steps of a scale from a zero point on, not yet rounded,
    as QLinearAdd computes it. Each tensor, and the result, has a scale and a zero point, which
    are scalars of float32.
    """
    first, second = (at_once(make, Div(), scale, to[0]) for _, scale, _ in (a, b))
    none = make.number(0, dtypes.float32)
    shifts = [none if zero is None else zero for zero in (a[2], b[2], to[1])]
    part = at_once(make, Mul(), second, shifts[1])
    start = at_once(make, Sub(), shifts[2], at_once(make, MultiplyAdd(), first, shifts[0], part))
    inner = make.apply(MultiplyAdd(), [make.cast(b[0], dtypes.float32), second, start])[0]
    return make.apply(MultiplyAdd(), [make.cast(a[0], dtypes.float32), first, inner])[0]


def at_once(make: GraphBuilder, op: Op, *operands: Value) -> Value:
    """The result of an operator, computed now where all operands are known."""
    known = [v.const for v in operands if v.const is not None]
    if len(known) < len(operands):
        return make.apply(op, operands)[0]
    return constant(np.asarray(op.eval(*known)))


def is_zero(zero: Value | None) -> bool:
    """Whether zero points are absent or known to be nothing but zeros."""
    return zero is None or (zero.const is not None and not np.any(zero.const.astype(np.float32)))


def rounded_factors(make: GraphBuilder, a: Value, b: Value) -> Value:
    """A product of float32 that is rounded whatever follows it."""
    return make.apply(MultiplyAdd(), [a, b, make.number(-0.0, dtypes.float32)])[0]


def dynamically(make: GraphBuilder, x: Value) -> tuple[Value, Value, Value]:
    """X as uint8, its scale and its zero point."""
    low, high = (make(pick, make(f"Reduce{pick}", x, keepdims=0), 0) for pick in ("Min", "Max"))
    width = make("Sub", high, low)
    scale = make("Where", make("Equal", width, 0), make.number(1, x.dtype), make("Div", width, 255))
    zero = quantized(make, make("Div", make("Neg", low), scale), None, dtypes.uint8)
    return quantized(make, make("Div", x, scale), zero, dtypes.uint8), scale, zero


def one_or_each(make: GraphBuilder, parameter: Value) -> Value:
    """A scale or zero point as a scalar, where it is one number."""
    return make.reshape(parameter) if parameter.tensor.size == 1 else parameter


def shifted(make: GraphBuilder, x: Value, zero: Value | None) -> Value:
    """Quantized elements as multiples of their scale."""
    wide = make.cast(x, dtypes.float32)
    return wide if zero is None or is_zero(zero) else make("Sub", wide, single(make, zero))


def single(make: GraphBuilder, x: Value) -> Value:
    """A scale or a zero point as a scalar of float32."""
    return make.reshape(make.cast(x, dtypes.float32))


def real(make: GraphBuilder, x: Value, scale: Value, zero: Value | None) -> Value:
    """What quantized elements stand for."""
    return make("Mul", shifted(make, x, zero), single(make, scale))


def stored(make: GraphBuilder, y: Value, scale: Value, zero: Value | None, to: DType) -> Value:
    """Numbers as quantized elements, which are rounded before the zero point is added."""
    steps = make("Div", y, single(make, scale))
    return quantized(make, steps, None if zero is None else make.reshape(zero), to)


def from_zero(make: GraphBuilder, steps: Value, zero: Value | None) -> Value:
    """Steps from the zero point on, which is added before they are rounded, unlike elsewhere."""
    return steps if is_zero(zero) or zero is None else make("Add", steps, single(make, zero))
