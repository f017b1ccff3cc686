"""Functions of one number."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ops.core.base import Array, Elementwise, Rounding
from infuse.ops.core.elementwise import (
    Floating,
    Numeric,
    Signed,
    f32,
    on_dims,
    require_kind,
    rounded,
    widened,
)
from infuse.ops.core.formula import Formulas, Term
from infuse.ops.core.samples import Floats, Ints, cases
from infuse.ops.core.special import erf
from infuse.ops.core.traits import Trait

SPECIALS = f32(np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.5, 1e-40, 88.0, -104.0)
_NUMBERS = cases(x=[(), (2, 3), Ints((7,)), Ints((5,), dtype=dtypes.int32), SPECIALS])
_FLOATS = cases(x=[(), (2, 3), (4, 1, 17), Floats((50,), -30, 30), SPECIALS])
_UNIT = cases(x=[Floats((), -1, 1), Floats((3, 17), -1, 1), f32(1, -1, 0, -0.0, 2, np.nan, np.inf)])


class Neg(Signed):
    """Negative: −x."""

    traits = Trait.CONTINUOUS | Trait.FINITE
    since = 13
    carries_dims = True
    samples = _NUMBERS

    def eval(self, x: Array) -> Array:
        return np.negative(x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return -x


class Abs(Numeric):
    """Magnitude: |x|."""

    traits = Trait.CONTINUOUS | Trait.FINITE | Trait.NONNEGATIVE | Trait.IDEMPOTENT
    since = 13
    carries_dims = True
    samples = _NUMBERS

    def eval(self, x: Array) -> Array:
        return np.abs(x)

    def content(self, x: Array) -> Array | None:
        return on_dims(lambda value: dims.maximum(value, -value), x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return e.abs(x)


class Sign(Numeric):
    """−1, 0 or 1 as x is negative, zero or positive; NaN stays."""

    traits = Trait.IDEMPOTENT
    since = 13
    carries_dims = True
    samples = _NUMBERS

    def eval(self, x: Array) -> Array:
        return np.sign(widened(x)).astype(x.dtype)

    def content(self, x: Array) -> Array | None:
        return on_dims(_sign, x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return e.sign(x)


def _sign(value: Dim) -> int | None:
    if dims.compare("==", value, 0):
        return 0
    if dims.compare(">", value, 0):
        return 1
    return -1 if dims.compare("<", value, 0) else None


class Reciprocal(Floating):
    """1 / x."""

    traits = Trait.CONTINUOUS
    since = 13
    accuracy = Rounding(ulp=1)
    samples = _FLOATS

    def eval(self, x: Array) -> Array:
        return rounded(np.reciprocal, x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return 1.0 / x


class Sqrt(Floating):
    """Square root; NaN for negative x."""

    traits = Trait.CONTINUOUS | Trait.NONNEGATIVE
    since = 13
    samples = cases(x=[Floats((), 0, 9), Floats((3, 17), 0, 1000), SPECIALS])

    def eval(self, x: Array) -> Array:
        return rounded(np.sqrt, x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return e.sqrt(x)


class _Function(Floating, abstract=True):
    """A transcendental function; `function` computes it in float64."""

    accuracy = Rounding(ulp=4)
    formula: ClassVar[str]
    """Its name among `Formulas`."""

    def scalar(self, e: Formulas, x: Term) -> Term:
        function: Callable[[Term], Term] = getattr(e, self.formula)
        return function(x)


class Exp(_Function):
    """e to the power x."""

    traits = Trait.CONTINUOUS | Trait.NONNEGATIVE
    since = 13
    formula = "exp"
    samples = _FLOATS

    def eval(self, x: Array) -> Array:
        return rounded(np.exp, x)


class Log(_Function):
    """Natural logarithm; NaN for negative x."""

    traits = Trait.CONTINUOUS
    since = 13
    formula = "log"
    samples = cases(
        x=[Floats((), 0, 9), Floats((3, 17), 0, 1000), Floats((40,), 0.9, 1.1), SPECIALS]
    )

    def eval(self, x: Array) -> Array:
        return rounded(np.log, x)


class Sin(_Function):
    """Sine of x in radians."""

    traits = Trait.ODD
    since = 22
    accuracy = Rounding(
        ulp=4, abs=2e-7, why="near multiples of π the reduced argument has few digits"
    )
    formula = "sin"
    samples = _FLOATS

    def eval(self, x: Array) -> Array:
        return rounded(np.sin, x)


class Cos(_Function):
    """Cosine of x in radians."""

    since = 22
    accuracy = Rounding(ulp=4, abs=2e-7, why="near its zeros the reduced argument has few digits")
    formula = "cos"
    samples = _FLOATS

    def eval(self, x: Array) -> Array:
        return rounded(np.cos, x)


class Tan(_Function):
    """Tangent of x in radians."""

    traits = Trait.ODD
    since = 22
    accuracy = Rounding(ulp=8)
    formula = "tan"
    samples = cases(x=[(), (3, 17), SPECIALS])

    def eval(self, x: Array) -> Array:
        return rounded(np.tan, x)


class Asin(_Function):
    """Angle in [−π/2, π/2] whose sine is x; NaN outside [−1, 1]."""

    traits = Trait.ODD
    since = 22
    formula = "asin"
    samples = _UNIT

    def eval(self, x: Array) -> Array:
        return rounded(np.arcsin, x)


class Acos(_Function):
    """Angle in [0, π] whose cosine is x; NaN outside [−1, 1]."""

    since = 22
    formula = "acos"
    samples = _UNIT

    def eval(self, x: Array) -> Array:
        return rounded(np.arccos, x)


class Atan(_Function):
    """Angle in [−π/2, π/2] whose tangent is x."""

    traits = Trait.ODD
    since = 22
    formula = "atan"
    samples = _FLOATS

    def eval(self, x: Array) -> Array:
        return rounded(np.arctan, x)


class Sinh(_Function):
    """Hyperbolic sine."""

    traits = Trait.ODD
    since = 22
    formula = "sinh"
    samples = _FLOATS

    def eval(self, x: Array) -> Array:
        return rounded(np.sinh, x)


class Cosh(_Function):
    """Hyperbolic cosine."""

    since = 22
    formula = "cosh"
    samples = _FLOATS

    def eval(self, x: Array) -> Array:
        return rounded(np.cosh, x)


class Asinh(_Function):
    """Inverse of the hyperbolic sine."""

    traits = Trait.ODD
    since = 22
    formula = "asinh"
    samples = _FLOATS

    def eval(self, x: Array) -> Array:
        return rounded(np.arcsinh, x)


class Acosh(_Function):
    """Non-negative inverse of the hyperbolic cosine; NaN below 1."""

    since = 22
    formula = "acosh"
    samples = cases(x=[Floats((), 1, 9), Floats((3, 17), 1, 100), f32(1, 0, np.nan, np.inf)])

    def eval(self, x: Array) -> Array:
        return rounded(np.arccosh, x)


class Atanh(_Function):
    """Inverse of the hyperbolic tangent; NaN outside [−1, 1]."""

    traits = Trait.ODD
    since = 22
    formula = "atanh"
    samples = _UNIT

    def eval(self, x: Array) -> Array:
        return rounded(np.arctanh, x)


class Erf(_Function):
    """Error function: 2/√π times the integral of exp(−t²) from 0 to x."""

    traits = Trait.CONTINUOUS | Trait.ODD
    since = 13
    formula = "erf"
    samples = _FLOATS

    def eval(self, x: Array) -> Array:
        return rounded(erf, x)


class Tanh(_Function):
    """Hyperbolic tangent."""

    traits = Trait.CONTINUOUS | Trait.ODD
    since = 13
    formula = "tanh"
    samples = _FLOATS

    def eval(self, x: Array) -> Array:
        return rounded(np.tanh, x)


class Floor(Floating):
    """Largest whole number not above x."""

    traits = Trait.IDEMPOTENT
    since = 13
    samples = _FLOATS

    def eval(self, x: Array) -> Array:
        return np.floor(x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return e.floor(x)


class Ceil(Floating):
    """Smallest whole number not below x."""

    traits = Trait.IDEMPOTENT
    since = 13
    samples = _FLOATS

    def eval(self, x: Array) -> Array:
        return np.ceil(x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return e.ceil(x)


class Round(Floating):
    """Nearest whole number; halves go to the even one."""

    traits = Trait.FINITE | Trait.IDEMPOTENT
    since = 22
    samples = _FLOATS

    def eval(self, x: Array) -> Array:
        return np.rint(x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return e.round(x)


class IsNaN(Elementwise):
    """Whether x is not a number."""

    since = 20
    samples = cases(x=[(2, 3), SPECIALS])

    def result_dtype(self, x: Value) -> DType:
        require_kind(self.name, x.dtype, "f")
        return dtypes.bool_

    def eval(self, x: Array) -> Array:
        return np.isnan(x)

    def scalar(self, e: Formulas, x: Term) -> Term:
        return e.isnan(x)


class IsInf(Elementwise):
    """Whether x is infinite, of the signs asked for."""

    detect_negative: int = 1
    detect_positive: int = 1

    since = 20
    samples = cases(x=[(2, 3), SPECIALS], detect_negative=[0, 1], detect_positive=[0, 1])

    def result_dtype(self, x: Value) -> DType:
        require_kind(self.name, x.dtype, "f")
        return dtypes.bool_

    def eval(self, x: Array) -> Array:
        positive = (x > 0) & bool(self.detect_positive)
        negative = (x < 0) & bool(self.detect_negative)
        return np.isinf(x) & (positive | negative)

    def scalar(self, e: Formulas, x: Term) -> Term:
        infinite: Term = e.isinf(x)
        if self.detect_negative and self.detect_positive:
            return infinite
        if not self.detect_negative and not self.detect_positive:
            return e.const(False, dtypes.bool_)
        has_sign = x > 0.0 if self.detect_positive else x < 0.0
        return e.logical_and(infinite, has_sign)
