"""Functions of complex numbers, after W. Kahan, "Branch cuts for complex elementary functions, or
much ado about nothing's sign bit" (1987): finite results are right up to a few roundings of the
larger part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.tracing.arrays.array import Array, Complex, lifted, node
from infuse.tracing.arrays.control import loop
from infuse.tracing.arrays.elementwise import (
    FUNCTIONS,
    copysign,
    isfinite,
    isinf,
    maximum,
    minimum,
    where,
)
from infuse.tracing.arrays.floats import atan2, hypot, log1p
from infuse.tracing.arrays.operators import OPERATORS
from infuse.tracing.arrays.parts import parts_of, rule
from infuse.tracing.arrays.reduction import any


def _turned(z: Complex) -> Complex:
    """I · z."""
    return Complex(-z.imag_part, z.real_part)


def _back(z: Complex) -> Complex:
    """-i · z."""
    return Complex(z.imag_part, -z.real_part)


def _is_infinite(z: Complex) -> Array:
    return isinf(z.real_part) | isinf(z.imag_part)


def _number(value: float, like: Array) -> Array:
    return lifted(value, like.dtype)


@rule("Exp")
def exp(z: Complex) -> Complex:
    """e^x (cos y + i sin y)."""
    x, y = z.real_part, z.imag_part
    angle = where(isfinite(y) | (x > -np.inf), y, _number(0, y))  # e^-∞ is 0 in all directions
    half = node("Exp", x * 0.5)  # the factors are in range where the result is
    re = half * node("Cos", angle) * half
    im = half * node("Sin", angle) * half
    return Complex(where((x == np.inf) & ~isfinite(y), x, re), where(y == 0, y, im))


@rule("Log")
def log(z: Complex) -> Complex:
    """Log |z| + i angle."""
    x, y = z.real_part, z.imag_part
    most, least = maximum(abs(x), abs(y)), minimum(abs(x), abs(y))
    near = 0.5 * log1p((most - 1) * (most + 1) + least * least)
    is_near = (most > 0.5) & (most < 2)
    size = where(is_near, near, node("Log", hypot(x, y)))
    return Complex(size, atan2(y, x))


@rule("Log1p")
def log_of_one_more(z: Complex) -> Complex:
    """Log(1 + z), exact for small z too."""
    x, y = z.real_part, z.imag_part
    whole = log(Complex(1 + x, y))
    is_small = (abs(x) < 0.5) & (abs(y) < 0.5)
    near = where(is_small, x * (2 + x) + y * y, _number(0, x))
    return Complex(where(is_small, 0.5 * log1p(near), whole.real_part), whole.imag_part)


@rule("Sqrt")
def sqrt(z: Complex) -> Complex:
    """The root with a real part of 0 or more."""
    x, y = z.real_part, z.imag_part
    root = node("Sqrt", abs(x) * 0.5 + hypot(x * 0.5, y * 0.5))
    other = abs(y) * 0.5 / where(root == 0, _number(1, x), root)
    other = where(isinf(x), _number(0, x), other)
    re, im = where(x >= 0, root, other), where(x >= 0, other, root)
    re, im = (where(isinf(y), _number(np.inf, x), part) for part in (re, im))
    return Complex(where(x != x, where(isinf(y), re, x), re), copysign(im, y))


@rule("Sinh")
def sinh(z: Complex) -> Complex:
    """Sinh x cos y + i cosh x sin y."""
    x, y = z.real_part, z.imag_part
    im = where(y == 0, y, node("Cosh", x) * node("Sin", y))
    re = where((x == 0) & ~isfinite(y), x, node("Sinh", x) * node("Cos", y))
    return Complex(where(isinf(x) & ~isfinite(y), x, re), im)


@rule("Cosh")
def cosh(z: Complex) -> Complex:
    """Cosh x cos y + i sinh x sin y."""
    x, y = z.real_part, z.imag_part
    none = copysign(_number(0, x), x) * copysign(_number(1, y), y)
    im = where((x == 0) | (y == 0), none, node("Sinh", x) * node("Sin", y))
    re = node("Cosh", x) * node("Cos", y)
    return Complex(where(isinf(x) & ~isfinite(y), abs(x), re), im)


@rule("Tanh")
def tanh(z: Complex) -> Complex:
    """(β ρ s + i t) / (1 + β s²) of t = tan y, β = 1 + t², s = sinh x, ρ = √(1 + s²)."""
    x, y = z.real_part, z.imag_part
    is_far = abs(x) > 20
    near = where(is_far, _number(0, x), x)
    t, s = node("Tan", y), node("Sinh", near)
    beta, rho = 1 + t * t, node("Sqrt", 1 + s * s)
    below = 1 + beta * s * s
    tail = 4 * node("Sin", y) * node("Cos", y) * node("Exp", -2 * abs(x))
    tail = where(isfinite(y), tail, copysign(_number(0, y), y))
    re = where(is_far, copysign(_number(1, x), x), beta * rho * s / below)
    re = where(x == 0, x, re)
    return Complex(re, where(is_far, tail, t / below))


@rule("Sin")
def sin(z: Complex) -> Complex:
    """-i sinh(iz)."""
    return _back(sinh(_turned(z)))


@rule("Cos")
def cos(z: Complex) -> Complex:
    """Cosh(iz)."""
    result: Complex = cosh(_turned(z))
    return result


@rule("Tan")
def tan(z: Complex) -> Complex:
    """-i tanh(iz)."""
    return _back(tanh(_turned(z)))


def _one_and(z: Complex) -> tuple[Complex, Complex]:
    """√(1 + z) and √(1 - z)."""
    x, y = z.real_part, z.imag_part
    return sqrt(Complex(1 + x, y)), sqrt(Complex(1 - x, -y))


@rule("Asinh")
def asinh(z: Complex) -> Complex:
    """The inverse of sinh, as `asin` turned by i."""
    above, below = _one_and(_turned(z))
    re = node("Asinh", below.real_part * above.imag_part - above.real_part * below.imag_part)
    product = below.real_part * above.real_part - below.imag_part * above.imag_part
    far, x, y = _is_infinite(z), z.real_part, z.imag_part
    re = where(far, copysign(_number(np.inf, x), x), re)
    return Complex(re, atan2(y, where(far, abs(x), product)))


@rule("Asin")
def asin(z: Complex) -> Complex:
    """-i asinh(iz)."""
    result: Complex = asinh(_turned(z))
    return _back(result)


@rule("Acos")
def acos(z: Complex) -> Complex:
    """2 atan2(re √(1 - z), re √(1 + z)) + i asinh(im(conj(√(1 + z)) √(1 - z)))."""
    above, below = _one_and(z)
    im = node("Asinh", above.real_part * below.imag_part - above.imag_part * below.real_part)
    far, x, y = _is_infinite(z), z.real_part, z.imag_part
    im = where(far, -copysign(_number(np.inf, y), y), im)
    angle = 2 * atan2(below.real_part, above.real_part)
    return Complex(where(far, atan2(abs(y), x), angle), im)


@rule("Acosh")
def acosh(z: Complex) -> Complex:
    """asinh(re(conj(√(z - 1)) √(z + 1))) + 2 i atan2(im √(z - 1), re √(z + 1))."""
    x, y = z.real_part, z.imag_part
    below, above = sqrt(Complex(x - 1, y)), sqrt(Complex(x + 1, y))
    re = node("Asinh", below.real_part * above.real_part + below.imag_part * above.imag_part)
    far, angle = _is_infinite(z), 2 * atan2(below.imag_part, above.real_part)
    return Complex(where(far, _number(np.inf, x), re), where(far, atan2(y, x), angle))


@rule("Atanh")
def atanh(z: Complex) -> Complex:
    """log1p(4x / ((1 - x)² + y²)) / 4 + i atan2(2y, (1 - x)(1 + x) - y²) / 2."""
    x, y = abs(z.real_part), z.imag_part
    size = hypot(x, y)
    is_far = size > 1e6
    near, height = (where(is_far, _number(0, x), part) for part in (x, y))
    re = 0.25 * log1p(4 * near / ((1 - near) * (1 - near) + height * height))
    im = 0.5 * atan2(2 * height, (1 - near) * (1 + near) - height * height)
    far = where(is_far, size, _number(1, x))
    re = where(is_far, where(isinf(size), _number(0, x), x / far / far), re)
    im = where(is_far, copysign(_number(np.pi / 2, x), y), im)
    return Complex(copysign(re, z.real_part), im)


@rule("Atan")
def atan(z: Complex) -> Complex:
    """-i atanh(iz)."""
    return _back(atanh(_turned(z)))


@rule("Pow")
def pow(z: Array, w: Array) -> Complex:
    """e^(w log z); 1 for w = 0, and 0 for z = 0 where w has a positive real part. Constant integers
    are powers by squaring.
    """
    whole = _constant_integer(w)
    if whole is not None:
        by_squaring: Complex = _by_squaring(z, whole)
        return by_squaring
    none = FUNCTIONS["logical_not"]
    power = FUNCTIONS["exp"](FUNCTIONS["multiply"](w, FUNCTIONS["log"](z)))
    zero, one = (lifted(complex(n), power.dtype) for n in (0, 1))
    above = _real(w) > 0
    power = where(none(z) & above, zero, power)
    result = where(none(w), one, power)
    assert isinstance(result, Complex)
    return result


def _real(x: Array) -> Array:
    return x.real_part if isinstance(x, Complex) else x


def _constant_integer(w: Array) -> int | None:
    """The integer up to 100 that an exponent is, where the trace knows it."""
    re, im = (part.value.const for part in parts_of(w))
    if re is None or im is None or re.ndim or im.any() or abs(re.item()) > 100:
        return None
    return int(re.item()) if float(re.item()).is_integer() else None


def _by_squaring(z: Array, power: int) -> Any:
    one = lifted(1, z.dtype)
    result: Any = node("Expand", one, node("Shape", z)) if power == 0 else None
    count = abs(power)
    while count:
        if count & 1:
            result = z if result is None else result * z
        count >>= 1
        z = z * z if count else z
    return one / result if power < 0 else result


def unsigned_pow(x: Array, power: Array) -> Array:
    """Powers of unsigned integers by squaring, as many bits as exponents have at run time."""
    constant = power.value.const
    if constant is not None and constant.ndim == 0:
        by_squaring: Array = _by_squaring(x, int(constant))
        return by_squaring
    one = lifted(1, x.dtype)
    result = x * 0 + power * 0 + one

    def step(x: Array, power: Array, result: Array) -> tuple[Array, ...]:
        return x * x, power >> 1, where((power & 1) == 1, result * x, result)

    state = (x, power, result)
    return loop(lambda x, power, result: any(power > 0), step, state)[2]


OPERATORS["unsigned_pow"] = unsigned_pow
