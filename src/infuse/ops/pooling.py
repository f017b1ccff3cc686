"""Poolings: one number from every window, or from every channel."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ShapeError
from infuse.ir import dims
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op, Rounding
from infuse.ops.core.elementwise import mean, require_kind, widened
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import nonempty
from infuse.ops.core.traits import Trait
from infuse.ops.spatial import Sliding, last_axes, padded, static, taps, windows


class _Pool(Sliding, abstract=True):
    """A pooling over windows."""

    traits = Trait.FLOAT32 | Trait.PER_CHANNEL | Trait.HOMOGENEOUS
    ceil_mode: int = 0

    def shape(self, x: Value, dtype: DType) -> TensorType:
        """Type of the result."""
        rank = len(self.kernel_shape)
        if not rank:
            raise ShapeError(f"{self.name} needs the attribute kernel_shape")
        if x.tensor.shape is None:
            return TensorType(dtype, None)
        if x.rank != rank + 2:
            raise ShapeError(
                f"{self.name} over {rank} spatial axes takes an input of rank {rank + 2}, found "
                f"{x.type}"
            )
        counts = self.window_counts(x.shape[2:], self.kernel_shape, bool(self.ceil_mode))
        return TensorType(dtype, (*x.shape[:2], *counts))

    def counts(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Output sizes, in `eval`."""
        return static(self.window_counts(sizes, self.kernel_shape, bool(self.ceil_mode)))

    def covered(self, x: Array, fill: float) -> Array:
        """`x` padded so that the last window fits."""
        sizes = x.shape[2:]
        begins = [b for b, _ in self.int_padding(sizes, self.kernel_shape)]
        steps, extents = self.steps(len(sizes)), static(self.extents(self.kernel_shape))
        spans = [(n - 1) * s + e for n, s, e in zip(self.counts(sizes), steps, extents)]
        return padded(
            x, [(b, span - b - size) for b, span, size in zip(begins, spans, sizes)], fill
        )

    def sums(self, data: Array, counts: Sequence[int]) -> Array:
        """Sums of the windows of what `covered` gives."""
        rank = len(self.kernel_shape)
        total = np.zeros((*data.shape[:2], *counts), dtype=data.dtype)
        for _, place in taps(self.kernel_shape, self.steps(rank), self.spread(rank), counts):
            total += data[place]
        return total


_WINDOWS = (
    cases(
        x=[(2, 3, 7, 8)],
        kernel_shape=[(3, 2)],
        strides=[(), (2, 2)],
        pads=[(), (1, 0, 1, 1)],
        ceil_mode=[0, 1],
    ),
    cases(x=[(1, 2, 9, 9)], kernel_shape=[(3, 3)], dilations=[(2, 1)], strides=[(1, 2)]),
    cases(
        x=[(1, 2, 8, 7)],
        kernel_shape=[(3, 2)],
        auto_pad=["SAME_UPPER", "SAME_LOWER", "VALID"],
        strides=[(2, 3)],
    ),
    cases(x=[(2, 3, 11)], kernel_shape=[(3,)]),
    cases(x=[(1, 2, 5, 4, 6)], kernel_shape=[(2, 2, 3)], strides=[(1, 2, 3)]),
)


class MaxPool(_Pool):
    """Largest element of each window; the second output is its index in the flat input, the first
    of equals.
    """

    traits = Trait.PER_IMAGE
    storage_order: int = 0

    since = 12
    samples = (
        *_WINDOWS,
        cases(x=[(1, 2, 4, 5)], kernel_shape=[(2, 2)], storage_order=[1]),
        cases(
            x=[Ints((1, 2, 4, 5), -9, 9, dtypes.int8)], kernel_shape=[(2, 2)], pads=[(1, 1, 1, 1)]
        ),
    )

    def infer(self, x: Value) -> Inferred:
        result = self.shape(x, require_kind(self.name, x.dtype, "fiu"))
        return result, TensorType(dtypes.int64, result.shape)

    def eval(self, x: Array) -> tuple[Array, Array]:
        rank, counts = len(self.kernel_shape), self.counts(x.shape[2:])
        places = np.arange(math.prod(x.shape[2:])).reshape(
            x.shape[2:], order="F" if self.storage_order else "C"
        )
        floating = dtypes.by_numpy(x.dtype).is_float
        geometry = (self.kernel_shape, self.steps(rank), self.spread(rank), counts)
        lowest = -np.inf if floating else np.iinfo(x.dtype).min
        width = math.prod(self.kernel_shape)
        values = windows(self.covered(widened(x), lowest), *geometry).reshape(
            *x.shape[:2], *counts, width
        )
        inside = windows(self.covered(np.ones((1, 1, *x.shape[2:]), bool), 0), *geometry).reshape(
            1, 1, *counts, -1
        )
        spots = windows(self.covered(places[None, None], 0), *geometry).reshape(1, 1, *counts, -1)
        best = _first_largest(values, inside)
        result = np.take_along_axis(values, best, -1)[..., 0].astype(x.dtype)
        flat = np.take_along_axis(np.broadcast_to(spots, values.shape), best, -1)[..., 0]
        flat = np.where(inside.any(axis=-1), flat, -1)  # of a window without pixels
        offsets = (
            np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * rank) * places.size
        )
        return result, flat + offsets

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.made * dims.product(self.kernel_shape))


