"""Rows of the generated operator table: sample inputs as arrays, in any floating type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir.graph import Array, Node, Value, constant
from infuse.ir.types import MapType, OptionalType, SequenceType, TensorType, Type
from infuse.ops.core.base import Op, Sample
from infuse.ops.core.samples import Bools, Floats, Ints, sample_rows
from infuse.ops.core.signatures import signature


@dataclass(frozen=True)
class Row:
    """One operator with attributes, and arrays for its inputs: None is absent, a list is a
    sequence.

    `fixed` tells which inputs the sample gives as arrays, hence constants (axes, limits, special
    values …).
    """

    op: Op
    inputs: tuple[Any, ...]
    fixed: tuple[bool, ...]

    def __str__(self) -> str:
        attributes = ", ".join(
            f"{k}={v}" for k, v in self.op.attributes().items() if not _is_unset(v)
        )
        return f"{self.op.name}[{', '.join(map(_describe, self.inputs))}]({attributes})"

    @property
    def has_random_floats(self) -> bool:
        """Whether some input is made of random float32 elements."""
        flags = zip(self.inputs, self.fixed)
        return any(
            not fixed and isinstance(x, np.ndarray) and x.dtype == np.float32 for x, fixed in flags
        )

    def cast(self, dtype: DType) -> Row:
        """The same row with float32 inputs in another floating type."""
        return Row(self.op, tuple(_cast(x, dtype) for x in self.inputs), self.fixed)


def rows(op: type[Op], rng: np.random.Generator) -> list[Row]:
    """All sample rows of an operator, random inputs drawn from `rng`."""
    return [materialize(op, sample, rng) for sample in sample_rows(op)]


def materialize(op: type[Op], sample: Sample, rng: np.random.Generator) -> Row:
    """One sample with arrays in place of shapes."""
    expected = signature(op)
    arrays = dict(sample.inputs)
    inputs: list[Any] = []
    fixed: list[bool] = []
    for number, name in enumerate(expected.names):
        spec = arrays.pop(name, None)
        spread = expected.variadic and number == len(expected.names) - 1
        for one in spec if spread and spec is not None else [spec]:
            inputs.append(draw(one, rng))
            fixed.append(isinstance(one, (np.ndarray, np.generic)))
    if arrays:
        raise ValueError(
            f"{op.name} has no inputs {', '.join(arrays)}; its inputs: {', '.join(expected.names)}"
        )
    while inputs and inputs[-1] is None:
        inputs.pop()
        fixed.pop()
    return Row(op(**sample.attributes), tuple(inputs), tuple(fixed))


def draw(spec: Any, rng: np.random.Generator) -> Any:
    """An input as `cases` tells: a shape (of float32), `Ints`, `Floats`, `Bools`, an array, a list,
    a dict, or None.
    """
    if spec is None:
        return None
    if isinstance(spec, Ints):
        return rng.integers(spec.low, spec.high, spec.shape).astype(spec.dtype.numpy)
    if isinstance(spec, Floats):
        return np.asarray(rng.uniform(spec.low, spec.high, spec.shape)).astype(spec.dtype.numpy)
    if isinstance(spec, Bools):
        return np.asarray(rng.random(spec.shape) < 0.5)
    if isinstance(spec, dict):
        return spec
    if isinstance(spec, list):
        return [draw(one, rng) for one in spec]
    if isinstance(spec, tuple):
        return np.asarray(rng.uniform(-3, 3, spec)).astype(np.float32)
    return np.asarray(spec)


def type_of(x: Any, hint: Type | None = None) -> Type:
    """The type of an array, a list of arrays, a dict or nothing; `hint`: what an empty list or an
    optional holds.
    """
    if isinstance(hint, OptionalType):
        return hint if x is None else OptionalType(type_of(x, hint.element))
    if isinstance(x, list):
        if not x:
            return hint or SequenceType(TensorType(dtypes.float32, None))
        first = type_of(x[0])
        same = all(type_of(one) == first for one in x)
        return SequenceType(
            first if same or not isinstance(first, TensorType) else TensorType(first.dtype, None)
        )
    if isinstance(x, dict):
        key, element = next(iter(x.items()), (0, 0.0))
        scalar = np.asarray(element, np.float32 if isinstance(element, float) else None)
        return MapType(dtypes.string if isinstance(key, str) else dtypes.int64, type_of(scalar))
    if x is None:
        return OptionalType(TensorType(dtypes.float32, None))
    return TensorType(dtypes.by_numpy(x.dtype), tuple(int(d) for d in x.shape))


def node_of(row: Row, shapes: Sequence[Type | None] | None = None, outputs: int = 1) -> Node:
    """A node of this row. Fixed and integer inputs are constants, so that types may depend on them.

    `shapes` gives types for the other inputs in place of their own (for symbolic sizes).
    """
    values: list[Value | None] = []
    for number, x in enumerate(row.inputs):
        if x is None:
            values.append(None)
        elif isinstance(x, np.ndarray) and is_constant(row, number):
            values.append(constant(x))
        else:
            shape = shapes[number] if shapes is not None else None
            values.append(Value(shape or type_of(x), f"x{number}"))
    return Node(
        row.op, values, [Value(TensorType(dtypes.float32, None), f"y{i}") for i in range(outputs)]
    )


def is_constant(row: Row, number: int) -> bool:
    """Whether `node_of` makes this input a constant."""
    x = row.inputs[number]
    return isinstance(x, np.ndarray) and (row.fixed[number] or dtypes.by_numpy(x.dtype).is_integer)


def results(row: Row) -> tuple[Any, ...]:
    """All outputs of `eval` for this row."""
    result = row.op.eval(*row.inputs)
    return result if isinstance(result, tuple) else (result,)


def _cast(x: Any, dtype: DType) -> Any:
    if isinstance(x, list):
        return [_cast(one, dtype) for one in x]
    narrow: bool = isinstance(x, np.ndarray) and x.dtype == np.float32
    with np.errstate(over="ignore"):
        return x.astype(dtype.numpy) if narrow else x


def _is_unset(attribute: Any) -> bool:
    return attribute is None or (isinstance(attribute, (tuple, str)) and not attribute)


def _describe(x: Any) -> str:
    if isinstance(x, list):
        return f"[{', '.join(map(_describe, x))}]"
    if isinstance(x, dict):
        return f"{{{len(x)}}}"
    return "-" if x is None else f"{x.dtype}{list(x.shape)}"


__all__ = [
    "Array",
    "Row",
    "draw",
    "is_constant",
    "materialize",
    "node_of",
    "results",
    "rows",
    "type_of",
]
