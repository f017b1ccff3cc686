"""Selection and conversion of elements."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import DataError, ShapeError
from infuse.ir.dims import Dim, Expr, compare, maximum, minimum
from infuse.ir.graph import Value
from infuse.ir.relations import must_equal
from infuse.ops.core.base import Array, Elementwise, Inferred, same_dtype
from infuse.ops.core.elementwise import Numeric, f32, larger, on_dims, require_kind, smaller
from infuse.ops.core.formula import Formulas, Term
from infuse.ops.core.numerals import integer, number
from infuse.ops.core.samples import Bools, Ints, cases
from infuse.ops.core.traits import Trait
from infuse.ops.unary import SPECIALS


class Where(Elementwise):
    """x where the condition is true, else y; all three broadcast."""

    traits = Trait.CONTINUOUS
    since = 16
    carries_dims = True
    samples = cases(
        condition=[Bools((2, 3)), Bools(()), Bools((4, 1)), Bools((5,))],
        x=[(3,), (2, 1), Ints((1, 6)), Bools((5,))],
        y=[(), (2, 5), Ints((6,)), Bools((1,))],
    )

    def result_dtype(self, condition: Value, x: Value, y: Value) -> DType:
        require_kind("the condition of Where", condition.dtype, "b")
        return same_dtype(self.name, x, y)

    def eval(self, condition: Array, x: Array, y: Array) -> Array:
        return np.where(condition, x, y)

    def content(self, condition: Array, x: Array, y: Array) -> Array | None:
        return on_dims(lambda chosen, a, b: a if chosen else b, condition, x, y)

    def scalar(self, e: Formulas, condition: Term, x: Term, y: Term) -> Term:
        return e.select(condition, x, y)


def finite_limit(dtype: DType) -> float | None:
    """The largest finite number of a type of floats; None for integers, none of which is larger."""
    if not dtype.is_float:
        return None
    return float(ml_dtypes.finfo(dtype.numpy).max)  # type: ignore[no-untyped-call]


class Clip(Numeric):
    """x limited to [min, max]: min(max(x, min), max), NaN stays. A limit (a scalar) that is absent
    is the type's lowest or largest finite number, so that infinities end there, as the standard has
    it.
    """

    traits = Trait.FINITE
    since = 13
    fixed_axes = None
    carries_dims = True
    samples = cases(
        x=[(2, 3), (7,), (7,), (7,), Ints((6,)), SPECIALS, (5,)],
        min=[np.float32(-1), None, np.float32(0), None, np.int64(-2), np.float32(0), np.float32(1)],
        max=[np.float32(1), np.float32(1), None, None, np.int64(3), np.float32(6), np.float32(-1)],
    )

    def infer(self, x: Value, min: Value | None = None, max: Value | None = None) -> Inferred:
        self.result_dtype(x, min, max)
        for limit in (min, max):
            if (
                limit is not None
                and limit.tensor.size is not None
                and not must_equal(limit.tensor.size, 1)
            ):
                raise ShapeError(f"Clip takes scalar limits, found the shape {limit.shape}")
        return x.type

    def eval(self, x: Array, min: Array | None = None, max: Array | None = None) -> Array:
        far = finite_limit(dtypes.by_numpy(x.dtype))
        low = (
            min.reshape(())
            if min is not None
            else None
            if far is None
            else np.asarray(-far, x.dtype)
        )
        high = (
            max.reshape(())
            if max is not None
            else None
            if far is None
            else np.asarray(far, x.dtype)
        )
        raised = x if low is None else larger(x, low)
        return raised if high is None else smaller(raised, high)

    def content(self, x: Array, min: Array | None = None, max: Array | None = None) -> Array | None:
        raised = x if min is None else on_dims(maximum, x, min.reshape(()))
        return (
            raised if max is None or raised is None else on_dims(minimum, raised, max.reshape(()))
        )

    def scalar(
        self, e: Formulas, x: Term, min: Term | None = None, max: Term | None = None
    ) -> Term:
        far = finite_limit(x.dtype)
        low: Term | float | None = min if min is not None or far is None else -far
        high: Term | float | None = far if max is None else max
        raised: Term = x if low is None else e.max(x, low)
        limited: Term = raised if high is None else e.min(raised, high)
        return limited


class Cast(Elementwise):
    """Elements converted to the type `to`; with `saturate`, small floats stop at their largest
    number.
    """

    traits = Trait.TOTAL | Trait.FINITE

    to: DType
    saturate: int = 1
    round_mode: str = "up"

    since = 13
    carries_dims = True
    samples = cases(
        x=[(2, 3), Ints((5,), -3, 3), Bools((7,)), f32(0.5, -0.5, 1e9, -0.0, 0.1)],
        to=[
            dtypes.float64,
            dtypes.float16,
            dtypes.int32,
            dtypes.int64,
            dtypes.bool_,
            dtypes.float8e4m3fn,
        ],
    )

    def __post_init__(self) -> None:
        """Accept the number that ONNX gives to an element type."""
        if isinstance(self.to, int):
            object.__setattr__(self, "to", dtypes.by_onnx(self.to))

    def result_dtype(self, x: Value) -> DType:
        return self.to

    def eval(self, x: Array) -> Array:
        return convert(x, self.to, bool(self.saturate), self.round_mode)

    def content(self, x: Array) -> Array | None:
        return on_dims(lambda value: _convert_dim(value, self.to), x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return e.cast(x, self.to, rounding(self.to, bool(self.saturate), self.round_mode))


class CastLike(Elementwise):
    """Elements converted to the type of the second input."""

    saturate: int = 1
    round_mode: str = "up"

    since = 15
    fixed_axes = None
    samples = cases(
        x=[(2, 3), Ints((5,), -3, 3), f32(0.5, -0.5, 1e9, -0.0, 0.1)],
        target=[Ints((1,)), (4,), np.float16(1)],
    )

    def infer(self, x: Value, target: Value) -> Inferred:
        return Cast(target.dtype).infer(x)

    def eval(self, x: Array, target: Array) -> Array:
        return convert(x, dtypes.by_numpy(target.dtype), bool(self.saturate), self.round_mode)

    def scalar(self, e: Formulas, x: Term, target: Term) -> Term:
        return e.cast(x, target.dtype, rounding(target.dtype, bool(self.saturate), self.round_mode))


def rounding(to: DType, saturate: bool, round_mode: str) -> str:
    """How formulas name the rounding of a Cast to small floats."""
    if to == dtypes.float8e8m0:
        return round_mode if saturate else f"{round_mode}_over"
    return "" if saturate or not (to.is_float and to.bits == 8) else "over"


def convert(x: Array, to: DType, saturate: bool = True, round_mode: str = "up") -> Array:
    """`x` as elements of another type, by ONNX's rules for Cast."""
    if x.dtype == object or x.dtype.kind in "UST":
        return x if to is dtypes.string else _parse(x, to)
    if to is dtypes.string:
        return np.array([_print(v) for v in x.ravel()], dtype=object).reshape(x.shape)
    source = dtypes.by_numpy(x.dtype)
    if source == to:
        return x
    if source.bits <= 8 and not source.is_bool:
        x = x.astype(np.float32 if source.is_float else np.int64)
    if to.is_float and to.bits < 32 and source == dtypes.float64:
        x = _odd(x) if to != dtypes.float16 else x
    if to == dtypes.float8e8m0:
        return _powers(x.astype(np.float32), saturate, round_mode)
    if to.is_float and to.bits == 8 and saturate:
        limit = float(ml_dtypes.finfo(to.numpy).max)  # type: ignore[no-untyped-call]
        return np.clip(x.astype(np.float64), -limit, limit).astype(to.numpy)
    if to.is_integer and source.is_float:
        x = _cut_off(x, to)
    return _wrap(x, to) if to.is_integer and to.bits < 8 else x.astype(to.numpy)


