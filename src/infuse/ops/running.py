"""Running sums and products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from infuse import dtypes
from infuse.errors import ShapeError, TypeMismatchError
from infuse.ir.expression import Call
from infuse.ir.graph import Node, Value
from infuse.ir.relations import must_equal
from infuse.ops.core.axes import Axes, axis_of_lines, same_axes
from infuse.ops.core.base import Array, Inferred, Op, Sample, normalize_axis
from infuse.ops.core.elementwise import require_kind, widened
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import int64s
from infuse.ops.core.traits import Trait
from infuse.ops.reduction import SUMS, ReduceProd

_LINES = (
    cases(
        x=[(5,), (2, 3, 4)],
        axis=[int64s(0).reshape(()), int64s(-1).reshape(())],
        exclusive=[0, 1],
        reverse=[0, 1],
    ),
    Sample({"x": Ints((4, 3)), "axis": np.array(1, np.int32)}, {"reverse": 1}),
)


class _Running(Op, abstract=True):
    """A running combination along the axis that the second input names."""

    traits = Trait.FLOAT32
    exclusive: int = 0
    reverse: int = 0

    start: ClassVar[int] = 0

    def infer(self, x: Value, axis: Value) -> Inferred:
        require_kind(self.name, x.dtype, "fiu")
        if axis.dtype not in (dtypes.int32, dtypes.int64):
            raise TypeMismatchError(
                f"the axis of {self.name} must be int32 or int64, found {axis.dtype}"
            )
        if axis.tensor.size is not None and not must_equal(axis.tensor.size, 1):
            raise ShapeError(f"{self.name} runs along one axis, found {axis.type}")
        if x.tensor.rank is not None and axis.const is not None:
            normalize_axis(int(axis.const.reshape(-1)[0]), x.rank, self.name)
        return x.type

    def shared_axes(self, node: Node) -> Axes | None:
        axis, rank = node.inputs[1], node.output.tensor.rank
        if not rank or axis is None or axis.const is None:
            return None
        return same_axes(node, [normalize_axis(int(axis.const.reshape(-1)[0]), rank, self.name)])

    def with_axes(self, node: Node, args: Sequence[Any], axes: Axes) -> Call | None:
        axis = axis_of_lines(axes)
        return None if axis is None else self.called((args[0], np.array(axis)))

    def run(self, x: Array, axis: int) -> Array:
        """The running combination, from the first element on, inclusive."""
        raise NotImplementedError

    def eval(self, x: Array, axis: Array) -> Array:
        along = normalize_axis(int(axis.reshape(-1)[0]), x.ndim, self.name)
        wide = x if x.dtype == object else widened(x)
        line = np.flip(wide, along) if self.reverse else wide
        if self.exclusive:
            line = np.roll(line, 1, along)
            line[(slice(None),) * along + (slice(0, 1),)] = self.start
        result = self.run(line, along)
        return np.asarray(np.flip(result, along) if self.reverse else result, dtype=x.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.size(0))


class CumSum(_Running):
    """Running sums along an axis; `exclusive` leaves out the element itself, `reverse` starts at
    the end.
    """

    since = 14
    carries_dims = True
    accuracy = SUMS
    samples = _LINES

    def run(self, x: Array, axis: int) -> Array:
        return np.cumsum(x, axis=axis, dtype=x.dtype)


class CumProd(_Running):
    """Running products along an axis; `exclusive` leaves out the element itself, `reverse` starts
    at the end.
    """

    since = 26
    start = 1
    carries_dims = True
    accuracy = ReduceProd.accuracy
    samples = _LINES

    def run(self, x: Array, axis: int) -> Array:
        return np.cumprod(x, axis=axis, dtype=x.dtype)
