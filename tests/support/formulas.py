"""Formulas computed in NumPy, to hold what an operator's `scalar` says against its `eval`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from infuse.dtypes import DType
from infuse.ir.graph import Array
from infuse.ops.conversion import convert
from infuse.ops.core.elementwise import fused, widened
from infuse.ops.core.formula import Term
from infuse.ops.core.special import erf, sigmoid, softplus


def interpret(term: Term, inputs: Sequence[Array]) -> Array:
    """The formula for all elements of inputs that broadcast.

    Every step is rounded to the type of its term, as native code has it; halves and smaller floats
    compute in float32.
    """
    with np.errstate(all="ignore"):
        return _interpret(term, [widened(x) for x in inputs], {}).astype(term.dtype.numpy)


def _interpret(term: Term, inputs: Sequence[Array], seen: dict[int, Array]) -> Array:
    if id(term) not in seen:
        if term.op == "input":
            result = inputs[term.value]
        elif term.op == "const":
            result = np.asarray(term.value, dtype=working_type(term.dtype))
        else:
            result = _apply(
                term.op,
                [_interpret(a, inputs, seen) for a in term.args],
                term.dtype,
                term.value or "",
            )
        seen[id(term)] = result
    return seen[id(term)]


def _apply(op: str, args: list[Array], dtype: DType, how: str = "") -> Array:
    if op == "cast":
        return widened(
            convert(args[0], dtype, not how.endswith("over"), how.partition("_")[0] or "up")
        )
    if op == "div" and dtype.is_integer:
        a, b = np.broadcast_arrays(*args)
        quotients = [_truncated(int(x), int(y)) for x, y in zip(a.ravel(), b.ravel())]
        return np.array(quotients, dtype=dtype.numpy).reshape(a.shape)
    if all(a.dtype.kind == "f" for a in args) and op not in ("fmod", "mod"):
        # One rounding per step.
        args = [a.astype(np.float64) for a in args]
    return np.asarray(FUNCTIONS[op](*args)).astype(working_type(dtype))


def working_type(dtype: DType) -> np.dtype[Any]:
    """What formulas of an element type compute in."""
    return np.dtype(np.float32) if dtype.is_float and dtype.bits < 32 else dtype.numpy


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _shift_left(x: Array, amount: Array) -> Array:
    return np.asarray(
        np.left_shift(x, np.clip(amount, 0, x.dtype.itemsize * 8 - 1).astype(x.dtype))
    )


def _shift_right(x: Array, amount: Array) -> Array:
    return np.asarray(
        np.right_shift(x, np.clip(amount, 0, x.dtype.itemsize * 8 - 1).astype(x.dtype))
    )


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "pow": np.power,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": erf,
    "sigmoid": sigmoid,
    "softplus": softplus,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "abs": np.abs,
    "sign": np.sign,
    "min": np.minimum,
    "max": np.maximum,
    "mod": np.mod,
    "fmod": np.fmod,
    "select": np.where,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_not": np.logical_not,
    "logical_xor": np.logical_xor,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
    "bit_not": np.invert,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
    "fused": fused,
}
