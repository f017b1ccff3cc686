"""What the body of a function consists of, as data.

Arguments and values are expressions: names that a function's writer gave to tensors, sizes and
work, and what is made of these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from infuse.dtypes import DType
from infuse.ir.dims import Dim
from infuse.lowering.elementwise import Elementwise

KernelSizes = tuple[Any, ...]
"""A class of named fields: sizes, truth values, or such sizes again."""


@dataclass(frozen=True)
class Aggregate:
    """What stands in braces, perhaps of a type: fields by name, or elements, whose names are
    empty.
    """

    items: tuple[tuple[str, Expression], ...]
    type: str = ""
    template: tuple[str, ...] = ()


def elements(*values: Expression, type: str = "", template: tuple[str, ...] = ()) -> Aggregate:
    """Braces around elements."""
    return Aggregate(tuple(("", value) for value in values), type, template)


@dataclass(frozen=True)
class Calculated:
    """What a target makes of other expressions, which stand in `text` where braces do; `meaning`
    makes the same of what they stand for.
    """

    text: str
    operands: tuple[Expression, ...]
    meaning: Callable[..., Any]


@dataclass(frozen=True)
class Size:
    """A size that stands in the body itself."""

    size: Dim


@dataclass(frozen=True)
class Operation:
    """An operator on expressions, in the order in which they stand beside it."""

    operator: str
    operands: tuple[Expression, ...]


@dataclass(frozen=True)
class Element:
    """The element of a list, or of what a pointer leads to, of this number."""

    array: Expression
    index: int


@dataclass(frozen=True)
class Pointed:
    """What lies where a name points."""

    name: str


@dataclass(frozen=True)
class Converted:
    """A number as one of this type."""

    dtype: DType
    value: Expression


@dataclass(frozen=True)
class Invocation:
    """What a function that has a meaning of its own gives for these arguments."""

    function: str
    arguments: tuple[Expression, ...]


Expression = (
    str
    | Size
    | Aggregate
    | Calculated
    | Operation
    | Element
    | Pointed
    | Converted
    | Invocation
    | KernelSizes
)
_EXPRESSIONS = (
    Size,
    Aggregate,
    Calculated,
    Operation,
    Element,
    Pointed,
    Converted,
    Invocation,
    tuple,
)


def expression(value: object) -> Expression:
    """A value as an expression."""
    return value if isinstance(value, _EXPRESSIONS) else str(value)


@dataclass(frozen=True)
class Scratch:
    """Scratch memory for each worker: a function that tells its bytes, declared in a header."""

    function: str
    header: str
    arguments: tuple[Expression, ...]
    template: tuple[str, ...] = ()


@dataclass(frozen=True)
class Statement:
    """A part of a function's body."""


@dataclass(frozen=True)
class KernelCall(Statement):
    """A call of a kernel with these arguments, after the context where it takes one.

    `template`: what the kernel is specialized for. `failure`: what the function ends with when the
    kernel says that it cannot compute; empty for kernels that always can.
    """

    kernel: str
    arguments: tuple[Expression, ...]
    template: tuple[str, ...] = ()
    failure: str = ""
    context: bool = True
    result: str = ""
    """The name of the number that it gives, where that is read."""


@dataclass(frozen=True)
class Arrays(Statement):
    """Lists of whole numbers, by name."""

    lists: tuple[tuple[str, tuple[Expression, ...]], ...]
    constant: bool = True


@dataclass(frozen=True)
class Struct(Statement):
    """Parameters of a kernel under a name; the fields in the order of their declaration."""

    type: str
    name: str
    fields: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True)
class Constant(Statement):
    """A value under a name."""

    type: str
    name: str
    value: Expression


@dataclass(frozen=True)
class Room(Statement):
    """Lists of whole numbers, by name and length, that later statements fill."""

    lengths: tuple[tuple[str, int], ...]
    zeros: bool = False


@dataclass(frozen=True)
class Assign(Statement):
    """Values stored where names point, or in elements and fields."""

    pairs: tuple[tuple[Expression, Expression], ...]


@dataclass(frozen=True)
class Require(Statement):
    """The function ends with a failure unless a condition holds."""

    condition: Expression
    failure: str


@dataclass(frozen=True)
class Variable(Statement):
    """Values of a type that change, by name."""

    type: str
    values: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True)
class Pointers(Statement):
    """Where the inputs of a body lie, in order."""

    name: str
    elements: tuple[str, ...]


@dataclass(frozen=True)
class RunBody(Statement):
    """A run of a body of control flow on the inputs `in`."""

    number: int


@dataclass(frozen=True)
class Return(Statement):
    """The function ends with a failure, well (0) or without a result where a condition holds."""

    condition: str
    failure: str = "0"


@dataclass(frozen=True)
class Result(Statement):
    """What an inner function gives."""

    value: str


@dataclass(frozen=True)
class Scope(Statement):
    """Statements whose names nobody else sees."""

    body: tuple[Statement, ...]


@dataclass(frozen=True)
class If(Statement):
    """Statements that run where a condition holds, and others where it does not."""

    condition: str
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class Repeat(Statement):
    """Statements that run for i = 0, 1, … as long as a condition holds.

    `step`: what follows each run, where that is not just the next i.
    """

    condition: str
    body: tuple[Statement, ...]
    step: str = "++i"
    start: str = "long i = 0"
    """Nothing where i is declared before."""


@dataclass(frozen=True)
class Define(Statement):
    """A function inside of the function, of parameters and of all that is named around it."""

    name: str
    parameters: str
    body: tuple[Statement, ...]
    device: bool = True
    """Whether kernels inline it into their loops."""
    references: bool = False
    """Whether it reads what is around it where it lies, and not a copy."""


@dataclass(frozen=True)
class Loader(Statement):
    """A function of row, column and lanes that loads from rows of so many elements."""

    name: str
    pointer: str
    columns: str


@dataclass(frozen=True)
class MapCall(Statement):
    """A call of a kernel that is given a function of its own: it runs for every place."""

    kernel: str
    arguments: tuple[str, ...]
    parameters: str
    body: tuple[Statement, ...]
    cost: int
    """Operations for an element, by which the kernel divides the work among threads."""


@dataclass(frozen=True)
class Text(Statement):
    """What a target writes as it is."""

    text: str


# -- what fusion and placement make --------------------------------------------------------------


@dataclass(frozen=True)
class Work(Statement):
    """A function inside of the function that does elementwise work, of these parameters: `acc`,
    what a kernel made, `row`, `col`, and the `lanes` that follow.
    """

    name: str
    takes: tuple[str, ...]
    work: Elementwise


@dataclass(frozen=True)
class MapWork(Statement):
    """Elementwise work for all rows × columns, in vectors or element by element. It fails where it
    divides integers by zero.
    """

    rows: str
    columns: str
    work: Elementwise
    in_vectors: bool
    cost: int
    """Operations for an element, by which the kernel divides the work among threads."""


@dataclass(frozen=True)
class CopyElements(Statement):
    """Elements of so many bytes move from one view to another of the same shape."""

    bytes: int
    rank: int
    shape: tuple[str, ...]
    read_strides: tuple[str, ...]
    write_strides: tuple[str, ...]
    source: str
    target: str


@dataclass(frozen=True)
class InterleavePlanes(Statement):
    """Planes of elements of 4 bytes become neighbours: images × pixels of so many channels."""

    channels: int
    images: str
    pixels: str
    source: str
    target: str
