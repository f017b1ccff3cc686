"""Python's operators on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

Self = TypeVar("Self", bound="Operators")

OPERATORS: Final[dict[str, Callable[..., Any]]] = {}
"""What operators compute, by the names of their methods without underscores."""


class Operators:
    """Arrays' operators, from the right and in place, too."""

    def _apply(self, name: str, *operands: Any) -> Any:
        """The result of an operator; NotImplemented where an operand is no array or number."""
        if not all(self._is_operand(x) for x in operands):
            return NotImplemented
        return OPERATORS[name](*operands)

    def _is_operand(self, x: Any) -> bool:
        raise NotImplementedError

    def _become(self: Self, result: Any) -> Self:
        raise NotImplementedError

    def __neg__(self: Self) -> Self:
        result: Self = self._apply("neg", self)
        return result

    def __pos__(self: Self) -> Self:
        result: Self = self._apply("pos", self)
        return result

    def __abs__(self: Self) -> Self:
        result: Self = self._apply("abs", self)
        return result

    def __invert__(self: Self) -> Self:
        result: Self = self._apply("invert", self)
        return result

    def __eq__(self: Self, other: Any) -> Self:  # type: ignore[override]
        result: Self = self._apply("eq", self, other)
        return result

    def __ne__(self: Self, other: Any) -> Self:  # type: ignore[override]
        result: Self = self._apply("ne", self, other)
        return result

    def __lt__(self: Self, other: Any) -> Self:
        result: Self = self._apply("lt", self, other)
        return result

    def __le__(self: Self, other: Any) -> Self:
        result: Self = self._apply("le", self, other)
        return result

    def __gt__(self: Self, other: Any) -> Self:
        result: Self = self._apply("gt", self, other)
        return result

    def __ge__(self: Self, other: Any) -> Self:
        result: Self = self._apply("ge", self, other)
        return result

    def __add__(self: Self, other: Any) -> Self:
        result: Self = self._apply("add", self, other)
        return result

    def __radd__(self: Self, other: Any) -> Self:
        result: Self = self._apply("add", other, self)
        return result

    def __iadd__(self: Self, other: Any) -> Self:
        result: Self = self._become(self._apply("add", self, other))
        return result

    def __sub__(self: Self, other: Any) -> Self:
        result: Self = self._apply("sub", self, other)
        return result

    def __rsub__(self: Self, other: Any) -> Self:
        result: Self = self._apply("sub", other, self)
        return result

    def __isub__(self: Self, other: Any) -> Self:
        result: Self = self._become(self._apply("sub", self, other))
        return result

    def __mul__(self: Self, other: Any) -> Self:
        result: Self = self._apply("mul", self, other)
        return result

    def __rmul__(self: Self, other: Any) -> Self:
        result: Self = self._apply("mul", other, self)
        return result

    def __imul__(self: Self, other: Any) -> Self:
        result: Self = self._become(self._apply("mul", self, other))
        return result

    def __truediv__(self: Self, other: Any) -> Self:
        result: Self = self._apply("truediv", self, other)
        return result

    def __rtruediv__(self: Self, other: Any) -> Self:
        result: Self = self._apply("truediv", other, self)
        return result

    def __itruediv__(self: Self, other: Any) -> Self:
        result: Self = self._become(self._apply("truediv", self, other))
        return result

    def __pow__(self: Self, other: Any) -> Self:
        result: Self = self._apply("pow", self, other)
        return result

    def __rpow__(self: Self, other: Any) -> Self:
        result: Self = self._apply("pow", other, self)
        return result

    def __ipow__(self: Self, other: Any) -> Self:
        result: Self = self._become(self._apply("pow", self, other))
        return result

    def __floordiv__(self: Self, other: Any) -> Self:
        result: Self = self._apply("floordiv", self, other)
        return result

    def __rfloordiv__(self: Self, other: Any) -> Self:
        result: Self = self._apply("floordiv", other, self)
        return result

    def __ifloordiv__(self: Self, other: Any) -> Self:
        result: Self = self._become(self._apply("floordiv", self, other))
        return result

    def __mod__(self: Self, other: Any) -> Self:
        result: Self = self._apply("mod", self, other)
        return result

    def __rmod__(self: Self, other: Any) -> Self:
        result: Self = self._apply("mod", other, self)
        return result

    def __imod__(self: Self, other: Any) -> Self:
        result: Self = self._become(self._apply("mod", self, other))
        return result

    def __matmul__(self: Self, other: Any) -> Self:
        result: Self = self._apply("matmul", self, other)
        return result

    def __rmatmul__(self: Self, other: Any) -> Self:
        result: Self = self._apply("matmul", other, self)
        return result

    def __imatmul__(self: Self, other: Any) -> Self:
        result: Self = self._become(self._apply("matmul", self, other))
        return result

    def __and__(self: Self, other: Any) -> Self:
        result: Self = self._apply("and", self, other)
        return result

    def __rand__(self: Self, other: Any) -> Self:
        result: Self = self._apply("and", other, self)
        return result

    def __iand__(self: Self, other: Any) -> Self:
        result: Self = self._become(self._apply("and", self, other))
        return result

    def __or__(self: Self, other: Any) -> Self:
        result: Self = self._apply("or", self, other)
        return result

    def __ror__(self: Self, other: Any) -> Self:
        result: Self = self._apply("or", other, self)
        return result

    def __ior__(self: Self, other: Any) -> Self:
        result: Self = self._become(self._apply("or", self, other))
        return result

    def __xor__(self: Self, other: Any) -> Self:
        result: Self = self._apply("xor", self, other)
        return result

    def __rxor__(self: Self, other: Any) -> Self:
        result: Self = self._apply("xor", other, self)
        return result

    def __ixor__(self: Self, other: Any) -> Self:
        result: Self = self._become(self._apply("xor", self, other))
        return result

    def __lshift__(self: Self, other: Any) -> Self:
        result: Self = self._apply("lshift", self, other)
        return result

    def __rlshift__(self: Self, other: Any) -> Self:
        result: Self = self._apply("lshift", other, self)
        return result

    def __ilshift__(self: Self, other: Any) -> Self:
        result: Self = self._become(self._apply("lshift", self, other))
        return result

    def __rshift__(self: Self, other: Any) -> Self:
        result: Self = self._apply("rshift", self, other)
        return result

    def __rrshift__(self: Self, other: Any) -> Self:
        result: Self = self._apply("rshift", other, self)
        return result

    def __irshift__(self: Self, other: Any) -> Self:
        result: Self = self._become(self._apply("rshift", self, other))
        return result

    def __hash__(self) -> int:
        return id(self)
