"""Calls of TensorFlow's operators by the numbers of their operands, as handlers that serve both of
its formats see them; the table of these handlers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Final, TypeVar

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Array, Value
from infuse.tracing.calls import Call
from infuse.tracing.importer import Importer, registered

Handler = Callable[["OperandCall"], Any]
Registered = TypeVar("Registered", bound=Handler)
OPERATORS: Final[dict[str, Handler]] = {}
"""By TensorFlow's name of the operator; a format may have another handler for it."""


def shared(*names: str) -> Callable[[Registered], Registered]:
    """Register what builds these operators in both formats: a function of the call, which returns
    the value of the result, or a list of all.
    """
    return registered(OPERATORS, names)


class OperandCall(Call):
    """A call of an operator: its options, operands and results."""

    g: Importer

    # -- options -----------------------------------------------------------------------------------

    @abstractmethod
    def option(self, name: str, default: Any = 0) -> Any:
        """An option by name; `default` where the operator does not say."""

    # -- operands ----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def count(self) -> int:
        """How many operands there are, left out ones included."""

    @abstractmethod
    def has(self, index: int) -> bool:
        """Whether an operand is there."""

    @abstractmethod
    def label(self, index: int) -> str:
        """What an operand is called in errors."""

    @abstractmethod
    def raw(self, index: int) -> Value:
        """An operand with the elements that the file says, also where they are scaled integers."""

    @abstractmethod
    def is_complex(self, index: int) -> bool:
        """Whether an operand has complex numbers, which `parts` and `placed` take."""

    @abstractmethod
    def parts(self, index: int) -> Value:
        """A complex operand: its real and imaginary parts along one more axis."""

    def real(self, index: int, *perm: int) -> Value:
        """An operand as real numbers, its axes in this order."""
        value = self.raw(index)
        if not perm:
            return value
        if value.rank != len(perm):
            raise ModelFileError(f"operand {index} has {value.rank} axes, not {len(perm)}")
        return self.g.permute(value, *perm)

    def reals(self) -> list[Value]:
        """All operands as real numbers."""
        return [self.real(index) for index in range(self.count)]

    def placed(self, index: int) -> tuple[Value, int]:
        """An operand whose elements are only moved, and how many axes it has: behind them, complex
        numbers have one for their parts.
        """
        if self.is_complex(index):
            parts = self.parts(index)
            return parts, parts.rank - 1
        (x,) = self.moved(index)
        return x, x.tensor.rank or 0

    def placed_as(self, index: int, value: Value) -> Any:
        """A result of elements of an operand that `placed` gave, complex where these are."""
        return value

    def keeps(self, *operands: int, results: int = 1) -> bool:
        """Whether these operands and the first results mean the same by the same elements, so that
        moving them needs no real numbers.
        """
        return True

    def moved(self, *operands: int, results: int = 1) -> list[Value]:
        """Operands of which the first results have elements: as they are where that means the same,
        else as real numbers.
        """
        if self.keeps(*operands, results=results):
            return [self.raw(index) for index in operands]
        return [self.real(index) for index in operands]

    def const(self, index: int) -> Array | None:
        """The elements of a constant operand."""
        return self.raw(index).const

    def numbers(self, index: int) -> list[Dim]:
        """The integers of an operand, as far as sizes tell them; an error where a run does."""
        listed = known_ints(self.raw(index))
        if listed is None:
            const = self.const(index)
            if const is None or const.dtype.kind not in "iu":
                raise self.unsupported(f"operand {index}, {self.label(index)!r}, computed")
            return [int(element) for element in const.reshape(-1)]
        return list(listed)

    def ints(self, index: int) -> list[int]:
        """The integers of a constant operand."""
        listed = self.numbers(index)
        if not all(isinstance(element, int) for element in listed):
            raise self.unsupported(f"operand {index}, {self.label(index)!r}, computed")
        return [int(element) for element in listed if isinstance(element, int)]

    def one(self, index: int) -> int:
        """The integer of a constant operand."""
        listed = self.ints(index)
        if len(listed) != 1:
            raise ModelFileError(f"operand {index} has {len(listed)} numbers, not one")
        return listed[0]

    def list_of(self, index: int) -> Value:
        """An operand as a list of int64, constant or not."""
        value = self.raw(index)
        if not value.dtype.is_integer:
            raise ModelFileError(f"operand {index} has elements of type {value.dtype}")
        listed = known_ints(value)
        if listed is not None and all(isinstance(element, int) for element in listed):
            return self.g.ints(*listed)
        flat = value if value.tensor.rank == 1 else self.g("Reshape", value, self.g.ints(-1))
        return self.g.cast(flat, dtypes.int64)

    def int64(self, index: int) -> Value:
        """An operand as int64."""
        return self.g.cast(self.raw(index), dtypes.int64)

    def zero_of(self, index: int) -> Value | None:
        """The element that stands for zero in an operand, where that is not zero itself."""
        return None

    # -- results -----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def results(self) -> int:
        """How many results the operator has."""

    @property
    @abstractmethod
    def dtype(self) -> DType:
        """The element type of the first result."""

    @abstractmethod
    def as_result(self, value: Value, index: int = 0) -> Value:
        """Integers in the type that the file says of a result."""

    def quantized(self, value: Value, index: int = 0) -> Value:
        """Real numbers as the elements that the file says of a result."""
        return value

    def activated(self, value: Value) -> Value:
        """`value` after the activation that is fused into the operator."""
        return value
