"""What the body of a generated function consists of, and how C++ writes it.

Arguments and values are expressions: names that a function's writer gave to tensors, sizes and
sinks, or numbers, and what is made of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from infuse.ir.dims import Dim


def initializer(fields: Mapping[str, object]) -> str:
    """The content of a struct, every field named."""
    return f"{{{', '.join(f'.{name} = {value}' for name, value in fields.items())}}}"


@dataclass(frozen=True)
class Aggregate:
    """What stands in braces, perhaps of a type: fields by name, or elements, whose names are
    empty.
    """

    items: tuple[tuple[str, Expression], ...]
    type: str = ""
    template: tuple[str, ...] = ()

    def __str__(self) -> str:
        template = f"<{', '.join(self.template)}>" if self.template else ""
        each = (f".{name} = {value}" if name else str(value) for name, value in self.items)
        return f"{self.type}{template}{{{', '.join(each)}}}"


def elements(*values: Expression, type: str = "", template: tuple[str, ...] = ()) -> Aggregate:
    """Braces around elements."""
    return Aggregate(tuple(("", value) for value in values), type, template)


@dataclass(frozen=True)
class Calculated:
    """What C++ makes of other expressions, which stand in `text` where braces do; `meaning` makes
    the same of what they stand for.
    """

    text: str
    operands: tuple[Expression, ...]
    meaning: Callable[..., Any]

    def __str__(self) -> str:
        return self.text.format(*self.operands)


@dataclass(frozen=True)
class PrintedSize:
    """A size that stands in the body itself."""

    text: str
    size: Dim

    def __str__(self) -> str:
        return self.text


Expression = str | Aggregate | Calculated | PrintedSize


def expression(value: object) -> Expression:
    """A value as an expression."""
    made = isinstance(value, (Aggregate, Calculated, PrintedSize))
    return value if made else str(value)  # type: ignore[return-value]


class Statement(Protocol):
    """A part of a function's body."""

    def lines(self) -> Sequence[str]:
        """Its lines in C++."""
        ...


@dataclass(frozen=True)
class KernelCall:
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

    def lines(self) -> Sequence[str]:
        template = f"<{', '.join(self.template)}>" if self.template else ""
        context = ("c",) if self.context else ()
        arguments = ", ".join(map(str, (*context, *self.arguments)))
        call = f"{self.kernel}{template}({arguments})"
        if self.result:
            return [f"const long {self.result} = {call};"]
        return [f"if (!{call}) return {self.failure};" if self.failure else f"{call};"]


@dataclass(frozen=True)
class Arrays:
    """Lists of whole numbers, by name."""

    lists: tuple[tuple[str, tuple[str, ...]], ...]
    constant: bool = True

    def lines(self) -> Sequence[str]:
        each = (f"{name}[] = {{{', '.join(elements)}}}" for name, elements in self.lists)
        return [f"{'const ' if self.constant else ''}long {', '.join(each)};"]


@dataclass(frozen=True)
class Struct:
    """Parameters of a kernel under a name; the fields in the order of their declaration."""

    type: str
    name: str
    fields: tuple[tuple[str, Expression], ...]

    def lines(self) -> Sequence[str]:
        return [f"const {self.type} {self.name} = {initializer(dict(self.fields))};"]


@dataclass(frozen=True)
class Constant:
    """A value under a name."""

    type: str
    name: str
    value: Expression

    def lines(self) -> Sequence[str]:
        return [f"const {self.type} {self.name} = {self.value};"]


@dataclass(frozen=True)
class Room:
    """Lists of whole numbers, by name and length, that later statements fill."""

    lengths: tuple[tuple[str, int], ...]
    zeros: bool = False

    def lines(self) -> Sequence[str]:
        end = " = {}" if self.zeros else ""
        return [f"long {', '.join(f'{name}[{length}]{end}' for name, length in self.lengths)};"]


@dataclass(frozen=True)
class Assign:
    """Values stored where names point, or in elements and fields."""

    pairs: tuple[tuple[str, Expression], ...]

    def lines(self) -> Sequence[str]:
        return [f"{', '.join(f'{place} = {value}' for place, value in self.pairs)};"]


@dataclass(frozen=True)
class Require:
    """The function ends with a failure unless a condition holds."""

    condition: str
    failure: str

    def lines(self) -> Sequence[str]:
        return [f"if (!({self.condition})) return {self.failure};"]


