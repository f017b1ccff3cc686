"""Sequences of tensors and values that may be absent. A sequence is a list in evaluation, an absent
value None.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ShapeError, TypeMismatchError
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value
from infuse.ir.types import OptionalType, SequenceType, Shape, TensorType, Type
from infuse.ops.core.base import Array, Inferred, Op, Sample, normalize_axis
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import agree, fresh_dim, int64s, integers, merge_types, scalar, with_dim
from infuse.ops.core.traits import Trait


def element(sequence: Value, op: str) -> Type:
    """The type of a sequence's elements; TypeMismatchError when the value is no sequence."""
    if not isinstance(sequence.type, SequenceType):
        raise TypeMismatchError(f"{op} needs a sequence, found {sequence.type}")
    return sequence.type.element


def place_in(sequence: list[Any], position: Array | None, op: str, *, end: int) -> int:
    """A possibly negative position as an index below `end`; the last one where none is given."""
    index = end - 1 if position is None else int(scalar(position))
    if not -len(sequence) <= index < end:
        raise ShapeError(f"position {index} of {op} lies outside a sequence of {len(sequence)}")
    return index + len(sequence) if index < 0 else index


class SequenceConstruct(Op):
    """A sequence of the inputs."""

    traits = Trait.ZERO_FLOPS

    since = 11
    samples = (
        Sample({"inputs": [(2, 3), (2, 3), (1, 3)]}, {}),
        Sample({"inputs": [Ints((4,))]}, {}),
    )

    def infer(self, *inputs: Value) -> Inferred:
        types: list[Type] = [v.tensor for v in inputs]
        return SequenceType(reduce(lambda a, b: merge_types(a, b, "element"), types))

    def eval(self, *inputs: Array) -> list[Array]:
        return list(inputs)


class SequenceEmpty(Op):
    """A sequence of nothing, for elements of type `dtype`."""

    traits = Trait.ZERO_FLOPS

    dtype: DType | None = None
    since = 11
    samples = cases(dtype=[None, dtypes.int64])

    def infer(self) -> Inferred:
        return SequenceType(TensorType(self.dtype or dtypes.float32, None))

    def eval(self) -> list[Array]:
        return []


class SequenceAt(Op):
    """The element at a position; negative ones count from the end."""

    traits = Trait.ZERO_FLOPS

    since = 11
    samples = cases(
        input_sequence=[[(2, 3), (1, 3)], [(2,), (3,)]], position=[np.array(1), np.array(-2)]
    )

    def infer(self, input_sequence: Value, position: Value) -> Inferred:
        return element(input_sequence, self.name)

    def eval(self, input_sequence: list[Array], position: Array) -> Array:
        return input_sequence[
            place_in(input_sequence, position, self.name, end=len(input_sequence))
        ]


class SequenceInsert(Op):
    """The sequence with a tensor inserted before a position; at the end where none is given."""

    traits = Trait.ZERO_FLOPS

    since = 11
    samples = cases(
        input_sequence=[[(2, 3), (1, 3)], [(2,), (3,)], [(1,)]],
        tensor=[(4, 3), (1,), (2,)],
        position=[None, np.array(-1), np.array(0)],
    )

    def infer(
        self, input_sequence: Value, tensor: Value, position: Value | None = None
    ) -> Inferred:
        return SequenceType(merge_types(element(input_sequence, self.name), tensor.type, "element"))

    def eval(
        self, input_sequence: list[Array], tensor: Array, position: Array | None = None
    ) -> list[Array]:
        place = place_in(input_sequence, position, self.name, end=len(input_sequence) + 1)
        return [*input_sequence[:place], tensor, *input_sequence[place:]]


class SequenceErase(Op):
    """The sequence without the element at a position; without the last where none is given."""

    traits = Trait.ZERO_FLOPS

    since = 11
    samples = cases(
        input_sequence=[[(2, 3), (1, 3)], [(2,), (3,)], [(1,), (2,)]],
        position=[None, np.array(-2), np.array(1)],
    )

    def infer(self, input_sequence: Value, position: Value | None = None) -> Inferred:
        return SequenceType(element(input_sequence, self.name))

    def eval(self, input_sequence: list[Array], position: Array | None = None) -> list[Array]:
        place = place_in(input_sequence, position, self.name, end=len(input_sequence))
        return input_sequence[:place] + input_sequence[place + 1 :]


class SequenceLength(Op):
    """The number of elements."""

    traits = Trait.SIZES

    since = 11
    samples = cases(input_sequence=[[(2,), (3,)], [(1, 1)]])

    def infer(self, input_sequence: Value) -> Inferred:
        element(input_sequence, self.name)
        return TensorType(dtypes.int64, ())

    def eval(self, input_sequence: list[Array]) -> Array:
        return np.array(len(input_sequence), dtype=np.int64)


