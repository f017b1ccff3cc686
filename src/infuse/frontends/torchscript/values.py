"""What names stand for while a program of TorchScript is followed.

Numbers are Python's, or raw values of the graph where nodes compute them: int64, float64 or a truth
value without axes. Tensors are `Tensor`; lists, dictionaries and objects can change, and know when
they were made.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from infuse.errors import UnsupportedOperatorError
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter

CLOCK: Final = itertools.count(1)
"""Numbers that tell what was made before what."""


@dataclass(eq=False)
class Cell:
    """Elements that tensors share; `linked` are others that may be the same in memory."""

    value: Value
    path: str = ""
    linked: list[Cell] = field(default_factory=list)
    spoiled: bool = False
    born: int = field(default_factory=lambda: next(CLOCK))


@dataclass(frozen=True)
class View:
    """How a part is read from a tensor, and how the tensor is when the part is another."""

    read: Callable[[TorchImporter, Value], Value]
    write: Callable[[TorchImporter, Value, Value], Value] | None


class Tensor:
    """A tensor: all elements of a cell, or a view of them."""

    def __init__(
        self, cell: Cell, views: tuple[View, ...] = (), value: Value | None = None
    ) -> None:
        self.cell, self.views = cell, views
        self._seen, self._value = cell.value, value if value is not None else cell.value

    def read(self, g: TorchImporter) -> Value:
        """The elements as they are now."""
        if self.cell.spoiled:
            raise UnsupportedOperatorError(
                "a tensor is read that may share its elements with one that was changed in place",
                hint="clone() the tensor before it is changed",
            )
        if self.cell.value is self._seen:
            return self._value
        value = self.cell.value
        for view in self.views:
            value = view.read(g, value)
        return value

    def written(self, g: TorchImporter, new: Value) -> Value:
        """The elements of the cell once this tensor's are others."""
        wholes = [self.cell.value]
        for view in self.views[:-1]:
            wholes.append(view.read(g, wholes[-1]))
        for view, whole in zip(reversed(self.views), reversed(wholes)):
            if view.write is None:
                raise UnsupportedOperatorError("a repeated tensor is changed in place")
            new = view.write(g, whole, new)
        return new


class List(list[Any]):
    """A list of the program."""

    def __init__(self, items: Iterable[Any] = ()) -> None:
        super().__init__(items)
        self.born = next(CLOCK)


class Dict(dict[Any, Any]):
    """A dictionary of the program."""

    def __init__(self, items: Any = ()) -> None:
        super().__init__(items)
        self.born = next(CLOCK)


@dataclass(frozen=True, eq=False)
class Stacked:
    """As many elements of a list as a loop made: the rows of a tensor."""

    value: Value


@dataclass(eq=False)
class Object:
    """A module, or another object of a class. `stored`: what the file has of fields that were not
    read yet.
    """

    kind: str
    path: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    stored: Any = None
    born: int = field(default_factory=lambda: next(CLOCK))


class Named(tuple[Any, ...]):
    """A NamedTuple."""

    kind: str
    names: tuple[str, ...]

    @staticmethod
    def of(kind: str, names: tuple[str, ...], items: Iterable[Any]) -> Named:
        """One of this class, with these fields."""
        made = Named(items)
        made.kind, made.names = kind, names
        return made


@dataclass(frozen=True)
class Callee:
    """A function or class by its qualified name."""

    name: str


@dataclass(frozen=True)
class Device:
    """Where tensors lie; all lie in one place."""

    kind: str = "cpu"


@dataclass(frozen=True)
class Undecided:
    """What has no value: reading it is an error, for this reason."""

    reason: str


UNSET: Final = Undecided("it has no value here")
"""What `uninitialized` gives."""
