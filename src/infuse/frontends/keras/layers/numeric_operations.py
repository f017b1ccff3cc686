"""Operations of `keras.ops` on numbers: functions of elements, bits, sums, and products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.frontends.keras.calls import KerasCall
from infuse.frontends.keras.layers.operations import (
    TYPED,
    Operation,
    operation,
    real,
    tensor,
    together,
    wider,
)
from infuse.ir.graph import Value
from infuse.ops.conversion import finite_limit
from infuse.tracing.axes import axes_of
from infuse.tracing.semantics import arithmetic, special
from infuse.tracing.semantics.movement import rolled


def _reals(call: KerasCall, *xs: Any) -> list[Value]:
    """Operands in one type of floats."""
    return together(call, *(real(call, x) for x in together(call, *xs)))


# -- every element by itself -----------------------------------------------------------------------


def _scaled(factor: float) -> Operation:
    return lambda call, x: call.g("Mul", real(call, x), factor)


operation("Deg2rad")(_scaled(math.pi / 180))
operation("Rad2deg")(_scaled(180 / math.pi))


@operation("Exp2")
def exp2(call: KerasCall, x: Any) -> Value:
    """2 to the power x."""
    value = real(call, x)
    return call.g("Pow", call.number(2, value), value)


@operation("Erfc")
def erfc(call: KerasCall, x: Any) -> Value:
    """1 - erf(x)."""
    value = real(call, x)
    exact = special.erfc(call.g, arithmetic.wide(call.g, value))
    return call.g.cast(exact, value.dtype)


@operation("Trunc")
def trunc(call: KerasCall, x: Any) -> Value:
    """Numbers without their fractions."""
    value = tensor(call, x)
    return arithmetic.truncated(call.g, value) if value.dtype.is_float else value


operation("Fabs")(lambda call, x: call.g("Abs", real(call, x)))
operation("Hypot")(lambda call, x1, x2: arithmetic.finite_hypot(call.g, *_reals(call, x1, x2)))
operation("Logaddexp")(lambda call, x1, x2: arithmetic.logaddexp(call.g, *_reals(call, x1, x2)))
operation("BitwiseNot", "BitwiseInvert")(lambda call, x: call.g("BitwiseNot", tensor(call, x)))


def _number_of_two(kind: str) -> Operation:
    def build(call: KerasCall, x1: Any, x2: Any) -> Value:
        g, (a, b) = call.g, together(call, x1, x2)
        return arithmetic.number_of_two(g, kind, a, b) if a.dtype.is_float else g(kind, a, b)

    return build


operation("Fmax")(_number_of_two("Max"))
operation("Fmin")(_number_of_two("Min"))


@operation("DivideNoNan")
def divide_no_nan(call: KerasCall, x1: Any, x2: Any) -> Value:
    """The quotient, and 0 where the divisor is zero."""
    g, (a, b) = call.g, _reals(call, x1, x2)
    zero = call.number(0, b)
    return g("Where", g("Equal", b, zero), zero, g("Div", a, b))


def _infinite(positive: bool) -> Operation:
    return lambda call, x: call.g(
        "IsInf", real(call, x), detect_positive=int(positive), detect_negative=int(not positive)
    )


operation("Isposinf")(_infinite(True))
operation("Isneginf")(_infinite(False))


@operation("NanToNum")
def nan_to_num(
    call: KerasCall,
    x: Any,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Value:
    """Elements with numbers in place of NaN and infinities: by default the last ones of the
    type.
    """
    g, value = call.g, tensor(call, x)
    if not value.dtype.is_float:
        return value
    largest = float(finite_limit(value.dtype) or 0)
    y = g("Where", g("IsNaN", value), call.number(nan, value), value)
    for number, last, sign in ((posinf, largest, 1), (neginf, -largest, 0)):
        infinite = g("IsInf", value, detect_positive=sign, detect_negative=1 - sign)
        y = g("Where", infinite, call.number(last if number is None else number, value), y)
    return y


_BITS: Final = {"And": "BitwiseAnd", "Or": "BitwiseOr", "Xor": "BitwiseXor"}


def _bits(kind: str) -> Operation:
    return lambda call, x, y: call.g(kind, *together(call, x, y))


for _name, _kind in _BITS.items():
    operation(f"Bitwise{_name}")(_bits(_kind))


@operation("Select")
def select(
    call: KerasCall, condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0
) -> Any:
    """Elements of the first choice whose condition holds, else a default."""
    *choices, y = together(call, *choicelist, default)
    for condition, choice in reversed(list(zip(condlist, choices, strict=True))):
        y = call.g("Where", call.boolean(tensor(call, condition)), choice, y)
    return y


@operation("SaturateCast")
def saturate_cast(call: KerasCall, x: Any, dtype: str) -> Value:
    """Elements of another type, within its limits."""
    value, to = tensor(call, x), dtypes.by_name(dtype)
    if not (value.dtype.is_float and to.is_integer):
        raise call.unsupported(f"a saturating cast from {value.dtype} to {to}")
    return arithmetic.saturated(call.g, value, to)


TYPED.add(saturate_cast)


# -- reductions ------------------------------------------------------------------------------------


def _of_numbers(kind: str, neutral: float, mean: bool = False) -> Operation:
    def build(call: KerasCall, x: Any, axis: Any = None, keepdims: bool = False) -> Value:
        g, value = call.g, tensor(call, x)
        axes = axes_of(axis, value.rank)
        if not mean and not value.dtype.is_float:
            return call.reduced(kind, wider(call, value), axes, keepdims)
        value = real(call, value)
        lost = g("IsNaN", value)
        y = call.reduced(kind, call.where(g("Not", lost), value, neutral), axes, keepdims)
        if not mean:
            return y
        kept = g.cast(g("Not", lost), value.dtype)
        return g("Div", y, call.reduced("ReduceSum", kept, axes, keepdims))

    return build


operation("Nansum")(_of_numbers("ReduceSum", 0))
operation("Nanprod")(_of_numbers("ReduceProd", 1))
operation("Nanmean")(_of_numbers("ReduceSum", 0, mean=True))


@operation("Ptp")
def ptp(call: KerasCall, x: Any, axis: Any = None, keepdims: bool = False) -> Value:
    """How far the largest element is from the least one."""
    value = tensor(call, x)
    axes = axes_of(axis, value.rank)
    ends = (call.reduced(kind, value, axes, keepdims) for kind in ("ReduceMax", "ReduceMin"))
    return call.g("Sub", *ends)


@operation("CountNonzero")
def count_nonzero(call: KerasCall, x: Any, axis: Any = None) -> Value:
    """How many elements are not zero, int32."""
    value = call.g.cast(call.boolean(tensor(call, x)), dtypes.int32)
    return call.reduced("ReduceSum", value, axes_of(axis, value.rank))


@operation("Average")
def average(call: KerasCall, x: Any, weights: Any = None, axis: Any = None) -> Value:
    """The mean, of elements that count as often as their weights say."""
    g, value = call.g, real(call, x)
    axes = axes_of(axis, value.rank)
    if weights is None:
        return call.reduced("ReduceMean", value, axes)
    value, shares = _reals(call, value, weights)
    if shares.rank != value.rank:
        if shares.rank != 1 or len(axes) != 1:
            raise call.unsupported("weights of another shape")
        shares = call.shaped(shares, *(-1 if i == axes[0] else 1 for i in range(value.rank)))
    total = call.reduced("ReduceSum", g("Mul", value, shares), axes)
    return g("Div", total, call.reduced("ReduceSum", shares, axes))


@operation("Moments")
def moments(
    call: KerasCall, x: Any, axes: Any, keepdims: bool = False, **options: Any
) -> list[Value]:
    """Means and variances."""
    if options.get("synchronized"):
        raise call.unsupported("synchronized = True")
    g, value = call.g, real(call, x)
    listed = axes_of(axes, value.rank)
    mean = call.reduced("ReduceMean", value, listed, True)
    apart = g("Sub", value, mean)
    variance = call.reduced("ReduceMean", g("Mul", apart, apart), listed, keepdims)
    return [mean if keepdims else call.squeezed(mean, *listed), variance]


@operation("Cumprod")
def cumprod(call: KerasCall, x: Any, axis: int | None = None, dtype: Any = None) -> Value:
    """Products of all elements up to each."""
    value = tensor(call, x, None if dtype is None else dtypes.by_name(dtype))
    if axis is None:
        value, axis = call.shaped(value, -1), 0
    return call.g("CumProd", value, call.g.constant(np.int64(axis)))


TYPED.add(cumprod)


@operation("Diff")
def diff(call: KerasCall, a: Any, n: int = 1, axis: int = -1) -> Value:
    """Differences of neighbours along an axis, n times."""
    g, value = call.g, tensor(call, a)
    (place,) = axes_of(axis, value.rank)
    kind = "Xor" if value.dtype.is_bool else "Sub"
    for _ in range(n):
        behind, before = (
            g("Slice", value, *(g.ints(i) for i in (start, end, place, 1)))
            for start, end in ((1, 2**62), (0, -1))
        )
        value = g(kind, behind, before)
    return value


# -- products --------------------------------------------------------------------------------------


def _matrix_product(call: KerasCall, a: Value, b: Value) -> Value:
    return call.g("MatMul", *together(call, a, b))


@operation("Dot")
def dot(call: KerasCall, x1: Any, x2: Any) -> Value:
    """Sums of products over the last axis of one operand and the one before the last of another."""
    a, b = together(call, x1, x2)
    if a.rank == 0 or b.rank == 0:
        return call.g("Mul", a, b)
    if b.rank > 2:
        raise call.unsupported(f"a product with {b.rank} axes")
    return _matrix_product(call, a, b)


@operation("Outer")
def outer(call: KerasCall, x1: Any, x2: Any) -> Value:
    """All products of two elements."""
    a, b = together(call, x1, x2)
    return call.g("Mul", call.shaped(a, -1, 1), call.shaped(b, 1, -1))


@operation("Vdot")
def vdot(call: KerasCall, x1: Any, x2: Any) -> Value:
    """The sum of products of all elements."""
    a, b = (call.shaped(x, -1) for x in together(call, x1, x2))
    return _matrix_product(call, a, b)


@operation("Tensordot")
def tensordot(call: KerasCall, x1: Any, x2: Any, axes: Any = 2) -> Value:
    """Sums of products over axes of both operands."""
    a, b = together(call, x1, x2)
    first, second = axes if isinstance(axes, (list, tuple)) else (
        list(range(a.rank - axes, a.rank)), list(range(axes))
    )  # fmt: skip
    pairs = list(zip(axes_of(first, a.rank), axes_of(second, b.rank), strict=True))
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left = [next(letters) for _ in range(a.rank)]
    shared = {there: left[here] for here, there in pairs}
    right = [shared.get(i) or next(letters) for i in range(b.rank)]
    kept = [c for i, c in enumerate(left) if i not in dict(pairs)]
    kept += [c for i, c in enumerate(right) if i not in shared]
    return call.g("Einsum", a, b, equation=f"{''.join(left)},{''.join(right)}->{''.join(kept)}")


def _joined(axis: int, least: int) -> Operation:
    def build(call: KerasCall, xs: Sequence[Any]) -> Value:
        values = together(call, *xs)
        if any(value.rank < least for value in values):
            raise call.unsupported("operands of fewer axes")
        return call.g("Concat", *values, axis=axis)

    return build


operation("Hstack")(_joined(1, 2))
operation("Vstack")(_joined(0, 2))
operation("Dstack")(_joined(2, 3))


@operation("Roll")
def roll(call: KerasCall, x: Any, shift: Any, axis: Any = None) -> Value:
    """Elements moved along axes; what leaves at one end enters at the other."""
    value = tensor(call, x)
    if axis is None:
        raise call.unsupported("a roll without an axis")
    axes = axes_of(axis, value.rank)
    shifts = list(shift) if isinstance(shift, (list, tuple)) else [shift] * len(axes)
    for place, count in zip(axes, shifts, strict=True):
        value = rolled(call.g, value, place, count)
    return value
