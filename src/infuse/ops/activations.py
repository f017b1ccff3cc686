"""Activation functions."""

from __future__ import annotations

import math

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import TypeMismatchError
from infuse.ir.broadcasting import broadcast_shapes
from infuse.ir.graph import Value
from infuse.ops.core.base import Array, Inferred, Rounding
from infuse.ops.core.elementwise import (
    Floating,
    Numeric,
    Signed,
    f32,
    larger,
    require_shape,
    rounded,
)
from infuse.ops.core.formula import Formulas, Term
from infuse.ops.core.samples import Floats, Ints, cases
from infuse.ops.core.special import erf, sigmoid, softplus
from infuse.ops.core.traits import Trait
from infuse.ops.unary import SPECIALS

_FLOATS = cases(x=[(), (2, 3), (4, 1, 17), Floats((50,), -30, 30), SPECIALS])
RSQRT2 = math.sqrt(0.5)
GELU_SLOPE = math.sqrt(2 / math.pi)
GELU_CUBIC = 0.044715


class Relu(Signed):
    """max(x, 0); NaN stays."""

    traits = (
        Trait.CONTINUOUS | Trait.FINITE | Trait.NONNEGATIVE | Trait.IDEMPOTENT | Trait.HOMOGENEOUS
    )
    since = 14
    samples = cases(x=[(), (2, 3), (4, 1, 17), Ints((9,), dtype=dtypes.int32), SPECIALS])

    def eval(self, x: Array) -> Array:
        return larger(x, np.zeros((), x.dtype))

    def scalar(self, e: Formulas, x: Term) -> Term:
        return e.max(x, 0)


