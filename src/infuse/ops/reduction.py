"""Reductions: many elements along some axes become one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from infuse import dtypes
from infuse.ir.dims import Dim
from infuse.ir.expression import Call
from infuse.ir.graph import Node, Value
from infuse.ir.types import Shape, TensorType
from infuse.ops.core.axes import Axes, Order
from infuse.ops.core.base import Array, Inferred, Op, Rounding, normalize_axis
from infuse.ops.core.elementwise import f32, mean, require_kind, widened
from infuse.ops.core.flops import Flops, Shapes, weight
from infuse.ops.core.formula import E, Formulas, Term, inputs
from infuse.ops.core.samples import Bools, Ints, cases
from infuse.ops.core.sizes import fresh_shape, int64s, known_axes, length, nonempty, normalize_axes
from infuse.ops.core.traits import Trait

SUMS = Rounding(ulp=4, abs=1e-6, why="sums round in another order")
"""Of results that are sums of many elements."""
REDUCTIONS: Final = (
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSumSquare",
)
"""Those whose axes are an input from opset 18 on; of ReduceSum, from opset 13 on."""
_AXES = (
    cases(
        data=[(2, 3, 5), (2, 3, 5), (7,), ()],
        axes=[int64s(1), int64s(0, -1), None, None],
        keepdims=[0, 1],
    ),
    cases(data=[(2, 3), (2, 3)], axes=[None, int64s()], noop_with_empty_axes=[0, 1]),
)
_NUMBERS = (
    *_AXES,
    cases(data=[Ints((4, 3)), Ints((4, 3), dtype=dtypes.int32)], axes=[int64s(0), None]),
)


class Reduction(Op, abstract=True):
    """Elements along `axes` (all when absent or empty, none with `noop_with_empty_axes`) become
    one.

    Every element goes through `each`, two at a time through the formula function `combine`, and the
    last through `finish`, which also gets the number of elements. That is all that native code
    needs to know of a reduction.
    """

    traits = Trait.FLOAT32 | Trait.REDUCTION
    keepdims: int = 1
    noop_with_empty_axes: int = 0

    kinds: ClassVar[str] = "fiu"
    combine: ClassVar[str] = "add"
    """`add`, `mul`, `max` or `min`."""

    def infer(self, data: Value, axes: Value | None = None) -> Inferred:
        dtype = require_kind(self.name, data.dtype, self.kinds)
        if data.tensor.shape is None:
            return TensorType(dtype, None)
        reduced: tuple[int, ...] | None = ()
        if axes is not None:
            require_kind(f"the axes of {self.name}", axes.dtype, "i")
            reduced = known_axes(axes, data.rank, self.name)
        if reduced is None:
            count = length(axes)
            rank = data.rank if self.keepdims else None if count is None else data.rank - count
            return TensorType(dtype, fresh_shape(rank, "reduced"))
        return TensorType(dtype, self._kept(data.shape, reduced))

    def _kept(self, shape: Shape, axes: tuple[int, ...]) -> Shape:
        if not axes:
            axes = () if self.noop_with_empty_axes else tuple(range(len(shape)))
        sizes: list[Dim] = [
            1 if i in axes else d for i, d in enumerate(shape) if i not in axes or self.keepdims
        ]
        return tuple(sizes)

    def shared_axes(self, node: Node) -> Axes | None:
        data, numbers = node.inputs[0], node.input(1)
        assert data is not None
        if data.tensor.rank is None or numbers is None:
            return None
        reduced = known_axes(numbers, data.rank, self.name)
        order = tuple(range(data.rank))
        if not reduced:
            return None
        result = tuple(axis for axis in order if self.keepdims or axis not in reduced)
        return Axes((order, None), result, frozenset(reduced))

    def with_axes(self, node: Node, args: Sequence[Any], axes: Axes) -> Call | None:
        order, reduced = axes.operands[0], axes.mixed
        assert order is not None
        if axes.result != tuple(axis for axis in order if self.keepdims or axis not in reduced):
            return None
        return self.called((args[0], int64s(*sorted(map(order.index, reduced)))))

    def eval(self, data: Array, axes: Array | None = None) -> Array:
        reduced = (
            ()
            if axes is None
            else normalize_axes([int(a) for a in axes.reshape(-1)], data.ndim, self.name)
        )
        if not reduced:
            reduced = () if self.noop_with_empty_axes else tuple(range(data.ndim))
        result = self.reduce(data, reduced)
        if not self.keepdims:
            result = np.squeeze(np.asarray(result), axis=reduced)
        return np.asarray(result, dtype=data.dtype)

    def reduce(self, data: Array, axes: tuple[int, ...]) -> Any:
        """The reduction in plain NumPy; reduced axes stay with size one."""
        raise NotImplementedError

    def each(self, e: Formulas, x: Term) -> Term:
        """What is done to every element first."""
        return x

    def finish(self, e: Formulas, total: Term, count: Term) -> Term:
        """What is done to the combination of `count` elements last."""
        return total

    def flops(self, shapes: Shapes) -> Flops:
        dtype = shapes.types[0] or dtypes.float32
        element, total, count = inputs(dtype, dtype, dtype)
        each, last = weight(self.each(E, element)), weight(self.finish(E, total, count))
        return Flops(0, shapes.size(0) * (each + 1) + shapes.made * last)


def _sum(data: Array, axes: tuple[int, ...]) -> Any:
    """Sums in a type that holds them; integers wrap."""
    wide = widened(data)
    return np.sum(wide, axis=axes, keepdims=True, dtype=wide.dtype)


class ReduceSum(Reduction):
    """Sum of the elements."""

    traits = Trait.TOTAL
    since = 13
    carries_dims = True
    accuracy = SUMS
    samples = _NUMBERS

    def reduce(self, data: Array, axes: tuple[int, ...]) -> Any:
        if not axes:
            return data
        return data.sum(axis=axes, keepdims=True) if data.dtype == object else _sum(data, axes)


class ReduceMean(Reduction):
    """Mean of the elements; integers round toward zero, and their sum wraps around in 64 bits."""

    traits = Trait.TOTAL
    since = 18
    accuracy = SUMS
    samples = _NUMBERS

    def reduce(self, data: Array, axes: tuple[int, ...]) -> Any:
        count = math.prod(data.shape[axis] for axis in axes)
        if data.dtype.kind not in "iu" or not count:
            return mean(data.astype(np.float64), axes) if axes else data
        wide = np.uint64 if data.dtype == np.uint64 else np.int64
        total = data.sum(axis=axes, keepdims=True, dtype=wide)
        down = total // count
        return down + ((total < 0) & (down * count != total))

    def finish(self, e: Formulas, total: Term, count: Term) -> Term:
        return total / count


class ReduceMax(Reduction):
    """Largest element, or the lowest number when there is none."""

    traits = Trait.TOTAL
    since = 20
    kinds = "fiub"
    combine = "max"
    samples = (*_NUMBERS, cases(data=[Bools((3, 4)), f32(1, np.nan, 3)], axes=[int64s(0), None]))

    def reduce(self, data: Array, axes: tuple[int, ...]) -> Any:
        return np.max(widened(data), axis=axes, keepdims=True, initial=_lowest(data))


class ReduceMin(Reduction):
    """Smallest element, or the highest number when there is none."""

    traits = Trait.TOTAL
    since = 20
    kinds = "fiub"
    combine = "min"
    samples = ReduceMax.samples

    def reduce(self, data: Array, axes: tuple[int, ...]) -> Any:
        return np.min(widened(data), axis=axes, keepdims=True, initial=_highest(data))


def _lowest(data: Array) -> Any:
    kind = dtypes.by_numpy(data.dtype)
    return -np.inf if kind.is_float else False if kind.is_bool else np.iinfo(data.dtype).min


def _highest(data: Array) -> Any:
    kind = dtypes.by_numpy(data.dtype)
    return np.inf if kind.is_float else True if kind.is_bool else np.iinfo(data.dtype).max


class ReduceProd(Reduction):
    """Product of the elements."""

    traits = Trait.TOTAL
    since = 18
    carries_dims = True
    combine = "mul"
    accuracy = Rounding(ulp=16, why="every factor adds half a unit")
    samples = _NUMBERS

    def reduce(self, data: Array, axes: tuple[int, ...]) -> Any:
        if data.dtype == object:
            return data.prod(axis=axes, keepdims=True)
        wide = widened(data)
        return np.prod(wide, axis=axes, keepdims=True, dtype=wide.dtype)


class ReduceSumSquare(Reduction):
    """Sum of the squares."""

    traits = Trait.TOTAL | Trait.NONNEGATIVE
    since = 18
    accuracy = SUMS
    samples = _NUMBERS

    def reduce(self, data: Array, axes: tuple[int, ...]) -> Any:
        wide = widened(data)
        return _sum(wide * wide, axes)

    def each(self, e: Formulas, x: Term) -> Term:
        return x * x


class ReduceL1(Reduction):
    """Sum of the magnitudes."""

    traits = Trait.TOTAL | Trait.NONNEGATIVE
    since = 18
    accuracy = SUMS
    samples = _NUMBERS

    def reduce(self, data: Array, axes: tuple[int, ...]) -> Any:
        return _sum(np.abs(widened(data)), axes)

    def each(self, e: Formulas, x: Term) -> Term:
        return e.abs(x)


class ReduceL2(Reduction):
    """Square root of the sum of the squares; integers lose the fraction."""

    traits = Trait.TOTAL | Trait.NONNEGATIVE
    since = 18
    accuracy = SUMS
    samples = _NUMBERS

    def reduce(self, data: Array, axes: tuple[int, ...]) -> Any:
        wide = data.astype(np.float64)
        total = np.sum(wide * wide, axis=axes, keepdims=True)
        if data.dtype.kind not in "iu":  # native code adds in this type, where squares overflow
            total = total.astype(np.result_type(data.dtype, np.float32))
        return np.sqrt(total)

    def each(self, e: Formulas, x: Term) -> Term:
        return x * x

    def finish(self, e: Formulas, total: Term, count: Term) -> Term:
        wide = total if total.dtype.is_float else e.cast(total, dtypes.float64)
        return e.cast(e.sqrt(wide), total.dtype)


class ReduceLogSum(Reduction):
    """Logarithm of the sum."""

    kinds = "f"
    since = 18
    accuracy = Rounding(
        ulp=8, abs=2e-6, why="the logarithm of a sum near one has the error of the sum"
    )
    samples = cases(
        data=[f32(0.5, 2, 3), f32(1e-3, 7).reshape(2, 1)], axes=[None, int64s(0)], keepdims=[0, 1]
    )

    def reduce(self, data: Array, axes: tuple[int, ...]) -> Any:
        return np.log(np.sum(data.astype(np.float64), axis=axes, keepdims=True))

    def finish(self, e: Formulas, total: Term, count: Term) -> Term:
        return e.log(total)


class ReduceLogSumExp(Reduction):
    """Logarithm of the sum of the exponentials, without overflow; native code takes the largest
    element out first.
    """

    kinds = "f"
    since = 18
    accuracy = Rounding(
        ulp=8, abs=2e-6, why="the logarithm of a sum near one has the error of the sum"
    )
    samples = (*_AXES, cases(data=[f32(500, 500, -np.inf), f32(-np.inf)], axes=[int64s(0), None]))

    def reduce(self, data: Array, axes: tuple[int, ...]) -> Any:
        wide = data.astype(np.float64)
        largest = np.max(wide, axis=axes, keepdims=True, initial=-np.inf)
        shift = np.where(np.isfinite(largest), largest, 0)
        return np.log(np.sum(np.exp(wide - shift), axis=axes, keepdims=True)) + shift

    def each(self, e: Formulas, x: Term) -> Term:
        return e.exp(x)

    def finish(self, e: Formulas, total: Term, count: Term) -> Term:
        return e.log(total)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.size(0) * 4 + shapes.made * 2)


class _Arg(Op, abstract=True):
    """The index of an extreme element along one axis."""

    traits = Trait.FLOAT32
    axis: int = 0
    keepdims: int = 1
    select_last_index: int = 0

    since = 13
    samples = (
        cases(data=[(2, 3, 5), (7,)], axis=[0, -1], keepdims=[0, 1]),
        cases(data=[f32(1, 3, 3, 1), Ints((4, 3), 0, 2)], select_last_index=[0, 1]),
    )

    def infer(self, data: Value) -> Inferred:
        require_kind(self.name, data.dtype, "fiu")
        if data.tensor.shape is None:
            return TensorType(dtypes.int64, None)
        axis = normalize_axis(self.axis, data.rank, self.name)
        if data.rank:
            nonempty(data.shape[axis], self.name)
        reduced = (1,) if self.keepdims else ()
        return TensorType(dtypes.int64, (*data.shape[:axis], *reduced, *data.shape[axis + 1 :]))

    def shared_axes(self, node: Node) -> Axes | None:
        rank = node.inputs[0].tensor.rank if node.inputs[0] is not None else None
        if not rank:
            return None
        own, order = normalize_axis(self.axis, rank, self.name), tuple(range(rank))
        return Axes((order,), self._left(order, own), frozenset([own]))

    def with_axes(self, node: Node, args: Sequence[Any], axes: Axes) -> Call | None:
        (own,), order = axes.mixed, axes.operands[0]
        if order is None or own not in order or axes.result != self._left(order, own):
            return None
        axis = order.index(own)
        return self.called(args, axis=axis - len(order) if self.axis < 0 else axis)

    def _left(self, order: Order, own: int) -> Order:
        """The axes of the result."""
        return order if self.keepdims else tuple(axis for axis in order if axis != own)

    def best(self, data: Array, axis: int) -> Array:
        """The first extreme along `axis`."""
        raise NotImplementedError

    def eval(self, data: Array) -> Array:
        wide = widened(data)
        if self.select_last_index:
            size = wide.shape[self.axis]
            index = size - 1 - self.best(np.flip(wide, self.axis), self.axis)
        else:
            index = self.best(wide, self.axis)
        return np.asarray(
            np.expand_dims(index, self.axis) if self.keepdims else index, dtype=np.int64
        )

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.size(0))


class ArgMax(_Arg):
    """Index of the largest element along one axis, the first of equals unless
    `select_last_index`.
    """

    def best(self, data: Array, axis: int) -> Array:
        return np.asarray(data.argmax(axis=axis))


class ArgMin(_Arg):
    """Index of the smallest element along one axis, the first of equals unless
    `select_last_index`.
    """

    def best(self, data: Array, axis: int) -> Array:
        return np.asarray(data.argmin(axis=axis))