@dataclass(frozen=True)
class Variable:
    """Values of a type that change, by name."""

    type: str
    values: tuple[tuple[str, Expression], ...]

    def lines(self) -> Sequence[str]:
        each = (f"{name} = {value}" if value else name for name, value in self.values)
        return [f"{self.type} {', '.join(each)};"]


@dataclass(frozen=True)
class Pointers:
    """Where the inputs of a body lie, in order."""

    name: str
    elements: tuple[str, ...]

    def lines(self) -> Sequence[str]:
        return [f"const void* {self.name}[] = {{{', '.join((*self.elements, 'nullptr'))}}};"]


@dataclass(frozen=True)
class RunBody:
    """A run of a body of control flow on the inputs `in`."""

    number: int

    def lines(self) -> Sequence[str]:
        return [f"if (int failed = run_{self.number}(m, in, nullptr)) return failed;"]


@dataclass(frozen=True)
class Return:
    """The function ends with a failure, well (0) or without a result where a condition holds."""

    condition: str
    failure: str = "0"

    def lines(self) -> Sequence[str]:
        return [f"if ({self.condition}) return{f' {self.failure}' if self.failure else ''};"]


@dataclass(frozen=True)
class Result:
    """What an inner function gives."""

    value: str

    def lines(self) -> Sequence[str]:
        return [f"return {self.value};"]


@dataclass(frozen=True)
class Scope:
    """Statements whose names nobody else sees."""

    body: tuple[Statement, ...]

    def lines(self) -> Sequence[str]:
        return ["{", *indented(self.body), "}"]


@dataclass(frozen=True)
class If:
    """Statements that run where a condition holds, and others where it does not."""

    condition: str
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()

    def lines(self) -> Sequence[str]:
        head = [f"if ({self.condition}) {{", *indented(self.then)]
        other = ["} else {", *indented(self.otherwise)] if self.otherwise else []
        return [*head, *other, "}"]


@dataclass(frozen=True)
class Repeat:
    """Statements that run for i = 0, 1, … as long as a condition holds.

    `step`: what follows each run, where that is not just the next i.
    """

    condition: str
    body: tuple[Statement, ...]
    step: str = "++i"
    start: str = "long i = 0"
    """Nothing where i is declared before."""

    def lines(self) -> Sequence[str]:
        head = f"for ({self.start}; {self.condition}; {self.step}) {{"
        return [head, *indented(self.body), "}"]


@dataclass(frozen=True)
class Define:
    """A function inside of the function, of parameters and of all that is named around it."""

    name: str
    parameters: str
    body: tuple[Statement, ...]
    device: bool = True
    """Whether kernels inline it into their loops."""
    references: bool = False
    """Whether it reads what is around it where it lies, and not a copy."""

    def lines(self) -> Sequence[str]:
        inlined = " INFUSE_LAMBDA" if self.device else ""
        around = "&" if self.references else "="
        head = f"const auto {self.name} = [{around}]({self.parameters}){inlined} {{"
        return [head, *indented(self.body), "};"]


@dataclass(frozen=True)
class Loader:
    """A function of row, column and lanes that loads from rows of so many elements."""

    name: str
    pointer: str
    columns: str

    def lines(self) -> Sequence[str]:
        load = Result(f"load({self.pointer} + row * {self.columns} + col, lanes)")
        return Define(self.name, "long row, long col, auto lanes", (load,)).lines()


@dataclass(frozen=True)
class MapCall:
    """A call of a kernel that is given a function of its own: it runs for every place."""

    kernel: str
    arguments: tuple[str, ...]
    parameters: str
    body: tuple[Statement, ...]
    cost: int
    """Operations for an element, by which the kernel divides the work among threads."""

    def lines(self) -> Sequence[str]:
        arguments = ", ".join(("c", *self.arguments))
        head = f"{self.kernel}({arguments}, [=]({self.parameters}) INFUSE_LAMBDA {{"
        return [head, *indented(self.body), f"}}, {self.cost});"]


def indented(statements: Sequence[Statement]) -> list[str]:
    """The lines of inner statements."""
    return [f"  {line}" for statement in statements for line in statement.lines()]


@dataclass(frozen=True)
class Text:
    """C++ as it is."""

    text: str

    def lines(self) -> Sequence[str]:
        return [self.text]