class LeakyRelu(Floating):
    """x where it is not negative, else alpha · x."""

    traits = Trait.CONTINUOUS | Trait.HOMOGENEOUS
    alpha: float = 0.01

    since = 16
    accuracy = Rounding(ulp=1)
    samples = cases(x=[(2, 3), SPECIALS], alpha=[0.01, 0.25])

    def eval(self, x: Array) -> Array:
        return rounded(lambda v: np.where(v < 0, self.alpha * v, v), x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return e.select(x < 0.0, x * self.alpha, x)


class PRelu(Numeric):
    """x where it is not negative, else slope · x; slope broadcasts to the shape of x."""

    traits = Trait.HOMOGENEOUS
    since = 16
    fixed_axes = None
    samples = cases(
        x=[(2, 3), (2, 4, 5, 5), (2, 3), Ints((5,), dtype=dtypes.int32)],
        slope=[(3,), (4, 1, 1), (), Ints((1,), dtype=dtypes.int32)],
    )

    def infer(self, x: Value, slope: Value) -> Inferred:
        self.result_dtype(x, slope)
        both = broadcast_shapes(x.tensor.shape, slope.tensor.shape, exact=True)
        require_shape(self.name, both, x.tensor.shape)
        return x.type

    def eval(self, x: Array, slope: Array) -> Array:
        return np.where(x < 0, x * slope, x)

    def scalar(self, e: Formulas, x: Term, slope: Term) -> Term:
        return e.select(x < 0, x * slope, x)


class Elu(Floating):
    """x where it is positive, else alpha · (exp(x) − 1)."""

    traits = Trait.CONTINUOUS
    alpha: float = 1.0

    since = 22
    samples = cases(x=[(2, 3), Floats((50,), -30, 30), SPECIALS], alpha=[1.0, 0.5])
    accuracy = Rounding(ulp=4)

    def eval(self, x: Array) -> Array:
        return rounded(lambda v: np.where(v < 0, self.alpha * np.expm1(np.minimum(v, 0)), v), x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return e.select(x < 0.0, e.expm1(x) * self.alpha, x)


class Selu(Floating):
    """gamma · (x where it is positive, else alpha · (exp(x) − 1))."""

    alpha: float = 1.67326319217681884765625
    gamma: float = 1.05070102214813232421875

    since = 22
    samples = _FLOATS
    accuracy = Rounding(ulp=4)

    def eval(self, x: Array) -> Array:
        return rounded(
            lambda v: self.gamma * np.where(v < 0, self.alpha * np.expm1(np.minimum(v, 0)), v), x
        )

    def scalar(self, e: Formulas, x: Term) -> Term:
        return e.select(x < 0.0, e.expm1(x) * (self.gamma * self.alpha), x * self.gamma)


class Celu(Floating):
    """max(x, 0) + min(alpha · (exp(x / alpha) − 1), 0)."""

    alpha: float = 1.0

    since = 12
    samples = cases(x=[(2, 3), Floats((50,), -30, 30), SPECIALS], alpha=[1.0, 0.5])
    accuracy = Rounding(ulp=4)

    def eval(self, x: Array) -> Array:
        negative = rounded(lambda v: self.alpha * np.expm1(np.minimum(v, 0) / self.alpha), x)
        return np.where(x < 0, negative, x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return e.select(x < 0.0, e.expm1(x / self.alpha) * self.alpha, x)


class ThresholdedRelu(Floating):
    """x where it is larger than alpha, else 0."""

    alpha: float = 1.0

    since = 22
    samples = cases(x=[(2, 3), SPECIALS], alpha=[1.0, 0.25])

    def eval(self, x: Array) -> Array:
        return np.where(x > self.alpha, x, x.dtype.type(0))

    def scalar(self, e: Formulas, x: Term) -> Term:
        return e.select(x > self.alpha, x, 0.0)


class Sigmoid(Floating):
    """1 / (1 + exp(−x))."""

    traits = Trait.CONTINUOUS | Trait.NONNEGATIVE
    since = 13
    accuracy = Rounding(ulp=4)
    samples = _FLOATS

    def eval(self, x: Array) -> Array:
        return rounded(sigmoid, x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return e.sigmoid(x)


class HardSigmoid(Floating):
    """alpha · x + beta, clipped to [0, 1]."""

    traits = Trait.NONNEGATIVE
    alpha: float = 0.2
    beta: float = 0.5

    since = 22
    accuracy = Rounding(ulp=1, abs=2e-7, why="the sum may cancel")
    samples = cases(x=[(2, 3), SPECIALS], alpha=[0.2, 0.5], beta=[0.5, 0.25])

    def eval(self, x: Array) -> Array:
        return rounded(lambda v: np.clip(self.alpha * v + self.beta, 0.0, 1.0), x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return e.min(e.max(x * self.alpha + self.beta, 0.0), 1.0)


class HardSwish(Floating):
    """x · clip(x / 6 + 0.5, 0, 1)."""

    traits = Trait.CONTINUOUS
    since = 22
    accuracy = Rounding(ulp=2, abs=2e-7, why="near −3 the sum cancels")
    samples = _FLOATS

    def eval(self, x: Array) -> Array:
        return rounded(lambda v: v * np.clip(v / 6.0 + 0.5, 0.0, 1.0), x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return x * e.min(e.max(x * (1.0 / 6.0) + 0.5, 0.0), 1.0)


class Swish(Floating):
    """x · sigmoid(alpha · x), also known as SiLU."""

    traits = Trait.CONTINUOUS
    alpha: float = 1.0

    since = 24
    accuracy = Rounding(
        ulp=4, abs=1e-7, why="far below zero the error of alpha · x grows in the exponential"
    )
    samples = cases(x=[(2, 3), Floats((50,), -30, 30), SPECIALS], alpha=[1.0, 1.702])

    def eval(self, x: Array) -> Array:
        return rounded(lambda v: v * sigmoid(self.alpha * v), x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return x / (e.exp(-(x if self.alpha == 1.0 else x * self.alpha)) + 1.0)


class Mish(Floating):
    """x · tanh(softplus(x))."""

    since = 22
    accuracy = Rounding(ulp=8, abs=1e-7)
    samples = _FLOATS

    def eval(self, x: Array) -> Array:
        return rounded(lambda v: v * np.tanh(softplus(v)), x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return x * e.tanh(e.softplus(x))


class Gelu(Floating):
    """x · Φ(x), Φ being the normal distribution function; approximated by tanh where `approximate`
    says "tanh".
    """

    traits = Trait.CONTINUOUS
    approximate: str = "none"

    since = 20
    accuracy = Rounding(ulp=8, abs=2e-7, why="far below zero 1 + erf(x / √2) cancels")
    samples = cases(x=[(), (4, 1, 17), Floats((50,), -9, 9)], approximate=["none", "tanh"])

    def result_dtype(self, *xs: Value | None) -> DType:
        if self.approximate not in ("none", "tanh"):
            raise TypeMismatchError(
                f"Gelu has no approximation {self.approximate!r}", hint="none or tanh"
            )
        return super().result_dtype(*xs)

    def eval(self, x: Array) -> Array:
        if self.approximate == "tanh":
            return rounded(
                lambda v: 0.5 * v * (1 + np.tanh(GELU_SLOPE * (v + GELU_CUBIC * v**3))), x
            )
        return rounded(lambda v: 0.5 * v * (1 + erf(v * RSQRT2)), x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        if self.approximate == "tanh":
            # 1 + tanh(u) = 2 · sigmoid(2u)
            return x * e.sigmoid(x * (2 * GELU_SLOPE) * (x * x * GELU_CUBIC + 1.0))
        return x * 0.5 * (e.erf(x * RSQRT2) + 1.0)


class Softplus(Floating):
    """log(1 + exp(x))."""

    traits = Trait.CONTINUOUS | Trait.NONNEGATIVE
    since = 22
    accuracy = Rounding(ulp=4)
    samples = _FLOATS

    def eval(self, x: Array) -> Array:
        return rounded(softplus, x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return e.softplus(x)


class Softsign(Floating):
    """x / (1 + |x|)."""

    traits = Trait.ODD
    since = 22
    accuracy = Rounding(ulp=2)
    samples = cases(x=[(), (2, 3), Floats((50,), -30, 30), f32(0, -0.0, np.nan, 1e-40)])

    def eval(self, x: Array) -> Array:
        return rounded(lambda v: v / (1.0 + np.abs(v)), x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return x / (e.abs(x) + 1.0)


class Shrink(Numeric):
    """x + bias below −lambd, x − bias above lambd, else 0; integers lose the fraction."""

    bias: float = 0.0
    lambd: float = 0.5

    since = 9
    accuracy = Rounding(ulp=1)
    samples = cases(
        x=[(2, 3), SPECIALS, Ints((9,), dtype=dtypes.int32)], bias=[0.0, 1.5], lambd=[0.5, 1.5]
    )

    def eval(self, x: Array) -> Array:
        wide = x.astype(np.float64)
        outside = np.where(wide < -self.lambd, wide + self.bias, wide - self.bias)
        return np.where(np.abs(wide) > self.lambd, outside, 0.0).astype(x.dtype)

    def scalar(self, e: Formulas, x: Term) -> Term:
        wide = x if x.dtype.is_float else e.cast(x, dtypes.float64)
        above = e.select(wide > self.lambd, wide - self.bias, 0.0)
        return e.cast(e.select(wide < -self.lambd, wide + self.bias, above), x.dtype)
