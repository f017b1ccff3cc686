"""What the body of a function consists of, as data."""

from __future__ import annotations

from dataclasses import dataclass

from infuse.lowering.elementwise import Elementwise
from infuse.lowering.expressions import Expression


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
    elements: tuple[Expression, ...]


@dataclass(frozen=True)
class RunBody(Statement):
    """A run of a body of control flow on the inputs `in`."""

    number: int


@dataclass(frozen=True)
class Return(Statement):
    """The function ends with a failure, well (0) or without a result where a condition holds."""

    condition: Expression
    failure: str = "0"


@dataclass(frozen=True)
class Result(Statement):
    """What an inner function gives."""

    value: Expression


@dataclass(frozen=True)
class Scope(Statement):
    """Statements whose names nobody else sees."""

    body: tuple[Statement, ...]


@dataclass(frozen=True)
class If(Statement):
    """Statements that run where a condition holds, and others where it does not."""

    condition: Expression
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class Repeat(Statement):
    """Statements that run for i = `first`, … as long as a condition holds."""

    condition: Expression
    body: tuple[Statement, ...]
    first: Expression | None = "0"
    """Nothing where i is declared before."""
    type: str = "long"
    also: str = ""
    """Another name of the next i, which is stored there after each run."""


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
    read_strides: tuple[Expression, ...]
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
