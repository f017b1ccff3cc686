"""The largest elements along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import ShapeError
from infuse.ir.expression import Call
from infuse.ir.graph import Node, Value
from infuse.ir.types import TensorType
from infuse.ops.core.axes import Axes, axis_of_lines, same_axes
from infuse.ops.core.base import Array, Inferred, Op, normalize_axis
from infuse.ops.core.elementwise import widened
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import (
    at_most,
    fresh_dim,
    int64s,
    known_one,
    scalar,
    with_dim,
)
from infuse.ops.core.traits import Trait


class TopK(Op):
    """The `K` largest (or smallest) elements along an axis, best first, and their places; equal
    ones in order.
    """

    traits = Trait.FLOAT32
    axis: int = -1
    largest: int = 1
    sorted: int = 1
    since = 11
    samples = cases(
        X=[(3, 5), Ints((4, 6), 0, 4), Ints((4, 3), 0, 9, dtypes.uint8)],
        K=[int64s(2), int64s(4), int64s(1)],
        axis=[-1, 0],
        largest=[0, 1],
    )

    def infer(self, X: Value, K: Value) -> Inferred:
        shape, count_dim = X.tensor.shape, known_one(K, self.name)
        if shape is None:
            return TensorType(X.dtype, None), TensorType(dtypes.int64, None)
        axis = normalize_axis(self.axis, len(shape), self.name)
        count = fresh_dim("top") if count_dim is None else count_dim
        if count_dim is not None:
            at_most(count, shape[axis], "elements that TopK asks for")
        chosen = with_dim(shape, axis, count)
        return TensorType(X.dtype, chosen), TensorType(dtypes.int64, chosen)

    def shared_axes(self, node: Node) -> Axes | None:
        rank = node.output.tensor.rank
        return None if not rank else same_axes(node, [normalize_axis(self.axis, rank, self.name)])

    def with_axes(self, node: Node, args: Sequence[Any], axes: Axes) -> Call | None:
        axis = axis_of_lines(axes)
        if axis is None:
            return None
        return self.called(args, axis=axis - len(axes.result) if self.axis < 0 else axis)

    def eval(self, X: Array, K: Array) -> tuple[Array, Array]:
        count, size = int(scalar(K)), X.shape[self.axis]
        if not 0 <= count <= size:
            raise ShapeError(f"TopK asks for {count} of {size} elements")
        wide = widened(X)  # of shorter floats, NumPy puts NaN anywhere
        if self.largest:
            order = (
                size
                - 1
                - np.flip(np.argsort(np.flip(wide, self.axis), self.axis, kind="stable"), self.axis)
            )
        else:
            order = np.argsort(wide, self.axis, kind="stable")
        best = np.take(order, range(count), self.axis).astype(np.int64)
        return np.take_along_axis(X, best, self.axis), best

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.size(0))
