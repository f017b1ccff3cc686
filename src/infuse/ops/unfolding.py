"""Windows that are put together again, put back where they came from, or read at places of their
own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse.errors import DataError, ShapeError
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.types import Shape, TensorType
from infuse.ops.core.base import Array, Inferred, Op, Rounding, same_dtype
from infuse.ops.core.elementwise import require_kind, widened
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import (
    agree,
    agree_shapes,
    at_most,
    fresh_dim,
    int64s,
    integers,
    length,
    require_rank,
    whole_parts,
)
from infuse.ops.core.traits import Trait
from infuse.ops.spatial import padded, taps

ALL = slice(None)
Steps = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def index_of(*parts: Any) -> Any:
    """The index of an array that has these parts."""
    return parts


def steps_of(op: Op, rank: int) -> Steps:
    """Strides, dilations and pads (all begins, then all ends) of `rank` axes; defaults where they
    are not given.
    """
    steps = []
    for name, count, default in (
        ("strides", rank, 1),
        ("dilations", rank, 1),
        ("pads", 2 * rank, 0),
    ):
        numbers = op.attributes().get(name, ())
        if len(numbers) not in (0, count) or (default and any(v < 1 for v in numbers)):
            raise ShapeError(
                f"{op.name} over {rank} spatial axes needs {count} {name}, found {list(numbers)}"
            )
        steps.append(tuple(numbers) or (default,) * count)
    strides, dilations, pads = steps
    return strides, dilations, pads


def blocks_along(op: Op, sizes: Sequence[Dim], kernel: Sequence[Dim]) -> Shape:
    """How many windows there are along each axis of an image."""
    rank = len(sizes)
    strides, dilations, pads = steps_of(op, rank)
    room = [
        size + before + after - (k - 1) * spread - 1
        for size, before, after, k, spread in zip(
            sizes, pads[:rank], pads[rank:], kernel, dilations
        )
    ]
    return tuple(dims.floordiv(r, step) + 1 for r, step in zip(room, strides))


class Col2Im(Op):
    """The image whose windows are the columns of the input (N, C · window, windows): what overlaps
    is added up.
    """

    dilations: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()

    since = 18
    accuracy = Rounding(ulp=4, abs=1e-6, why="sums round in another order")
    samples = (
        cases(input=[(2, 10, 5)], image_shape=[int64s(5, 5)], block_shape=[int64s(1, 5)]),
        cases(
            input=[(1, 12, 9)],
            image_shape=[int64s(6, 7)],
            block_shape=[int64s(2, 3)],
            strides=[(2, 2)],
        ),
        cases(
            input=[(1, 4, 16)],
            image_shape=[int64s(5, 6)],
            block_shape=[int64s(2, 2)],
            dilations=[(1, 2)],
        ),
        cases(
            input=[(1, 8, 27)],
            image_shape=[int64s(3, 2, 2)],
            block_shape=[int64s(2, 2, 1)],
            pads=[(0, 1, 1, 1, 1, 0)],
        ),
        cases(input=[Ints((1, 3, 4), -40, 40)], image_shape=[int64s(6)], block_shape=[int64s(3)]),
    )

    def infer(self, input: Value, image_shape: Value, block_shape: Value) -> Inferred:
        require_rank(input, 3, self.name, "input")
        image, block = known_ints(image_shape), known_ints(block_shape)
        rank = length(image_shape) if image is None else len(image)
        if rank is None:
            return TensorType(input.dtype, None)
        if block is not None and len(block) != rank:
            raise ShapeError(
                f"Col2Im is given {rank} sizes of the image and {len(block)} of the blocks"
            )
        steps_of(self, rank)
        sizes = image if image is not None else tuple(fresh_dim("image") for _ in range(rank))
        if input.tensor.shape is None:
            return TensorType(input.dtype, (fresh_dim("batch"), fresh_dim("channels"), *sizes))
        batch, columns, count = input.shape
        channels = fresh_dim("channels") if block is None else self.channels(columns, block)
        if image is not None and block is not None:
            agree(count, dims.product(blocks_along(self, image, block)), "blocks of Col2Im")
        return TensorType(input.dtype, (batch, channels, *sizes))

    def channels(self, columns: Dim, block: Sequence[Dim]) -> Dim:
        """How many channels the image has."""
        window = dims.product(block)
        return whole_parts(columns, window, "columns and the elements of a block of Col2Im")

    def eval(self, input: Array, image_shape: Array, block_shape: Array) -> Array:
        image, block = integers(image_shape), integers(block_shape)
        rank = len(image)
        strides, dilations, pads = steps_of(self, rank)
        counts = [int(n) for n in blocks_along(self, image, block)]
        if min(counts) < 1 or math.prod(counts) != input.shape[2]:
            raise DataError(f"Col2Im needs {math.prod(counts)} blocks, found {input.shape[2]}")
        channels = int(self.channels(input.shape[1], block))
        wide = widened(input).reshape(len(input), channels, *block, *counts)
        spans = [
            (n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(counts, strides, block, dilations)
        ]
        total = np.zeros((len(input), channels, *spans), wide.dtype)
        for index, place in taps(block, strides, dilations, counts):
            total[place] += wide[(slice(None),) * 2 + index]
        cut = [(-before, size + before - span) for before, size, span in zip(pads, image, spans)]
        return np.asarray(padded(total, cut, 0), dtype=input.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.size(0))


class MaxUnpool(Op):
    """Every element of X at its index I in the flat result, zeros elsewhere; the result fills the
    beginning of `output_shape` where one is given.
    """

    traits = Trait.ZERO_FLOPS

    kernel_shape: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()

    since = 22
    samples = (
        cases(
            X=[(1, 1, 2, 2), (1, 1, 2, 2)],
            I=[np.array([[[[5, 7], [13, 15]]]])] * 2,
            output_shape=[None, int64s(1, 1, 5, 6)],
            kernel_shape=[(2, 2)],
            strides=[(2, 2)],
        ),
        cases(
            X=[(2, 1, 3)],
            I=[np.array([[[0, 3, 4]], [[6, 7, 11]]])],
            kernel_shape=[(2,)],
            strides=[(2,)],
        ),
        cases(
            X=[(1, 2, 1, 1, 2)],
            I=[np.array([[[[[3, 0]]], [[[9, 15]]]]])],
            kernel_shape=[(2, 2, 3)],
            pads=[(0, 0, 1, 0, 0, 1)],
        ),
    )

    def infer(self, X: Value, I: Value, output_shape: Value | None = None) -> Inferred:  # noqa: E741
        dtype = require_kind(self.name, X.dtype, "f")
        if X.tensor.shape is None:
            return TensorType(dtype, None)
        require_rank(I, X.rank, self.name, "I")
        if I.tensor.shape is not None:
            agree_shapes(I.shape, X.shape, "elements and indices of MaxUnpool")
        least = self.unpooled(X.shape)
        if output_shape is None:
            return TensorType(dtype, least)
        sizes = known_ints(output_shape)
        if sizes is None:
            return TensorType(dtype, tuple(fresh_dim("unpooled") for _ in X.shape))
        if len(sizes) != X.rank:
            raise ShapeError(
                f"MaxUnpool makes at least ({', '.join(map(str, least))}), asked for {list(sizes)}"
            )
        for smaller, size in zip(least, sizes):
            at_most(smaller, size, "the sizes of the result of MaxUnpool")
        return TensorType(dtype, sizes)

    def unpooled(self, shape: Shape) -> Shape:
        """The shape in which the indices count."""
        rank = len(self.kernel_shape)
        if len(shape) != rank + 2 or rank == 0:
            raise ShapeError(
                f"MaxUnpool over {rank} spatial axes takes an input of rank {rank + 2}"
            )
        strides, _, pads = steps_of(self, rank)
        rows = zip(shape[2:], strides, pads[:rank], pads[rank:], self.kernel_shape)
        return (*shape[:2], *((n - 1) * s - a - b + k for n, s, a, b, k in rows))

    def eval(self, X: Array, I: Array, output_shape: Array | None = None) -> Array:  # noqa: E741
        least = tuple(int(n) for n in self.unpooled(X.shape))
        flat = np.zeros(math.prod(least), X.dtype)
        if I.shape != X.shape or (I.size and (I.min() < 0 or I.max() >= flat.size)):
            raise DataError(f"MaxUnpool: indices {I.shape} of {flat.size} elements do not fit")
        flat[I.reshape(-1)] = X.reshape(-1)
        if output_shape is None:
            return flat.reshape(least)
        shape = tuple(integers(output_shape))
        if len(shape) != len(least) or any(a < b for a, b in zip(shape, least)):
            raise DataError(f"MaxUnpool makes at least {least}, asked for {shape}")
        result = np.zeros(shape, X.dtype)
        result[tuple(slice(0, n) for n in least)] = flat.reshape(least)
        return result


class DeformConv(Op):
    """Convolution of X (N, C, …) whose every tap lies where `offset` moves it, times `mask`;
    between pixels the image is linear, outside it is zero.
    """

    dilations: tuple[int, ...] = ()
    group: int = 1
    kernel_shape: tuple[int, ...] = ()
    offset_group: int = 1
    pads: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()

    since = 22
    accuracy = Rounding(
        ulp=8, abs=2e-5, why="places round before the elements are weighed; long sums"
    )
    samples = (
        cases(
            X=[(2, 4, 6, 5), (2, 4, 6, 5)],
            W=[(6, 4, 3, 2), (6, 4, 3, 2)],
            offset=[(2, 12, 6, 5), (2, 12, 6, 5)],
            B=[(6,), None],
            mask=[None, (2, 6, 6, 5)],
            pads=[(1, 1, 1, 0)],
        ),
        cases(
            X=[(1, 4, 7, 7)],
            W=[(6, 2, 2, 2)],
            offset=[(1, 16, 3, 3)],
            B=[(6,)],
            mask=[(1, 8, 3, 3)],
            group=[2],
            offset_group=[2],
            strides=[(2, 2)],
            dilations=[(2, 2)],
        ),
    )

    def infer(
        self, X: Value, W: Value, offset: Value, B: Value | None = None, mask: Value | None = None
    ) -> Inferred:
        dtype = require_kind(self.name, same_dtype(self.name, X, W, offset, B, mask), "f")
        if X.tensor.shape is None or W.tensor.shape is None or offset.tensor.shape is None:
            return TensorType(dtype, None)
        rank = X.rank - 2
        if (
            rank < 1
            or W.rank != X.rank
            or offset.rank != X.rank
            or len(self.kernel_shape) not in (0, rank)
        ):
            raise ShapeError(
                f"DeformConv takes an image, filters and offsets of one rank, found {X.type}, "
                f"{W.type}"
            )
        agree(X.shape[1], W.shape[1] * self.group, "channels of DeformConv")
        window = dims.product(W.shape[2:])
        agree(offset.shape[1], window * (self.offset_group * rank), "offsets of DeformConv")
        counts = blocks_along(self, X.shape[2:], W.shape[2:])
        counts = tuple(
            agree(a, b, "windows of DeformConv") for a, b in zip(counts, offset.shape[2:])
        )
        if mask is not None and mask.tensor.shape is not None:
            agree(mask.shape[1], window * self.offset_group, "masks of DeformConv")
        whole_parts(W.shape[0], self.group, "filters and groups of DeformConv")
        whole_parts(X.shape[1], self.offset_group, "channels and groups of offsets of DeformConv")
        agree(offset.shape[0], X.shape[0], "batches of DeformConv")
        if mask is not None and mask.tensor.shape is not None:
            agree(mask.shape[0], X.shape[0], "batches of DeformConv")
            agree_shapes(mask.shape[2:], counts, "windows of DeformConv")
        return TensorType(dtype, (X.shape[0], W.shape[0], *counts))

    def eval(
        self, X: Array, W: Array, offset: Array, B: Array | None = None, mask: Array | None = None
    ) -> Array:
        batch, channels, *sizes = X.shape
        filters, depth, *kernel = W.shape
        counts, rank, groups = offset.shape[2:], len(kernel), self.offset_group
        windows = blocks_along(self, tuple(sizes), tuple(kernel))
        agree_shapes(counts, windows, "windows of DeformConv")
        strides, dilations, pads = steps_of(self, rank)
        moved = widened(offset).reshape(batch, groups, *kernel, rank, *counts)
        weights = None if mask is None else widened(mask).reshape(batch, groups, *kernel, *counts)
        image = widened(X).reshape(batch, groups, channels // groups, *sizes)
        columns = np.zeros((batch, channels, math.prod(kernel), *counts), image.dtype)
        starts = np.meshgrid(
            *(np.arange(n) * s - p for n, s, p in zip(counts, strides, pads)), indexing="ij"
        )
        for tap, index in enumerate(itertools.product(*map(range, kernel))):
            at = [
                starts[a] + index[a] * dilations[a] + moved[index_of(ALL, ALL, *index, a)]
                for a in range(rank)
            ]
            samples = _between(image, at)
            if weights is not None:
                samples = samples * weights[index_of(ALL, ALL, *index)][:, :, None]
            columns[:, :, tap] = samples.reshape(batch, channels, *counts)
        places = math.prod(counts)
        flat = columns.reshape(batch, self.group, depth * math.prod(kernel), places)
        result = widened(W).reshape(self.group, filters // self.group, -1) @ flat
        result = result.reshape(batch, filters, *counts)
        if B is not None:
            result = result + widened(B).reshape(-1, *(1,) * rank)
        return np.asarray(result, dtype=X.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        """What a convolution does, and the blending of what its taps read."""
        rank = len(shapes.input(0)) - 2
        taps = dims.product(shapes.input(1)[2:])
        windows = shapes.outputs[0][0] * dims.product(shapes.outputs[0][2:])
        blended = windows * taps * shapes.input(0)[1]
        bias = shapes.made if shapes.has(3) else 0
        return Flops(shapes.made * dims.product(shapes.input(1)[1:]) + blended * 2**rank, bias)


def _between(image: Array, places: list[Array]) -> Array:
    """Images [n, g, c, …] at places [n, g, …] between their pixels, zero outside: [n, g, c, …]."""
    sizes = image.shape[3:]
    lead = np.ix_(*map(np.arange, image.shape[:2]))
    lead = tuple(i.reshape(*i.shape, *(1,) * len(sizes)) for i in lead)
    result = np.zeros((*places[0].shape, image.shape[2]), image.dtype)
    places = [np.clip(np.where(np.isnan(p), -2, p), -2, n + 1) for p, n in zip(places, sizes)]
    near = np.logical_and.reduce([(p > -1) & (p < n) for p, n in zip(places, sizes)])
    for corner in itertools.product((0, 1), repeat=len(sizes)):
        index, weight, inside = [], np.ones_like(places[0]), near
        for place, size, up in zip(places, sizes, corner):
            spot = np.floor(place) + up
            weight = weight * (1 - np.abs(place - spot))
            inside = inside & (spot >= 0) & (spot < size)
            index.append(np.clip(spot, 0, size - 1).astype(np.intp))
        pixels = image[index_of(*lead, ALL, *index)]
        result += np.where(inside[..., None], pixels * weight[..., None], 0)
    return np.moveaxis(result, -1, 2)