def _first_largest(values: Array, inside: Array) -> Array:
    """Position of the largest element along the last axis, never one of the padding."""
    largest = values.max(axis=-1, keepdims=True)
    same = (values == largest) | np.isnan(values) if values.dtype.kind == "f" else values == largest
    return np.expand_dims(np.argmax(same & inside, axis=-1), -1)


class AveragePool(_Pool):
    """Mean of each window; padding counts only with `count_include_pad`, and what ceil_mode adds
    never.
    """

    traits = Trait.PER_IMAGE
    count_include_pad: int = 0

    since = 22
    accuracy = Rounding(ulp=2, abs=5e-7, why="sums round in another order")
    samples = (
        *_WINDOWS,
        cases(
            x=[(1, 2, 6, 6)],
            kernel_shape=[(3, 3)],
            pads=[(1, 1, 1, 1)],
            strides=[(2, 2)],
            count_include_pad=[1],
            ceil_mode=[0, 1],
        ),
    )

    def infer(self, x: Value) -> Inferred:
        return self.shape(x, require_kind(self.name, x.dtype, "f"))

    def eval(self, x: Array) -> Array:
        total = self.sums(self.covered(widened(x), 0), self.counts(x.shape[2:]))
        return np.asarray(total / self.counted(x.shape[2:]), dtype=x.dtype)

    def counted(self, sizes: Sequence[int]) -> Array:
        """How many elements each window of an image counts: (1, 1, …)."""
        present = self.covered(np.ones((1, 1, *sizes), dtype=np.float32), 0)
        if self.count_include_pad:
            pads = self.int_padding(sizes, self.kernel_shape)
            present[last_axes([slice(0, b + size + e) for size, (b, e) in zip(sizes, pads)])] = 1
        return self.sums(present, self.counts(sizes))

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.made * (dims.product(self.kernel_shape) + 1))


class LpPool(_Pool):
    """Lp norm of each window."""

    p: int = 2

    since = 22
    accuracy = Rounding(ulp=4, abs=1e-6, why="sums round in another order")
    samples = (*_WINDOWS, cases(x=[(1, 2, 6, 6)], kernel_shape=[(3, 3)], p=[1, 3]))

    def infer(self, x: Value) -> Inferred:
        return self.shape(x, require_kind(self.name, x.dtype, "f"))

    def eval(self, x: Array) -> Array:
        powers = self.covered(np.abs(x.astype(np.float64)) ** self.p, 0)
        return np.asarray(
            self.sums(powers, self.counts(x.shape[2:])) ** (1 / self.p), dtype=x.dtype
        )

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.made * (2 * dims.product(self.kernel_shape) + 1))


class _GlobalPool(Op, abstract=True):
    """A pooling over all spatial axes, which become one element each."""

    traits = Trait.FLOAT32 | Trait.PER_CHANNEL | Trait.HOMOGENEOUS
    accuracy = Rounding(ulp=2, abs=5e-7, why="sums round in another order")
    samples = cases(x=[(2, 3, 7, 5), (1, 2, 9), (2, 1, 3, 4, 5)])

    def infer(self, x: Value) -> Inferred:
        dtype = require_kind(self.name, x.dtype, "f")
        if x.tensor.shape is None:
            return TensorType(dtype, None)
        if x.rank < 3:
            raise ShapeError(f"{self.name} takes an input of rank 3 or more, found {x.type}")
        for size in x.shape[2:]:
            nonempty(size, self.name)
        return TensorType(dtype, (*x.shape[:2], *(1,) * (x.rank - 2)))


def _spatial(x: Array) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


class GlobalAveragePool(_GlobalPool):
    """Mean of each channel."""

    traits = Trait.PER_IMAGE
    since = 22

    def eval(self, x: Array) -> Array:
        return np.asarray(mean(widened(x), _spatial(x)), dtype=x.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.size(0) + shapes.made)


class GlobalMaxPool(_GlobalPool):
    """Largest element of each channel."""

    traits = Trait.PER_IMAGE
    since = 22
    accuracy = Rounding(ulp=0)

    def eval(self, x: Array) -> Array:
        return np.asarray(np.max(widened(x), axis=_spatial(x), keepdims=True), dtype=x.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.size(0))


class GlobalLpPool(_GlobalPool):
    """Lp norm of each channel."""

    p: int = 2

    since = 22

    def eval(self, x: Array) -> Array:
        powers = np.abs(x.astype(np.float64)) ** self.p
        return np.asarray(
            powers.sum(axis=_spatial(x), keepdims=True) ** (1 / self.p), dtype=x.dtype
        )

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.size(0) * 2 + shapes.made)