class ConcatFromSequence(Op):
    """The elements one after another along an axis, or stacked along a new one."""

    traits = Trait.ZERO_FLOPS

    axis: int
    new_axis: int = 0
    since = 11
    samples = (
        cases(input_sequence=[[(2, 3), (2, 1)]], axis=[1, -1]),
        cases(input_sequence=[[(2, 3), (2, 3)]], axis=[0, -1, 2], new_axis=[1]),
    )

    def infer(self, input_sequence: Value) -> Inferred:
        part = element(input_sequence, self.name)
        if not isinstance(part, TensorType):
            raise TypeMismatchError(
                f"{self.name} needs a sequence of tensors, found {input_sequence.type}"
            )
        if part.shape is None:
            return TensorType(part.dtype, None)
        axis = normalize_axis(self.axis, len(part.shape) + bool(self.new_axis), self.name)
        rest = part.shape[axis:] if self.new_axis else part.shape[axis + 1 :]
        return TensorType(part.dtype, (*part.shape[:axis], fresh_dim("concat"), *rest))

    def eval(self, input_sequence: list[Array]) -> Array:
        return (np.stack if self.new_axis else np.concatenate)(input_sequence, self.axis)


class SplitToSequence(Op):
    """A sequence of parts along an axis: of the listed sizes, of one size with a smaller last part,
    or of size one.

    Parts of size one lose the axis where `keepdims` is 0 and no split is given.
    """

    traits = Trait.ZERO_FLOPS

    axis: int = 0
    keepdims: int = 1
    since = 11
    samples = (
        cases(input=[(5, 6), (5, 6)], split=[int64s(2, 3), np.array(2)]),
        cases(input=[(4, 3)], axis=[0, 1, -1], keepdims=[0, 1]),
    )

    def infer(self, input: Value, split: Value | None = None) -> Inferred:
        shape = input.tensor.shape
        if shape is None:
            return SequenceType(TensorType(input.dtype, None))
        axis = normalize_axis(self.axis, len(shape), self.name)
        if split is None and not self.keepdims:
            return SequenceType(TensorType(input.dtype, shape[:axis] + shape[axis + 1 :]))
        return SequenceType(
            TensorType(input.dtype, with_dim(shape, axis, self._part(shape, axis, split)))
        )

    def _part(self, shape: Shape, axis: int, split: Value | None) -> Dim:
        """The size that all parts have, or a fresh one."""
        sizes = (1,) if split is None else known_ints(split)
        if not sizes or any(dims.compare("<=", s, 0) for s in sizes):
            return fresh_dim("split")
        size = shape[axis]
        if split is not None and split.tensor.rank == 0:
            exact = isinstance(size, int) and isinstance(sizes[0], int) and size % sizes[0] == 0
            return sizes[0] if exact else fresh_dim("split")
        if split is not None:
            agree(sum(sizes), size, "the axis and the sum of its parts")
        return sizes[0] if all(s == sizes[0] for s in sizes) else fresh_dim("split")

    def eval(self, input: Array, split: Array | None = None) -> list[Array]:
        size = input.shape[self.axis]
        if split is None and not self.keepdims:
            return [np.take(input, i, self.axis) for i in range(size)]
        if split is None or split.ndim == 0:
            limits = list(range(0, size, 1 if split is None else int(scalar(split))))[1:]
        else:
            limits = np.cumsum(integers(split))[:-1].tolist()
        return np.split(input, limits, self.axis)


class Optional(Op):
    """The input as a value that may be absent; the absent value of `type` where there is no
    input.
    """

    traits = Trait.ZERO_FLOPS

    type: Type | None = None
    since = 15
    samples = cases(input=[(2, 3), None], type=[TensorType(dtypes.float32, (2, 3))])

    def infer(self, input: Value | None = None) -> Inferred:
        if input is not None:
            return OptionalType(input.type)
        if self.type is None:
            raise TypeMismatchError("Optional needs an input or a type")
        return self.type if isinstance(self.type, OptionalType) else OptionalType(self.type)

    def eval(self, input: Any = None) -> Any:
        return input


def is_there(value: Value | None) -> bool | None:
    """Whether an optional holds something; None where only the run tells."""
    if value is None or not isinstance(value.type, OptionalType):
        return value is not None
    maker = value.producer
    if maker is None or maker.kind != Optional.name or maker.op.domain:
        return None
    return bool(maker.inputs)


class OptionalHasElement(Op):
    """Whether the value is there."""

    traits = Trait.SIZES

    since = 18
    carries_dims = True
    samples = cases(input=[(2, 3), None])

    def infer(self, input: Value | None = None) -> Inferred:
        return TensorType(dtypes.bool_, ())

    def contents(self, node: Node) -> Sequence[Array | None]:
        there = is_there(node.input(0))
        return () if there is None else [np.array(there, dtype=object)]

    def eval(self, input: Any = None) -> Array:
        return np.array(input is not None)


class OptionalGetElement(Op):
    """The value itself; an error when it is absent."""

    traits = Trait.ZERO_FLOPS

    since = 18
    samples = cases(input=[(2, 3)])

    def infer(self, input: Value) -> Inferred:
        return input.type.element if isinstance(input.type, OptionalType) else input.type

    def eval(self, input: Any) -> Any:
        if input is None:
            raise TypeMismatchError("OptionalGetElement is given an absent value")
        return input
