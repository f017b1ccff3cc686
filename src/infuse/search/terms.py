"""Terms: operators applied to classes of equal terms, in a form with few spellings.

What only moves elements has operators of its own here, with everything in attributes: a Slice whose
places are constants, a Gather of constant places, a Reshape. A convolution and a product have no
bias: that is an addition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from infuse.errors import ShapeError
from infuse.ir import dims
from infuse.ir.graph import Array, Node, Value
from infuse.ir.types import Shape, TensorType
from infuse.ops.core.base import Elementwise, Op
from infuse.passes.rules.common import target_shape


@dataclass(frozen=True)
class Leaf:
    """A value from outside: what the region reads, or a constant."""

    value: Value


@dataclass(frozen=True)
class Opaque:
    """Result `index` of a node of which nothing is known but its type."""

    node: Node
    index: int = 0


class Movement:
    """An operator that takes elements from one place to another."""

    def shape(self, *shapes: Shape) -> Shape:
        """The shape of the result."""
        raise NotImplementedError

    def apply(self, *arrays: Array) -> Array:
        """The result for constants."""
        raise NotImplementedError


@dataclass(frozen=True)
class SliceTerm(Movement):
    """The elements from `start` to before `stop`, each `step`-th, along an axis."""

    axis: int
    start: int
    stop: int
    step: int = 1

    @staticmethod
    def to(axis: int, start: int, stop: int, step: int = 1) -> SliceTerm:
        """The cut of at least one element, ending right after the last one."""
        return SliceTerm(axis, start, start + (stop - 1 - start) // step * step + 1, step)

    @property
    def size(self) -> int:
        return -((self.start - self.stop) // self.step)

    def shape(self, *shapes: Shape) -> Shape:
        return with_size(shapes[0], self.axis, self.size)

    def apply(self, *arrays: Array) -> Array:
        place = slice(self.start, self.stop, self.step)
        return arrays[0][(slice(None),) * self.axis + (place,)]


@dataclass(frozen=True)
class GatherTerm(Movement):
    """The elements at these places along an axis, in this order."""

    axis: int
    places: tuple[int, ...]

    @cached_property
    def is_permutation(self) -> bool:
        return sorted(self.places) == list(range(len(self.places)))

    def shape(self, *shapes: Shape) -> Shape:
        return with_size(shapes[0], self.axis, len(self.places))

    def apply(self, *arrays: Array) -> Array:
        result: Array = np.take(arrays[0], self.places, axis=self.axis)
        return result


@dataclass(frozen=True)
class TransposeTerm(Movement):
    """The axes in another order, as a Transpose has them."""

    perm: tuple[int, ...]

    def shape(self, *shapes: Shape) -> Shape:
        return tuple(shapes[0][p] for p in self.perm)

    def apply(self, *arrays: Array) -> Array:
        result: Array = arrays[0].transpose(self.perm)
        return result

    @property
    def inverse(self) -> TransposeTerm:
        return TransposeTerm(tuple(self.perm.index(i) for i in range(len(self.perm))))


@dataclass(frozen=True)
class ReshapeTerm(Movement):
    """The elements in order, in another shape."""

    target: Shape

    def shape(self, *shapes: Shape) -> Shape:
        return self.target

    def apply(self, *arrays: Array) -> Array:
        return arrays[0].reshape(self.target)


@dataclass(frozen=True)
class ConcatTerm(Movement):
    """Tensors one after another along an axis."""

    axis: int

    def shape(self, *shapes: Shape) -> Shape:
        total: dims.Dim = 0
        for shape in shapes:
            total = total + shape[self.axis]
        return with_size(shapes[0], self.axis, total)

    def apply(self, *arrays: Array) -> Array:
        return np.concatenate(arrays, axis=self.axis)


@dataclass(frozen=True)
class PadTerm(Movement):
    """Zeros added before and after each axis; for constants."""

    before: tuple[int, ...]
    after: tuple[int, ...]

    def shape(self, *shapes: Shape) -> Shape:
        return tuple(b + size + a for b, size, a in zip(self.before, shapes[0], self.after))

    def apply(self, *arrays: Array) -> Array:
        return np.pad(arrays[0], list(zip(self.before, self.after)))


Head = Op | Leaf | Opaque | Movement


@dataclass(frozen=True)
class Term:
    """An operator and the classes of its operands."""

    head: Head
    args: tuple[int, ...] = ()

    @cached_property
    def kind(self) -> str:
        """The operator's name."""
        return kind_of(self.head)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.head, self.args))


@dataclass(frozen=True)
class Apply:
    """What an equality builds: an operator on classes and on further such expressions."""

    head: Head
    args: tuple[Expression, ...]


Expression = int | Apply


def kind_of(head: Head) -> str:
    """The name by which equalities look for an operator."""
    return head.name if isinstance(head, Op) else type(head).__name__


def apply(head: Head, *args: Expression) -> Apply:
    """The operator on these operands."""
    return Apply(head, args)


def with_size(shape: Shape, axis: int, size: dims.Dim) -> Shape:
    """The shape with another size along an axis."""
    return (*shape[:axis], size, *shape[axis + 1 :])


def result_type(head: Head, operands: Sequence[TensorType]) -> TensorType:
    """The type of an operator's result; an InfuseError where the operands do not fit."""
    if isinstance(head, Leaf):
        return head.value.tensor
    if isinstance(head, Opaque):
        return head.node.outputs[head.index].tensor
    shapes = [t.shape for t in operands]
    assert all(shape is not None for shape in shapes)
    if isinstance(head, ReshapeTerm) and shapes[0] is not None:
        require_reshape(shapes[0], head.target)
    if isinstance(head, Movement):
        return TensorType(operands[0].dtype, head.shape(*(s for s in shapes if s is not None)))
    assert isinstance(head, Op)
    inferred = head.infer(*(Value(t) for t in operands))
    result = inferred[0] if isinstance(inferred, tuple) else inferred
    assert isinstance(result, TensorType)
    return result


def require_reshape(shape: Shape, target: Shape) -> None:
    """ShapeError where a constant target of Reshape cannot say it, or the number of elements would
    change.
    """
    if dims.product(shape) != dims.product(target) or target_shape(shape, target) is None:
        raise ShapeError(f"{list(map(str, shape))} cannot be reshaped to {list(map(str, target))}")


def folded(head: Head, arrays: Sequence[Array]) -> Array:
    """The result of an operator on constants: floats are computed in float64, to be rounded once in
    the end.
    """
    if isinstance(head, Movement):
        return head.apply(*arrays)
    assert isinstance(head, Op)
    result = head.eval(*arrays)
    return np.asarray(result[0] if isinstance(result, tuple) else result)


def is_pointwise(head: Any) -> bool:
    """Whether an operator treats every element alike."""
    return isinstance(head, Elementwise)
