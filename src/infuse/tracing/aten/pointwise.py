"""Operators that compute every element by itself."""

from __future__ import annotations

import math
from typing import Any, Final

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter, aten
from infuse.tracing.semantics import arithmetic, special

_FUNCTIONS: Final = {
    "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan",
    "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh",
    "atanh": "Atanh", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "reciprocal": "Reciprocal",
    "erf": "Erf", "sigmoid": "Sigmoid", "special_expit": "Sigmoid", "arcsin": "Asin",
    "arccos": "Acos", "arctan": "Atan", "arcsinh": "Asinh", "arccosh": "Acosh",
    "arctanh": "Atanh", "special_erf": "Erf",
}  # fmt: skip
"""Functions of floats; whole numbers become floats first."""
_SAME: Final = {
    "neg": "Neg", "negative": "Neg", "abs": "Abs", "absolute": "Abs", "relu": "Relu",
}  # fmt: skip
_ROUNDED: Final = {"floor": "Floor", "ceil": "Ceil", "round.default": "Round"}
_EXTREMES: Final = {"maximum": "Max", "minimum": "Min", "max.other": "Max", "min.other": "Min"}


def _function(kind: str) -> Any:
    return lambda g, x: g(kind, g.cast(x, g.dtype))


def _same(kind: str) -> Any:
    def build(g: TorchImporter, x: Value) -> Value:
        if x.dtype.kind == "u" and kind in ("Neg", "Relu"):
            return g.cast(g(kind, g.cast(x, dtypes.int64)), x.dtype)
        return g.bounded(kind, x)

    return build


@aten("sign", "sgn")
def sign(g: TorchImporter, x: Value) -> Value:
    """-1, 0 or 1; 0 of NaN."""
    if not x.dtype.is_float:
        return g.bounded("Sign", x)
    return g("Where", g("IsNaN", x), g.number(0, x.dtype), g("Sign", x))


def _rounded(kind: str) -> Any:
    return lambda g, x: g(kind, x) if x.dtype.is_float else x


def _extreme(kind: str) -> Any:
    return lambda g, x, other: g.bounded(kind, *g.tensors(x, other, dtype=g.dtype))


for _name, _kind in _FUNCTIONS.items():
    aten(_name)(_function(_kind))
for _name, _kind in _SAME.items():
    aten(_name)(_same(_kind))
for _name, _kind in _ROUNDED.items():
    aten(_name)(_rounded(_kind))
for _name, _kind in _EXTREMES.items():
    aten(_name)(_extreme(_kind))


def scaled(g: TorchImporter, value: Value, alpha: Any) -> Value:
    """A value times a number."""
    if isinstance(alpha, (int, float)) and alpha == 1:
        return value
    if value.dtype.is_bool:
        return g("And", value, g.tensor(alpha, value.dtype))
    return g("Mul", value, g.tensor(alpha, value.dtype))


def _combined(g: TorchImporter, kind: str, x: Any, other: Any, alpha: Any) -> Value:
    a, b = g.tensors(x, other, dtype=g.dtype)
    if not isinstance(alpha, Value) and alpha == 1:
        return g(kind, a, b)
    a, b, factor = g.operands(a, b, g.tensor(alpha, g.dtype), steps=True)
    return g.cast(g(kind, a, scaled(g, b, factor)), g.dtype)


@aten("add")
def add(g: TorchImporter, x: Any, other: Any, alpha: Any = 1) -> Value:
    """X + alpha · other."""
    if g.dtype == dtypes.bool_:
        a, b = g.tensors(x, other, dtype=g.dtype)
        return g("Or", a, b) if alpha else a
    return _combined(g, "Add", x, other, alpha)


@aten("sub", "subtract")
def sub(g: TorchImporter, x: Any, other: Any, alpha: Any = 1) -> Value:
    """X - alpha · other."""
    return _combined(g, "Sub", x, other, alpha)


