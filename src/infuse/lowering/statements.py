"""What the body of a function consists of, as data."""

from __future__ import annotations

from infuse.dtypes import DType
from infuse.immutable import Immutable
from infuse.lowering.elementwise import Elementwise
from infuse.lowering.expressions import Expression


class Scratch(Immutable):
    """Scratch memory for each worker: a function that tells its bytes, declared in a header."""

    function: str
    header: str
    arguments: tuple[Expression, ...]
    template: tuple[str, ...] = ()


class Statement(Immutable):
    """A part of a function's body."""


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


class Arrays(Statement):
    """Lists of whole numbers, by name."""

    lists: tuple[tuple[str, tuple[Expression, ...]], ...]
    constant: bool = True


class Struct(Statement):
    """Parameters of a kernel under a name; the fields in the order of their declaration."""

    type: str
    name: str
    fields: tuple[tuple[str, Expression], ...]


class Constant(Statement):
    """A value under a name."""

    type: str
    name: str
    value: Expression


class Room(Statement):
    """Lists of whole numbers, by name and length, that later statements fill."""

    lengths: tuple[tuple[str, int], ...]
    zeros: bool = False


class Assign(Statement):
    """Values stored where names point, or in elements and fields."""

    pairs: tuple[tuple[Expression, Expression], ...]


class Require(Statement):
    """The function ends with a failure unless a condition holds."""

    condition: Expression
    failure: str


class Variable(Statement):
    """Values of a type that change, by name."""

    type: str
    values: tuple[tuple[str, Expression], ...]


class Pointers(Statement):
    """Where the inputs of a body lie, in order."""

    name: str
    elements: tuple[Expression, ...]


class RunBody(Statement):
    """A run of a body of control flow on the inputs `in`."""

    number: int


class Return(Statement):
    """The function ends with a failure, well (0) or without a result where a condition holds."""

    condition: Expression
    failure: str = "0"


class Result(Statement):
    """What an inner function gives."""

    value: Expression


class Scope(Statement):
    """Statements whose names nobody else sees."""

    body: tuple[Statement, ...]


class If(Statement):
    """Statements that run where a condition holds, and others where it does not."""

    condition: Expression
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


class Repeat(Statement):
    """Statements that run for i = `first`, … as long as a condition holds."""

    condition: Expression
    body: tuple[Statement, ...]
    first: Expression | None = "0"
    """Nothing where i is declared before."""
    type: str = "isize"
    also: str = ""
    """Another name of the next i, which is stored there after each run."""


class Define(Statement):
    """A function inside of the function, of parameters and of all that is named around it."""

    name: str
    parameters: str
    body: tuple[Statement, ...]
    device: bool = True
    """Whether kernels inline it into their loops."""
    references: bool = False
    """Whether it reads what is around it where it lies, and not a copy."""


class Loader(Statement):
    """A function of row, column and lanes that loads from rows of so many elements."""

    name: str
    pointer: str
    columns: str


class MapCall(Statement):
    """A call of a kernel that is given a function of its own: it runs for every place."""

    kernel: str
    arguments: tuple[str, ...]
    parameters: str
    body: tuple[Statement, ...]
    cost: int
    """Operations for an element, by which the kernel divides the work among threads."""


class Text(Statement):
    """What a target writes as it is."""

    text: str


# -- what fusion and placement make --------------------------------------------------------------


class Work(Statement):
    """A function inside of the function that does elementwise work, of these parameters: `acc`,
    what a kernel made, `row`, `col`, and the `lanes` that follow.
    """

    name: str
    takes: tuple[str, ...]
    work: Elementwise


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


class RowWork(Statement):
    """Rows that a kernel makes, `together` at a time, and elementwise work on each of its sums,
    which is called `acc`; it fails where that divides integers by zero.

    `call` makes rows `first` to `first + count` in `line`, elements of `dtype`; None where all rows
    lie there already.
    """

    rows: str
    columns: str
    together: int
    call: KernelCall | None
    line: str
    dtype: DType
    work: Elementwise


class CopyElements(Statement):
    """Elements of so many bytes move from one view to another of the same shape."""

    bytes: int
    rank: int
    shape: tuple[str, ...]
    read_strides: tuple[Expression, ...]
    write_strides: tuple[str, ...]
    source: str
    target: str


class InterleavePlanes(Statement):
    """Planes of elements of 4 bytes become neighbours: images × pixels of so many channels."""

    channels: int
    images: str
    pixels: str
    source: str
    target: str
