"""Operators that add elements around a tensor, or cut them off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse.errors import ShapeError, UnsupportedOperatorError
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.expression import Call
from infuse.ir.graph import Node, Value
from infuse.ir.relations import must_hold
from infuse.ir.types import TensorType
from infuse.ops.core.axes import Axes, same_axes
from infuse.ops.core.base import Array, Inferred, Op
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import (
    fresh_dim,
    fresh_tensor,
    int64s,
    integers,
    known_axes,
    normalize_axes,
    scalar,
    with_dim,
)
from infuse.ops.core.traits import Trait


class Pad(Op):
    """Elements added before and after each axis: a constant, the edge, a reflection or a
    repetition; negative ones cut.

    `pads` lists what is added before each axis, then what is added after each.
    """

    traits = Trait.ZERO_FLOPS

    mode: str = "constant"

    since = 19
    carries_dims = True
    samples = (
        cases(
            data=[(3, 4), (3, 4), (2, 3, 4)],
            pads=[int64s(1, 0, 2, 1), int64s(0, 2), int64s(1, 2, 0, 1)],
            axes=[None, int64s(1), int64s(0, -1)],
            mode=["constant", "edge", "reflect", "wrap"],
        ),
        cases(
            data=[(3, 4), Ints((3, 4))],
            pads=[int64s(1, 2, 0, 1), int64s(0, 1, 1, 0)],
            constant_value=[np.array(1.5, np.float32), np.array(-7)],
        ),
    )

    def infer(
        self,
        data: Value,
        pads: Value,
        constant_value: Value | None = None,
        axes: Value | None = None,
    ) -> Inferred:
        if self.mode not in ("constant", "edge", "reflect", "wrap"):
            raise UnsupportedOperatorError(f"mode {self.mode!r} of Pad is not known")
        shape = data.tensor.shape
        if shape is None:
            return TensorType(data.dtype, None)
        padded = (
            tuple(range(len(shape))) if axes is None else known_axes(axes, len(shape), self.name)
        )
        amounts = known_ints(pads)
        if padded is None:
            return fresh_tensor(data.dtype, len(shape), "pad")
        if amounts is not None and len(amounts) != 2 * len(padded):
            raise ShapeError(
                f"Pad of {len(padded)} axes needs {2 * len(padded)} amounts, found {len(amounts)}"
            )
        for place, axis in enumerate(padded):
            if amounts is None:
                shape = with_dim(shape, axis, fresh_dim("pad"))
                continue
            size, before, after = shape[axis], amounts[place], amounts[place + len(padded)]
            self._check_cut(size, before, after)
            shape = with_dim(shape, axis, size + before + after)
        return TensorType(data.dtype, shape)

    def shared_axes(self, node: Node) -> Axes | None:
        pads = node.inputs[1]
        assert pads is not None
        rank = node.output.tensor.rank
        if pads.const is None or node.input(3) is not None or rank is None:
            return None
        return same_axes(node, [axis for axis in range(rank) if pads.const[axis::rank].any()])

    def with_axes(self, node: Node, args: Sequence[Any], axes: Axes) -> Call | None:
        pads, order = node.inputs[1], axes.result
        assert pads is not None
        assert pads.const is not None
        amounts = pads.const.reshape(2, -1)
        own = set(range(amounts.shape[1]))
        if axes.operands[0] != order or not axes.mixed <= set(order) <= own:
            return None
        amounts = amounts[:, list(order)]
        return self.called((args[0], amounts.reshape(-1), *args[2:]))

    def eval(
        self,
        data: Array,
        pads: Array,
        constant_value: Array | None = None,
        axes: Array | None = None,
    ) -> Array:
        padded = normalize_axes(
            integers(axes) if axes is not None else range(data.ndim), data.ndim, self.name
        )
        amounts = integers(pads)
        width = [(0, 0)] * data.ndim
        for place, axis in enumerate(padded):
            width[axis] = (amounts[place], amounts[place + len(padded)])
        for size, (before, after) in zip(data.shape, width):
            self._check_cut(size, before, after)
        inner = tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(data.shape, width))
        added = [(max(a, 0), max(b, 0)) for a, b in width]
        if self.mode == "constant":
            nothing = (
                "" if data.dtype == object and any(isinstance(v, str) for v in data.flat) else 0
            )
            fill = nothing if constant_value is None else scalar(constant_value)
            if data.dtype != object:
                return np.pad(data[inner], added, constant_values=data.dtype.type(fill))
            whole = np.full(
                [n + a + b for n, (a, b) in zip(data[inner].shape, added)], fill, dtype=object
            )
            whole[tuple(slice(a, n + a) for n, (a, _) in zip(data[inner].shape, added))] = data[
                inner
            ]
            return whole
        return np.pad(data[inner], added, mode=self.mode)  # type: ignore[call-overload, no-any-return]

    def _check_cut(self, size: Dim, before: Dim, after: Dim) -> None:
        """ShapeError when more is cut off than there is, or nothing is left that could be
        repeated.
        """
        left = size + dims.minimum(before, 0) + dims.minimum(after, 0)
        if not must_hold(0, "<=", left):
            raise ShapeError(
                f"Pad by {before} and {after} cuts more than the {size} elements of an axis"
            )
        grows = any(dims.compare("<", 0, amount) is not False for amount in (before, after))
        if grows and self.mode != "constant" and not must_hold(1, "<=", left):
            raise ShapeError(f"Pad by {before} and {after} leaves no element of an axis to repeat")


class CenterCropPad(Op):
    """The middle of each axis, cut or padded with zeros to the wanted size."""

    traits = Trait.ZERO_FLOPS

    axes: tuple[int, ...] | None = None

    since = 18
    samples = (
        cases(input_data=[(5, 8), (4, 3)], shape=[int64s(7, 3), int64s(1, 6)]),
        cases(input_data=[(5, 8, 3)], shape=[int64s(2, 6)], axes=[(0, 2), (-2, -1)]),
    )

    def infer(self, input_data: Value, shape: Value) -> Inferred:
        sizes, targets = input_data.tensor.shape, known_ints(shape)
        if sizes is None:
            return TensorType(input_data.dtype, None)
        axes = self._axes(len(sizes))
        if targets is not None and len(targets) != len(axes):
            raise ShapeError(f"CenterCropPad of {len(axes)} axes is given {len(targets)} sizes")
        for place, axis in enumerate(axes):
            sizes = with_dim(sizes, axis, fresh_dim("crop") if targets is None else targets[place])
        return TensorType(input_data.dtype, sizes)

    def _axes(self, rank: int) -> tuple[int, ...]:
        return (
            tuple(range(rank)) if self.axes is None else normalize_axes(self.axes, rank, self.name)
        )

    def eval(self, input_data: Array, shape: Array) -> Array:
        result = input_data
        for axis, target in zip(self._axes(input_data.ndim), integers(shape)):
            size = result.shape[axis]
            start = max(size - target, 0) // 2
            result = np.take(result, range(start, start + min(size, target)), axis)
            missing = max(target - size, 0)
            added = [(0, 0)] * result.ndim
            added[axis] = (missing // 2, missing - missing // 2)
            result = np.pad(result, added)
        return result
