"""Questions about elements, truth values and bits."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter, aten, promoted
from infuse.tracing.semantics import arithmetic

_COMPARED: Final = {
    "eq": "Equal", "lt": "Less", "gt": "Greater", "le": "LessOrEqual", "ge": "GreaterOrEqual",
    "less": "Less", "greater": "Greater", "less_equal": "LessOrEqual",
    "greater_equal": "GreaterOrEqual",
}  # fmt: skip
_BITS: Final = {"and": "And", "or": "Or", "xor": "Xor"}


def _compared(kind: str) -> Any:
    def build(g: TorchImporter, x: Any, other: Any) -> Value:
        a, b = g.tensors(x, other)
        if a.dtype == dtypes.bool_ and kind != "Equal":
            a, b = (g.cast(v, dtypes.uint8) for v in (a, b))
        return g(kind, a, b)

    return build


def _logical(kind: str) -> Any:
    return lambda g, x, other: g(kind, g.cast(x, dtypes.bool_), g.cast(other, dtypes.bool_))


def _bitwise(kind: str) -> Any:
    def build(g: TorchImporter, x: Any, other: Any) -> Value:
        a, b = g.tensors(x, other, dtype=g.dtype)
        return g(kind if g.dtype == dtypes.bool_ else f"Bitwise{kind}", a, b)

    return build


for _name, _kind in _COMPARED.items():
    aten(_name)(_compared(_kind))
for _name, _kind in _BITS.items():
    aten(f"logical_{_name}")(_logical(_kind))
    aten(f"bitwise_{_name}", f"__{_name}__")(_bitwise(_kind))


aten("ne", "not_equal")(lambda g, x, other: g("Not", g("Equal", *g.tensors(x, other))))
aten("logical_not")(lambda g, x: g("Not", g.cast(x, dtypes.bool_)))
aten("bitwise_not")(lambda g, x: g("Not" if x.dtype == dtypes.bool_ else "BitwiseNot", x))
aten("bitwise_left_shift", "__lshift__")(lambda g, x, other: _shifted(g, x, other, "LEFT"))
aten("bitwise_right_shift", "__rshift__")(lambda g, x, other: _shifted(g, x, other, "RIGHT"))


@aten("isnan")
def isnan(g: TorchImporter, x: Value) -> Value:
    """Which elements are no numbers."""
    return g("IsNaN", x) if x.dtype.is_float else g("Not", g("Equal", x, x))


@aten("isinf")
def isinf(g: TorchImporter, x: Value, **signs: int) -> Value:
    """Which elements are infinite."""
    return g("IsInf", x, **signs) if x.dtype.is_float else g("Not", g("Equal", x, x))


@aten("isposinf")
def isposinf(g: TorchImporter, x: Value) -> Value:
    """Which elements are ∞."""
    return isinf(g, x, detect_negative=0)


@aten("isneginf")
def isneginf(g: TorchImporter, x: Value) -> Value:
    """Which elements are -∞."""
    return isinf(g, x, detect_positive=0)


@aten("nan_to_num")
def nan_to_num(
    g: TorchImporter, x: Value, nan: Any = None, posinf: Any = None, neginf: Any = None
) -> Value:
    """X with numbers in place of what is none."""
    if not x.dtype.is_float:
        return x
    info = ml_dtypes.finfo(x.dtype.numpy)  # type: ignore[no-untyped-call]
    for mask, value in (
        (isnan(g, x), 0.0 if nan is None else nan),
        (isposinf(g, x), float(info.max) if posinf is None else posinf),
        (isneginf(g, x), float(info.min) if neginf is None else neginf),
    ):
        x = g("Where", mask, g.number(value, x.dtype), x)
    return x


@aten("copysign")
def copysign(g: TorchImporter, x: Value, other: Any) -> Value:
    """X with the sign of `other`."""
    a, b = g.tensors(x, other, dtype=g.dtype)
    zero = g.number(0, b.dtype)
    signed = g("Where", g("Equal", b, zero), g("Reciprocal", b), b)
    size = g("Abs", a)
    return g("Where", g("Less", signed, zero), g("Neg", size), size)


def _shifted(g: TorchImporter, x: Any, other: Any, direction: str) -> Value:
    """Bits of integers moved; all of them where the count is no place in them."""
    a, b = g.tensors(x, other, dtype=promoted(x, other))
    return arithmetic.shifted(g, a, b, direction)


@aten("isin")
def isin(
    g: TorchImporter, x: Any, others: Any, *, assume_unique: bool = False, invert: bool = False
) -> Value:
    """Whether elements are among others; NaN is not."""
    a, b = g.tensors(x, others)
    found = g("Equal", g("Unsqueeze", a, g.ints(-1)), g("Reshape", b, g.ints(-1)))
    number = g("ReduceMax", g.cast(found, dtypes.uint8), g.ints(-1), keepdims=0)
    result = g.cast(number, dtypes.bool_)
    return g("Not", result) if invert else result


aten("isfinite")(lambda g, x: g("Not", g("Or", isnan(g, x), isinf(g, x))))
