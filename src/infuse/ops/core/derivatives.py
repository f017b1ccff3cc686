"""Derivatives of scalar formulas, and formulas as nodes of a graph.

What an elementwise operator does to one element it states as a formula; its derivative by each
operand follows from that of the functions of formulas. Where a function has a corner (max, abs, a
comparison), the derivative is the one of the branch that is taken; at equals that of the second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from infuse.errors import UnsupportedOperatorError
from infuse.ir.expression import Call
from infuse.ir.graph import Value
from infuse.ops.core.building import GraphBuilder
from infuse.ops.core.formula import E, Term

_Rule = Callable[..., Term]

# By function: of the result and the arguments, the derivative by each argument.
_RULES: Final[dict[str, tuple[_Rule, ...]]] = {
    "add": (lambda y, a, b: _one(y), lambda y, a, b: _one(y)),
    "sub": (lambda y, a, b: _one(y), lambda y, a, b: E.const(-1.0, y.dtype)),
    "mul": (lambda y, a, b: b, lambda y, a, b: a),
    "div": (lambda y, a, b: 1.0 / b, lambda y, a, b: -(y / b)),
    "neg": (lambda y, x: E.const(-1.0, y.dtype),),
    "fused": (lambda y, a, b, c: b, lambda y, a, b, c: a, lambda y, a, b, c: _one(y)),
    "mod": (lambda y, a, b: _one(y), lambda y, a, b: -E.floor(a / b)),
    "fmod": (lambda y, a, b: _one(y), lambda y, a, b: -E.trunc(a / b)),
    "max": (
        lambda y, a, b: E.select(a > b, _one(y), 0.0),
        lambda y, a, b: E.select(a > b, E.const(0.0, y.dtype), 1.0),
    ),
    "min": (
        lambda y, a, b: E.select(a < b, _one(y), 0.0),
        lambda y, a, b: E.select(a < b, E.const(0.0, y.dtype), 1.0),
    ),
    "pow": (
        lambda y, a, b: E.select(b.equals(0), E.const(0.0, y.dtype), b * E.pow(a, b - 1)),
        lambda y, a, b: E.select(y.equals(0), E.const(0.0, y.dtype), y * E.log(a)),
    ),
    "abs": (lambda y, x: E.sign(x),),
    "exp": (lambda y, x: y,),
    "expm1": (lambda y, x: E.exp(x),),
    "log": (lambda y, x: 1.0 / x,),
    "log1p": (lambda y, x: 1.0 / (x + 1.0),),
    "sqrt": (lambda y, x: 0.5 / y,),
    "rsqrt": (lambda y, x: y * y * y * -0.5,),
    "tanh": (lambda y, x: 1.0 - y * y,),
    "sigmoid": (lambda y, x: y * (1.0 - y),),
    "softplus": (lambda y, x: E.sigmoid(x),),
    "erf": (lambda y, x: E.exp(-(x * x)) * (2 / math.sqrt(math.pi)),),
    "sin": (lambda y, x: E.cos(x),),
    "cos": (lambda y, x: -E.sin(x),),
    "tan": (lambda y, x: y * y + 1.0,),
    "asin": (lambda y, x: 1.0 / E.sqrt(1.0 - x * x),),
    "acos": (lambda y, x: -1.0 / E.sqrt(1.0 - x * x),),
    "atan": (lambda y, x: 1.0 / (x * x + 1.0),),
    "sinh": (lambda y, x: E.cosh(x),),
    "cosh": (lambda y, x: E.sinh(x),),
    "asinh": (lambda y, x: 1.0 / E.sqrt(x * x + 1.0),),
    "acosh": (lambda y, x: 1.0 / E.sqrt(x * x - 1.0),),
    "atanh": (lambda y, x: 1.0 / (1.0 - x * x),),
}
_CONSTANT: Final = frozenset(["floor", "ceil", "round", "trunc", "sign"])
_KINDS: Final = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "neg": "Neg",
    "pow": "Pow",
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
    "eq": "Equal",
    "isnan": "IsNaN",
    "isinf": "IsInf",
    "min": "Min",
    "max": "Max",
    **{f"logical_{name}": name.title() for name in ("and", "or", "not", "xor")},
}
"""Operators by the function that they compute, where the name is another one."""
_SAME_NAME: Final = frozenset(
    {
        "exp",
        "log",
        "tanh",
        "erf",
        "sigmoid",
        "softplus",
        "sqrt",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "asinh",
        "acosh",
        "atanh",
        "floor",
        "ceil",
        "round",
        "abs",
        "sign",
    }
)


def derivative(term: Term, leaf: Term) -> Term | None:
    """The derivative of a formula by one of its inputs; None where it is zero everywhere."""
    return _Differentiation(leaf).of(term)


class _Differentiation:
    """Derivatives by one input, each subterm once."""

    def __init__(self, leaf: Term) -> None:
        self.leaf = leaf
        self.results: dict[int, tuple[Term, Term | None]] = {}

    def of(self, term: Term) -> Term | None:
        if id(term) not in self.results:
            self.results[id(term)] = term, self._derived(term)
        return self.results[id(term)][1]

    def _derived(self, term: Term) -> Term | None:
        if term.op == "input":
            return _one(term) if term == self.leaf else None
        if not term.dtype.is_float or term.op == "const" or term.op in _CONSTANT:
            return None
        inner = [self.of(argument) for argument in term.args]
        if term.op == "cast":
            (x,) = inner
            return None if x is None else E.cast(x, term.dtype)
        if term.op == "select":
            _, a, b = inner
            if a is None and b is None:
                return None
            zero = E.const(0.0, term.dtype)
            return E.select(term.args[0], a or zero, b or zero)
        total: Term | None = None
        for number, slope in enumerate(inner):
            if slope is None:
                continue
            if term.op not in _RULES:
                raise UnsupportedOperatorError(f"the function {term.op} has no derivative")
            part = _product(slope, _RULES[term.op][number](term, *term.args))
            total = part if total is None else total + part
        return total


def _one(term: Term) -> Term:
    return E.const(1.0, term.dtype)


def is_number(term: Term, number: float) -> bool:
    """Whether a formula is this number."""
    return bool(term.op == "const" and term.value == number)


def _product(a: Term, b: Term) -> Term:
    """A · b; a selection of 0 or 1 becomes a selection of the other, so that 0 · ∞ cannot arise."""
    for one, other in ((a, b), (b, a)):
        if is_number(one, 1):
            return other
        if is_number(one, 0):
            return one
    for one, other in ((a, b), (b, a)):
        if one.op == "select" and any(p.op == "const" for p in one.args[1:]):
            condition, first, second = one.args
            return E.select(condition, _product(first, other), _product(second, other))
    return a * b


class FormulaWriter:
    """Writes formulas as nodes; `operands` stand for the inputs."""

    def __init__(self, make: GraphBuilder, operands: Sequence[Value | None]) -> None:
        self.make = make
        self.operands = operands
        self.written: dict[int, tuple[Term, Any]] = {}

    def scaled(self, gradient: Value, slope: Term) -> Value | None:
        """`gradient` times a formula; None where that is zero."""
        if is_number(slope, 0):
            return None
        if is_number(slope, 1):
            return gradient
        if slope.op == "select":
            parts = [self.scaled(gradient, part) for part in slope.args[1:]]
            if parts == [None, None]:
                return None
            zero = self.make.number(0, gradient.dtype)
            return self.make("Where", self._whole(slope.args[0]), *(p or zero for p in parts))
        if slope.op == "cast" and slope.dtype == gradient.dtype:
            wide = self.scaled(self.make.cast(gradient, slope.args[0].dtype), slope.args[0])
            return None if wide is None else self.make.cast(wide, gradient.dtype)
        return self.make("Mul", gradient, self.value(slope))

    def value(self, term: Term) -> Any:
        """What a formula gives: a value, or a Python number for a constant."""
        if id(term) not in self.written:
            self.written[id(term)] = term, self._write(term)
        return self.written[id(term)][1]

    def _write(self, term: Term) -> Any:
        if term.op == "input":
            return self.operands[term.value]
        if term.op == "const":
            return term.value
        if term.op == "cast":
            return self.make.cast(self._whole(term.args[0]), term.dtype)
        if term.op == "select":
            return self.make("Where", *map(self._whole, term.args))
        arguments = [self.value(argument) for argument in term.args]
        if not any(isinstance(a, Value) for a in arguments):
            arguments[0] = self._whole(term.args[0])
        if term.op in _SAME_NAME:
            return self.make(term.op.capitalize(), *arguments)
        if term.op in _KINDS:
            return self.make(_KINDS[term.op], *arguments)
        return self._composed(term, arguments)

    def _composed(self, term: Term, arguments: list[Any]) -> Any:
        x = arguments[0]
        if term.op in ("mod", "fmod"):
            return self.make("Mod", *arguments, fmod=1)
        if term.op == "expm1":
            return self.make(Call("Exp", (x,)) - 1.0)
        if term.op == "log1p":
            return self.make("Log", self.make("Add", x, 1.0))
        if term.op == "rsqrt":
            return self.make("Reciprocal", self.make("Sqrt", x))
        if term.op == "trunc":
            size = self.make("Floor", self.make("Abs", x))
            return self.make("Mul", self.make("Sign", x), size)
        raise UnsupportedOperatorError(f"the function {term.op} has no operator")

    def _whole(self, term: Term) -> Value:
        """A formula as a value also where it is a number."""
        value = self.value(term)
        return value if isinstance(value, Value) else self.make.number(value, term.dtype)


def leaves(operands: Sequence[Value | None]) -> list[Term | None]:
    """The inputs of a formula for these operands; constants of one element are numbers."""
    terms: list[Term | None] = []
    for number, value in enumerate(operands):
        if value is None:
            terms.append(None)
        elif value.const is not None and value.const.size == 1 and value.const.ndim == 0:
            terms.append(E.const(value.const.item(), value.dtype))
        else:
            terms.append(Term("input", (), value.dtype, number))
    return terms


def formula_gradients(
    make: GraphBuilder, term: Term, operands: Sequence[Value | None], gradient: Value
) -> list[Value | None]:
    """For each operand of a formula, the gradient of the result times the derivative by it; it has
    the shape of the result.
    """
    writer = FormulaWriter(make, operands)
    results: list[Value | None] = []
    for leaf in leaves(operands):
        slope = None
        if leaf is not None and leaf.op == "input" and leaf.dtype.is_float:
            slope = derivative(term, leaf)
        part = None if slope is None else writer.scaled(gradient, slope)
        results.append(None if part is None or leaf is None else make.cast(part, leaf.dtype))
    return results
