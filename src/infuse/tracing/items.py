"""What results of TensorFlow's operators are here: tensors, complex ones, variables, lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from infuse.dtypes import DType
from infuse.errors import UnsupportedOperatorError
from infuse.immutable import Immutable
from infuse.ir.dims import Dim
from infuse.ir.graph import Array, Value


@dataclass(eq=False)
class Complex:
    """A complex tensor: its real and imaginary parts along one more axis."""

    parts: Value


@dataclass(eq=False)
class Variable:
    """A variable by its name, and what a checkpoint has for it."""

    name: str
    elements: Array | None = None


class Stored(Immutable):
    """A tensor of the checkpoint, by its name."""

    name: str


@dataclass(eq=False)
class Elements:
    """A list of tensors of one type, as one tensor along a new first axis.

    `value` is None while nothing has been written to a list of `count` elements. `shape` is what
    is known of an element, `growing` whether elements may be written behind the last.
    """

    dtype: DType
    shape: tuple[Dim | None, ...] | None
    count: Value
    value: Value | None = None
    growing: bool = False

    def of(self, value: Value) -> Elements:
        """The same list with other elements."""
        return replace(self, value=value)


@dataclass(eq=False)
class Table:
    """A table of keys and values by its name, once something has filled it."""

    name: str
    keys: Array | None = None
    values: Array | None = None


Item = Value | Complex | Variable | Stored | Elements | Table | None


def flat(items: Sequence[Item]) -> list[Value]:
    """The tensors of items, for a body of control flow."""
    values = []
    for item in items:
        tensor = item.parts if isinstance(item, Complex) else item
        tensor = tensor.value if isinstance(tensor, Elements) else tensor
        if not isinstance(tensor, Value):
            what = "an empty list"
            if isinstance(item, (Variable, Table)):
                what = f"{item.name!r}, a state of the model,"
            raise UnsupportedOperatorError(f"{what} as a state of control flow is not supported")
        values.append(tensor)
    return values


def alike(items: Sequence[Item], values: Sequence[Value]) -> list[Item]:
    """Items of the same kinds, with other tensors."""
    made: list[Item] = []
    for item, value in zip(items, values, strict=True):
        if isinstance(item, Elements):
            made.append(item.of(value))
        else:
            made.append(Complex(value) if isinstance(item, Complex) else value)
    return made
