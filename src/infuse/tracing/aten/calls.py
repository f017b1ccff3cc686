"""How operators of torch become nodes: the table, and what its entries build with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final, TypeVar

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import UnsupportedOperatorError
from infuse.immutable import Immutable
from infuse.ir.graph import Value
from infuse.tracing.importer import Importer, registered
from infuse.tracing.sizes import Sizes

Handler = Callable[..., Any]
_HALVES: Final = (dtypes.float16, dtypes.bfloat16)
_H = TypeVar("_H", bound=Handler)
TABLE: Final[dict[str, Handler]] = {}
"""By name with overload (`aten.add.Tensor`), or without one for all that have no entry."""


PLACEMENT: Final = frozenset(
    ["device", "layout", "pin_memory", "memory_format", "non_blocking", "copy", "generator"]
)
"""Options that say where elements are, not which."""


def aten(*names: str, space: str = "aten") -> Callable[[_H], _H]:
    """Register what builds these operators: a function of the importer and the operator's
    arguments, by the names and with the defaults that its schema has.

    It returns a value, a scalar, or a list of them where the operator has several results.
    """
    return registered(TABLE, [f"{space}.{name}" for name in names])


def handler_of(target: str) -> Handler | None:
    """The entry of an operator: `aten.add.Tensor` or `_operator.mul`; of complex numbers it is
    called `complex.add.Tensor`.
    """
    return TABLE.get(target) or TABLE.get(target.rpartition(".")[0])


class Complex(Immutable):
    """A tensor of complex numbers: the real and the imaginary parts along one more, last axis."""

    parts: Value


def part_type(dtype: DType) -> DType:
    """The type of the parts of a complex type; any other type itself."""
    return {"complex64": dtypes.float32, "complex128": dtypes.float64}.get(dtype.name, dtype)


class Meta(Immutable):
    """What torch says of a result: its element type, and its sizes where they are numbers."""

    dtype: DType
    sizes: tuple[int | None, ...]


class TorchImporter(Importer):
    """An importer with torch's rules of types. `called`: the operator in hand (`aten.add.Tensor`);
    `results`: what torch says of the tensors that it makes; `dense`: whether those that it reads
    lie in memory in the order of their axes.
    """

    def __init__(self, name: str, sizes: Sizes | None = None) -> None:
        super().__init__(name, sizes)
        self.results: list[Meta] = []
        self.called = ""
        self.dense = True

    @property
    def dtype(self) -> DType:
        """The element type of the first result."""
        return self.results[0].dtype

    def handler(self, target: str, arguments: Sequence[Any]) -> Handler:
        """The entry of a call of an operator; UnsupportedOperatorError where there is none."""
        listed = [v for x in arguments for v in (x if isinstance(x, list) else [x])]
        handler = handler_of(target)
        if any(isinstance(value, Complex) for value in listed) or any(
            meta.dtype != part_type(meta.dtype) for meta in self.results
        ):
            handler = handler_of(f"complex.{target.removeprefix('aten.')}")
            if handler is None:
                raise self.unsupported("an operator of complex numbers")
        if handler is None:
            raise self.unsupported("an operator without an entry")
        return handler

    def tensor(self, value: Any, dtype: DType | None = None) -> Value:
        """A tensor or number as a value of this element type (default: its own, that of the first
        result for a number).
        """
        if isinstance(value, Value):
            return value if dtype is None else self.cast(value, dtype)
        return self.number(value, dtype or self.dtype)

    def tensors(self, *values: Any, dtype: DType | None = None) -> list[Value]:
        """Operands of one element type: this one, or what torch promotes theirs to."""
        dtype = dtype or promoted(*values)
        return [self.tensor(value, dtype) for value in values]

    def operands(self, *values: Any, steps: bool = False) -> list[Value]:
        """Operands in the type in which torch computes the first result: its own, or float32 for 16
        bits, which do not hold each number or tensor without axes, or would round each of several
        steps. What is made of them is to be cast.
        """
        dtype = self.dtype
        if dtype in _HALVES and (steps or any(_exceeds(value, dtype) for value in values)):
            dtype = dtypes.float32
        return self.tensors(*values, dtype=dtype)

    def bounded(self, kind: str, *values: Value) -> Value:
        """An operator of numbers, applied to values of which truth values count as 0 and 1; its
        result is of their type.
        """
        if values[0].dtype != dtypes.bool_:
            return self(kind, *values)
        return self.cast(self(kind, *(self.cast(v, dtypes.uint8) for v in values)), dtypes.bool_)

    def expand(self, value: Value, shape: Value | Sequence[Any]) -> Value:
        """A value repeated to this shape; sizes are numbers and scalars."""
        return self("Expand", value, shape if isinstance(shape, Value) else self.ints(*shape))

    def shaped(self, value: Value, *sizes: Any) -> Value:
        """A value in another shape; sizes are numbers and scalars, one may be -1."""
        if sizes == value.shape:
            return value
        if value.const is not None and all(isinstance(size, int) for size in sizes):
            return self.reshape(value, *value.const.reshape(sizes).shape)
        return self("Reshape", value, self.ints(*sizes), allowzero=int(-1 not in sizes))

    def sizes_of(self, value: Value) -> list[int | Value]:
        """All sizes of a tensor: numbers, or scalars that nodes read off it."""
        return [self.size_of(value, axis) for axis in range(value.rank)]

    def indices(self, count: int | Value) -> Value:
        """0, 1, … below `count`."""
        if isinstance(count, int):
            return self.constant(np.arange(count, dtype=np.int64))
        return self("Range", self.number(0, dtypes.int64), count, self.number(1, dtypes.int64))

    def part(self, value: Value, axis: int, start: Any, end: Any, step: int = 1) -> Value:
        """Elements start, start + step, … before end of one axis, as Slice counts them."""
        return self("Slice", value, *(self.ints(i) for i in (start, end, axis, step)))

    def unsupported(self, what: str) -> UnsupportedOperatorError:
        """The error for a form of an operator that has no translation."""
        return UnsupportedOperatorError(f"{what} is not supported")


_ORDER: Final = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16")
_ORDER_WIDE: Final = ("float32", "float64", "complex64", "complex128")


def _exceeds(value: Any, dtype: DType) -> bool:
    """Whether these 16 bits do not hold a number."""
    if isinstance(value, Value):
        return value.rank == 0 and value.dtype != dtype
    with np.errstate(over="ignore"):
        return bool(float(np.asarray(value).astype(dtype.numpy)) != value)


def promoted(*values: Any) -> DType:
    """The element type in which torch computes with these tensors and numbers: a tensor without
    axes counts only where it is of a higher kind than those with axes, a number only where it is of
    a higher kind than all tensors.
    """
    tensors = [v for v in values if isinstance(v, Value)]
    groups = [
        [v.dtype for v in tensors if v.rank > 0],
        [v.dtype for v in tensors if v.rank == 0],
        [_of_number(v) for v in values if not isinstance(v, Value)],
    ]
    result: DType | None = None
    for group in filter(None, groups):
        dtype = reduce(_joined, group)
        if result is None:
            result = dtype
        elif _kind(dtype) > _kind(result):
            wide = result == dtypes.float64 and group is groups[2]
            result = dtypes.complex128 if wide else dtype
    assert result is not None, "there is an operand"
    return result


def _of_number(value: Any) -> DType:
    if isinstance(value, bool):
        return dtypes.bool_
    if isinstance(value, int):
        return dtypes.int64
    return dtypes.complex64 if isinstance(value, complex) else dtypes.float32


def _kind(dtype: DType) -> int:
    """0 for truth values, 1 for integers, 2 for floats, 3 for complex numbers."""
    if dtype == dtypes.bool_:
        return 0
    name = dtype.name
    return 3 if name.startswith("complex") else 2 if "float" in name else 1


def _joined(a: DType, b: DType) -> DType:
    if a == b:
        return a
    if _kind(a) != _kind(b):
        return a if _kind(a) > _kind(b) else b
    names = {a.name, b.name}
    if names == {"uint8", "int8"}:
        return dtypes.int16
    if names == {"float16", "bfloat16"}:
        return dtypes.float32
    order = (*_ORDER, *_ORDER_WIDE)
    if not names <= set(order):
        raise UnsupportedOperatorError(f"torch computes nothing with {a} and {b} together")
    return max(a, b, key=lambda dtype: order.index(dtype.name))


def axes_of(dims: int | Sequence[int] | None, rank: int) -> list[int]:
    """Axes from 0 on; all of them for None and an empty list, none of a tensor without axes."""
    if dims is None or dims == []:
        return list(range(rank))
    listed = [dims] if isinstance(dims, int) else dims
    return [axis % rank for axis in listed] if rank else []


def axis_of(dim: int, rank: int) -> int:
    """An axis from 0 on; 0 for a tensor without axes."""
    return dim % rank if rank else 0


def each(value: int | Sequence[Any], count: int) -> list[Any]:
    """One number for each of `count` axes."""
    listed = list(value) if isinstance(value, (list, tuple)) else [value]
    return listed * count if len(listed) == 1 else listed
