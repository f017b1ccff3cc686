"""Expressions as text that C and C++ have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

from infuse.dtypes import DType
from infuse.ir.dims import Dim
from infuse.lowering.expressions import (
    OPERATORS,
    AddressOf,
    Aggregate,
    AsSize,
    BlockOf,
    BodyOutput,
    Calculated,
    Chosen,
    Converted,
    Element,
    Estimate,
    Expression,
    FieldOf,
    Grouped,
    Invocation,
    KernelSizes,
    Nothing,
    Operation,
    Pointed,
    PointerTo,
    Size,
    SizeOf,
)
from infuse.targets.text.sizes import symbol_field

_LEVELS = {name: level for level, names in enumerate(OPERATORS) for name in names}


class ExpressionText(ABC):
    """Writes expressions. `sizes`, `model`: what stands before a field of the struct of sizes, and
    of the model; `nothing`: a pointer that leads nowhere.
    """

    sizes: ClassVar[str]
    model: ClassVar[str]
    nothing: ClassVar[str]

    @abstractmethod
    def size(self, size: Dim) -> str:
        """A size as a whole number."""

    @abstractmethod
    def estimate(self, size: Dim) -> str:
        """A size as a float64, which does not overflow."""

    @abstractmethod
    def aggregate(self, braces: Aggregate) -> str:
        """What stands in braces, perhaps of a type."""

    @abstractmethod
    def instance(self, function: str, template: Sequence[str]) -> str:
        """The name of a function for these arguments of its template."""

    @abstractmethod
    def kernel_sizes(self, sizes: KernelSizes) -> str:
        """The sizes of a kernel call."""

    def element_type(self, dtype: DType) -> str:
        """The name of the type of elements."""
        return dtype.c_name

    def fields(self, items: Iterable[tuple[str, Expression]]) -> str:
        """The content of braces."""
        each = ((name, self.text(value)) for name, value in items)
        return ", ".join(f".{name} = {value}" if name else value for name, value in each)

    def text(self, expression: Expression) -> str:
        """An expression."""
        match expression:
            case str():
                return expression
            case Size(size):
                return self.size(size)
            case Estimate(size):
                return self.estimate(size)
            case Aggregate():
                return self.aggregate(expression)
            case Invocation(function, arguments, template):
                called = ", ".join(map(self.text, arguments))
                return f"{self.instance(function, template)}({called})"
            case AddressOf(inner):
                return f"&{self._tight(inner)}"
            case Calculated(form, operands, _):
                return form.format(*map(self.text, operands))
            case Operation(operator, (first, *rest)) if not rest:
                return f"{operator}{self._tight(first)}"
            case Operation(operator, (first, *rest)):
                level = _LEVELS[operator]
                others = (self._at(each, level + 1) for each in rest)
                return f" {operator} ".join([self._at(first, level), *others])
            case Grouped(inner):
                return f"({self.text(inner)})"
            case Chosen(condition, then, otherwise):
                return f"{self._at(condition, 0)} ? {self.text(then)} : {self.text(otherwise)}"
            case FieldOf(name, field):
                return f"{self._tight(name)}.{field}"
            case Element(array, index):
                number = index if isinstance(index, int) else self.text(index)
                return f"{self._tight(array)}[{number}]"
            case Pointed(pointer):
                return f"*{self._tight(pointer)}"
            case Converted(dtype, value):
                return f"({self.element_type(dtype)}){self._tight(value)}"
            case AsSize(value):
                return f"as_size({self.text(value)})"
            case PointerTo(pointer, dtype, is_written):
                element = "char" if dtype is None else self.element_type(dtype)
                return f"({'' if is_written else 'const '}{element}*){self._tight(pointer)}"
            case BodyOutput(body, number):
                return f"{self.model}f{body}.results[{number}]"
            case BlockOf(program, number):
                return f"{self.model}f{program}.left[{number}]"
            case SizeOf(symbol):
                return f"{self.sizes}{symbol_field(symbol)}"
            case Nothing():
                return self.nothing
        assert isinstance(expression, tuple)
        return self.kernel_sizes(expression)

    def _at(self, expression: Expression, level: int) -> str:
        """An expression as an operand of an operator that binds so close."""
        printed = self.text(expression)
        match expression:
            case Operation(operator, (_, _, *_)) if _LEVELS[operator] < level:
                return f"({printed})"
            case Chosen():
                return f"({printed})"
        return printed

    def _tight(self, expression: Expression) -> str:
        return self._at(expression, len(OPERATORS))