def _cut_off(x: Array, to: DType) -> Array:
    """The whole parts of floats, as integers whose low bits those of `to` are.

    ONNX leaves open what becomes of numbers that a type does not hold, and NumPy's answer depends
    on the processor; this is that of plain x86 code, and of `kernels/element.hpp`: the least
    integer of 64 bits for int64, uint64 and uint32, that of 32 bits for the others. Above 2⁶³,
    uint64 has what lies below 2⁶⁴.
    """
    wide = x.astype(np.float64)
    far = 2.0 ** (63 if to.bits == 64 or to == dtypes.uint32 else 31)
    inside = (wide >= -far) & (wide < far)
    whole = np.where(inside, wide, -far).astype(np.int64)
    if to != dtypes.uint64:
        return whole
    above = (wide >= far) & (wide < 2 * far)
    return np.where(above, np.where(above, wide, 0).astype(np.uint64), whole.view(np.uint64))


def _wrap(x: Array, to: DType) -> Array:
    """The low bits of integers."""
    low: Array = (x.astype(np.int64) & ((1 << to.bits) - 1)).astype(np.uint8)
    return low.view(to.numpy)


def _odd(x: Array) -> Array:
    """Float64 numbers as float32 ones that round to fewer bits as they do: where bits are lost, the
    last one is odd.
    """
    near = x.astype(np.float32)
    bits = near.view(np.int32)
    lost = np.isfinite(near) & (near != x) & (bits & 1 == 0)
    step = np.where(np.abs(near) > np.abs(x), -1, 1)
    return np.where(lost, bits + step, bits).astype(np.int32).view(np.float32)


