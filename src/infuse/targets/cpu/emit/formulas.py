"""Scalar formulas printed as C++: the same text works for vectors of floats and for single
elements.
"""

from __future__ import annotations

from collections.abc import Mapping

from infuse import dtypes
from infuse.dtypes import DType, is_narrow
from infuse.errors import UnsupportedOperatorError
from infuse.ops.core.formula import Term, may_divide_by_zero
from infuse.targets.text.literals import literal

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_BITS = {"bit_and": "&", "bit_or": "|", "bit_xor": "^"}
_RENAMED = {"isnan": "is_nan", "isinf": "is_inf"}
EXACT = frozenset(["input", "const", "cast"])


def scalar_type(dtype: DType) -> str:
    """What C++ computes floats of this type in."""
    return "double" if dtype.bits == 64 else "float"


class FormulaPrinter:
    """Prints terms as a sequence of C++ definitions; equal terms are computed once.

    `inputs` are the C++ names of the input leaves. Numbers are splatted to the lane tag `lanes`.
    The text tells `bool* found_zero` of integers that are divided by zero (see `divides`).
    """

    def __init__(self, prefix: str = "t") -> None:
        self.lines: list[str] = []
        self._texts: dict[str, str] = {}
        self._prefix = prefix

    def define(self, text: str) -> str:
        """A fresh variable that holds `text`."""
        name = f"{self._prefix}{len(self.lines)}"
        self.lines.append(f"const auto {name} = {text};")
        self._texts[name] = text
        return name

    def print(self, term: Term, inputs: Mapping[int, str]) -> str:
        """The name of the variable (or literal) that holds the term, rounded to its type."""
        result = self._print(term, inputs, {})
        if is_narrow(term.dtype) and term.op not in EXACT:
            return self.define(f"round_to<{term.dtype.c_name}>({result})")
        return result

    def _print(self, term: Term, inputs: Mapping[int, str], names: dict[int, str]) -> str:
        if term.op == "input":
            return inputs[term.value]
        if term.op == "const":
            return f"splat<L>({literal(term.value, term.dtype)})"
        if id(term) not in names:
            args = [self._print(a, inputs, names) for a in term.args]
            if may_divide_by_zero(term):
                args[1] = f"nonzero({args[1]}, found_zero)"
            text = self._clipped(term, args[0]) if term.op == "cast" else ""
            names[id(term)] = self.define(text or call_text(term, args))
        return names[id(term)]

    def _clipped(self, term: Term, name: str) -> str:
        """The conversion of a float that was clipped to the range of 8 bits, from before that;
        empty where it was not.
        """
        if term.args[0].dtype != dtypes.float32 or term.dtype not in (dtypes.int8, dtypes.uint8):
            return ""
        low = -128 if term.dtype == dtypes.int8 else 0
        for function, bound in (("min", low + 255), ("max", low)):
            end = f", splat<L>({literal(float(bound), dtypes.float32)}))"
            text = self._texts.get(name, "")
            if not (text.startswith(f"infuse::{function}(") and text.endswith(end)):
                return ""
            name = text.removeprefix(f"infuse::{function}(").removesuffix(end)
        return f"convert_clipped<{term.dtype.c_name}>({name})"


def call_text(term: Term, args: list[str]) -> str:
    """An operation on names of its operands."""
    dtype = term.dtype
    if not dtype.c_name:
        raise UnsupportedOperatorError(f"element type {dtype} has no native code yet")
    if term.op == "cast":
        return _cast(term.args[0].dtype, dtype, args[0], term.value or "")
    if term.op in _BITS:
        return f"({dtype.c_name})({args[0]} {_BITS[term.op]} {args[1]})"
    if term.op == "bit_not":
        return f"({dtype.c_name})(~{args[0]})"
    if dtype.is_integer and (term.op == "neg" or (term.op in _INFIX and term.op != "div")):
        return _wrapping(dtype, term.op, args)
    if term.op in _INFIX and not dtype.is_integer:
        return f"{args[0]} {_INFIX[term.op]} {args[1]}"
    return f"infuse::{_RENAMED.get(term.op, term.op)}({', '.join(args)})"


def _wrapping(dtype: DType, op: str, args: list[str]) -> str:
    """Integer arithmetic modulo two to the number of bits: signed overflow has no meaning in
    C++.
    """
    wide = "uint64_t" if dtype.bits == 64 else "uint32_t"
    left, right = args if len(args) == 2 else ("0", args[0])
    return f"({dtype.c_name})(({wide}){left} {_INFIX.get(op, '-')} ({wide}){right})"


def _cast(source: DType, target: DType, text: str, how: str) -> str:
    if target == dtypes.float32 and source.is_integer:
        return f"to_float({text})"
    if not is_narrow(target):
        return f"convert<{target.c_name}>({text})"
    if source.is_integer:
        # Float32 holds what 16 bits hold.
        text = f"to_float({text})" if source.bits <= 16 else f"convert<double>({text})"
    elif source.is_bool:
        text = f"convert<float>({text})"
    if target == dtypes.float8e8m0:
        rounding, limited = (how.removesuffix("_over") or "up").upper(), not how.endswith("_over")
        return f"round_scale<SCALE_{rounding}, {str(limited).lower()}>({text})"
    return f"round_{'over' if how == 'over' else 'to'}<{target.c_name}>({text})"
