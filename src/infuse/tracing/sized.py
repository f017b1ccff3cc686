"""An importer of programs whose sizes are expressions of symbols, and the ends of element types."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import UnsupportedOperatorError
from infuse.ir import dims
from infuse.ir.dims import Dim, Expr
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.tracing.importer import Importer
from infuse.tracing.semantics import arithmetic
from infuse.tracing.sizes import Sizes

Self = TypeVar("Self", bound="SizedImporter")


class SizedImporter(Importer):
    """An importer that makes sizes that are expressions of symbols out of the sizes of inputs."""

    def __init__(self, name: str, sizes: Sizes | None = None) -> None:
        super().__init__(name, sizes)
        self.outermost = self
        self._symbols: dict[str, Value] = {}

    def body(self: Self, name: str) -> Self:
        """The importer of a graph inside."""
        inner = super().body(name)
        inner.outermost = self.outermost
        return inner

    def extent(self, size: Dim) -> int | Value:
        """A size: a number, or a scalar int64 that nodes compute."""
        if isinstance(size, int):
            return size
        scalar = self._scalar(size)
        return scalar if isinstance(scalar, Value) else int(scalar)

    def ints(self, *values: int | Dim | Value) -> Value:
        """A list of int64 numbers; sizes with symbols are computed."""
        return super().ints(*(self.extent(v) if isinstance(v, Expr) else v for v in values))

    def indices(self, count: Dim) -> Value:
        """0, 1, … below `count`."""
        if isinstance(count, int):
            return self.constant(np.arange(count, dtype=np.int64))
        zero, one = (self.number(number, dtypes.int64) for number in (0, 1))
        made = self("Range", zero, self.extent(count), one)
        made.type = TensorType(dtypes.int64, (count,))
        return made

    def axis_shape(self, value: Value, axis: int, rank: int) -> Value:
        """A list of numbers along this axis of `rank` axes."""
        return self.reshape(value, *(value.shape[0] if i == axis else 1 for i in range(rank)))

    def expand(self, value: Value, *shape: Dim) -> Value:
        """A value repeated to this shape."""
        if value.shape == shape:
            return value
        made = self("Expand", value, self.ints(*shape))
        made.type = TensorType(value.dtype, shape)
        return made

    def not_(self, value: Value) -> Value:
        """Where a condition does not hold."""
        return self("Not", value)

    def clamp(self, value: Value, low: Any, high: Any) -> Value:
        """A value between two limits."""
        return self("Min", self("Max", value, low), high)

    def _scalar(self, size: Dim) -> Value | int:
        """The polynomial of a size, in int64."""
        if isinstance(size, int):
            return size
        total: Value | None = None
        for monomial, factor in size.terms.items():
            product = self.number(factor, dtypes.int64)
            for atom, power in monomial:
                value = self._atom(atom)
                for _ in range(power):
                    product = self("Mul", product, value)
            total = product if total is None else self("Add", total, product)
        assert total is not None, "an expression has terms"
        return total

    def _atom(self, atom: dims.Atom) -> Value:
        if atom.kind == "symbol":
            return self.outermost.symbol(str(atom.args[0]))
        values = [self._scalar(arg) for arg in atom.args]
        a, b = (v if isinstance(v, Value) else self.number(v, dtypes.int64) for v in values)
        if atom.kind == "div":
            return arithmetic.floor_quotient(self, a, b)
        kinds = {"mod": "Mod", "max": "Max", "min": "Min"}
        return self(kinds[atom.kind], a, b)

    def symbol(self, name: str) -> Value:
        """The size that a symbol stands for, read off an input that has it for itself."""
        if name not in self._symbols:
            places = [
                (value, axis)
                for value in self.graph.inputs
                for axis, size in enumerate(value.shape)
                if size == dims.symbol(name)
            ]
            if not places:
                raise UnsupportedOperatorError(
                    f"the size {name} is computed with, and no input has it for itself",
                    hint=f"let an axis of an input have the size {name}",
                )
            size = self.size_of(*places[0])
            assert isinstance(size, Value), "the size is a symbol"
            self._symbols[name] = size
        return self._symbols[name]


def lowest(dtype: DType) -> Any:
    """The number that no number of the type is below."""
    return -np.inf if dtype.is_float else 0 if dtype.is_bool else np.iinfo(dtype.numpy).min


def highest(dtype: DType) -> Any:
    """The number that no number of the type is above."""
    return np.inf if dtype.is_float else 1 if dtype.is_bool else np.iinfo(dtype.numpy).max
