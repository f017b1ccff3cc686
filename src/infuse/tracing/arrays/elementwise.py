"""Functions of every element by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from infuse.errors import TypeMismatchError
from infuse.tracing.arrays.array import (
    Array,
    are_sizes,
    built,
    lifted,
    node,
    source_line,
    together,
)
from infuse.tracing.arrays.operators import OPERATORS
from infuse.tracing.semantics import arithmetic

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


def public(function: Callable[..., Array]) -> Callable[..., Array]:
    """Put a function into the table of those of the namespace."""
    FUNCTIONS[function.__name__] = function
    return function


@public
def add(x1: Any, x2: Any, /) -> Array:
    """x1 + x2."""
    a, b = together(x1, x2)
    return node("Or" if a.dtype == np.bool_ else "Add", a, b)


@public
def subtract(x1: Any, x2: Any, /) -> Array:
    """x1 - x2."""
    return node("Sub", *_numbers(x1, x2))


@public
def multiply(x1: Any, x2: Any, /) -> Array:
    """x1 · x2."""
    a, b = together(x1, x2)
    return node("And" if a.dtype == np.bool_ else "Mul", a, b)


@public
def divide(x1: Any, x2: Any, /) -> Array:
    """x1 / x2, a float."""
    a, b = together(x1, x2)
    return node("Div", floating(a), floating(b))


@public
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

    def quotient(x: Array, y: Array) -> Array:
        return built(lambda g, *values: [arithmetic.floor_quotient(g, *values)], x, y)[0]

    return quotient(a, b) if are_sizes(x1, x2) else _or_nothing(quotient, a, b)


@public
def remainder(x1: Any, x2: Any, /) -> Array:
    """What floor_divide leaves; of the sign of x2."""
    a, b = _numbers(x1, x2)
    if not _is_float(a):
        rest_of = partial(node, "Mod")
        return rest_of(a, b) if are_sizes(x1, x2) else _or_nothing(rest_of, a, b)
    rest = node("Mod", a, b, fmod=1)
    rest = where((rest != 0) & ((rest < 0) ^ (b < 0)), rest + b, rest)
    return where(rest == 0, copysign(lifted(0, a.dtype), b), rest)


def _or_nothing(function: Callable[[Array, Array], Array], a: Array, b: Array) -> Array:
    """A quotient or rest of integers, which is 0 in NumPy where the divisor is."""
    nothing = b == 0
    result = function(a, where(nothing, lifted(1, b.dtype), b))
    return where(nothing, lifted(0, a.dtype), result)


@public
def pow(x1: Any, x2: Any, /) -> Array:
    """x1 to the power x2."""
    a, b = _numbers(x1, x2)
    return OPERATORS["unsigned_pow"](a, b) if a.dtype.kind == "u" else node("Pow", a, b)


@public
def not_equal(x1: Any, x2: Any, /) -> Array:
    """Whether elements differ."""
    return node("Not", node("Equal", *together(x1, x2)))


@public
def logical_not(x: Any, /) -> Array:
    """Whether elements are false."""
    return node("Not", lifted(x).astype(np.bool_))


@public
def bitwise_invert(x: Any, /) -> Array:
    """All bits exchanged."""
    array = lifted(x)
    return node("Not" if array.dtype == np.bool_ else "BitwiseNot", array)


@public
def bitwise_left_shift(x1: Any, x2: Any, /) -> Array:
    """x1 · 2^x2."""
    return _shifted(x1, x2, "LEFT")


@public
def bitwise_right_shift(x1: Any, x2: Any, /) -> Array:
    """The largest integer that x1 / 2^x2 does not fall below."""
    return _shifted(x1, x2, "RIGHT")


@public
def negative(x: Any, /) -> Array:
    """-x."""
    array = lifted(x)
    if array.dtype.kind == "u":
        return node("Sub", lifted(0, array.dtype), array)
    return node("Neg", array)


@public
def positive(x: Any, /) -> Array:
    """X."""
    return lifted(x).copy()


@public
def abs(x: Any, /) -> Array:
    """The distance from zero."""
    array = lifted(x)
    return array.copy() if array.dtype == np.bool_ else node("Abs", array)


@public
def sign(x: Any, /) -> Array:
    """-1, 0 or 1; NaN of NaN."""
    array = lifted(x)
    result = node("Sign", array)
    return where(isnan(array), array, result) if _is_float(array) else result


@public
def trunc(x: Any, /) -> Array:
    """The integer next to x towards zero."""
    array = lifted(x)
    if not _is_float(array):
        return array.copy()
    return where(array < 0, node("Ceil", array), node("Floor", array))


@public
def square(x: Any, /) -> Array:
    """X · x."""
    return multiply(x, x)


@public
def maximum(x1: Any, x2: Any, /) -> Array:
    """The larger of two elements."""
    return node("Max", *_numbers(x1, x2))


@public
def minimum(x1: Any, x2: Any, /) -> Array:
    """The smaller of two elements."""
    return node("Min", *_numbers(x1, x2))


@public
def clip(x: Any, /, min: Any = None, max: Any = None) -> Array:
    """X within two limits, either of which may be None."""
    array = lifted(x).copy()
    for limit, bound in ((min, maximum), (max, minimum)):
        if limit is not None:
            array = bound(array, lifted(limit, array.dtype))
    return array


@public
def isnan(x: Any, /) -> Array:
    """Whether elements are not a number."""
    array = lifted(x)
    return node("IsNaN", array) if _is_float(array) else not_equal(array, array)


@public
def isinf(x: Any, /) -> Array:
    """Whether elements are infinite."""
    array = lifted(x)
    return node("IsInf", array) if _is_float(array) else not_equal(array, array)


@public
def isfinite(x: Any, /) -> Array:
    """Whether elements are neither infinite nor NaN."""
    array = lifted(x)
    if not _is_float(array):
        return FUNCTIONS["equal"](array, array)
    return node("Not", node("Or", node("IsNaN", array), node("IsInf", array)))


@public
def signbit(x: Any, /) -> Array:
    """Whether elements are negative, -0.0 too."""
    array = floating(x)
    return (array < 0) | ((array == 0) & (node("Reciprocal", array) < 0))


@public
def copysign(x1: Any, x2: Any, /) -> Array:
    """x1 with the sign of x2."""
    a, b = (floating(x) for x in together(x1, x2))
    return where(signbit(b), -abs(a), abs(a))


@public
def where(condition: Any, x1: Any, x2: Any, /) -> Array:
    """x1 where the condition holds, else x2."""
    return node("Where", lifted(condition).astype(np.bool_), *together(x1, x2))


def _numbers(x1: Any, x2: Any) -> list[Array]:
    arrays = together(x1, x2)
    if arrays[0].dtype == np.bool_:
        raise TypeMismatchError("this is not defined for truth values", where=source_line())
    return arrays


def _shifted(x1: Any, x2: Any, direction: str) -> Array:
    a, b = together(x1, x2)
    return built(lambda g, x, y: [arithmetic.shifted(g, x, y, direction)], a, b)[0]


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
