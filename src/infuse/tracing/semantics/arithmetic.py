"""Functions that foreign formats have and ONNX has not, put together of its operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir.graph import Value
from infuse.ops.core.building import GraphBuilder
from infuse.ops.quantization import limits


def wide(g: GraphBuilder, x: Value) -> Value:
    """X in a float type that has room for intermediate results."""
    return g.cast(x, dtypes.float64 if x.dtype.bits >= 32 else dtypes.float32)


def log1p(g: GraphBuilder, x: Value) -> Value:
    """Log(1 + x), without loss near 0: x / (u - 1) · log(u) where u = 1 + x is not 1 (Kahan)."""
    one, infinite = g.number(1, x.dtype), g.number(math.inf, x.dtype)
    u = g("Add", x, one)
    plain = g("Or", g("Equal", u, one), g("Equal", u, infinite))
    rest = g("Where", plain, one, g("Sub", u, one))
    exact = g("Mul", g("Div", x, rest), g("Log", u))
    return g("Where", plain, g("Where", g("Equal", u, one), x, u), exact)


def logaddexp(g: GraphBuilder, x: Value, y: Value) -> Value:
    """Log(e^x + e^y), without overflow."""
    apart = g("Where", g("Equal", x, y), g.number(0, x.dtype), g("Abs", g("Sub", x, y)))
    return g("Add", g("Max", x, y), log1p(g, g("Exp", g("Neg", apart))))


def expm1(g: GraphBuilder, x: Value) -> Value:
    """Exp(x) - 1 = 2 · sinh(x / 2) · exp(x / 2), without loss near 0."""
    half = g("Mul", x, 0.5)
    near = g("Mul", g("Mul", g("Sinh", half), 2.0), g("Exp", half))
    far = g("Sub", g("Exp", x), 1.0)
    return g("Where", g("Less", g("Abs", x), 1.0), near, far)


def hypot(g: GraphBuilder, x: Value, y: Value) -> Value:
    """The length of the vector (x, y) without overflow on the way; of an infinite one ∞, whatever
    is beside it.
    """
    infinite = g.number(math.inf, x.dtype)
    ends = (g("Equal", g("Abs", value), infinite) for value in (x, y))
    return g("Where", g("Or", *ends), infinite, finite_hypot(g, x, y))


def finite_hypot(g: GraphBuilder, x: Value, y: Value) -> Value:
    """The length of the vector (x, y) without overflow on the way; NaN of two infinite numbers, or
    of an infinite one beside NaN.
    """
    a, b = g("Abs", x), g("Abs", y)
    most, least = g("Max", a, b), g("Min", a, b)
    one = g.number(1, x.dtype)
    ratio = g("Div", least, g("Where", g("Equal", most, g.number(0, x.dtype)), one, most))
    return g("Mul", most, g("Sqrt", g("Add", g("Mul", ratio, ratio), one)))


def shifted(g: GraphBuilder, x: Value, count: Value, direction: str) -> Value:
    """Integers with their bits moved LEFT or RIGHT, where copies of the sign follow. A negative
    count, and one of at least the width, moves all bits out: 0, and to the right -1 of what is
    negative, as in NumPy.
    """
    if x.dtype.kind == "u":
        return g("BitShift", x, count, direction=direction)
    bits = g.cast(count, dtypes.uint64)  # where negative counts are large ones
    if direction == "LEFT":
        return g.cast(g("BitShift", g.cast(x, dtypes.uint64), bits, direction=direction), x.dtype)
    negative = g("Less", x, g.number(0, x.dtype))
    magnitude = g.cast(g("Where", negative, g("BitwiseNot", x), x), dtypes.uint64)
    moved = g.cast(g("BitShift", magnitude, bits, direction=direction), x.dtype)
    return g("Where", negative, g("BitwiseNot", moved), moved)


def shifted_within(g: GraphBuilder, x: Value, count: Value, direction: str) -> Value:
    """Integers with their bits moved LEFT or RIGHT, where copies of the sign follow, by no less
    than no bit and no more than all but one, as TensorFlow has it.
    """
    if not x.dtype.is_signed:
        least = g("Min", count, g.number(x.dtype.bits - 1, count.dtype))
        return g("BitShift", x, least, direction=direction)
    ends = (g.number(n, dtypes.int64) for n in (0, x.dtype.bits - 1))
    return shifted(g, x, g("Clip", g.cast(count, dtypes.int64), *ends), direction)


def floor_quotient(g: GraphBuilder, x: Value, y: Value) -> Value:
    """The quotient of two numbers of one type, rounded down: exact for all integers (x - x mod y
    would leave their range), and for floats as Python and torch have it, from the exact rest.
    """
    if not x.dtype.is_float:
        return _floored(g, x, y)
    zero, one = g.number(0, x.dtype), g.number(1, x.dtype)
    rest, ratio = g("Mod", x, y, fmod=1), g("Div", x, y)
    exact = g("Div", g("Sub", x, rest), y)
    exact = g("Sub", exact, g("Where", _is_above(g, rest, y, zero), one, zero))
    near = g("Floor", exact)
    near = g("Add", near, g("Where", g("Greater", g("Sub", exact, near), 0.5), one, zero))
    whole = g("Where", g("Equal", exact, zero), g("Mul", ratio, zero), near)
    return g("Where", g("Equal", y, zero), ratio, whole)


def _floored(g: GraphBuilder, x: Value, y: Value) -> Value:
    """The quotient of integers, rounded down."""
    quotient, zero = g("Div", x, y), g.number(0, x.dtype)
    if not x.dtype.is_signed:
        return quotient
    above = _is_above(g, g("Sub", x, g("Mul", quotient, y)), y, zero)
    return g("Sub", quotient, g.cast(above, x.dtype))


def _is_above(g: GraphBuilder, rest: Value, y: Value, zero: Value) -> Value:
    """Whether the quotient that leaves this rest has been rounded up."""
    other = g("Xor", g("Less", y, zero), g("Less", rest, zero))
    return g("And", other, g("Not", g("Equal", rest, zero)))


def truncated(g: GraphBuilder, x: Value) -> Value:
    """Floats without what stands behind the point; -0 between -1 and 0."""
    return g("Where", g("Less", x, g.number(0, x.dtype)), g("Ceil", x), g("Floor", x))


def floor_mod(g: GraphBuilder, x: Value, y: Value) -> Value:
    """The rest of the quotient that is rounded down: it has the sign of y."""
    if not x.dtype.is_float:
        return g("Mod", x, y)
    rest, zero = g("Mod", x, y, fmod=1), g.number(0, x.dtype)
    return g("Where", _is_above(g, rest, y, zero), g("Add", rest, y), rest)


def saturated(g: GraphBuilder, x: Value, to: DType) -> Value:
    """Floats cut off toward zero, as integers of this type: what is beyond these becomes the last
    of them, and NaN the largest.
    """
    if x.dtype.bits < 32:
        x = g.cast(x, dtypes.float32)
    low, high = limits(to)
    within = g("Less", x, g.number(float(high + 1), x.dtype))
    return g("Where", within, g.cast(g("Max", x, g.number(low, x.dtype)), to), g.number(high, to))


def atan2(g: GraphBuilder, y: Value, x: Value) -> Value:
    """The angle of the point (x, y), by the signs of zeros too."""
    zero = g.number(0, x.dtype)
    both = g("And", g("IsInf", x), g("IsInf", y))
    none = g("And", g("Equal", x, zero), g("Equal", y, zero))
    y, x = (g("Where", both, g("Sign", value), value) for value in (y, x))
    down, left = (is_negative(g, value) for value in (y, x))
    angle = g("Where", none, zero, g("Atan", g("Abs", g("Div", y, x))))
    angle = g("Where", left, g("Sub", g.number(math.pi, x.dtype), angle), angle)
    return g("Where", down, g("Neg", angle), angle)


def is_negative(g: GraphBuilder, x: Value) -> Value:
    """Whether a float is below zero, or the zero whose reciprocal is."""
    zero = g.number(0, x.dtype)
    return g("Where", g("Equal", x, zero), g("Less", g("Reciprocal", x), zero), g("Less", x, zero))


def summed(g: GraphBuilder, values: Sequence[Value]) -> Value:
    """The sum of tensors, added one after the other."""
    return reduce(lambda total, value: g("Add", total, value), values)


def number_of_two(g: GraphBuilder, kind: str, x: Value, y: Value) -> Value:
    """The larger (Max) or smaller (Min) of two floats; of NaN and a number the number."""
    best = g(kind, x, y)
    return g("Where", g("IsNaN", x), y, g("Where", g("IsNaN", y), x, best))


def sign_bit(g: GraphBuilder, x: Value) -> Value:
    """Whether the sign is minus, that of -0 and of NaN too."""
    if x.dtype.is_bool or not x.dtype.is_signed:
        return g("Not", g("Equal", x, x))
    if x.dtype.is_float:
        x = g("BitCast", x, to=dtypes.by_name(f"int{x.dtype.bits}"))
    return g("Less", x, g.number(0, x.dtype))
