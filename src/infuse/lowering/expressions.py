"""What statements compute with, as data: names that a function's writer gave to tensors, sizes and
work, and what is made of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from infuse.dtypes import DType
from infuse.immutable import Immutable
from infuse.ir.dims import Dim, Expr

KernelSizes = tuple[Any, ...]
"""A class of named fields: sizes, truth values, or such sizes again."""


class Aggregate(Immutable):
    """What stands in braces, perhaps of a type: fields by name, or elements, whose names are
    empty.
    """

    items: tuple[tuple[str, Expression], ...]
    type: str = ""
    template: tuple[str, ...] = ()


def elements(*values: Expression, type: str = "", template: tuple[str, ...] = ()) -> Aggregate:
    """Braces around elements."""
    return Aggregate(tuple(("", value) for value in values), type, template)


class Calculated(Immutable):
    """What a target makes of other expressions, which stand in `text` where braces do; `meaning`
    makes the same of what they stand for.
    """

    text: str
    operands: tuple[Expression, ...]
    meaning: Callable[..., Any]


class Size(Immutable):
    """A size that stands in the body itself."""

    size: Dim


class Estimate(Immutable):
    """A size that may be too large to be computed exactly, as a float64."""

    size: Dim


class Operation(Immutable):
    """An operator on expressions, in the order in which they stand beside it: one of `OPERATORS`
    (which binds closer is printed so), or "!" before one.
    """

    operator: str
    operands: tuple[Expression, ...]


class Grouped(Immutable):
    """An expression in parentheses that its operators may not need."""

    inner: Expression


class Chosen(Immutable):
    """One of two expressions, by a condition."""

    condition: Expression
    then: Expression
    otherwise: Expression


class FieldOf(Immutable):
    """A field of what a name stands for."""

    name: Expression
    field: str


class Element(Immutable):
    """The element of a list, or of what a pointer leads to, of this number."""

    array: Expression
    index: Expression | int


class Pointed(Immutable):
    """What lies where an expression points."""

    name: Expression


class Converted(Immutable):
    """A number as one of this type."""

    dtype: DType
    value: Expression


class Invocation(Immutable):
    """What a function that has a meaning of its own gives for these arguments."""

    function: str
    arguments: tuple[Expression, ...]
    template: tuple[str, ...] = ()


class BodyOutput(Immutable):
    """Where an output of the last run of a body lies, by the numbers of both."""

    body: int
    number: int


class BlockOf(Immutable):
    """A tensor that a body leaves behind, by the numbers of a program and of its blocks."""

    program: int
    number: int


class SizeOf(Immutable):
    """A size of the model that a step finds, by symbol."""

    symbol: str


class PointerTo(Immutable):
    """A pointer as one to elements of this type; to bytes where there is none."""

    pointer: Expression
    dtype: DType | None = None
    is_written: bool = False


class AddressOf(Immutable):
    """A pointer to what an expression stands for."""

    inner: Expression


class Nothing(Immutable):
    """A pointer that leads nowhere."""


class AsSize(Immutable):
    """A number as a size."""

    value: Expression


Expression = (
    str
    | Size
    | Aggregate
    | Calculated
    | Estimate
    | Operation
    | Grouped
    | Chosen
    | FieldOf
    | Element
    | Pointed
    | Converted
    | Invocation
    | BodyOutput
    | BlockOf
    | SizeOf
    | PointerTo
    | AddressOf
    | AsSize
    | Nothing
    | KernelSizes
)
TERMS: Final = (
    Size,
    Aggregate,
    Calculated,
    Estimate,
    Operation,
    Grouped,
    Chosen,
    FieldOf,
    Element,
    Pointed,
    Converted,
    Invocation,
    BodyOutput,
    BlockOf,
    SizeOf,
    PointerTo,
    AddressOf,
    AsSize,
    Nothing,
)
"""What expressions are, besides names and sizes of kernels."""


def expression(value: object) -> Expression:
    """A value as an expression."""
    return value if isinstance(value, (*TERMS, tuple)) else str(value)


OPERATORS: Final = (("||",), ("&&",), ("==",), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"))
"""Binary operators; those that bind closer come later."""


def infix(first: object, operator: str, *rest: object) -> Operation:
    """`first` and the others with this operator between them."""
    return Operation(operator, tuple(map(expression, (first, *rest))))


def invoke(function: str, *arguments: object, template: Sequence[str] = ()) -> Invocation:
    """What a function gives for these arguments."""
    return Invocation(function, tuple(map(expression, arguments)), tuple(template))


def enumerator(type: str, names: Sequence[str], name: str) -> Calculated:
    """One of an enumeration, by number, so that functions do not differ by it; it stands for its
    name. `names`: all of them in their order.
    """
    return Calculated(f"{type}({{}})", (f"{names.index(name)}L",), tuple(names).__getitem__)


def sum_of(terms: Sequence[Expression]) -> Expression:
    """The sum of one or more."""
    return terms[0] if len(terms) == 1 else Operation("+", tuple(terms))


def sized(value: Dim | Expression) -> Expression:
    """A size as an expression."""
    return Size(value) if isinstance(value, int | Expr) else value
