"""Arithmetic with numbers that are attributes: one operand and a scalar, and weighted sums; sums of
a product that are rounded once.

Graphs have the first two at the end of an optimization at level `all`; the standard operators that
they stand for are `written_out`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import TypeMismatchError
from infuse.ir.expression import Call
from infuse.ir.graph import Value
from infuse.ops.core.base import Array, Rounding
from infuse.ops.core.elementwise import Floating, f32, fused, rounded
from infuse.ops.core.formula import Formulas, Term
from infuse.ops.core.samples import Floats, cases
from infuse.ops.core.traits import Trait


class WithScalar(Floating, abstract=True):
    """A binary operator of ONNX with `value` in place of one operand, in the type of the other."""

    value: float

    domain = "infuse"
    operator: ClassVar[str]
    """The binary operator."""
    is_reversed: ClassVar[bool] = False
    """Whether the scalar is its first operand."""
    samples = cases(x=[(2, 3), (), Floats((4, 17), -20, 20)], value=[0.75, -2.5])

    def written_out(self, x: Any, dtype: DType) -> Call:
        """The standard operator that does the same, on an operand of this type."""
        number = np.array(self.value).astype(dtype.numpy)
        return Call(self.operator, (number, x) if self.is_reversed else (x, number))

    def like(self, x: Array) -> Array:
        """The scalar in the type of `x`."""
        return np.asarray(self.value).astype(x.dtype)


class AddScalar(WithScalar):
    """x + value."""

    traits = Trait.CONTINUOUS | Trait.FINITE
    operator = "Add"

    def eval(self, x: Array) -> Array:
        return np.add(x, self.like(x))

    def scalar(self, e: Formulas, x: Term) -> Term:
        return x + self.value


class RSubScalar(WithScalar):
    """value − x."""

    traits = Trait.CONTINUOUS | Trait.FINITE
    operator = "Sub"
    is_reversed = True

    def eval(self, x: Array) -> Array:
        return np.subtract(self.like(x), x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return self.value - x


class MulScalar(WithScalar):
    """value · x."""

    traits = Trait.CONTINUOUS | Trait.FINITE | Trait.ODD | Trait.HOMOGENEOUS
    operator = "Mul"

    def eval(self, x: Array) -> Array:
        return np.multiply(x, self.like(x))

    def scalar(self, e: Formulas, x: Term) -> Term:
        return x * self.value


class DivScalar(WithScalar):
    """x / value."""

    traits = Trait.CONTINUOUS | Trait.ODD | Trait.HOMOGENEOUS
    operator = "Div"

    def eval(self, x: Array) -> Array:
        return np.divide(x, self.like(x))

    def scalar(self, e: Formulas, x: Term) -> Term:
        return x / self.value


class RDivScalar(WithScalar):
    """value / x."""

    traits = Trait.CONTINUOUS
    operator = "Div"
    is_reversed = True

    def eval(self, x: Array) -> Array:
        return np.divide(self.like(x), x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return self.value / x


class PowScalar(WithScalar):
    """x to the power of value."""

    traits = Trait.CONTINUOUS
    operator = "Pow"
    accuracy = Rounding(ulp=8, why="the error of log(x) grows with value · log(x)")
    samples = cases(x=[Floats((2, 3), 0, 4), Floats((5,), 0.1, 9)], value=[0.5, 2.0, -1.5])

    def eval(self, x: Array) -> Array:
        return rounded(lambda v: np.float_power(v, self.value), x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        if self.value == 2:
            return x * x
        result: Term = e.pow(x, self.value)
        return result


class WeightedSum(Floating):
    """alpha · x + beta · y."""

    alpha: float = 1.0
    beta: float = 1.0

    domain = "infuse"
    traits = Trait.CONTINUOUS | Trait.FINITE
    accuracy = Rounding(ulp=2, abs=4e-7, why="the products are rounded, and terms may cancel")
    samples = cases(
        x=[(2, 3), (4, 1), (), (7,)],
        y=[(2, 3), (1, 5), (3,), (7,)],
        alpha=[1.0, 0.3],
        beta=[0.7, -1.0],
    )

    def written_out(self, x: Any, y: Any, dtype: DType) -> Call:
        """The standard operators that do the same, on operands of this type."""
        if self.alpha == -1:
            return Call("Sub", (_weighted(y, self.beta, dtype), x))
        if self.beta == -1:
            return Call("Sub", (_weighted(x, self.alpha, dtype), y))
        return Call("Add", (_weighted(x, self.alpha, dtype), _weighted(y, self.beta, dtype)))

    def eval(self, x: Array, y: Array) -> Array:
        return rounded(lambda v, w: self.alpha * v + self.beta * w, x, y)

    def scalar(self, e: Formulas, x: Term, y: Term) -> Term:
        left = x if self.alpha == 1 else x * self.alpha
        return left + (y if self.beta == 1 else y * self.beta)


def _weighted(x: Any, weight: float, dtype: DType) -> Any:
    """One term of a weighted sum."""
    return x if weight == 1 else Call("Mul", (x, np.array(weight).astype(dtype.numpy)))


_MIDDLE = f32(1 + 2**-12, 1 + 2**-12, -1 - 2**-12, -1 - 2**-12, 1 + 2**-12)
"""Numbers whose square lies in the middle of two of float32."""


class MultiplyAdd(Floating):
    """a · b + c of float32, rounded once on every processor."""

    domain = "infuse"
    traits = Trait.CONTINUOUS | Trait.FINITE
    samples = cases(
        a=[f32(0.1, -2.7, 1e20), f32(1 / 3), np.array([[1.1], [-7]], np.float32), _MIDDLE],
        b=[f32(0.3, 1.9, 3e-20), f32(0.7, -3, 3), np.float32(0.6), np.abs(_MIDDLE)],
        c=[
            f32(-0.03, 5.13, 1),
            np.float32(-1),
            f32(0.1, -0.66, 4.2),
            f32(1e-30, -1e-30, 1e-30, -1e-30, 0),
        ],
    )

    def result_dtype(self, *xs: Value | None) -> DType:
        dtype = super().result_dtype(*xs)
        if dtype != dtypes.float32:
            raise TypeMismatchError(f"{self.name} takes float32, found {dtype}")
        return dtype

    def eval(self, a: Array, b: Array, c: Array) -> Array:
        return fused(a, b, c)

    def scalar(self, e: Formulas, a: Term, b: Term, c: Term) -> Term:
        result: Term = e.fused(a, b, c)
        return result


WITH_SCALAR: tuple[type[WithScalar], ...] = (
    AddScalar,
    RSubScalar,
    MulScalar,
    DivScalar,
    RDivScalar,
    PowScalar,
)
"""The operators of one operand and a scalar; a limit is a Clip."""
