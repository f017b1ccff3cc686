"""Scalar formulas: what an elementwise operator does to one element, as a small typed expression
tree.

An operator writes its formula once, `scalar(self, e, x)`; the code generator prints the tree as C++
for vectors and for single elements, and the cost model counts it. `e` is the `Formulas` object
below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union

from infuse import dtypes
from infuse.dtypes import DType
from infuse.immutable import Immutable

Operand = Union["Term", float, int, bool]


class Term(Immutable):
    """A node of a formula: function `op` of `args`, of element type `dtype`.

    Leaves are `input` (value: its number) and `const` (value: the Python number).
    """

    op: str
    args: tuple[Term, ...]
    dtype: DType
    value: Any = None

    def _lift(self, other: Operand) -> Term:
        return other if isinstance(other, Term) else Term("const", (), self.dtype, other)

    def _binary(self, op: str, other: Operand, swap: bool = False) -> Term:
        pair = (self, self._lift(other))
        return Term(op, pair[::-1] if swap else pair, self.dtype)

    def _compare(self, op: str, other: Operand) -> Term:
        return Term(op, (self, self._lift(other)), dtypes.bool_)

    def __add__(self, other: Operand) -> Term:
        return self._binary("add", other)

    def __radd__(self, other: Operand) -> Term:
        return self._binary("add", other, swap=True)

    def __sub__(self, other: Operand) -> Term:
        return self._binary("sub", other)

    def __rsub__(self, other: Operand) -> Term:
        return self._binary("sub", other, swap=True)

    def __mul__(self, other: Operand) -> Term:
        return self._binary("mul", other)

    def __rmul__(self, other: Operand) -> Term:
        return self._binary("mul", other, swap=True)

    def __truediv__(self, other: Operand) -> Term:
        return self._binary("div", other)

    def __rtruediv__(self, other: Operand) -> Term:
        return self._binary("div", other, swap=True)

    def __neg__(self) -> Term:
        return Term("neg", (self,), self.dtype)

    def __lt__(self, other: Operand) -> Term:
        return self._compare("lt", other)

    def __le__(self, other: Operand) -> Term:
        return self._compare("le", other)

    def __gt__(self, other: Operand) -> Term:
        return self._compare("gt", other)

    def __ge__(self, other: Operand) -> Term:
        return self._compare("ge", other)

    def equals(self, other: Operand) -> Term:
        """Elementwise equality (Python's == compares terms)."""
        return self._compare("eq", other)


class Formulas:
    """The functions a formula may use; each has an overload of the same name in
    kernels/math.hpp.
    """

    def __getattr__(self, op: str) -> Callable[..., Term]:
        if op not in FUNCTIONS:
            raise AttributeError(
                f"formulas have no function {op!r}; one of: {', '.join(sorted(FUNCTIONS))}"
            )

        def apply(*args: Operand) -> Term:
            first = next(a for a in args if isinstance(a, Term))
            lifted = tuple(a if isinstance(a, Term) else first._lift(a) for a in args)
            return Term(op, lifted, dtypes.bool_ if op in PREDICATES else first.dtype)

        return apply

    def select(self, condition: Term, a: Operand, b: Operand) -> Term:
        """`a` where the condition holds, else `b`; the result has the type of `a` or `b`."""
        typed = a if isinstance(a, Term) else b
        assert isinstance(typed, Term)
        return Term("select", (condition, typed._lift(a), typed._lift(b)), typed.dtype)

    def cast(self, x: Term, dtype: DType, how: str = "") -> Term:
        """`x` converted as NumPy's astype does; small floats stop at their largest number, but for
        `how` = "over".

        For powers of two (float8e8m0) `how` is a rounding: up, down, nearest, or up_over and so on.
        """
        return x if x.dtype == dtype else Term("cast", (x,), dtype, how or None)

    def const(self, value: float | int | bool, dtype: DType) -> Term:
        """A number of a given type."""
        return Term("const", (), dtype, value)


PREDICATES = frozenset(
    {"isnan", "isinf", "logical_and", "logical_or", "logical_not", "logical_xor"}
)
_NUMERIC = """exp expm1 log log1p tanh erf sigmoid softplus sqrt rsqrt pow sin cos tan asin acos
    atan sinh cosh asinh acosh atanh floor ceil round trunc abs neg sign min max mod fmod bit_and
    bit_or bit_xor bit_not shift_left shift_right fused"""
FUNCTIONS = PREDICATES | frozenset(_NUMERIC.split())

E = Formulas()


def inputs(*types: DType) -> tuple[Term, ...]:
    """Leaf terms for inputs of these types."""
    return tuple(Term("input", (), dtype, number) for number, dtype in enumerate(types))


_DIVISIONS = frozenset(["div", "mod", "fmod"])


def divides(term: Term) -> bool:
    """Whether a formula may divide integers by zero."""
    return may_divide_by_zero(term) or any(map(divides, term.args))


def may_divide_by_zero(term: Term) -> bool:
    """Whether the outermost operation of a formula may divide integers by zero."""
    if term.op not in _DIVISIONS or not term.dtype.is_integer:
        return False
    divisor = term.args[1]
    return divisor.op != "const" or not divisor.value
