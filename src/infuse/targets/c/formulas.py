"""Scalar formulas printed as C, an element at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from infuse import dtypes
from infuse.dtypes import DType
from infuse.ops.core.formula import Term, may_divide_by_zero
from infuse.targets.text.literals import literal

_INFIX: Final = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_COMPARED: Final = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_LOGICAL: Final = {"logical_and": "&&", "logical_or": "||", "logical_xor": "!="}
_BITS: Final = {"bit_and": "&", "bit_or": "|", "bit_xor": "^"}
_LIBRARY: Final = {"round": "rint", "abs": "fabs", "fused": "fma"}
"""Functions of the C library that have another name there."""
_OWN: Final = {"mod": "mod_real", "rsqrt": "rsqrt", "sigmoid": "sigmoid", "softplus": "softplus"}
"""Functions in kernels/plain.h, whose names end in the type."""
_BY_TYPE: Final = frozenset(["max", "min", "sign"])
_EXACT: Final = frozenset(["input", "const", "cast"])
_HALVES: Final = (dtypes.float16, dtypes.bfloat16)


def scalar_type(dtype: DType) -> str:
    """The type in which elements of this one are computed: halves as float."""
    return "float" if dtype in _HALVES else dtype.c_name


def load_text(pointer: str, index: str, dtype: DType) -> str:
    """An element, as it is computed with."""
    element = f"{pointer}[{index}]"
    return f"(float)of_{dtype.c_name}({element})" if dtype in _HALVES else element


def store_text(pointer: str, index: str, value: str, dtype: DType) -> str:
    """A statement that stores an element."""
    stored = f"to_{dtype.c_name}({value})" if dtype in _HALVES else value
    return f"{pointer}[{index}] = {stored};"


class FormulaPrinter:
    """Prints terms as a sequence of definitions; equal terms are computed once.

    `types`: those of the names. The text sets `*found_zero` where integers are divided by zero.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.types: dict[str, DType] = {}

    def define(self, text: str, dtype: DType) -> str:
        """A fresh variable that holds `text`."""
        name = f"t{len(self.lines)}"
        self.lines.append(f"const {scalar_type(dtype)} {name} = {text};")
        self.types[name] = dtype
        return name

    def print(self, term: Term, inputs: Mapping[int, str]) -> str:
        """The name of the variable (or literal) that holds the term, rounded to its type."""
        result = self._print(term, inputs, {})
        if term.dtype in _HALVES and term.op not in _EXACT:
            return self.define(_rounded(result, term.dtype), term.dtype)
        return result

    def _print(self, term: Term, inputs: Mapping[int, str], names: dict[int, str]) -> str:
        if term.op == "input":
            return inputs[term.value]
        if term.op == "const":
            return literal(term.value, term.dtype)
        if id(term) not in names:
            args = [self._print(a, inputs, names) for a in term.args]
            if may_divide_by_zero(term):
                args[1] = f"NONZERO({args[1]}, found_zero)"
            names[id(term)] = self.define(_call(term, args), term.dtype)
        return names[id(term)]


def _rounded(text: str, dtype: DType) -> str:
    return f"(float)of_{dtype.c_name}(to_{dtype.c_name}({text}))"


def _call(term: Term, args: list[str]) -> str:
    """A formula's outermost function of these texts."""
    op, operand = term.op, term.args[0].dtype
    if op == "cast":
        return _cast(operand, term.dtype, args[0])
    if op == "select":
        return f"{args[0]} ? {args[1]} : {args[2]}"
    infix = {**_COMPARED, **_LOGICAL, **({} if term.dtype.is_integer else _INFIX)}.get(op)
    if infix is not None:
        return f"{args[0]} {infix} {args[1]}"
    if op == "logical_not":
        return f"!{args[0]}"
    if op in ("isnan", "isinf"):
        return f"{op}({args[0]}) != 0"
    return _whole(term.dtype, op, args) if term.dtype.is_integer else _real(term.dtype, op, args)


def _real(dtype: DType, op: str, args: list[str]) -> str:
    if op == "neg":
        return f"-{args[0]}"
    listed, name = ", ".join(args), scalar_type(dtype)
    if op in _BY_TYPE:
        return f"({name}){op}_{name}({listed})"
    if op in _OWN:
        return f"({name}){_OWN[op]}_{name}({listed})"
    return f"{_LIBRARY.get(op, op)}{'' if name == 'double' else 'f'}({listed})"


def _whole(dtype: DType, op: str, args: list[str]) -> str:
    """Integers: sums and products wrap around."""
    name = dtype.c_name
    if op in _BITS:
        return f"({name})({args[0]} {_BITS[op]} {args[1]})"
    if op == "bit_not":
        return f"({name})~{args[0]}"
    if op == "neg" or (op in _INFIX and op != "div"):
        left, right = args if len(args) == 2 else ("0", args[0])
        return f"({name})((uint64_t){left} {_INFIX.get(op, '-')} (uint64_t){right})"
    return f"({name}){op}_{name}({', '.join(args)})"


def _cast(source: DType, target: DType, text: str) -> str:
    """A conversion as NumPy makes it on x86."""
    name = target.c_name
    if target.is_bool:
        return f"{text} != 0"
    if target in _HALVES:
        return _rounded(text, target)
    if target.is_float or not source.is_float:
        return f"({name}){text}"
    if target == dtypes.uint64:
        return f"whole_unsigned({text})"
    bits = 64 if target.bits == 64 or target == dtypes.uint32 else 32
    return f"({name})whole{bits}_{scalar_type(source)}({text})"
