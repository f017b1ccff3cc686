"""Operators that join, cut and repeat tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse.errors import ShapeError
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.expression import Call
from infuse.ir.graph import Node, Value
from infuse.ir.relations import must_equal
from infuse.ir.types import Shape, TensorType, Type
from infuse.ops.core.axes import Axes, same_axes
from infuse.ops.core.base import Array, Inferred, Op, Sample, normalize_axis, same_dtype
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import (
    FAR,
    agree_shapes,
    fresh_dim,
    fresh_tensor,
    int64s,
    integers,
    known_axes,
    length,
    normalize_axes,
    scalar,
    with_dim,
)
from infuse.ops.core.traits import Trait


class Concat(Op):
    """The inputs one after another along an axis."""

    traits = Trait.TOTAL | Trait.ZERO_FLOPS

    axis: int

    since = 11
    carries_dims = True
    samples = (
        Sample({"inputs": [(2, 3), (2, 1), (2, 4)]}, {"axis": 1}),
        Sample({"inputs": [(2, 3), (1, 3)]}, {"axis": -2}),
        Sample({"inputs": [(4,)]}, {"axis": 0}),
        Sample({"inputs": [(2, 1, 3, 4), (2, 5, 3, 4)]}, {"axis": 1}),
        Sample({"inputs": [Ints((2,)), Ints((1,))]}, {"axis": 0}),
    )

    def shared_axes(self, node: Node) -> Axes | None:
        rank = node.output.tensor.rank
        if not rank:
            return None
        return same_axes(node, [normalize_axis(self.axis, rank, self.name)], len(node.inputs))

    def with_axes(self, node: Node, args: Sequence[Any], axes: Axes) -> Call | None:
        if any(order != axes.result for order in axes.operands):
            return None
        return self.called(args, axis=axes.result.index(*axes.mixed))

    def infer(self, *inputs: Value) -> Inferred:
        dtype = same_dtype(self.name, *inputs)
        shapes = [v.tensor.shape for v in inputs]
        rank = next((len(s) for s in shapes if s is not None), None)
        if rank is None:
            return TensorType(dtype, None)
        axis = normalize_axis(self.axis, rank, self.name)
        common: Shape | None = None
        total: Dim = 0
        for shape in shapes:
            shape = shape if shape is not None else _unknown(rank)
            total = total + shape[axis] if len(shape) == rank else total
            rest = with_dim(shape, axis, 0) if len(shape) == rank else shape
            common = (
                rest if common is None else agree_shapes(common, rest, "sizes of joined tensors")
            )
        assert common is not None
        return TensorType(dtype, with_dim(common, axis, total))

    def eval(self, *inputs: Array) -> Array:
        return np.concatenate(inputs, axis=self.axis)


def _unknown(rank: int) -> Shape:
    return tuple(fresh_dim("concat") for _ in range(rank))


class Split(Op):
    """Parts of the input along an axis: of the sizes in `split`, or `num_outputs` equal ones with a
    smaller last.
    """

    traits = Trait.MOVEMENT | Trait.SELECTION
    num_outputs: int | None = None
    axis: int = 0

    since = 18
    carries_dims = True
    samples = (
        cases(
            input=[(6, 4), (6, 4), (5,)],
            split=[int64s(2, 4), int64s(1, 0, 5), int64s(5)],
        ),
        cases(input=[(6, 5), (4, 8)], num_outputs=[2, 3], axis=[1, -1]),
    )

    def infer(self, input: Value, split: Value | None = None) -> Inferred:
        count = self.num_outputs if split is None else length(split)
        return self._parts(input, split, count or 0)

    def infer_types(self, node: Node) -> Sequence[Type]:
        split = node.input(1)
        if split is not None and length(split) is None and node.inputs[0] is not None:
            return self._parts(node.inputs[0], None, len(node.outputs), has_sizes=False)
        return super().infer_types(node)

    def _parts(
        self, input: Value, split: Value | None, count: int, has_sizes: bool = True
    ) -> tuple[Type, ...]:
        shape = input.tensor.shape
        if shape is None:
            return (TensorType(input.dtype, None),) * count
        axis = normalize_axis(self.axis, len(shape), self.name)
        sizes = self._sizes(shape[axis], split, count) if has_sizes else None
        return tuple(
            TensorType(
                input.dtype,
                with_dim(shape, axis, fresh_dim("split") if sizes is None else sizes[i]),
            )
            for i in range(count)
        )

    def _sizes(self, dim: Dim, split: Value | None, count: int) -> Sequence[Dim] | None:
        if split is None:
            return equal_parts(dim, count)
        sizes = known_ints(split)
        if sizes is not None and not must_equal(sum(sizes), dim):
            raise ShapeError(f"the parts {list(sizes)} of Split do not add up to {dim}")
        return sizes

    def eval(self, input: Array, split: Array | None = None) -> tuple[Array, ...]:
        size = input.shape[self.axis]
        sizes = integers(split) if split is not None else equal_parts(size, self.num_outputs or 0)
        if sum(sizes) != size:
            raise ShapeError(f"the parts {list(sizes)} of Split do not add up to {size}")
        return tuple(np.split(input, np.cumsum(sizes)[:-1].tolist(), axis=self.axis))


def equal_parts(dim: Dim, count: int) -> list[Any]:
    """Sizes of `count` parts of `dim`, all equal but a smaller last one; ShapeError when that
    cannot be.
    """
    if count < 1:
        raise ShapeError("Split needs the sizes of its parts or their number")
    part = dims.exact_divide(dim, count)
    part = dims.ceildiv(dim, count) if part is None else part
    last = dim - part * (count - 1)
    if isinstance(last, int) and last < 0:
        raise ShapeError(f"{dim} does not split into {count} parts of {part}")
    return [part] * (count - 1) + [last]


class Slice(Op):
    """Every `steps`-th element from `starts` to before `ends` of each axis; negative ones count
    from the end.
    """

    traits = Trait.MOVEMENT | Trait.SELECTION
    since = 10
    carries_dims = True
    samples = cases(
        data=[(5, 6), (5, 6), (5, 6), (5, 6), (5, 6), (3,), (4, 5)],
        starts=[
            int64s(1),
            int64s(-3, 1),
            int64s(-1),
            int64s(4, 0),
            int64s(9),
            int64s(0),
            int64s(-(2**62), 3),
        ],
        ends=[
            int64s(3),
            int64s(-1, 2**63 - 1),
            int64s(-(2**62)),
            int64s(0, 6),
            int64s(12),
            int64s(0),
            int64s(9, -9),
        ],
        axes=[None, None, int64s(1), int64s(0, -1), int64s(0), None, int64s(0, 1)],
        steps=[None, int64s(1, 2), int64s(-1), int64s(-2, 4), None, None, int64s(3, -1)],
    )

    def infer(
        self,
        data: Value,
        starts: Value,
        ends: Value,
        axes: Value | None = None,
        steps: Value | None = None,
    ) -> Inferred:
        shape = data.tensor.shape
        if shape is None:
            return TensorType(data.dtype, None)
        count = length(starts)
        if axes is None:
            cut = None if count is None else tuple(range(count))
        else:
            cut = known_axes(axes, len(shape), self.name)
        if cut is None:
            return fresh_tensor(data.dtype, len(shape), "slice")
        if len(cut) > len(shape) or any(
            length(v) not in (None, len(cut)) for v in (starts, ends, steps)
        ):
            raise ShapeError(
                f"Slice of {data.type} needs one start, end and step for each of its {len(cut)} "
                "axes"
            )
        columns = [
            known_ints(starts),
            known_ints(ends),
            (1,) * len(cut) if steps is None else known_ints(steps),
        ]
        for place, axis in enumerate(cut):
            start, end, step = (None if c is None else c[place] for c in columns)
            shape = with_dim(shape, axis, sliced_size(shape[axis], start, end, step))
        return TensorType(data.dtype, shape)

    def shared_axes(self, node: Node) -> Axes | None:
        cut = self.cut_axes(node)
        return None if cut is None else same_axes(node, cut)

    def with_axes(self, node: Node, args: Sequence[Any], axes: Axes) -> Call | None:
        cut = self.cut_axes(node)
        if cut is None or axes.operands[0] != axes.result:
            return None
        places = int64s(*(axes.result.index(axis) for axis in cut))
        return self.called((*args[:3], places, *args[4:]))

    def cut_axes(self, node: Node) -> tuple[int, ...] | None:
        """The axes that a node cuts, in the order of its ranges; None where they are not known."""
        data, starts, axes = node.inputs[0], node.inputs[1], node.input(3)
        assert data is not None
        if data.tensor.rank is None:
            return None
        if axes is not None:
            return known_axes(axes, data.rank, self.name)
        count = length(starts)
        return None if count is None else tuple(range(count))

    def eval(
        self,
        data: Array,
        starts: Array,
        ends: Array,
        axes: Array | None = None,
        steps: Array | None = None,
    ) -> Array:
        first, last = integers(starts), integers(ends)
        cut = normalize_axes(
            integers(axes) if axes is not None else range(len(first)), data.ndim, self.name
        )
        for axis, start, end, step in zip(
            cut, first, last, integers(steps) if steps is not None else [1] * len(first)
        ):
            begin, stop = bounds(data.shape[axis], start, end, step)
            data = data[(slice(None),) * axis + (slice(begin, None if stop < 0 else stop, step),)]
        return np.array(data)


def bounds(size: int, start: int, end: int, step: int) -> tuple[int, int]:
    """First index and the index after the last (-1 before the first) of a slice of an axis."""
    if step == 0:
        raise ShapeError("a step of Slice is zero")
    start, end = (start + size if start < 0 else start), (end + size if end < 0 else end)
    if step > 0:
        return min(max(start, 0), size), min(max(end, 0), size)
    return max(min(start, size - 1), 0) if size else -1, max(min(end, size - 1), -1)


def sliced_size(size: Dim, start: Dim | None, end: Dim | None, step: Dim | None) -> Dim:
    """How many elements a slice of an axis has; a fresh size where that is not known."""
    if not isinstance(step, int) or start is None or end is None:
        return fresh_dim("slice")
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
        return len(range(*bounds(size, start, end, step), step))
    first, last = _from_front(start, size), _from_front(end, size)
    if first is None or last is None or step == 0:
        return fresh_dim("slice")
    if step > 0:
        count = dims.ceildiv(dims.minimum(last, size) - dims.maximum(first, 0), step)
    else:
        begin = dims.minimum(dims.maximum(first, 0), size - 1)
        count = dims.ceildiv(begin - dims.maximum(dims.minimum(last, size - 1), -1), -step)
    return dims.maximum(count, 0)


def _from_front(index: Dim, size: Dim) -> Dim | None:
    """An index counted from the front, at least -1 and at most `size` where far away; None when its
    sign is unknown.
    """
    if isinstance(index, int) and abs(index) >= FAR:
        return size if index > 0 else -1
    negative = dims.compare("<", index, 0)
    return None if negative is None else index + size if negative else index


class Tile(Op):
    """The input repeated along each axis."""

    traits = Trait.MOVEMENT
    since = 6
    carries_dims = True
    samples = cases(input=[(2, 3), (1,), ()], repeats=[int64s(2, 1), int64s(0), int64s()])

    def infer(self, input: Value, repeats: Value) -> Inferred:
        shape, counts = input.tensor.shape, known_ints(repeats)
        if shape is None or counts is None:
            return fresh_tensor(
                input.dtype, length(repeats) if shape is None else len(shape), "tile"
            )
        if len(counts) != len(shape):
            raise ShapeError(f"Tile of {input.type} needs {len(shape)} counts, found {len(counts)}")
        return TensorType(input.dtype, tuple(d * c for d, c in zip(shape, counts)))

    def eval(self, input: Array, repeats: Array) -> Array:
        return np.tile(input, integers(repeats))


class Trilu(Op):
    """The upper (or lower) triangle of each matrix, from diagonal `k` on; zeros elsewhere."""

    traits = Trait.ZERO_FLOPS

    upper: int = 1

    since = 14
    samples = cases(
        input=[(3, 4), (3, 4), (2, 3, 3), Ints((4, 2))],
        k=[None, np.array(1), np.array(-1), np.array(9)],
        upper=[0, 1],
    )

    def infer(self, input: Value, k: Value | None = None) -> Inferred:
        if input.tensor.rank is not None and input.rank < 2:
            raise ShapeError(f"Trilu needs matrices, found {input.type}")
        return input.type

    def eval(self, input: Array, k: Array | None = None) -> Array:
        rows, columns = input.shape[-2:]
        diagonal = 0 if k is None else min(max(int(scalar(k)), -rows), columns)
        return np.triu(input, diagonal) if self.upper else np.tril(input, diagonal)
