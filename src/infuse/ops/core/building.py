"""Building a graph node by node, in the words of the operators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import UnsupportedOperatorError
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.expression import Call
from infuse.ir.graph import Graph, Value, constant
from infuse.ir.operator import Operator
from infuse.ir.registry import make_operator
from infuse.ir.types import TensorType


class GraphBuilder(ABC):
    """Adds nodes to a graph; their types are known as soon as they are made.

    Operands are values or expressions of values; numbers become constants of the type of the first
    tensor beside them.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @abstractmethod
    def apply(self, op: Operator, inputs: Sequence[Value | None], count: int = 1) -> list[Value]:
        """The outputs of a new node with this operator."""

    @abstractmethod
    def ints(self, *values: Dim) -> Value:
        """A list of sizes or axes, symbolic ones included."""

    def size(self, value: Dim) -> Value:
        """One size as a scalar."""
        return self.reshape(self.ints(value))

    def range(self, count: Dim) -> Value:
        """0, 1, … count - 1 as int64."""
        if isinstance(count, int):
            return constant(np.arange(count, dtype=np.int64))
        return self("Range", self.size(0), self.size(count), self.size(1))

    def asks(self, output: int) -> bool:
        """Whether somebody reads this output of the operator whose body is built."""
        return True

    def refuse(self, why: str) -> NoReturn:
        """Raise the error for an operator that cannot be expressed so."""
        raise UnsupportedOperatorError(f"there is no evaluation for {why}")

    def __call__(self, what: str | Call | Value, *operands: Any, **attributes: Any) -> Value:
        """The value of an expression, or the first output of the operator of that name."""
        if isinstance(what, Value):
            return what
        if isinstance(what, Call):
            return self(what.kind, *what.args, **what.attributes)
        return self.several(1, what, *operands, **attributes)[0]

    def several(self, count: int, kind: str, *operands: Any, **attributes: Any) -> list[Value]:
        """All `count` outputs of a new node."""
        values = [self(v) if isinstance(v, Call) else v for v in operands]
        dtype = next((v.dtype for v in values if isinstance(v, Value)), dtypes.float32)
        inputs = [v if v is None or isinstance(v, Value) else self.number(v, dtype) for v in values]
        hashable = {k: tuple(v) if isinstance(v, list) else v for k, v in attributes.items()}
        return self.apply(make_operator("", kind, hashable), inputs, count)

    def number(self, value: float, dtype: DType) -> Value:
        """A scalar constant."""
        return constant(np.asarray(value), dtype=dtype)

    # -- everyday operators, done at once on constants ---------------------------------------------

    def cast(self, value: Value, dtype: DType) -> Value:
        """`value` in another element type."""
        if value.dtype == dtype:
            return value
        if value.const is not None:
            return constant(value.const.astype(dtype.numpy))
        return self("Cast", value, to=dtype)

    def reshape(self, value: Value, *shape: Dim) -> Value:
        """`value` in another shape."""
        if shape == value.shape:
            return value
        if value.const is not None and all(isinstance(d, int) for d in shape):
            return constant(value.const.reshape([int(d) for d in shape if isinstance(d, int)]))
        result = self("Reshape", value, self.ints(*shape), allowzero=1)
        result.type = TensorType(value.dtype, shape)
        return result

    def permute(self, value: Value, *perm: int) -> Value:
        """`value` with its axes in another order."""
        if perm == tuple(range(value.rank)):
            return value
        if value.const is not None:
            return constant(np.transpose(value.const, perm))
        return self("Transpose", value, perm=perm)

    def slice(self, value: Value, axis: int, start: Dim, end: Dim, step: int = 1) -> Value:
        """Elements start, start + step, … before end of one axis; symbolic limits must lie
        inside.
        """
        if value.const is not None and isinstance(start, int) and isinstance(end, int):
            place = (slice(None),) * axis + (slice(start, end, step),)
            return constant(np.ascontiguousarray(value.const[place]))
        result = self("Slice", value, *(self.ints(i) for i in (start, end, axis, step)))
        if step > 0 and not isinstance(result.shape[axis], int):
            size = dims.ceildiv(end - start, step)
            result.type = TensorType(
                value.dtype, (*value.shape[:axis], size, *value.shape[axis + 1 :])
            )
        return result

    def pad(self, value: Value, axis: int, before: Dim, after: Dim) -> Value:
        """Zeros before and after the elements of one axis; negative numbers cut."""
        if before == 0 and after == 0:
            return value
        amounts = [n for n in (before, after) if isinstance(n, int) and n >= 0]
        if value.const is not None and len(amounts) == 2:
            width = [(0, 0)] * value.rank
            width[axis] = (amounts[0], amounts[1])
            return constant(np.pad(value.const, width))
        return self("Pad", value, self.ints(before, after), None, self.ints(axis))

    def reduce(self, kind: str, value: Value | Call, *axes: int) -> Value:
        """A reduction over axes that stay with size one."""
        return self(kind, value, self.ints(*axes), keepdims=1)


def sizes_of(values: Sequence[Dim], name: str = "") -> Value:
    """A list of sizes: a constant, or a value with symbolic content."""
    if all(isinstance(value, int) for value in values):
        return constant(np.array(values, np.int64))
    result = Value(TensorType(dtypes.int64, (len(values),)), name)
    result.content = np.array([*values, None], dtype=object)[:-1]
    return result
