"""Pooling of the regions of images."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from infuse.errors import DataError, ShapeError
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op, Rounding, same_dtype
from infuse.ops.core.elementwise import require_kind, widened
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.samples import cases
from infuse.ops.core.sizes import agree, fresh_dim, int64s, nonempty, require_rank

_MOST_POINTS = 1 << 20
"""Points of a bin along one axis above which the interpreter takes a region for a mistake."""
_MOST_SAMPLES = 1 << 12
"""The same, where the model says how many there are."""


_REGIONS = np.array(
    [[0.5, 1, 4.2, 3.1], [-1, -2, 2.3, 2], [2, 1, 9, 6.5], [3, 3, 3.2, 3.1]], np.float32
)


class RoiAlign(Op):
    """Regions of X (N, C, H, W) pooled to one size, from points that are interpolated."""

    coordinate_transformation_mode: str = "half_pixel"
    mode: str = "avg"
    output_height: int = 1
    output_width: int = 1
    sampling_ratio: int = 0
    spatial_scale: float = 1.0

    since = 22
    accuracy = Rounding(ulp=4, abs=1e-5, why="places round before the elements are weighed")
    samples = (
        cases(
            X=[(2, 3, 6, 7)],
            rois=[_REGIONS],
            batch_indices=[int64s(0, 1, 1, 0)],
            output_height=[3],
            output_width=[2],
            coordinate_transformation_mode=["half_pixel", "output_half_pixel"],
            mode=["avg", "max"],
            sampling_ratio=[0, 2],
        ),
        cases(
            X=[(1, 20, 5, 5)], rois=[_REGIONS[:1]], batch_indices=[int64s(0)], spatial_scale=[0.5]
        ),
    )

    def infer(self, X: Value, rois: Value, batch_indices: Value) -> Inferred:
        dtype = require_kind(self.name, same_dtype(self.name, X, rois), "f")
        if self.mode not in ("avg", "max") or self.output_height < 1 or self.output_width < 1:
            raise ShapeError(
                f"RoiAlign cannot pool by {self.mode} to {self.output_height} × {self.output_width}"
            )
        if self.sampling_ratio > _MOST_SAMPLES:
            raise ShapeError(
                f"RoiAlign takes at most {_MOST_SAMPLES}² points of a bin, not "
                f"{self.sampling_ratio}²"
            )
        require_rank(X, 4, self.name, "X")
        count = regions(self.name, rois, 4)
        require_rank(batch_indices, 1, self.name, "batch_indices")
        if batch_indices.tensor.shape is not None:
            count = agree(count, batch_indices.shape[0], "regions of RoiAlign")
        channels = fresh_dim("channels") if X.tensor.shape is None else X.shape[1]
        for size in () if X.tensor.shape is None else X.shape[2:]:
            nonempty(size, self.name)
        return TensorType(dtype, (count, channels, self.output_height, self.output_width))

    def eval(self, X: Array, rois: Array, batch_indices: Array) -> Array:
        image, boxes = widened(X), widened(rois)
        out = (self.output_height, self.output_width)
        result = np.zeros((len(rois), X.shape[1], *out), image.dtype)
        check_images(self.name, batch_indices, X.shape[0])
        for number, (box, index) in enumerate(zip(boxes, batch_indices)):
            (columns, wide), (rows, high) = (
                self._points(box[i], box[i + 2], n) for i, n in ((0, out[1]), (1, out[0]))
            )
            if wide * high == 0:
                continue
            parts = _corners(image[index], rows, columns)
            points = np.sum(parts, axis=0) if self.mode == "avg" else np.max(parts, axis=0)
            points = points.reshape(-1, out[0], high, out[1], wide)
            result[number] = (
                points.mean(axis=(2, 4)) if self.mode == "avg" else points.max(axis=(2, 4))
            )
        return np.asarray(result, dtype=X.dtype)

    def _points(self, start: Array, end: Array, bins: int) -> tuple[Array, int]:
        """The points along an axis, and how many each bin has."""
        shift = 0.5 if self.coordinate_transformation_mode == "half_pixel" else 0.0
        scale = start.dtype.type(self.spatial_scale)
        first, last = start * scale - shift, end * scale - shift
        size = last - first if shift else max(last - first, start.dtype.type(1))
        width = size / bins
        if not abs(width) <= _MOST_POINTS:
            raise ShapeError(f"a bin of RoiAlign is {width:g} pixels wide; its region is too large")
        count = self.sampling_ratio if self.sampling_ratio > 0 else max(int(np.ceil(width)), 0)
        steps = np.arange(bins, dtype=width.dtype)[:, None] * width + (
            np.arange(count, dtype=width.dtype) + width.dtype.type(0.5)
        ) * width / max(count, 1)
        return (first + steps).reshape(-1), count

    def flops(self, shapes: Shapes) -> Flops:
        """Four elements for every point; where their number follows from the regions, it is taken
        to be four a bin.
        """
        points = (self.sampling_ratio or 2) ** 2
        return Flops(shapes.made * points * 4, shapes.made)


def _corners(image: Array, rows: Array, columns: Array) -> list[Array]:
    """The four pixels (C, rows, columns) around every point, weighed; points outside weigh the
    first pixel with 0.
    """
    around, found = [], []
    for place, size in ((rows, image.shape[1]), (columns, image.shape[2])):
        inside = (place >= -1) & (place <= size)
        near = np.clip(np.where(inside, place, 0), 0, size - 1)
        low = np.floor(near).astype(np.intp)
        high = np.minimum(low + 1, size - 1)
        around.append(((low, 1 - (near - low)), (high, near - low)))
        found.append(inside)
    inside = found[0][:, None] & found[1][None, :]
    return [
        np.where(inside, image[:, iy[:, None], ix[None, :]], image[:, :1, :1])
        * (wy[:, None] * wx[None, :] * inside)
        for (iy, wy), (ix, wx) in itertools.product(*around)
    ]


def regions(name: str, rois: Value, numbers: int) -> Dim:
    """How many regions there are, each of so many numbers."""
    require_rank(rois, 2, name, "rois")
    if rois.tensor.shape is None:
        return fresh_dim("regions")
    agree(rois.shape[1], numbers, f"numbers of a region of {name}")
    return rois.shape[0]


def check_images(name: str, indices: Array, images: int) -> None:
    """DataError when a region is one of an image that is not there."""
    if indices.size and (indices.min() < 0 or indices.max() >= images):
        raise DataError(f"{name}: a region belongs to image {indices.max()}, there are {images}")


class MaxRoiPool(Op):
    """The largest elements of the bins of regions (image, x1, y1, x2, y2) of X, whose edges are
    whole pixels.
    """

    pooled_shape: tuple[int, ...] = ()
    spatial_scale: float = 1.0

    since = 22
    samples = cases(
        X=[(2, 3, 6, 7)],
        rois=[
            np.array(
                [[0, 0, 1, 4, 5], [1, 2, 2, 3, 3], [1, -3, 1, 9, 2], [0, 6, 5, 2, 1]], np.float32
            )
        ],
        pooled_shape=[(2, 3), (1, 1)],
        spatial_scale=[1.0, 0.5],
    )

    def infer(self, X: Value, rois: Value) -> Inferred:
        dtype = require_kind(self.name, same_dtype(self.name, X, rois), "f")
        if len(self.pooled_shape) != 2 or min(self.pooled_shape) < 1:
            raise ShapeError(
                f"MaxRoiPool needs a height and a width to pool to, found {list(self.pooled_shape)}"
            )
        require_rank(X, 4, self.name, "X")
        channels = fresh_dim("channels") if X.tensor.shape is None else X.shape[1]
        return TensorType(dtype, (regions(self.name, rois, 5), channels, *self.pooled_shape))

    def eval(self, X: Array, rois: Array) -> Array:
        result = np.zeros((len(rois), X.shape[1], *self.pooled_shape), X.dtype)
        check_images(self.name, rois[:, 0].astype(np.int64), X.shape[0])
        scaled = widened(rois)[:, 1:] * widened(rois).dtype.type(self.spatial_scale)
        corners = (np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)).astype(np.int64)
        for number, (x1, y1, x2, y2) in enumerate(corners.tolist()):
            image = X[int(rois[number, 0])]
            rows = self._bins(y1, y2, self.pooled_shape[0], X.shape[2])
            columns = self._bins(x1, x2, self.pooled_shape[1], X.shape[3])
            for (i, row), (j, column) in itertools.product(enumerate(rows), enumerate(columns)):
                part = image[:, row, column]
                if part.size:
                    result[number, :, i, j] = part.max(axis=(1, 2))
        return result

    def _bins(self, first: int, last: int, bins: int, size: int) -> Sequence[slice]:
        extent = max(last - first + 1, 1)
        edges = [
            (first + i * extent // bins, first - -(i + 1) * extent // bins) for i in range(bins)
        ]
        return [slice(min(max(a, 0), size), min(max(b, 0), size)) for a, b in edges]

    def flops(self, shapes: Shapes) -> Flops:
        """As if every region were the whole image."""
        return Flops(0, shapes.input(1)[0] * dims.product(shapes.input(0)[1:]))
