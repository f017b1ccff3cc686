"""Comparisons, logic and bitwise operators."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.ir import dims
from infuse.ops.core.base import Array
from infuse.ops.core.elementwise import Integral, Logical, Predicate, f32, on_dims
from infuse.ops.core.formula import Formulas, Term
from infuse.ops.core.samples import Bools, Ints, cases

_NUMBERS = cases(
    a=[
        (2, 3),
        (),
        Ints((5, 4), 0, 3),
        Ints((9,), 0, 3, dtypes.uint8),
        f32(1.0, np.nan, np.inf, -0.0, 2),
    ],
    b=[
        (3,),
        (4, 1),
        Ints((4,), 0, 3),
        Ints((9,), 0, 3, dtypes.uint8),
        f32(1.0, np.nan, np.inf, 0.0, 3),
    ],
)
_TRUTHS = cases(
    a=[Bools((2, 3)), Bools(()), Bools((4, 1))], b=[Bools((3,)), Bools((5,)), Bools((1, 6))]
)
_BITS = cases(
    a=[Ints((4, 3)), Ints((9,), 0, 99, dtypes.uint8), Ints((5, 1), dtype=dtypes.int32)],
    b=[Ints((3,)), Ints((9,), 0, 99, dtypes.uint8), Ints((6,), dtype=dtypes.int32)],
)


class Equal(Predicate):
    """Whether a = b, for any element type; NaN equals nothing."""

    kinds = "fiubs"
    since = 19
    commutative = True
    carries_dims = True
    samples = (_NUMBERS, _TRUTHS)

    def eval(self, a: Array, b: Array) -> Array:
        return np.equal(a, b).astype(bool)

    def content(self, a: Array, b: Array) -> Array | None:
        return on_dims(lambda x, y: dims.compare("==", x, y), a, b)

    def scalar(self, e: Formulas, a: Term, b: Term) -> Term:
        return a.equals(b)


class Less(Predicate):
    """Whether a < b."""

    since = 13
    carries_dims = True
    samples = _NUMBERS

    def eval(self, a: Array, b: Array) -> Array:
        return np.less(a, b)

    def content(self, a: Array, b: Array) -> Array | None:
        return on_dims(lambda x, y: dims.compare("<", x, y), a, b)

    def scalar(self, e: Formulas, a: Term, b: Term) -> Term:
        return a < b


class LessOrEqual(Predicate):
    """Whether a ≤ b."""

    since = 16
    carries_dims = True
    samples = _NUMBERS

    def eval(self, a: Array, b: Array) -> Array:
        return np.less_equal(a, b)

    def content(self, a: Array, b: Array) -> Array | None:
        return on_dims(lambda x, y: dims.compare("<=", x, y), a, b)

    def scalar(self, e: Formulas, a: Term, b: Term) -> Term:
        return a <= b


class Greater(Predicate):
    """Whether a > b."""

    since = 13
    carries_dims = True
    samples = _NUMBERS

    def eval(self, a: Array, b: Array) -> Array:
        return np.greater(a, b)

    def content(self, a: Array, b: Array) -> Array | None:
        return on_dims(lambda x, y: dims.compare(">", x, y), a, b)

    def scalar(self, e: Formulas, a: Term, b: Term) -> Term:
        return a > b


class GreaterOrEqual(Predicate):
    """Whether a ≥ b."""

    since = 16
    carries_dims = True
    samples = _NUMBERS

    def eval(self, a: Array, b: Array) -> Array:
        return np.greater_equal(a, b)

    def content(self, a: Array, b: Array) -> Array | None:
        return on_dims(lambda x, y: dims.compare(">=", x, y), a, b)

    def scalar(self, e: Formulas, a: Term, b: Term) -> Term:
        return a >= b


class And(Logical):
    """Whether both are true."""

    since = 7
    commutative = True
    carries_dims = True
    samples = _TRUTHS

    def eval(self, a: Array, b: Array) -> Array:
        return np.logical_and(a, b)

    def content(self, a: Array, b: Array) -> Array | None:
        return on_dims(lambda x, y: bool(x) and bool(y), a, b)

    def scalar(self, e: Formulas, a: Term, b: Term) -> Term:
        return e.logical_and(a, b)


class Or(Logical):
    """Whether one or both are true."""

    since = 7
    commutative = True
    carries_dims = True
    samples = _TRUTHS

    def eval(self, a: Array, b: Array) -> Array:
        return np.logical_or(a, b)

    def content(self, a: Array, b: Array) -> Array | None:
        return on_dims(lambda x, y: bool(x) or bool(y), a, b)

    def scalar(self, e: Formulas, a: Term, b: Term) -> Term:
        return e.logical_or(a, b)


class Xor(Logical):
    """Whether exactly one is true."""

    since = 7
    commutative = True
    carries_dims = True
    samples = _TRUTHS

    def eval(self, a: Array, b: Array) -> Array:
        return np.logical_xor(a, b)

    def content(self, a: Array, b: Array) -> Array | None:
        return on_dims(lambda x, y: bool(x) != bool(y), a, b)

    def scalar(self, e: Formulas, a: Term, b: Term) -> Term:
        return e.logical_xor(a, b)


class Not(Logical):
    """The opposite truth value."""

    carries_dims = True
    samples = cases(x=[Bools((2, 3)), Bools(())])

    def eval(self, x: Array) -> Array:
        return np.logical_not(x)

    def content(self, x: Array) -> Array | None:
        return on_dims(lambda value: not value, x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return e.logical_not(x)


class BitwiseAnd(Integral):
    """Bits that are set in both."""

    since = 18
    commutative = True
    samples = _BITS

    def eval(self, a: Array, b: Array) -> Array:
        return np.bitwise_and(a, b)

    def scalar(self, e: Formulas, a: Term, b: Term) -> Term:
        return e.bit_and(a, b)


class BitwiseOr(Integral):
    """Bits that are set in one or both."""

    since = 18
    commutative = True
    samples = _BITS

    def eval(self, a: Array, b: Array) -> Array:
        return np.bitwise_or(a, b)

    def scalar(self, e: Formulas, a: Term, b: Term) -> Term:
        return e.bit_or(a, b)


class BitwiseXor(Integral):
    """Bits that are set in exactly one."""

    since = 18
    commutative = True
    samples = _BITS

    def eval(self, a: Array, b: Array) -> Array:
        return np.bitwise_xor(a, b)

    def scalar(self, e: Formulas, a: Term, b: Term) -> Term:
        return e.bit_xor(a, b)


class BitwiseNot(Integral):
    """All bits flipped."""

    since = 18
    samples = cases(x=[Ints((4, 3)), Ints((9,), 0, 99, dtypes.uint8)])

    def eval(self, x: Array) -> Array:
        return np.invert(x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return e.bit_not(x)