aten("rsub")(lambda g, x, other, alpha=1: sub(g, other, x, alpha))
aten("frac")(lambda g, x: g("Sub", x, truncated(g, x)))
aten("remainder")(lambda g, x, other: arithmetic.floor_mod(g, *g.tensors(x, other, dtype=g.dtype)))
aten("fmod")(lambda g, x, other: g("Mod", *g.tensors(x, other, dtype=g.dtype), fmod=1))
aten("rsqrt")(lambda g, x: g("Reciprocal", g("Sqrt", g.cast(x, g.dtype))))
aten("log1p", "special_log1p")(lambda g, x: g.cast(arithmetic.log1p(g, _wide(g, x)), g.dtype))
aten("expm1", "special_expm1")(lambda g, x: g.cast(arithmetic.expm1(g, _wide(g, x)), g.dtype))
aten("erfc", "special_erfc")(lambda g, x: g.cast(special.erfc(g, _wide(g, x)), g.dtype))
aten("masked_fill")(lambda g, x, mask, value: g("Where", mask, g.tensor(value, x.dtype), x))


@aten("mul", "multiply")
def mul(g: TorchImporter, x: Any, other: Any) -> Value:
    """The product."""
    a, b = g.operands(x, other)
    return g.cast(g("And" if g.dtype == dtypes.bool_ else "Mul", a, b), g.dtype)


@aten("addcmul")
def addcmul(g: TorchImporter, x: Value, first: Value, second: Value, *, value: Any = 1) -> Value:
    """X + value · first · second."""
    a, b, c = g.operands(x, first, second, steps=True)
    return g.cast(g("Add", a, g("Mul", scaled(g, b, value), c)), g.dtype)


@aten("addcdiv")
def addcdiv(g: TorchImporter, x: Value, first: Value, second: Value, *, value: Any = 1) -> Value:
    """X + value · first / second."""
    a, b, c = g.operands(x, first, second, steps=True)
    return g.cast(g("Add", a, g("Div", scaled(g, b, value), c)), g.dtype)


@aten("lerp")
def lerp(g: TorchImporter, x: Value, end: Value, weight: Any) -> Value:
    """The point between x and end where `weight` of the way is done."""
    a, b, w = g.operands(x, end, weight, steps=True)
    way = g("Sub", b, a)
    near = g("Add", a, g("Mul", w, way))
    far = g("Sub", b, g("Mul", way, g("Sub", g.number(1, w.dtype), w)))
    return g.cast(g("Where", g("Less", g("Abs", w), 0.5), near, far), g.dtype)


@aten("div", "divide", "true_divide")
def div(g: TorchImporter, x: Any, other: Any, *, rounding_mode: str | None = None) -> Value:
    """The quotient; of integers a float unless it is rounded."""
    if rounding_mode == "floor":
        return floor_divide(g, x, other)
    quotient = g("Div", *g.operands(x, other))
    if rounding_mode == "trunc":
        quotient = truncated(g, quotient)
    return g.cast(quotient, g.dtype)


@aten("floor_divide")
def floor_divide(g: TorchImporter, x: Any, other: Any) -> Value:
    """The quotient, rounded down."""
    return g.cast(arithmetic.floor_quotient(g, *g.operands(x, other)), g.dtype)


def truncated(g: TorchImporter, x: Value) -> Value:
    """Numbers without what stands behind the point."""
    if not x.dtype.is_float:
        return x
    return arithmetic.truncated(g, x)


@aten("round.decimals")
def round_decimals(g: TorchImporter, x: Value, *, decimals: int = 0) -> Value:
    """X rounded to some places behind the point (before it where negative)."""
    if not x.dtype.is_float:
        if decimals >= 0:
            return x
        raise g.unsupported("rounding integers to tens")
    if decimals == 0:
        return g("Round", x)
    scale = float(10 ** abs(decimals))
    if decimals > 0:
        return g("Div", g("Round", g("Mul", x, scale)), scale)
    return g("Mul", g("Round", g("Div", x, scale)), scale)


@aten("pow", "float_power")
def pow_(g: TorchImporter, x: Any, exponent: Any) -> Value:
    """X to a power."""
    if isinstance(exponent, (int, float)) and isinstance(x, Value) and exponent in (0.5, 2):
        base = g.cast(x, g.dtype)
        if exponent == 2 and base.dtype != dtypes.bool_:
            return g("Mul", base, base)
        if base.dtype.is_float and exponent == 0.5:
            return g("Sqrt", base)
    computed = g.dtype if g.dtype.is_signed else dtypes.int64
    base, power = g.tensors(x, exponent, dtype=computed)
    if not computed.is_float and isinstance(exponent, Value):
        # Of 0 to a negative power torch makes 0: as much as its first power is.
        zero, one = g.number(0, computed), g.number(1, computed)
        lost = g("And", g("Equal", base, zero), g("Less", power, zero))
        power = g("Where", lost, one, power)
    return g.cast(g("Pow", base, power), g.dtype)