def _powers(x: Array, saturate: bool, round_mode: str) -> Array:
    """The magnitudes of float32 numbers as powers of two from 2⁻¹²⁷ to 2¹²⁷, or NaN."""
    if round_mode not in ("up", "down", "nearest"):
        raise ShapeError(f"Cast has no round_mode {round_mode!r}", hint="one of: up, down, nearest")
    bits = x.view(np.uint32) & 0x7FFFFFFF
    code, part = bits >> 23, bits & 0x7FFFFF
    part = np.where(code == 0, (part - 0x400000) * 2, part)
    if round_mode != "down":
        code = code + (part > 0 if round_mode == "up" else part >= 0x400000)
    code = np.where(code > 254, 254 if saturate else 255, code)
    code = np.where(bits < 0x400000, 0 if saturate else 255, code)
    return np.where(bits > 0x7F800000, 255, code).astype(np.uint8).view(dtypes.float8e8m0.numpy)


def _parse(x: Array, to: DType) -> Array:
    words = {"true": "1", "false": "0"}  # as bool elements are printed
    texts = [words.get(str(text).lower(), text) for text in x.ravel().tolist()]
    if not to.is_integer:
        with np.errstate(over="ignore"):
            return (
                np.array([*map(number, texts)], dtype=np.float64).astype(to.numpy).reshape(x.shape)
            )
    values = [*map(integer, texts)]
    for value in values:
        if not -(1 << 63) <= value < 1 << 64:
            raise DataError(f"the number {value} has more than 64 bits")
    low = np.array([value % (1 << 64) for value in values], dtype=np.uint64).view(np.int64)
    return low.astype(to.numpy).reshape(x.shape)


def _print(value: Any) -> str:
    """The shortest text that reads back as this element."""
    special = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}
    return special.get(str(value), str(value))


def _convert_dim(value: Dim, to: DType) -> Dim | None:
    if to.is_bool:
        return compare("!=", value, 0)
    if isinstance(value, Expr):
        return value if to in (dtypes.int32, dtypes.int64) else None
    if not to.is_integer:
        return None
    wrapped = int(value) % (1 << to.bits)
    return wrapped - (1 << to.bits) if to.kind == "i" and wrapped >> (to.bits - 1) else wrapped
