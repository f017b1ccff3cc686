"""Functions of every element by itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.errors import TypeMismatchError
from infuse.frontends.arrays.array import (
    Array,
    Complex,
    lifted,
    node,
    source_line,
    together,
)
from infuse.frontends.arrays.operators import OPERATORS

_UNARY: Final = {
    "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh", "atan": "Atan",
    "atanh": "Atanh", "cos": "Cos", "cosh": "Cosh", "exp": "Exp", "log": "Log", "sin": "Sin",
    "sinh": "Sinh", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh", "reciprocal": "Reciprocal",
    "erf": "Erf",
}  # fmt: skip
_ROUNDED: Final = {"ceil": "Ceil", "floor": "Floor", "round": "Round"}
_COMPARED: Final = {
    "equal": "Equal", "greater": "Greater", "greater_equal": "GreaterOrEqual", "less": "Less",
    "less_equal": "LessOrEqual",
}  # fmt: skip
_LOGICAL: Final = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
_BITWISE: Final = {
    "bitwise_and": ("BitwiseAnd", "And"),
    "bitwise_or": ("BitwiseOr", "Or"),
    "bitwise_xor": ("BitwiseXor", "Xor"),
}


def _is_float(x: Array) -> bool:
    return x.dtype.kind not in "biu"


def floating(x: Any) -> Array:
    """An operand as a float: integers become what NumPy makes of them."""
    array = lifted(x)
    return array if _is_float(array) else array.astype(np.float64)


def _named(name: str, function: Callable[..., Array], doc: str) -> Callable[..., Array]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _of_float(name: str, kind: str) -> Callable[..., Array]:
    return _named(name, lambda x, /: node(kind, floating(x)), f"{kind} of every element.")


def _of_rounding(name: str, kind: str) -> Callable[..., Array]:
    def function(x: Any, /) -> Array:
        array = lifted(x)
        return node(kind, array) if _is_float(array) else array.copy()

    return _named(name, function, f"{kind} of every element; integers stay.")


def _of_pair(name: str, kind: str) -> Callable[..., Array]:
    return _named(name, lambda x1, x2, /: node(kind, *together(x1, x2)), f"{kind} of two arrays.")


def _of_logic(name: str, kind: str) -> Callable[..., Array]:
    def function(x1: Any, x2: Any, /) -> Array:
        return node(kind, *(lifted(x).astype(np.bool_) for x in (x1, x2)))

    return _named(name, function, f"{kind} of two arrays of truth values.")


def _of_bits(name: str, kinds: tuple[str, str]) -> Callable[..., Array]:
    def function(x1: Any, x2: Any, /) -> Array:
        a, b = together(x1, x2)
        return node(kinds[a.dtype == np.bool_], a, b)

    return _named(name, function, f"{kinds[0]} of two arrays of integers or truth values.")


FUNCTIONS: Final[dict[str, Callable[..., Array]]] = {
    **{name: _of_float(name, kind) for name, kind in _UNARY.items()},
    **{name: _of_rounding(name, kind) for name, kind in _ROUNDED.items()},
    **{name: _of_pair(name, kind) for name, kind in _COMPARED.items()},
    **{name: _of_logic(name, kind) for name, kind in _LOGICAL.items()},
    **{name: _of_bits(name, kinds) for name, kinds in _BITWISE.items()},
}


def _public(function: Callable[..., Array]) -> Callable[..., Array]:
    FUNCTIONS[function.__name__] = function
    return function


@_public
def add(x1: Any, x2: Any, /) -> Array:
    """x1 + x2."""
    a, b = together(x1, x2)
    return node("Or" if a.dtype == np.bool_ else "Add", a, b)


@_public
def subtract(x1: Any, x2: Any, /) -> Array:
    """x1 - x2."""
    return node("Sub", *_numbers(x1, x2))


@_public
def multiply(x1: Any, x2: Any, /) -> Array:
    """x1 · x2."""
    a, b = together(x1, x2)
    return node("And" if a.dtype == np.bool_ else "Mul", a, b)


@_public
def divide(x1: Any, x2: Any, /) -> Array:
    """x1 / x2, a float."""
    a, b = together(x1, x2)
    return node("Div", floating(a), floating(b))


@_public
def floor_divide(x1: Any, x2: Any, /) -> Array:
    """The largest integer that x1 / x2 does not fall below."""
    a, b = _numbers(x1, x2)
    if _is_float(a):
        rest = node("Mod", a, b, fmod=1)
        exact = (a - rest) / b
        exact = where((rest != 0) & ((rest < 0) ^ (b < 0)), exact - 1, exact)
        near = node("Floor", exact)
        near = where(exact - near > 0.5, near + 1, near)
        ratio = a / b
        near = where(exact == 0, copysign(lifted(0, a.dtype), ratio), near)
        return where(b == 0, ratio, near)
    quotient = node("Div", a, b)
    if a.dtype.kind == "u":
        return quotient
    rest = a - quotient * b
    below = node("And", rest != 0, (rest < 0) ^ (b < 0))
    return quotient - below.astype(a.dtype)


@_public
def remainder(x1: Any, x2: Any, /) -> Array:
    """What floor_divide leaves; of the sign of x2."""
    a, b = _numbers(x1, x2)
    if not _is_float(a):
        return node("Mod", a, b)
    rest = node("Mod", a, b, fmod=1)
    rest = where((rest != 0) & ((rest < 0) ^ (b < 0)), rest + b, rest)
    return where(rest == 0, copysign(lifted(0, a.dtype), b), rest)


@_public
def pow(x1: Any, x2: Any, /) -> Array:
    """x1 to the power x2."""
    a, b = _numbers(x1, x2)
    return OPERATORS["unsigned_pow"](a, b) if a.dtype.kind == "u" else node("Pow", a, b)


@_public
def not_equal(x1: Any, x2: Any, /) -> Array:
    """Whether elements differ."""
    return node("Not", node("Equal", *together(x1, x2)))


@_public
def logical_not(x: Any, /) -> Array:
    """Whether elements are false."""
    return node("Not", lifted(x).astype(np.bool_))


@_public
def bitwise_invert(x: Any, /) -> Array:
    """All bits exchanged."""
    array = lifted(x)
    return node("Not" if array.dtype == np.bool_ else "BitwiseNot", array)


@_public
def bitwise_left_shift(x1: Any, x2: Any, /) -> Array:
    """x1 · 2^x2."""
    a, b = together(x1, x2)
    if a.dtype.kind == "u":
        return node("BitShift", a, b, direction="LEFT")
    return a * _power_of_two(b)


@_public
def bitwise_right_shift(x1: Any, x2: Any, /) -> Array:
    """The largest integer that x1 / 2^x2 does not fall below."""
    a, b = together(x1, x2)
    if a.dtype.kind == "u":
        return node("BitShift", a, b, direction="RIGHT")
    return floor_divide(a, _power_of_two(b))


@_public
def negative(x: Any, /) -> Array:
    """-x."""
    array = lifted(x)
    if array.dtype.kind == "u":
        return node("Sub", lifted(0, array.dtype), array)
    return node("Neg", array)


@_public
def positive(x: Any, /) -> Array:
    """X."""
    return lifted(x).copy()


@_public
def abs(x: Any, /) -> Array:
    """The distance from zero."""
    array = lifted(x)
    return array.copy() if array.dtype == np.bool_ else node("Abs", array)


@_public
def sign(x: Any, /) -> Array:
    """-1, 0 or 1; NaN of NaN."""
    array = lifted(x)
    result = node("Sign", array)
    return where(isnan(array), array, result) if _is_float(array) else result


@_public
def trunc(x: Any, /) -> Array:
    """The integer next to x towards zero."""
    array = lifted(x)
    if not _is_float(array):
        return array.copy()
    return where(array < 0, node("Ceil", array), node("Floor", array))


@_public
def square(x: Any, /) -> Array:
    """X · x."""
    return multiply(x, x)


@_public
def expm1(x: Any, /) -> Array:
    """e^x - 1, exact for small x too: 2 sinh(x/2) e^(x/2)."""
    array = floating(x)
    half = array * 0.5
    small = 2 * node("Sinh", half) * node("Exp", half)
    return where(abs(array) < 1, small, node("Exp", array) - 1)


@_public
def log1p(x: Any, /) -> Array:
    """log(1 + x), exact for small x too: x log(u) / (u - 1) with u = 1 + x rounded (Kahan)."""
    array = floating(x)
    if isinstance(array, Complex):
        return node("Log1p", array)  # only complex numbers have this kind: parts of other nodes
    u = 1 + array
    finite = where(u == 1, lifted(2, array.dtype), u)
    precise = where(u == 1, array, array / (finite - 1) * node("Log", finite))
    return where(u == np.inf, u, precise)


@_public
def log2(x: Any, /) -> Array:
    """The logarithm to base 2."""
    return _divided(node("Log", floating(x)), math.log(2))


@_public
def log10(x: Any, /) -> Array:
    """The logarithm to base 10."""
    return _divided(node("Log", floating(x)), math.log(10))


@_public
def logaddexp(x1: Any, x2: Any, /) -> Array:
    """log(e^x1 + e^x2), without overflow."""
    a, b = (floating(x) for x in together(x1, x2))
    most = maximum(a, b)
    far = where(a == b, lifted(0, a.dtype), -abs(a - b))
    return most + log1p(node("Exp", far))


@_public
def hypot(x1: Any, x2: Any, /) -> Array:
    """The length of a vector of two elements, without overflow."""
    a, b = (abs(floating(x)) for x in together(x1, x2))
    most, least = maximum(a, b), minimum(a, b)
    ratio = least / where(most == 0, lifted(1, a.dtype), most)
    length = most * node("Sqrt", 1 + ratio * ratio)
    return where(isinf(a) | isinf(b), lifted(np.inf, a.dtype), length)


@_public
def atan2(x1: Any, x2: Any, /) -> Array:
    """The angle of the point (x2, x1)."""
    y, x = (floating(v) for v in together(x1, x2))
    both = isinf(x) & isinf(y)
    ratio = where(both, sign(y) * sign(x), y / where(x == 0, lifted(1, x.dtype), x))
    angle = node("Atan", ratio)
    turned = angle + where(signbit(y), lifted(-np.pi, x.dtype), lifted(np.pi, x.dtype))
    side = where(y == 0, where(signbit(x), turned, y), sign(y) * (np.pi / 2))
    return where(x == 0, side, where(x < 0, turned, angle))


@_public
def maximum(x1: Any, x2: Any, /) -> Array:
    """The larger of two elements."""
    return node("Max", *_numbers(x1, x2))


@_public
def minimum(x1: Any, x2: Any, /) -> Array:
    """The smaller of two elements."""
    return node("Min", *_numbers(x1, x2))


@_public
def clip(x: Any, /, min: Any = None, max: Any = None) -> Array:
    """X within two limits, either of which may be None."""
    array = lifted(x).copy()
    for limit, bound in ((min, maximum), (max, minimum)):
        if limit is not None:
            array = bound(array, lifted(limit, array.dtype))
    return array


@_public
def isnan(x: Any, /) -> Array:
    """Whether elements are not a number."""
    array = lifted(x)
    return node("IsNaN", array) if _is_float(array) else not_equal(array, array)


@_public
def isinf(x: Any, /) -> Array:
    """Whether elements are infinite."""
    array = lifted(x)
    return node("IsInf", array) if _is_float(array) else not_equal(array, array)


@_public
def isfinite(x: Any, /) -> Array:
    """Whether elements are neither infinite nor NaN."""
    array = lifted(x)
    if not _is_float(array):
        return FUNCTIONS["equal"](array, array)
    return node("Not", node("Or", node("IsNaN", array), node("IsInf", array)))


@_public
def signbit(x: Any, /) -> Array:
    """Whether elements are negative, -0.0 too."""
    array = floating(x)
    return (array < 0) | ((array == 0) & (node("Reciprocal", array) < 0))


@_public
def copysign(x1: Any, x2: Any, /) -> Array:
    """x1 with the sign of x2."""
    a, b = (floating(x) for x in together(x1, x2))
    return where(signbit(b), -abs(a), abs(a))


@_public
def nextafter(x1: Any, x2: Any, /) -> Array:
    """The next number to x1 in the direction of x2, which its bits as an integer count."""
    a, b = (floating(x) for x in together(x1, x2))
    bits = np.dtype(f"i{a.dtype.itemsize}")
    least = lifted(np.array(1, bits).view(a.dtype))
    number = node("BitCast", a, to=dtypes.by_numpy(bits))
    away = (a < b) == (a > 0)
    moved = node("BitCast", where(away, number + 1, number - 1), to=a.value.dtype)
    moved = where(a == 0, copysign(least, b), moved)
    return where(isnan(a) | isnan(b), a + b, where(a == b, b, moved))


@_public
def where(condition: Any, x1: Any, x2: Any, /) -> Array:
    """x1 where the condition holds, else x2."""
    return node("Where", lifted(condition).astype(np.bool_), *together(x1, x2))


def _numbers(x1: Any, x2: Any) -> list[Array]:
    arrays = together(x1, x2)
    if arrays[0].dtype == np.bool_:
        raise TypeMismatchError("this is not defined for truth values", where=source_line())
    return arrays


def _divided(x: Array, divisor: float) -> Array:
    if isinstance(x, Complex):
        return Complex(x.real_part / divisor, x.imag_part / divisor)
    return x / divisor


def _power_of_two(x: Array) -> Array:
    return node("Pow", lifted(2, x.dtype), x)


OPERATORS.update(
    {
        "add": add, "sub": subtract, "mul": multiply, "truediv": divide, "pow": pow,
        "floordiv": floor_divide, "mod": remainder, "and": FUNCTIONS["bitwise_and"],
        "or": FUNCTIONS["bitwise_or"], "xor": FUNCTIONS["bitwise_xor"],
        "lshift": bitwise_left_shift, "rshift": bitwise_right_shift, "ne": not_equal,
        "eq": FUNCTIONS["equal"], "lt": FUNCTIONS["less"], "le": FUNCTIONS["less_equal"],
        "gt": FUNCTIONS["greater"], "ge": FUNCTIONS["greater_equal"], "neg": negative,
        "pos": positive, "abs": abs, "invert": bitwise_invert,
        "matmul": lambda x1, x2: node("MatMul", *together(x1, x2)),
    }
)  # fmt: skip