def _wide(g: TorchImporter, x: Value) -> Value:
    """X in a float type that has room for intermediate results."""
    return g.cast(x, dtypes.float64 if g.dtype.bits >= 32 else dtypes.float32)


def _logarithm(base: float) -> Any:
    def build(g: TorchImporter, x: Value) -> Value:
        return g.cast(g("Mul", g("Log", _wide(g, x)), 1 / math.log(base)), g.dtype)

    return build


aten("log2")(_logarithm(2.0))
aten("log10")(_logarithm(10.0))


@aten("exp2", "special_exp2")
def exp2(g: TorchImporter, x: Value) -> Value:
    """2 to the power x."""
    x = g.cast(x, g.dtype)
    return g("Pow", g.number(2, x.dtype), x)


@aten("atan2", "arctan2")
def atan2(g: TorchImporter, y: Value, x: Value) -> Value:
    """The angle of the point (x, y)."""
    y, x = g.operands(*g.tensors(y, x, dtype=g.dtype), steps=True)
    zero, pi = g.number(0, x.dtype), g.number(math.pi, x.dtype)
    # The sign of y, also of -0 and 0: 1 / y is infinite there, and has it.
    upward = g("Where", g("Equal", y, zero), g("Reciprocal", y), y)
    side = g("Where", g("Less", upward, zero), g("Neg", pi), pi)
    leftward = g("Less", g("Where", g("Equal", x, zero), g("Reciprocal", x), x), zero)
    both_zero = g("And", g("Equal", x, zero), g("Equal", y, zero))
    both_infinite = g("And", g("IsInf", x), g("IsInf", y))
    signs = g("Mul", g("Sign", x), g("Sign", y))
    tangent = g("Where", both_infinite, signs, g("Div", y, x))
    # Of 0 / 0 the sign alone counts, and that comes from the side.
    still = g("Where", leftward, zero, y)
    angle = g("Where", both_zero, still, g("Atan", tangent))
    return g.cast(g("Where", leftward, g("Add", angle, side), angle), g.dtype)


@aten("hypot")
def hypot(g: TorchImporter, x: Value, other: Value) -> Value:
    """The length of the vector (x, other)."""
    return g.cast(arithmetic.hypot(g, *g.operands(x, other, steps=True)), g.dtype)


@aten("clamp", "clip")
def clamp(g: TorchImporter, x: Value, min: Any = None, max: Any = None) -> Value:
    """X within two limits, numbers or tensors."""
    x = g.cast(x, g.dtype)
    if min is not None:
        x = g.bounded("Max", x, g.tensor(min, g.dtype))
    return x if max is None else g.bounded("Min", x, g.tensor(max, g.dtype))


@aten("clamp.default", "clip.default")
def clamp_numbers(g: TorchImporter, x: Value, min: Any = None, max: Any = None) -> Value:
    """X within two numbers; infinities stay where there is no limit, though Clip would end them."""
    far = math.inf if g.dtype.is_float else None
    limits = [-far if min is None and far else min, far if max is None else max]
    return g(
        "Clip",
        g.cast(x, g.dtype),
        *(None if limit is None else g.tensor(limit, g.dtype) for limit in limits),
    )


@aten("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(g: TorchImporter, condition: Value, x: Any, other: Any) -> Value:
    """X where the condition holds, else `other`."""
    return g("Where", g.cast(condition, dtypes.bool_), *g.tensors(x, other, dtype=g.dtype))


@aten("clamp_min")
def clamp_min(g: TorchImporter, x: Value, min: Any) -> Value:
    """X, at least `min`."""
    return clamp(g, x, min)


@aten("clamp_max")
def clamp_max(g: TorchImporter, x: Value, max: Any) -> Value:
    """X, at most `max`."""
    return clamp(g, x, None, max)


aten("trunc", "fix")(truncated)
aten("square")(lambda g, x: pow_(g, x, 2))
