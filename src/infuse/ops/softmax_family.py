"""The softmax family, and other work on the lines along one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse.ir.expression import Call
from infuse.ir.graph import Node, Value
from infuse.ops.core.axes import Axes, axis_of_lines, same_axes
from infuse.ops.core.base import Array, Inferred, Op, Rounding, normalize_axis
from infuse.ops.core.elementwise import f32, require_kind, widened
from infuse.ops.core.flops import SOFTMAX, Flops, Shapes
from infuse.ops.core.samples import cases
from infuse.ops.core.traits import Trait


class _AlongAxis(Op, abstract=True):
    """An operator that treats every line along one axis on its own."""

    traits = Trait.FLOAT32
    axis: int = -1

    def infer(self, x: Value) -> Inferred:
        require_kind(self.name, x.dtype, "f")
        if x.tensor.rank is not None:
            normalize_axis(self.axis, x.rank, self.name)
        return x.type

    def shared_axes(self, node: Node) -> Axes | None:
        rank = node.output.tensor.rank
        return None if not rank else same_axes(node, [normalize_axis(self.axis, rank, self.name)])

    def with_axes(self, node: Node, args: Sequence[Any], axes: Axes) -> Call | None:
        axis = axis_of_lines(axes)
        if axis is None:
            return None
        return self.called(args, axis=axis - len(axes.result) if self.axis < 0 else axis)


class LpNormalization(_AlongAxis):
    """x divided by its Lp norm along one axis (p is 1 or 2); where the norm is zero, zero."""

    p: int = 2

    since = 22
    accuracy = Rounding(ulp=8, abs=1e-6, why="sums round in another order")
    samples = cases(x=[(2, 3), (2, 5, 3), np.zeros((2, 2), np.float32)], axis=[-1, 0], p=[1, 2])

    def eval(self, x: Array) -> Array:
        powers = np.abs(x.astype(np.float64)) ** self.p
        # native code adds in this type, where squares overflow
        total = powers.sum(axis=self.axis, keepdims=True).astype(
            np.result_type(x.dtype, np.float32)
        )
        norm = np.sqrt(total) if self.p == 2 else total
        return np.asarray(x / np.where(norm == 0, 1, norm), dtype=x.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.made * 3)


class Softmax(_AlongAxis):
    """Exponentials along one axis, scaled so that they sum to one."""

    traits = Trait.TOTAL | Trait.NONNEGATIVE
    since = 13
    accuracy = Rounding(ulp=8, why="exponentials are rounded before and after they are summed")
    samples = cases(x=[(3,), (2, 5), (4, 1, 7)], axis=[-1, 0])

    def eval(self, x: Array) -> Array:
        powers = _powers(x, self.axis)
        return np.asarray(powers / powers.sum(axis=self.axis, keepdims=True), dtype=x.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.made * SOFTMAX)


class LogSoftmax(_AlongAxis):
    """Logarithm of the softmax along one axis."""

    traits = Trait.TOTAL
    since = 13
    accuracy = Rounding(ulp=8, abs=5e-7, why="near zero the difference cancels")
    samples = Softmax.samples

    def eval(self, x: Array) -> Array:
        wide = widened(x)
        total = _powers(x, self.axis).sum(axis=self.axis, keepdims=True)
        largest = wide.max(axis=self.axis, keepdims=True, initial=-np.inf)
        return np.asarray(wide - largest - np.log(total), dtype=x.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.made * SOFTMAX)


def _powers(x: Array, axis: int) -> Array:
    """Exponentials of x, relative to the largest of each line."""
    wide = widened(x)
    powers: Array = np.exp(wide - wide.max(axis=axis, keepdims=True, initial=-np.inf))
    return powers


class Hardmax(_AlongAxis):
    """1 at the first largest element along one axis, 0 elsewhere."""

    traits = Trait.ZERO_GRADIENT
    since = 13
    samples = cases(x=[(3,), (2, 5), f32(1, 3, 3, 2)], axis=[-1, 0])

    def eval(self, x: Array) -> Array:
        result = np.zeros_like(x)
        best = widened(x).argmax(axis=self.axis, keepdims=True)
        np.put_along_axis(result, best, x.dtype.type(1), axis=self.axis)
        return result

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.made)
