"""Convolution and its transpose."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from infuse.errors import ShapeError
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.relations import must_equal
from infuse.ir.types import Shape, TensorType
from infuse.ops.core.base import Array, Inferred, Rounding, Sample, same_dtype
from infuse.ops.core.elementwise import require_kind, widened
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.samples import cases
from infuse.ops.core.traits import Trait
from infuse.ops.spatial import Pads, Sliding, padded, split_padding, static, taps, windows

SUMS = Rounding(ulp=4, abs=2e-6, why="long sums round in another order")


class Convolving(Sliding, abstract=True):
    """Filters over the windows of an image, whose channels may form groups that do not mix."""

    group: int = 1

    def shape(self, x: Value, w: Value, b: Value | None = None) -> Shape | None:
        """The shape of the result, None where ranks are not known."""
        if x.tensor.shape is None or w.tensor.shape is None:
            return None
        batch, channels, *sizes = _image(self.name, x, w)
        filters, depth, *kernel = w.shape
        _agree(
            self.name,
            channels,
            depth * self.group,
            "channels of the input",
            "channels of the filters · group",
        )
        _check_groups(self.name, filters, self.group)
        _check_bias(self.name, b, filters)
        kernel = _kernel(self.name, self.kernel_shape, kernel)
        return (batch, filters, *self.window_counts(sizes, kernel))

    def convolve(self, x: Array, w: Array) -> Array:
        """The sums over all windows, in `eval`."""
        sizes, kernel = x.shape[2:], w.shape[2:]
        rank = len(kernel)
        counts = static(self.window_counts(sizes, kernel))
        data = padded(x, self.int_padding(sizes, kernel), 0)
        view = windows(data, kernel, self.steps(rank), self.spread(rank), counts)
        order = (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
        columns = view.transpose(order).reshape(
            x.shape[0], self.group, w[0].size, math.prod(counts)
        )
        result: Array = w.reshape(self.group, w.shape[0] // self.group, -1) @ columns
        return result.reshape(x.shape[0], w.shape[0], *counts)


class Conv(Convolving):
    """Convolution of x (N, C, …) with filters w (M, C/group, …), plus the bias b (M) when there is
    one.
    """

    traits = Trait.TOTAL | Trait.FLOAT32 | Trait.PER_IMAGE
    since = 22
    accuracy = SUMS
    samples = (
        cases(
            x=[(1, 4, 6, 7), (2, 4, 5, 5)],
            w=[(6, 4, 3, 3), (2, 4, 1, 1)],
            b=[(6,), None],
            strides=[(), (2, 1)],
            pads=[(), (1, 0, 2, 1)],
        ),
        cases(x=[(2, 4, 9, 8)], w=[(6, 2, 3, 2)], b=[(6,)], group=[2], dilations=[(), (2, 3)]),
        cases(x=[(1, 8, 5, 5)], w=[(8, 1, 3, 3)], b=[(8,)], group=[8], pads=[(1, 1, 1, 1)]),
        cases(
            x=[(1, 2, 6, 7)],
            w=[(3, 2, 3, 2)],
            auto_pad=["SAME_UPPER", "SAME_LOWER", "VALID"],
            strides=[(1, 1), (2, 3)],
        ),
        cases(x=[(2, 3, 11)], w=[(4, 3, 3)], pads=[(1, 1)]),
        cases(x=[(1, 2, 4, 5, 6)], w=[(3, 2, 2, 3, 2)], b=[(3,)]),
    )

    def infer(self, x: Value, w: Value, b: Value | None = None) -> Inferred:
        dtype = require_kind(self.name, same_dtype(self.name, x, w, b), "f")
        return TensorType(dtype, self.shape(x, w, b))

    def eval(self, x: Array, w: Array, b: Array | None = None) -> Array:
        result = self.convolve(widened(x), widened(w))
        if b is not None:
            result = result + widened(b).reshape(-1, *(1,) * (x.ndim - 2))
        return np.asarray(result, dtype=x.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(
            shapes.made * dims.product(shapes.input(1)[1:]), shapes.made * int(shapes.has(2))
        )


class ConvTranspose(Sliding):
    """The transpose of a convolution: x (N, C, …) spread by filters w (C, M/group, …), plus the
    bias b (M).
    """

    traits = Trait.FLOAT32 | Trait.PER_IMAGE
    group: int = 1
    output_padding: tuple[int, ...] = ()
    output_shape: tuple[int, ...] = ()

    since = 22
    accuracy = SUMS
    samples = (
        cases(
            x=[(1, 4, 5, 6)],
            w=[(4, 3, 3, 2)],
            b=[(3,)],
            strides=[(), (2, 3)],
            pads=[(), (1, 0, 1, 1)],
            dilations=[(), (2, 1)],
        ),
        cases(
            x=[(2, 4, 5)],
            w=[(4, 2, 3)],
            b=[(4,)],
            group=[2],
            strides=[(2,)],
            output_padding=[(), (1,)],
        ),
        cases(x=[(1, 2, 4, 4)], w=[(2, 3, 3, 3)], strides=[(2, 2)], output_shape=[(8, 8), (9, 7)]),
        Sample(
            {"x": (1, 2, 4, 5), "w": (2, 3, 3, 3)}, {"strides": (2, 2), "auto_pad": "SAME_UPPER"}
        ),
        Sample(
            {"x": (1, 2, 4, 5), "w": (2, 3, 3, 3)}, {"strides": (2, 2), "auto_pad": "SAME_LOWER"}
        ),
    )

    def infer(self, x: Value, w: Value, b: Value | None = None) -> Inferred:
        dtype = require_kind(self.name, same_dtype(self.name, x, w, b), "f")
        if x.tensor.shape is None or w.tensor.shape is None:
            return TensorType(dtype, None)
        batch, channels, *sizes = _image(self.name, x, w)
        depth, per_group, *kernel = w.shape
        _agree(self.name, channels, depth, "channels of the input", "first size of the filters")
        _check_groups(self.name, depth, self.group)
        _check_bias(self.name, b, per_group * self.group)
        kernel = _kernel(self.name, self.kernel_shape, kernel)
        counts, _ = self.placement(sizes, kernel)
        return TensorType(dtype, (batch, per_group * self.group, *counts))

    def placement(self, sizes: Sequence[Dim], kernel: Sequence[Dim]) -> tuple[Shape, Pads]:
        """Output sizes, and what is cut off before and after each spatial axis of the spread
        input.
        """
        rank = len(sizes)
        extra = self._per_axis_or_zero("output_padding", self.output_padding, rank)
        steps = self.steps(rank)
        full = [
            s * (size - 1) + p + e
            for s, size, p, e in zip(steps, sizes, extra, self.extents(kernel))
        ]
        if self.output_shape:
            results: tuple[Dim, ...] = self._per_axis_or_zero(
                "output_shape", self.output_shape, rank
            )
        elif self.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            results = tuple(size * s for size, s in zip(sizes, steps))
        else:
            pads = self.padding(sizes, kernel)
            return tuple(f - begin - end for f, (begin, end) in zip(full, pads)), pads
        totals = [dims.maximum(f - n, 0) for f, n in zip(full, results)]
        return results, tuple(split_padding(t, self.auto_pad == "SAME_UPPER") for t in totals)

    def _per_axis_or_zero(self, what: str, values: tuple[int, ...], rank: int) -> tuple[int, ...]:
        if len(values) not in (0, rank):
            raise ShapeError(
                f"{self.name} over {rank} spatial axes needs {rank} in {what}, found {len(values)}"
            )
        return values or (0,) * rank

    def eval(self, x: Array, w: Array, b: Array | None = None) -> Array:
        wide, filters = widened(x), widened(w)
        batch, channels, *sizes = x.shape
        _, per_group, *kernel = w.shape
        rank = len(sizes)
        shape, pads = self.placement(sizes, kernel)
        counts = static(shape)
        grouped = wide.reshape(batch, self.group, channels // self.group, math.prod(sizes))
        flat = filters.reshape(self.group, channels // self.group, -1)
        spread = (flat.transpose(0, 2, 1) @ grouped).reshape(
            batch, self.group, per_group, *kernel, *sizes
        )
        extents = static(self.extents(kernel))
        spans = [(n - 1) * s + e for n, s, e in zip(sizes, self.steps(rank), extents)]
        full = np.zeros((batch, self.group, per_group, *spans), dtype=wide.dtype)
        for index, place in taps(kernel, self.steps(rank), self.spread(rank), sizes):
            full[place] += spread[(slice(None),) * 3 + index]
        begins = [int(p[0]) for p in pads]
        result = padded(full, [(-p, n + p - span) for p, n, span in zip(begins, counts, spans)], 0)
        result = result.reshape(batch, per_group * self.group, *counts)
        if b is not None:
            result = result + widened(b).reshape(-1, *(1,) * rank)
        return np.asarray(result, dtype=x.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(
            shapes.size(0) * dims.product(shapes.input(1)[1:]), shapes.made * int(shapes.has(2))
        )


def _image(name: str, x: Value, w: Value) -> Shape:
    """The shape of x, which must have spatial axes, as many as the filters."""
    if x.rank < 3:
        raise ShapeError(f"{name} takes an input of rank 3 or more, found {x.type}")
    if w.rank != x.rank:
        raise ShapeError(f"{name} needs filters of rank {x.rank} like its input, found {w.type}")
    return x.shape


def _kernel(name: str, stated: tuple[int, ...], kernel: Sequence[Dim]) -> list[Dim]:
    """Sizes of the window; the attribute must agree with the filters."""
    if stated and len(stated) != len(kernel):
        raise ShapeError(
            f"kernel_shape {list(stated)} of {name} does not fit filters over {len(kernel)} "
            "spatial axes"
        )
    for a, b in zip(stated, kernel):
        _agree(name, a, b, "kernel_shape", "size of the filters")
    if any(isinstance(size, int) and size < 1 for size in kernel):
        raise ShapeError(f"{name} needs filters of at least one element along each spatial axis")
    return list(stated or kernel)


def _agree(name: str, a: Dim, b: Dim, what: str, other: str) -> None:
    if not must_equal(a, b):
        raise ShapeError(f"{name}: {what} ({a}) and {other} ({b}) must be equal")


def _check_groups(name: str, channels: Dim, group: int) -> None:
    if group < 1 or not must_equal(dims.mod(channels, group), 0):
        raise ShapeError(f"{name} cannot divide {channels} filters into {group} groups")


def _check_bias(name: str, b: Value | None, filters: Dim) -> None:
    if b is None or b.tensor.shape is None:
        return
    if len(b.shape) != 1:
        raise ShapeError(f"the bias of {name} must be a vector, found {b.type}")
    _agree(name, b.shape[0], filters, "size of the bias", "output channels")
