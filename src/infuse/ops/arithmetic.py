"""Arithmetic of two or more operands."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import TypeMismatchError
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ops.core.base import Array, Elementwise, Rounding
from infuse.ops.core.elementwise import (
    Floating,
    Integral,
    Numeric,
    f32,
    larger,
    on_dims,
    require_kind,
    rounded,
    smaller,
    widened,
)
from infuse.ops.core.formula import Formulas, Term
from infuse.ops.core.samples import Floats, Ints, cases
from infuse.ops.core.traits import Trait

_PAIRS = cases(
    a=[
        (),
        (3,),
        (2, 1, 5),
        (4, 1),
        Ints((2, 3)),
        Ints((3,), dtype=dtypes.int32),
        Ints((5,), 0, 9, dtypes.uint8),
    ],
    b=[
        (2, 3),
        (3,),
        (4, 1),
        (1, 17),
        Ints((3,)),
        Ints((3,), dtype=dtypes.int32),
        Ints((5,), 0, 9, dtypes.uint8),
    ],
)
_SPECIALS = cases(
    a=[f32(np.nan, np.inf, -np.inf, 0.0, -0.0, 1e38, 1.0)],
    b=[f32(1.0, -np.inf, np.inf, -0.0, 0.0, 1e38, np.nan)],
)


class Add(Numeric):
    """Sum of two tensors: a + b."""

    traits = Trait.ARITHMETIC | Trait.CONTINUOUS | Trait.FINITE
    commutative = True
    carries_dims = True
    samples = (_PAIRS, _SPECIALS)

    def eval(self, a: Array, b: Array) -> Array:
        return np.add(a, b)

    def scalar(self, e: Formulas, a: Term, b: Term) -> Term:
        return a + b


class Sub(Numeric):
    """Difference of two tensors: a − b."""

    traits = Trait.ARITHMETIC | Trait.CONTINUOUS | Trait.FINITE
    carries_dims = True
    samples = (_PAIRS, _SPECIALS)

    def eval(self, a: Array, b: Array) -> Array:
        return np.subtract(a, b)

    def scalar(self, e: Formulas, a: Term, b: Term) -> Term:
        return a - b


class Mul(Numeric):
    """Product of two tensors, element by element: a · b."""

    traits = Trait.ARITHMETIC | Trait.CONTINUOUS | Trait.FINITE
    commutative = True
    carries_dims = True
    samples = (_PAIRS, _SPECIALS)

    def eval(self, a: Array, b: Array) -> Array:
        return np.multiply(a, b)

    def scalar(self, e: Formulas, a: Term, b: Term) -> Term:
        return a * b


class Div(Numeric):
    """Quotient of two tensors: a / b; integers round toward zero as in C, and may not be divided by
    zero.
    """

    traits = Trait.ARITHMETIC | Trait.CONTINUOUS
    carries_dims = True
    samples = (
        cases(
            a=[
                (2, 3),
                Ints((4, 3)),
                Ints((7,), 0, 9, dtypes.uint8),
                np.array([-7, 7, -7, 7, -(2**31)], np.int32),
            ],
            b=[
                (3,),
                Ints((3,), 1, 4),
                Ints((7,), 1, 4, dtypes.uint8),
                np.array([2, -2, -2, 2, 3], np.int32),
            ],
        ),
        _SPECIALS,
    )

    def eval(self, a: Array, b: Array) -> Array:
        if dtypes.by_numpy(a.dtype).is_float:
            return np.divide(a, b)
        _refuse_zero(a, b)
        floor, rest = np.divmod(a, b)
        inexact = (rest != 0) & ((rest < 0) != (a < 0))
        return np.asarray(floor + inexact.astype(a.dtype))

    def content(self, a: Array, b: Array) -> Array | None:
        return on_dims(_divide, a, b)

    def scalar(self, e: Formulas, a: Term, b: Term) -> Term:
        return a / b


def _refuse_zero(a: Array, b: Array) -> None:
    """ZeroDivisionError when an integer is divided by zero."""
    if not np.all(b) and np.broadcast(a, b).size:
        raise ZeroDivisionError("a division of integers by zero")


def _divide(a: Dim, b: Dim) -> Dim | None:
    if isinstance(b, int) and b == 0:
        return None
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    exact = dims.exact_divide(a, b)
    if exact is not None:
        return exact
    return dims.floordiv(a, b) if dims.is_nonnegative(a) and dims.is_nonnegative(b) else None


class Mod(Numeric):
    """Remainder of a / b, with the sign of b; with `fmod` = 1 that of a. There is no integer modulo
    zero.
    """

    fmod: int = 0

    since = 10
    carries_dims = True
    samples = (
        cases(
            a=[
                Ints((4, 3)),
                Ints((5,), dtype=dtypes.int32),
                Ints((5,), 0, 50, dtypes.uint8),
                np.array([-7, 7, -7, 6], np.int64),
            ],
            b=[
                Ints((3,), 1, 6),
                Ints((5,), -6, 0, dtypes.int32),
                Ints((5,), 1, 9, dtypes.uint8),
                np.array([2, -2, -2, 3], np.int64),
            ],
            fmod=[0, 1],
        ),
        cases(a=[Floats((3, 5), -9, 9)], b=[Floats((5,), 1, 3)], fmod=[0, 1]),
    )

    def eval(self, a: Array, b: Array) -> Array:
        function = np.fmod if self.fmod else np.mod
        if dtypes.by_numpy(a.dtype).is_float:
            return rounded(function, a, b)
        _refuse_zero(a, b)
        return np.asarray(function(a, b))

    def content(self, a: Array, b: Array) -> Array | None:
        return on_dims(self._remainder, a, b)

    def _remainder(self, a: Dim, b: Dim) -> Dim | None:
        if isinstance(b, int) and b == 0:
            return None
        if not self.fmod or (dims.is_nonnegative(a) and dims.is_nonnegative(b)):
            return dims.mod(a, b)
        quotient = _divide(a, b)
        return None if quotient is None else a - quotient * b

    def scalar(self, e: Formulas, a: Term, b: Term) -> Term:
        return e.fmod(a, b) if self.fmod else e.mod(a, b)


class Pow(Elementwise):
    """Power with the base's type: x ** y; exponents may be of another type. Powers of integers wrap
    around, and negative ones are cut off: to 0, but for those of 1 and -1.
    """

    traits = Trait.ARITHMETIC | Trait.CONTINUOUS
    since = 15
    accuracy = Rounding(ulp=8, why="the error of log(x) grows with y · log(x)")
    samples = (
        cases(
            x=[
                Floats((2, 3), 0, 4),
                Floats((5,), 0.1, 9),
                (7,),
                Ints((4,)),
                Ints((4,), dtype=dtypes.int32),
                Ints((3,), 1, 5),
            ],
            y=[
                Floats((3,)),
                Floats((), 0, 4),
                Ints((7,), 0, 5),
                Ints((4,), 0, 4),
                Ints((4,), 0, 4),
                Floats((3,), 0, 3),
            ],
        ),
        cases(x=[(3, 4), (3, 4), (3, 4)], y=[np.float32(2.0), f32(3.0), np.int64(2)]),
        cases(
            x=[f32(0.0, -0.0, 0.0, 1.0, -8.0, np.inf, -2.0, 0.0)],
            y=[f32(0.0, 3.0, -1.0, np.nan, 1 / 3, -1.0, 3.0, 2.0)],
        ),
    )

    def result_dtype(self, x: Value, y: Value) -> DType:
        require_kind(self.name, y.dtype, "fiu")
        return require_kind(self.name, x.dtype, "fi")

    def eval(self, x: Array, y: Array) -> Array:
        if dtypes.by_numpy(x.dtype).is_float or dtypes.by_numpy(y.dtype).is_float:
            # NumPy's power takes the root for one exponent 0.5, which is NaN for -∞.
            return rounded(np.float_power, x, y)
        wide = x.astype(np.int64)
        whole = np.power(wide, np.maximum(y, 0).astype(np.int64))
        inverse = np.where(wide == 1, 1, np.where(wide == -1, 1 - 2 * (y.astype(np.int64) & 1), 0))
        return np.asarray(np.where(y < 0, inverse, whole).astype(x.dtype))

    def scalar(self, e: Formulas, x: Term, y: Term) -> Term:
        if y.op == "const" and y.value == 2:
            return x * x
        wide = x.dtype if x.dtype.is_float and y.dtype != dtypes.float64 else dtypes.float64
        if x.dtype.is_integer and y.dtype.is_integer:
            wide = dtypes.int64
        return e.cast(e.pow(e.cast(x, wide), e.cast(y, wide)), x.dtype)


class Max(Numeric):
    """Largest of the operands, element by element; NaN when one is NaN, the first of equals."""

    traits = Trait.ARITHMETIC | Trait.CONTINUOUS | Trait.FINITE
    since = 13
    commutative = True
    carries_dims = True
    samples = cases(
        xs=[
            [(2, 3), (3,)],
            [(4, 1), (), (1, 5)],
            [(7,)],
            [Ints((3,)), Ints((2, 1))],
            [f32(np.nan, 1, np.inf), f32(0, np.nan, 2)],
        ]
    )

    def eval(self, *xs: Array) -> Array:
        return reduce(larger, xs)

    def content(self, *xs: Array) -> Array | None:
        return on_dims(lambda *values: reduce(dims.maximum, values), *xs)

    def scalar(self, e: Formulas, *xs: Term) -> Term:
        return reduce(e.max, xs)


class Min(Numeric):
    """Smallest of the operands, element by element; NaN when one is NaN, the first of equals."""

    traits = Trait.ARITHMETIC | Trait.CONTINUOUS | Trait.FINITE
    since = 13
    commutative = True
    carries_dims = True
    samples = Max.samples

    def eval(self, *xs: Array) -> Array:
        return reduce(smaller, xs)

    def content(self, *xs: Array) -> Array | None:
        return on_dims(lambda *values: reduce(dims.minimum, values), *xs)

    def scalar(self, e: Formulas, *xs: Term) -> Term:
        return reduce(e.min, xs)


class Sum(Floating):
    """Sum of any number of tensors, element by element."""

    traits = Trait.CONTINUOUS
    since = 13
    commutative = True
    accuracy = Rounding(ulp=1, abs=4e-7, why="terms may cancel")
    samples = cases(xs=[[(2, 3), (3,)], [(4, 1), (), (1, 5)], [(7,)]])

    def eval(self, *xs: Array) -> Array:
        return reduce(np.add, (widened(x) for x in xs)).astype(xs[0].dtype)

    def scalar(self, e: Formulas, *xs: Term) -> Term:
        return _total(xs)


class Mean(Floating):
    """Mean of any number of tensors, element by element."""

    traits = Trait.CONTINUOUS
    since = 13
    commutative = True
    accuracy = Rounding(ulp=1, abs=4e-7, why="terms may cancel")
    samples = cases(xs=[[(2, 3), (3,)], [(4, 1), (), (1, 5)], [(7,)]])

    def eval(self, *xs: Array) -> Array:
        return rounded(lambda *values: reduce(np.add, values) / len(values), *xs)

    def scalar(self, e: Formulas, *xs: Term) -> Term:
        return _total(xs) / float(len(xs))


def _total(xs: tuple[Term, ...]) -> Term:
    return reduce(lambda total, x: total + x, xs)


class BitShift(Integral):
    """x shifted by y bits LEFT or RIGHT (which keeps the sign); shifting by all bits or more leaves
    only the sign.
    """

    direction: str

    since = 11
    samples = cases(
        x=[
            Ints((5,), 0, 99, dtypes.uint8),
            Ints((2, 3), dtype=dtypes.int32),
            Ints((4,), 0, 9, dtypes.uint64),
        ],
        y=[
            Ints((5,), 0, 12, dtypes.uint8),
            Ints((3,), 0, 5, dtypes.int32),
            np.array([0, 1, 63, 64], np.uint64),
        ],
        direction=["LEFT", "RIGHT"],
    )

    def result_dtype(self, *xs: Value | None) -> DType:
        if self.direction not in ("LEFT", "RIGHT"):
            raise TypeMismatchError(
                f"BitShift has no direction {self.direction!r}", hint="LEFT or RIGHT"
            )
        return super().result_dtype(*xs)

    def eval(self, x: Array, y: Array) -> Array:
        bits = x.dtype.itemsize * 8
        valid = (y >= 0) & (y < bits)
        amount = np.where(valid, y, 0).astype(x.dtype)
        if self.direction == "LEFT":
            return np.where(valid, np.left_shift(x, amount), 0).astype(x.dtype)
        return np.where(valid, np.right_shift(x, amount), np.where(x < 0, -1, 0).astype(x.dtype))

    def scalar(self, e: Formulas, x: Term, y: Term) -> Term:
        result: Term = e.shift_left(x, y) if self.direction == "LEFT" else e.shift_right(x, y)
        bits = x.dtype.bits
        if not x.dtype.is_signed:
            return e.select(y < bits, result, 0)
        beyond: Any = 0 if self.direction == "LEFT" else e.select(x < 0, e.const(-1, x.dtype), 0)
        return e.select(e.logical_and(y >= 0, y < bits), result, beyond)
