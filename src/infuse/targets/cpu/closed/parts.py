"""What closed functions consist of beside the statements of open ones, and what they are called
with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from infuse.immutable import Immutable
from infuse.ir.dims import Dim
from infuse.lowering.expressions import Expression
from infuse.lowering.program import Argument, Function
from infuse.lowering.statements import Statement
from infuse.targets.cpu.closed.work import WorkCode


class InterpretedWork(Statement):
    """Elementwise work of this name that is data; `result`: the C type that it gives, or void."""

    name: str
    code: str
    result: str


class InterpretedMap(Statement):
    """Elementwise work that is data, for all rows × columns (`MapWork`)."""

    rows: str
    columns: str
    code: str
    cost: str
    divides: bool


class WorkArgument(Immutable):
    """An argument: what elementwise work does, and what it is called with."""

    code: WorkCode
    arguments: tuple[Argument, ...]


class ListArgument(Immutable):
    """An argument: a list of whole numbers."""

    sizes: tuple[Dim, ...]


class Estimated(Immutable):
    """An argument: a size that may be too large to be computed exactly, as a float64."""

    size: Dim


ClosedArgument = Argument | WorkArgument | ListArgument | Estimated


class ClosedCall(Immutable):
    """A call of a function of the closed set."""

    function: Function
    arguments: tuple[ClosedArgument, ...]


def apart(expressions: Sequence[Expression]) -> Iterator[Expression]:
    """Expressions one by one, where some are texts of several."""
    for each in expressions:
        yield from each.split(", ") if isinstance(each, str) else (each,)
