"""Operators that read or write elements at computed places."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import ShapeError, TypeMismatchError, UnsupportedOperatorError
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.conversion import convert
from infuse.ops.core.base import Array, Inferred, Op, normalize_axis, same_dtype
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import (
    agree,
    agree_shapes,
    at_most,
    axis_of,
    fresh_dim,
    int64s,
    integers,
    known_one,
    require_rank,
    scalar,
)
from infuse.ops.core.traits import Trait

REDUCTIONS: dict[str, Any] = {
    "none": None,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def require_index(value: Value, op: str) -> None:
    """TypeMismatchError when the elements of `value` are no integers."""
    if not value.dtype.is_integer:
        raise TypeMismatchError(f"{op} needs integer indices, found {value.dtype}")


def checked(indices: Array, size: Any, op: str) -> Array:
    """Indices as int64, negative ones counted from the end; ShapeError when one lies outside."""
    places = indices.astype(np.int64)
    if np.any((places < -size) | (places >= size)):
        raise ShapeError(f"an index of {op} lies outside the {size} elements of its axis")
    return np.where(places < 0, places + size, places)


class Gather(Op):
    """The parts of an axis that the indices name; their shape takes the place of the axis."""

    traits = Trait.MOVEMENT | Trait.SELECTION
    axis: int = 0
    since = 11
    carries_dims = True
    samples = (
        cases(data=[(5, 4), (5, 4)], indices=[Ints((2, 3), -4, 4), np.array(-1)], axis=[0, 1, -1]),
        cases(
            data=[(3,), (6, 2), (2, 3, 4)],
            indices=[Ints((), 0, 3), int64s(), Ints((2,), 0, 2, dtypes.int32)],
        ),
    )

    def infer(self, data: Value, indices: Value) -> Inferred:
        require_index(indices, self.name)
        shape, places = data.tensor.shape, indices.tensor.shape
        if shape is None or places is None:
            return TensorType(data.dtype, None)
        axis = normalize_axis(self.axis, len(shape), self.name)
        return TensorType(data.dtype, shape[:axis] + places + shape[axis + 1 :])

    def eval(self, data: Array, indices: Array) -> Array:
        taken = np.take(data, checked(indices, data.shape[self.axis], self.name), axis=self.axis)
        return np.asarray(taken, data.dtype)  # of texts, one element is no array


class GatherElements(Op):
    """Each element from the place that its index names along an axis."""

    traits = Trait.MOVEMENT | Trait.SELECTION
    axis: int = 0
    since = 11
    samples = (
        cases(data=[(4, 5)], indices=[Ints((4, 5), -4, 4)], axis=[0, 1, -1]),
        cases(data=[(4, 5)], indices=[Ints((2, 5), -4, 4, dtypes.int32)]),
        cases(data=[(4, 5)], indices=[Ints((4, 7), 0, 5)], axis=[1]),
    )

    def infer(self, data: Value, indices: Value) -> Inferred:
        require_index(indices, self.name)
        if data.tensor.rank is not None and indices.tensor.rank not in (None, data.tensor.rank):
            raise ShapeError(
                f"GatherElements needs equal ranks, found {data.type} and {indices.type}"
            )
        _inside(data, indices, axis_of(data, self.axis, self.name), self.name)
        return TensorType(data.dtype, indices.tensor.shape)

    def eval(self, data: Array, indices: Array) -> Array:
        return data[places_along(data, indices, self.axis, self.name)]


def places_along(data: Array, indices: Array, axis: int, op: str) -> tuple[Array, ...]:
    """Index arrays that name, for each place of `indices`, the element of `data` it means along
    `axis`.
    """
    grid: list[Array] = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    grid[axis] = checked(indices, data.shape[axis], op)
    return tuple(grid)


def _inside(data: Value, indices: Value, axis: int | None, op: str) -> None:
    """ShapeError where `indices` are longer than `data` along another axis than that which they
    index.
    """
    shape, places = data.tensor.shape, indices.tensor.shape
    if shape is None or places is None:
        return
    if len(shape) != len(places):
        raise ShapeError(f"{op} needs equal ranks, found {data.type} and {indices.type}")
    for i, (size, limit) in enumerate(zip(places, shape)):
        if i != axis:
            at_most(size, limit, f"the indices of {op} at axis {i}")


class GatherND(Op):
    """The parts of the input that index tuples name; the first `batch_dims` axes go side by
    side.
    """

    traits = Trait.MOVEMENT | Trait.SELECTION
    batch_dims: int = 0
    since = 12
    carries_dims = True
    samples = (
        cases(data=[(3, 4, 2), (3, 4, 2)], indices=[Ints((5, 2), -3, 3), Ints((2, 2, 3), 0, 2)]),
        cases(
            data=[(3, 4, 2), (2, 3, 4)],
            indices=[Ints((3, 1), 0, 4), Ints((2, 5, 2), 0, 3)],
            batch_dims=[1],
        ),
    )

    def infer(self, data: Value, indices: Value) -> Inferred:
        require_index(indices, self.name)
        shape, places = data.tensor.shape, indices.tensor.shape
        if shape is None or places is None or not places or not isinstance(places[-1], int):
            return TensorType(data.dtype, None)
        depth = self.batch_dims + places[-1]
        if depth > len(shape) or self.batch_dims >= len(places):
            raise ShapeError(
                f"GatherND cannot index {data.type} with {indices.type} and batch_dims "
                f"{self.batch_dims}"
            )
        batch = agree_shapes(
            shape[: self.batch_dims], places[: self.batch_dims], "batch sizes of GatherND"
        )
        return TensorType(data.dtype, batch + places[self.batch_dims : -1] + shape[depth:])

    def eval(self, data: Array, indices: Array) -> Array:
        b = self.batch_dims
        named = index_tuples(indices, data.shape[b:], self.name)
        grid = np.ogrid[tuple(slice(n) for n in data.shape[:b])] if b else []
        batch = [g.reshape(g.shape + (1,) * (indices.ndim - 1 - b)) for g in grid]
        return np.asarray(data[tuple(batch) + named])


def index_tuples(indices: Array, sizes: tuple[int, ...], op: str) -> tuple[Array, ...]:
    """The tuples in the last axis of `indices` as one index array per axis."""
    return tuple(checked(indices[..., i], sizes[i], op) for i in range(indices.shape[-1]))


class Scatter(Op, abstract=True):
    """Writes updates into a copy of the input; `reduction` tells how they meet what is there."""

    traits = Trait.ZERO_FLOPS

    reduction: str = "none"

    def _check(self, data: Value, indices: Value, updates: Value) -> None:
        require_index(indices, self.name)
        same_dtype(self.name, data, updates)
        if self.reduction not in REDUCTIONS:
            raise UnsupportedOperatorError(
                f"reduction {self.reduction!r} of {self.name} is not known"
            )

    def _write(self, data: Array, places: tuple[Array, ...], updates: Array) -> Array:
        result: Array = data.copy()
        reduce = REDUCTIONS[self.reduction]
        if reduce is None:
            result[places] = updates
        else:
            reduce.at(result, places, updates)
        return result


class ScatterElements(Scatter):
    """Each update goes to the place that its index names along an axis."""

    axis: int = 0
    since = 18
    samples = (
        cases(
            data=[(4, 5), (4, 5)],
            indices=[np.array([[1, -1], [0, 2]]), Ints((1, 5), 0, 4)],
            updates=[(2, 2), (1, 5)],
            axis=[0, 1],
        ),
        cases(
            data=[Ints((6,))],
            indices=[Ints((9,), 0, 6)],
            updates=[Ints((9,))],
            reduction=["add", "mul", "max", "min"],
        ),
    )

    def infer(self, data: Value, indices: Value, updates: Value) -> Inferred:
        self._check(data, indices, updates)
        _inside(data, indices, axis_of(data, self.axis, self.name), self.name)
        if indices.tensor.shape is not None and updates.tensor.shape is not None:
            agree_shapes(
                indices.tensor.shape, updates.tensor.shape, "shapes of indices and updates"
            )
        return data.type

    def eval(self, data: Array, indices: Array, updates: Array) -> Array:
        return self._write(data, places_along(data, indices, self.axis, self.name), updates)


class ScatterND(Scatter):
    """Each update goes to the part that its index tuple names."""

    since = 18
    carries_dims = True
    samples = (
        cases(
            data=[(5,), (4, 3), (4, 3)],
            indices=[np.array([[1], [-1]]), np.array([[0], [2]]), np.array([[[0, 1]], [[3, 2]]])],
            updates=[(2,), (2, 3), (2, 1)],
        ),
        cases(
            data=[Ints((4, 2))],
            indices=[Ints((6, 1), 0, 4)],
            updates=[Ints((6, 2))],
            reduction=["add", "mul", "max", "min"],
        ),
    )

    def infer(self, data: Value, indices: Value, updates: Value) -> Inferred:
        self._check(data, indices, updates)
        shape, places, parts = data.tensor.shape, indices.tensor.shape, updates.tensor.shape
        if shape is not None and places and parts is not None and isinstance(places[-1], int):
            if places[-1] > len(shape):
                raise ShapeError(f"ScatterND cannot index {data.type} with tuples of {places[-1]}")
            agree_shapes(
                places[:-1] + shape[places[-1] :], parts, "sizes of the updates of ScatterND"
            )
        return data.type

    def eval(self, data: Array, indices: Array, updates: Array) -> Array:
        return self._write(data, index_tuples(indices, data.shape, self.name), updates)


class ReverseSequence(Op):
    """The first elements of each batch row in reverse order along the time axis, as many as
    `sequence_lens` says.
    """

    traits = Trait.MOVEMENT
    batch_axis: int = 1
    time_axis: int = 0

    since = 10
    samples = (
        cases(input=[(4, 3)], sequence_lens=[int64s(1, 4, 3)]),
        cases(input=[(2, 4, 3)], sequence_lens=[int64s(2, 3)], batch_axis=[0], time_axis=[1]),
    )

    def infer(self, input: Value, sequence_lens: Value) -> Inferred:
        require_rank(sequence_lens, 1, self.name, "sequence_lens")
        if input.tensor.shape is not None:
            batch, time = (
                normalize_axis(a, input.rank, self.name) for a in (self.batch_axis, self.time_axis)
            )
            if batch == time:
                raise ShapeError(
                    f"ReverseSequence needs two axes, found {batch} for batch and time"
                )
            if sequence_lens.tensor.shape is not None:
                agree(
                    sequence_lens.shape[0],
                    input.shape[batch],
                    "lengths and batches of ReverseSequence",
                )
        return input.type

    def eval(self, input: Array, sequence_lens: Array) -> Array:
        rows = np.moveaxis(input, (self.batch_axis, self.time_axis), (0, 1)).copy()
        if len(sequence_lens) != len(rows):
            raise ShapeError(
                f"ReverseSequence has {len(sequence_lens)} lengths for {len(rows)} batches"
            )
        for row, count in zip(rows, integers(sequence_lens)):
            if not 0 <= count <= len(row):
                raise ShapeError(f"ReverseSequence cannot turn {count} of {len(row)} elements")
            row[:count] = row[:count][::-1].copy()
        return np.ascontiguousarray(np.moveaxis(rows, (0, 1), (self.batch_axis, self.time_axis)))


class OneHot(Op):
    """A new axis of size `depth` with the on-value where the index is, the off-value elsewhere;
    floats among the indices are cut off first.
    """

    traits = Trait.ZERO_FLOPS

    axis: int = -1
    since = 11
    samples = cases(
        indices=[Ints((2, 3), -6, 6), Ints((1,), 0, 3), Ints((4,), 0, 5)],
        depth=[np.array(4), np.array(3), np.array(5.0, np.float32)],
        values=[np.array([0, 1], np.float32), np.array([3, -2]), np.array([0, 1], np.float32)],
        axis=[-1, 0],
    )

    def infer(self, indices: Value, depth: Value, values: Value) -> Inferred:
        require_rank(values, 1, self.name, "values")
        if values.tensor.shape is not None:
            agree(values.shape[0], 2, "the values of OneHot (off and on)")
        shape = indices.tensor.shape
        if shape is None:
            return TensorType(values.dtype, None)
        axis = normalize_axis(self.axis, len(shape) + 1, self.name)
        depth_dim = known_one(depth, self.name)
        if depth_dim is None and depth.const is not None:
            depth_dim = int(scalar(depth.const))
        size = fresh_dim("depth") if depth_dim is None else depth_dim
        return TensorType(values.dtype, (*shape[:axis], size, *shape[axis:]))

    def eval(self, indices: Array, depth: Array, values: Array) -> Array:
        size = int(scalar(depth))
        if size < 0:
            raise ShapeError(f"the depth of OneHot is negative: {size}")
        indices = convert(indices, dtypes.int64) if indices.dtype.kind not in "iu" else indices
        places = np.expand_dims(np.where(indices < 0, indices + size, indices), self.axis)
        axis = self.axis % places.ndim
        choices = np.arange(size).reshape((size,) + (1,) * (places.ndim - 1 - axis))
        result: Array = np.where(places == choices, values[1], values[0])
        return result
