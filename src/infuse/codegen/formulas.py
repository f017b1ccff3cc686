"""Scalar formulas printed as C++: the same text works for vectors of floats and for single elements."""

from __future__ import annotations

import math
from collections.abc import Mapping

from infuse.dtypes import DType
from infuse.errors import UnsupportedOperatorError
from infuse.ops.formula import Term

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_RENAMED = {"isnan": "is_nan", "isinf": "is_inf"}
_BITS = {"bit_and": "&", "bit_or": "|", "bit_xor": "^", "shift_left": "<<", "shift_right": ">>"}


def literal(value: float | int | bool, dtype: DType) -> str:
    """A number as a C++ literal of this type, exact."""
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype.is_integer:
        return (
            f"({dtype.c_name}){int(value)}{'u' if dtype.kind == 'u' else ''}LL"
            if int(value) != -(2**63)
            else ("(-9223372036854775807LL - 1)")
        )
    number = float(dtype.numpy.type(value)) if dtype.kind == "f" else float(value)
    suffix = "f" if dtype.name == "float32" else ""
    if math.isnan(number):
        text = f'__builtin_nan{suffix}("")'
    elif math.isinf(number):
        text = f"{'-' if number < 0 else ''}__builtin_inf{suffix}()"
    else:
        text = number.hex() if abs(number) >= 2**53 or number != round(number, 6) else repr(number)
        text += suffix
    return text if suffix or dtype.name == "float64" else f"({dtype.c_name}){text}"


class FormulaPrinter:
    """Prints terms as a sequence of C++ definitions; equal terms are computed once.

    `inputs` are the C++ names of the input leaves. Numbers are splatted to the lane tag `lanes`.
    """

    def __init__(self, prefix: str = "t") -> None:
        self.lines: list[str] = []
        self._names: dict[Term, str] = {}
        self._prefix = prefix

    def define(self, text: str) -> str:
        """A fresh variable that holds `text`."""
        name = f"{self._prefix}{len(self.lines)}"
        self.lines.append(f"const auto {name} = {text};")
        return name

    def print(self, term: Term, inputs: Mapping[int, str]) -> str:
        """The name of the variable (or literal) that holds the term."""
        cache: dict[Term, str] = {}
        return self._print(term, inputs, cache)

    def _print(self, term: Term, inputs: Mapping[int, str], cache: dict[Term, str]) -> str:
        if term.op == "input":
            return inputs[term.value]
        if term.op == "const":
            return f"splat<L>({literal(term.value, term.dtype)})"
        if term in cache:
            return cache[term]
        args = [self._print(a, inputs, cache) for a in term.args]
        cache[term] = self.define(_call(term, args))
        return cache[term]


def _call(term: Term, args: list[str]) -> str:
    if not term.dtype.c_name:
        raise UnsupportedOperatorError(f"element type {term.dtype} has no native code yet")
    narrow = term.dtype.is_integer and term.dtype.bits < 32
    if term.op in _INFIX:
        text = f"{args[0]} {_INFIX[term.op]} {args[1]}"
        if term.op == "div" and term.dtype.is_integer:
            text = f"div({args[0]}, {args[1]})"
        return f"({term.dtype.c_name})({text})" if narrow or term.dtype.name == "float16" else text
    if term.op in _BITS:
        return f"({term.dtype.c_name})({args[0]} {_BITS[term.op]} {args[1]})"
    if term.op == "bit_not":
        return f"({term.dtype.c_name})(~{args[0]})"
    if term.op == "cast":
        return f"convert<{term.dtype.c_name}>({args[0]})"
    return f"{_RENAMED.get(term.op, term.op)}({', '.join(args)})"
