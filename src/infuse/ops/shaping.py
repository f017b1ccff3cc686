"""Operators that give the same elements another shape, or tell the shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import ShapeError
from infuse.ir import dims
from infuse.ir.broadcasting import broadcast_shapes
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value
from infuse.ir.relations import must_equal
from infuse.ir.types import Shape as Sizes, TensorType
from infuse.ops.core.axes import Axes
from infuse.ops.core.base import Array, Inferred, Op
from infuse.ops.core.samples import cases
from infuse.ops.core.sizes import (
    fresh_dim,
    fresh_shape,
    fresh_tensor,
    int64s,
    integers,
    known_axes,
    length,
    normalize_axes,
)
from infuse.ops.core.traits import Trait


class Shape(Op):
    """The sizes of axes `start` to `end` as a list of integers."""

    traits = Trait.TOTAL | Trait.SIZES
    start: int = 0
    end: int | None = None

    since = 15
    carries_dims = True
    samples = (cases(data=[(2, 3, 4), ()], start=[0, 1, -2], end=[None, -1, 2, 99]),)

    def infer(self, data: Value) -> Inferred:
        rank = data.tensor.rank
        count = fresh_dim("rank") if rank is None else len(range(rank)[self.start : self.end])
        return TensorType(dtypes.int64, (count,))

    def contents(self, node: Node) -> Sequence[Array | None]:
        value = node.inputs[0]
        shape = value.tensor.shape if value is not None else None
        return () if shape is None else [np.array(shape[self.start : self.end], dtype=object)]

    def eval(self, data: Array) -> Array:
        return np.array(data.shape[self.start : self.end], dtype=np.int64)


class Size(Op):
    """The number of elements."""

    traits = Trait.TOTAL | Trait.SIZES
    carries_dims = True
    samples = cases(data=[(2, 3, 4), (), (0, 3)])

    def infer(self, data: Value) -> Inferred:
        return TensorType(dtypes.int64, ())

    def contents(self, node: Node) -> Sequence[Array | None]:
        value = node.inputs[0]
        size = value.tensor.size if value is not None else None
        return () if size is None else [np.array(size, dtype=object)]

    def eval(self, data: Array) -> Array:
        return np.array(data.size, dtype=np.int64)


class Reshape(Op):
    """The same elements in the listed shape, where 0 keeps a size (unless `allowzero`) and -1 is
    what is left.
    """

    traits = Trait.RESHAPE | Trait.MOVEMENT
    allowzero: int = 0

    since = 14
    carries_dims = True
    samples = (
        cases(
            data=[(2, 3, 4), (2, 3, 4), (2, 3, 4), (1, 1), (0, 3)],
            shape=[int64s(6, 4), int64s(0, -1), int64s(-1), int64s(), int64s(0, 3)],
        ),
        cases(data=[(0, 3)], shape=[int64s(3, 0)], allowzero=[1]),
    )

    def infer(self, data: Value, shape: Value) -> Inferred:
        target = known_ints(shape)
        if target is None:
            return TensorType(data.dtype, self._unknown(data, length(shape)))
        sizes = [
            self._kept(data, i) if t == 0 and not self.allowzero else t
            for i, t in enumerate(target)
        ]
        total = data.tensor.size
        if -1 in sizes:
            self._fill(sizes, total)
        elif total is not None and not must_equal(dims.product(sizes), total):
            raise ShapeError(
                f"{data.type} has {total} elements and does not reshape to {_listed(sizes)}"
            )
        return TensorType(data.dtype, tuple(sizes))

    def _unknown(self, data: Value, rank: int | None) -> Sizes | None:
        """The shape when only its rank is known: a list of one is all elements."""
        if rank == 1 and data.tensor.size is not None:
            return (data.tensor.size,)
        return fresh_shape(rank, "reshape")

    def _kept(self, data: Value, axis: int) -> Dim:
        shape = data.tensor.shape
        if shape is None:
            return fresh_dim("reshape")
        if axis >= len(shape):
            raise ShapeError(
                f"Reshape keeps the size of axis {axis}, which {data.type} does not have"
            )
        return shape[axis]

    def _fill(self, sizes: list[Dim], total: Dim | None) -> None:
        """Replace the -1 by what is left of `total`."""
        place = sizes.index(-1)
        others = [*sizes[:place], *sizes[place + 1 :]]
        rest = dims.product(others)
        if -1 in others or rest == 0:
            raise ShapeError(f"the -1 in {_listed(sizes)} is not determined")
        if total is None:
            sizes[place] = fresh_dim("reshape")
            return
        exact = dims.exact_divide(total, rest)
        if exact is None and isinstance(total, int) and isinstance(rest, int):
            raise ShapeError(f"{total} elements do not reshape to {_listed(sizes)}")
        sizes[place] = dims.floordiv(total, rest) if exact is None else exact
        must_equal(sizes[place] * rest, total)

    def eval(self, data: Array, shape: Array) -> Array:
        keep = not self.allowzero
        if any(size < -1 for size in integers(shape)):
            raise ShapeError(f"a size of Reshape is negative: {list(integers(shape))}")
        return data.reshape(
            [data.shape[i] if t == 0 and keep else t for i, t in enumerate(integers(shape))]
        )


def _at_least_one(size: Dim) -> Dim:
    """One where a wanted size is known to be one or less, though not to be zero: it is taken to be
    one.
    """
    if isinstance(size, int) or dims.compare("<", size, 2) is not True:
        return size
    must_equal(size, 1)
    return 1


def _listed(sizes: Sequence[Dim]) -> str:
    return f"[{', '.join(map(str, sizes))}]"


class Flatten(Op):
    """A matrix: the axes before `axis` become its rows, the others its columns."""

    traits = Trait.RESHAPE | Trait.MOVEMENT | Trait.TOTAL
    axis: int = 1

    since = 11
    samples = (cases(input=[(2, 3, 4)], axis=[0, 1, 2, 3, -1]), cases(input=[(), (5,)], axis=[0]))

    def infer(self, input: Value) -> Inferred:
        shape = input.tensor.shape
        if shape is None:
            return fresh_tensor(input.dtype, 2, "flatten")
        axis = self._split(len(shape))
        return TensorType(input.dtype, (dims.product(shape[:axis]), dims.product(shape[axis:])))

    def _split(self, rank: int) -> int:
        if not -rank <= self.axis <= rank:
            raise ShapeError(f"axis {self.axis} of Flatten lies outside a tensor of rank {rank}")
        return self.axis + rank if self.axis < 0 else self.axis

    def eval(self, input: Array) -> Array:
        axis = self._split(input.ndim)
        rows = int(np.prod(input.shape[:axis]))
        return input.reshape(rows, int(np.prod(input.shape[axis:])))


class Squeeze(Op):
    """Without the given axes, which have size one; without all such axes where none are given."""

    traits = Trait.RESHAPE | Trait.MOVEMENT
    since = 13
    carries_dims = True
    samples = cases(
        data=[(1, 3, 1), (1, 3, 1), (1, 3, 1), (1, 1)],
        axes=[None, int64s(0), int64s(-1, 0), int64s(0, 1)],
    )

    def infer(self, data: Value, axes: Value | None = None) -> Inferred:
        shape = data.tensor.shape
        if shape is None:
            return TensorType(data.dtype, None)
        if axes is None:
            return TensorType(data.dtype, self._without_ones(shape))
        squeezed = known_axes(axes, len(shape), self.name)
        if squeezed is None:
            count = length(axes)
            return fresh_tensor(
                data.dtype, None if count is None else len(shape) - count, "squeeze"
            )
        for axis in squeezed:
            if not must_equal(shape[axis], 1):
                raise ShapeError(
                    f"axis {axis} of {data.type} has not size one and cannot be squeezed"
                )
        return TensorType(data.dtype, tuple(d for i, d in enumerate(shape) if i not in squeezed))

    def _without_ones(self, shape: Sizes) -> Sizes | None:
        """The rank is unknown when a symbolic size may turn out to be one."""
        if any(dims.compare("==", d, 1) is None for d in shape):
            return None
        return tuple(d for d in shape if d != 1)

    def eval(self, data: Array, axes: Array | None = None) -> Array:
        if axes is None:
            return data.reshape([n for n in data.shape if n != 1])
        return np.squeeze(data, tuple(integers(axes)))


class Unsqueeze(Op):
    """With axes of size one inserted; `axes` counts in the result."""

    traits = Trait.RESHAPE | Trait.MOVEMENT | Trait.TOTAL
    since = 13
    carries_dims = True
    samples = cases(data=[(2, 3), (2, 3), ()], axes=[int64s(0), int64s(-1, 1), int64s(0)])

    def infer(self, data: Value, axes: Value) -> Inferred:
        shape, count = data.tensor.shape, length(axes)
        if shape is None or count is None:
            return TensorType(data.dtype, None)
        rank = len(shape) + count
        inserted = known_axes(axes, rank, self.name)
        if inserted is None:
            return fresh_tensor(data.dtype, rank, "unsqueeze")
        sizes = iter(shape)
        return TensorType(
            data.dtype, tuple(1 if i in inserted else next(sizes) for i in range(rank))
        )

    def eval(self, data: Array, axes: Array) -> Array:
        inserted = integers(axes)
        return np.expand_dims(data, normalize_axes(inserted, data.ndim + len(inserted), self.name))


class Expand(Op):
    """The input broadcast against a shape; either may stretch the other."""

    traits = Trait.MOVEMENT
    since = 8
    carries_dims = True
    samples = cases(
        input=[(3, 1), (3, 1), (2, 3), (), (1,)],
        shape=[int64s(2, 1, 6), int64s(3, 4), int64s(1), int64s(2, 2), int64s(0)],
    )

    def infer(self, input: Value, shape: Value) -> Inferred:
        sizes, target = input.tensor.shape, known_ints(shape)
        if target is None and sizes is not None and length(shape) is not None:
            return TensorType(input.dtype, self._open(sizes, length(shape) or 0))
        if sizes is None or target is None:
            return TensorType(input.dtype, None)
        return TensorType(input.dtype, broadcast_shapes(sizes, tuple(map(_at_least_one, target))))

    def _open(self, sizes: tuple[Dim, ...], count: int) -> tuple[Dim, ...]:
        """The result for an unknown target of `count` sizes: no target changes a size other than
        one.
        """
        padded = (1,) * (count - len(sizes)) + sizes
        covered = len(padded) - count
        return tuple(
            d if i < covered or (isinstance(d, int) and d != 1) else fresh_dim("expand")
            for i, d in enumerate(padded)
        )

    def eval(self, input: Array, shape: Array) -> Array:
        sizes = np.broadcast_shapes(input.shape, tuple(integers(shape)))
        return np.array(np.broadcast_to(input, sizes))


class Transpose(Op):
    """The axes in another order; reversed where no order is given."""

    traits = Trait.MOVEMENT | Trait.TOTAL
    perm: tuple[int, ...] | None = None
    carries_dims = True
    samples = (
        cases(data=[(2, 3, 4)], perm=[None, (0, 1, 2), (1, 0, 2), (2, 0, 1), (0, 2, 1)]),
        cases(data=[(2, 3, 4, 5)], perm=[(0, 2, 3, 1), (0, 3, 1, 2)]),
    )

    def infer(self, data: Value) -> Inferred:
        shape = data.tensor.shape
        if shape is None:
            return fresh_tensor(
                data.dtype, None if self.perm is None else len(self.perm), "transpose"
            )
        if self.perm is not None and sorted(self.perm) != list(range(len(shape))):
            raise ShapeError(
                f"perm {list(self.perm)} of Transpose is not an order of the axes of {data.type}"
            )
        return TensorType(
            data.dtype, shape[::-1] if self.perm is None else tuple(shape[i] for i in self.perm)
        )

    def shared_axes(self, node: Node) -> Axes | None:
        rank = node.output.tensor.rank
        if rank is None:
            return None
        order = tuple(range(rank))
        return Axes((order,), order[::-1] if self.perm is None else tuple(self.perm))

    def with_axes(self, node: Node, args: Sequence[Any], axes: Axes) -> Any:
        (order,) = axes.operands
        assert order is not None
        return (
            args[0]
            if order == axes.result
            else self.called(args, perm=tuple(map(order.index, axes.result)))
        )

    def eval(self, data: Array) -> Array:
        return np.transpose(data, self.perm)
