"""Normalizations and the softmax family."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import ShapeError, UnsupportedOperatorError
from infuse.ir import dims
from infuse.ir.broadcasting import broadcast_shapes
from infuse.ir.expression import Call
from infuse.ir.graph import Node, Value
from infuse.ir.relations import must_equal
from infuse.ir.types import TensorType
from infuse.ops.core.axes import Axes, broadcast_axes
from infuse.ops.core.base import Array, Inferred, Op, Rounding, normalize_axis, same_dtype
from infuse.ops.core.elementwise import f32, mean, require_kind, require_shape, widened
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.samples import cases
from infuse.ops.core.sizes import agree, require_rank
from infuse.ops.core.traits import Trait

_MOMENTS = Rounding(ulp=8, abs=2e-6, why="sums round in another order")


def _stash(x: Array, stash_type: int) -> Array:
    """`x` in the type that statistics are computed in, at least float32."""
    wide = dtypes.by_onnx(stash_type).numpy
    return widened(x if x.dtype == np.float64 else x.astype(wide))


def _per_channel(value: Array, rank: int) -> Array:
    return widened(value).reshape(-1, *(1,) * (rank - 2))


def _check_channels(op: str, x: Value, **vectors: Value) -> None:
    """Every one of the vectors must have one element per channel of x."""
    for name, vector in vectors.items():
        require_rank(vector, 1, op, name)
        if x.tensor.shape is not None and vector.tensor.shape is not None:
            if x.rank < 2:
                raise ShapeError(f"{op} takes an input with channels, found {x.type}")
            agree(vector.shape[0], x.shape[1], f"the size of {name} and the channels of {op}")


class BatchNormalization(Op):
    """(x − mean) / √(variance + epsilon) · scale + bias for every channel, from given statistics;
    no training.
    """

    traits = Trait.FLOAT32 | Trait.PER_CHANNEL
    epsilon: float = 1e-5
    momentum: float = 0.9
    training_mode: int = 0

    since = 15
    accuracy = Rounding(ulp=8, abs=1e-6, why="terms may cancel")
    samples = cases(
        x=[(2, 3, 4, 5), (4, 3), (1, 3, 7)],
        scale=[(3,), (3,), (3,)],
        bias=[(3,), (3,), (3,)],
        mean=[(3,), (3,), (3,)],
        variance=[f32(0.5, 1.0, 2.0), f32(1e-3, 1.0, 9.0), f32(0.0, 1.0, 2.0)],
        epsilon=[1e-5, 1e-2],
    )

    def infer(self, x: Value, scale: Value, bias: Value, mean: Value, variance: Value) -> Inferred:
        if self.training_mode:
            raise UnsupportedOperatorError(
                "BatchNormalization in training mode", hint="export the model for inference"
            )
        for value in (x, scale, bias, mean, variance):
            require_kind(self.name, value.dtype, "f")
        _check_channels(self.name, x, scale=scale, bias=bias, mean=mean, variance=variance)
        return x.type

    def eval(self, x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Array:
        gain, shift, center, spread = (
            _per_channel(v, x.ndim) for v in (scale, bias, mean, variance)
        )
        normal = (widened(x) - center) / np.sqrt(spread + self.epsilon)
        return np.asarray(normal * gain + shift, dtype=x.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        """A factor and a summand for each channel, made beforehand."""
        return Flops(0, shapes.made * 2)


class InstanceNormalization(Op):
    """Every channel of every image to mean 0 and variance 1, then · scale + bias."""

    traits = Trait.FLOAT32 | Trait.PER_CHANNEL
    epsilon: float = 1e-5

    since = 22
    accuracy = _MOMENTS
    samples = cases(
        x=[(2, 3, 4, 5), (1, 3, 7)], scale=[(3,), (3,)], bias=[(3,), (3,)], epsilon=[1e-5, 1e-2]
    )

    def infer(self, x: Value, scale: Value, bias: Value) -> Inferred:
        require_kind(self.name, same_dtype(self.name, x, scale, bias), "f")
        _check_channels(self.name, x, scale=scale, bias=bias)
        return x.type

    def eval(self, x: Array, scale: Array, bias: Array) -> Array:
        normal, _, _ = _standardized(widened(x), tuple(range(2, x.ndim)), self.epsilon)
        return np.asarray(
            normal * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim), dtype=x.dtype
        )

    def flops(self, shapes: Shapes) -> Flops:
        """Sum, difference, square, sum, factor, scale, and the bias where there is one."""
        return Flops(0, shapes.size(0) * (6 + int(shapes.has(2))))


class GroupNormalization(Op):
    """Every group of channels of every image to mean 0 and variance 1, then · scale + bias for
    every channel.
    """

    traits = Trait.TOTAL | Trait.FLOAT32

    num_groups: int
    epsilon: float = 1e-5
    stash_type: int = 1

    since = 21
    accuracy = _MOMENTS
    samples = cases(
        x=[(2, 6, 4, 5), (1, 6, 7)], scale=[(6,), (6,)], bias=[(6,), (6,)], num_groups=[1, 2, 6]
    )

    def infer(self, x: Value, scale: Value, bias: Value) -> Inferred:
        require_kind(self.name, same_dtype(self.name, x, scale, bias), "f")
        _check_channels(self.name, x, scale=scale, bias=bias)
        channels = None if x.tensor.shape is None else x.shape[1]
        if self.num_groups < 1 or (
            channels is not None and not must_equal(dims.mod(channels, self.num_groups), 0)
        ):
            raise ShapeError(
                f"GroupNormalization cannot divide {channels} channels into {self.num_groups} "
                "groups"
            )
        return x.type

    def eval(self, x: Array, scale: Array, bias: Array) -> Array:
        size = math.prod(x.shape[1:]) // self.num_groups
        grouped = _stash(x, self.stash_type).reshape(x.shape[0], self.num_groups, size)
        normal = _standardized(grouped, (2,), self.epsilon)[0].reshape(x.shape)
        return np.asarray(
            normal * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim), dtype=x.dtype
        )

    def flops(self, shapes: Shapes) -> Flops:
        """Sum, difference, square, sum, factor, scale, and the bias where there is one."""
        return Flops(0, shapes.size(0) * (6 + int(shapes.has(2))))


def _standardized(x: Array, axes: tuple[int, ...], epsilon: float) -> tuple[Array, Array, Array]:
    """`x` with mean 0 and variance 1 over `axes`, the mean, and one over the standard deviation."""
    middle = mean(x, axes)
    centered = x - middle
    inverse = 1 / np.sqrt(mean(centered * centered, axes) + x.dtype.type(epsilon))
    return centered * inverse, middle, inverse


class LayerNormalization(Op):
    """All axes from `axis` on to mean 0 and variance 1, then · scale + bias; also gives mean and 1
    / deviation.
    """

    traits = Trait.TOTAL | Trait.FLOAT32
    axis: int = -1
    epsilon: float = 1e-5
    stash_type: int = 1

    since = 17
    accuracy = _MOMENTS
    samples = (
        cases(x=[(2, 3, 8), (5, 17)], scale=[(8,), (17,)], bias=[(8,), None], epsilon=[1e-5, 1e-2]),
        cases(x=[(2, 3, 8)], scale=[(3, 8)], bias=[(3, 8)], axis=[1, -2]),
    )

    def shared_axes(self, node: Node) -> Axes | None:
        return _trailing_axes(self.axis, node)

    def with_axes(self, node: Node, args: Sequence[Any], axes: Axes) -> Call | None:
        return _with_trailing_axes(self, node, args, axes)

    def infer(self, x: Value, scale: Value, bias: Value | None = None) -> Inferred:
        require_kind(self.name, same_dtype(self.name, x, scale, bias), "f")
        _check_broadcast(self.name, x, scale, bias)
        statistics = dtypes.by_onnx(self.stash_type)
        if x.tensor.shape is None:
            return x.type, TensorType(statistics, None), TensorType(statistics, None)
        axis = normalize_axis(self.axis, x.rank, self.name)
        reduced = (*x.shape[:axis], *(1,) * (x.rank - axis))
        return x.type, TensorType(statistics, reduced), TensorType(statistics, reduced)

    def eval(self, x: Array, scale: Array, bias: Array | None = None) -> tuple[Array, Array, Array]:
        axes = tuple(range(normalize_axis(self.axis, x.ndim, self.name), x.ndim))
        normal, mean, inverse = _standardized(_stash(x, self.stash_type), axes, self.epsilon)
        result = normal * widened(scale)
        if bias is not None:
            result = result + widened(bias)
        statistics = dtypes.by_onnx(self.stash_type).numpy
        return result.astype(x.dtype), mean.astype(statistics), inverse.astype(statistics)

    def flops(self, shapes: Shapes) -> Flops:
        """Sum, difference, square, sum, factor, scale, and the bias where there is one."""
        return Flops(0, shapes.size(0) * (6 + int(shapes.has(2))))


class RMSNormalization(Op):
    """x / √(mean of x² over all axes from `axis` on + epsilon) · scale."""

    traits = Trait.TOTAL | Trait.FLOAT32
    axis: int = -1
    epsilon: float = 1e-5
    stash_type: int = 1

    since = 23
    accuracy = _MOMENTS
    samples = (
        cases(x=[(2, 3, 8), (5, 17)], scale=[(8,), (17,)], epsilon=[1e-5, 1e-2]),
        cases(x=[(2, 3, 8)], scale=[(3, 8)], axis=[1, -2]),
    )

    def shared_axes(self, node: Node) -> Axes | None:
        return _trailing_axes(self.axis, node)

    def with_axes(self, node: Node, args: Sequence[Any], axes: Axes) -> Call | None:
        return _with_trailing_axes(self, node, args, axes)

    def infer(self, x: Value, scale: Value) -> Inferred:
        require_kind(self.name, x.dtype, "f")
        _check_broadcast(self.name, x, scale)
        return TensorType(require_kind(self.name, scale.dtype, "f"), x.tensor.shape)

    def eval(self, x: Array, scale: Array) -> Array:
        axes = tuple(range(normalize_axis(self.axis, x.ndim, self.name), x.ndim))
        wide = _stash(x, self.stash_type)
        normal = wide / np.sqrt(mean(wide * wide, axes) + wide.dtype.type(self.epsilon))
        return np.asarray(normal * widened(scale), dtype=scale.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        """Square, sum, factor, scale."""
        return Flops(0, shapes.size(0) * 4)


def _trailing_axes(axis: int, node: Node) -> Axes | None:
    """The axes of an operator that treats those from `axis` on together."""
    rank = node.output.tensor.rank
    if rank is None:
        return None
    return broadcast_axes(node, range(normalize_axis(axis, rank, node.kind), rank))


def _with_trailing_axes(op: Op, node: Node, args: Sequence[Any], axes: Axes) -> Call | None:
    count = len(axes.mixed)
    before = op.shared_axes(node)
    if before is None or axes.result[-count:] != before.result[-count:]:
        return None
    if axes.operands[0] != axes.result:
        return None
    return op.called_on_broadcast(args, axes, axis=-count)


def _check_broadcast(op: str, x: Value, *others: Value | None) -> None:
    """The others must broadcast to the shape of x."""
    for other in others:
        if other is not None:
            require_shape(
                op, broadcast_shapes(x.tensor.shape, other.tensor.shape, exact=True), x.tensor.shape
            )


class LRN(Op):
    """x / (bias + alpha / size · sum of squares over `size` neighbouring channels) ** beta."""

    traits = Trait.FLOAT32

    size: int
    alpha: float = 0.0001
    beta: float = 0.75
    bias: float = 1.0

    since = 13
    accuracy = Rounding(ulp=8, abs=1e-6, why="sums round in another order")
    samples = cases(
        x=[(2, 7, 3, 4), (1, 3, 5)], size=[1, 3, 4], alpha=[0.0001, 0.5], bias=[1.0, 2.0]
    )

    def infer(self, x: Value) -> Inferred:
        require_kind(self.name, x.dtype, "f")
        if self.size < 1:
            raise ShapeError(f"LRN needs a positive size, found {self.size}")
        return x.type

    def eval(self, x: Array) -> Array:
        squares = x.astype(np.float64) ** 2
        before, after = (self.size - 1) // 2, self.size // 2
        total = np.zeros_like(squares)
        for channel in range(x.shape[1]):
            total[:, channel] = squares[:, max(channel - before, 0) : channel + after + 1].sum(
                axis=1
            )
        return np.asarray(
            x / (self.bias + self.alpha / self.size * total) ** self.beta, dtype=x.dtype
        )

    def flops(self, shapes: Shapes) -> Flops:
        """Squares, their sum over the window, factor, summand, power, quotient."""
        return Flops(0, shapes.made * (self.size + 5))


class MeanVarianceNormalization(Op):
    """(x − mean) / (deviation + 1e-9) over some axes."""

    traits = Trait.FLOAT32
    axes: tuple[int, ...] = (0, 2, 3)

    since = 13
    accuracy = _MOMENTS
    samples = cases(x=[(2, 3, 4, 5)], axes=[(0, 2, 3), (2, -1)])

    def infer(self, x: Value) -> Inferred:
        require_kind(self.name, x.dtype, "f")
        if x.tensor.rank is not None:
            for axis in self.axes:
                normalize_axis(axis, x.rank, self.name)
        return x.type

    def eval(self, x: Array) -> Array:
        wide = x.astype(np.float64)
        centered = wide - mean(wide, self.axes)
        return np.asarray(
            centered / (np.sqrt(mean(centered * centered, self.axes)) + 1e-9), dtype=x.dtype
        )

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.made * 5)
