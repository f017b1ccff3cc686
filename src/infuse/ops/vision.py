"""Sampling of images at given places, and what detectors do with regions of them."""

from __future__ import annotations

import io
import itertools
import struct
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from infuse import dtypes
from infuse.errors import DataError, ShapeError, TypeMismatchError, UnsupportedOperatorError
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Value, known_ints
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Floats, Inferred, Ints, Op, Rounding, cases, same_dtype
from infuse.ops.core.elementwise import require_kind, widened
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.sizes import agree, fresh_dim, int64s, length, nonempty, require_rank
from infuse.ops.core.traits import Trait
from infuse.ops.resampling import as_type
from infuse.ops.unfolding import ALL, index_of

FAR_OUTSIDE = -100.0
"""Where a place that is no finite number is taken to be."""

_MOST_POINTS = 1 << 20
"""Points of a bin along one axis above which the interpreter takes a region for a mistake."""
_MOST_SAMPLES = 1 << 12
"""The same, where the model says how many there are."""


class GridSample(Op):
    """X (N, C, D1 …) at the places that the grid (N, out …, r) lists, innermost axis first, -1 … 1
    being the image.
    """

    align_corners: int = 0
    mode: str = "linear"
    padding_mode: str = "zeros"

    since = 22
    accuracy = Rounding(ulp=4, abs=1e-5, why="places round before the elements are weighed")
    _reach: ClassVar[dict[str, tuple[int, int]]] = {
        "nearest": (0, 1),
        "linear": (0, 2),
        "cubic": (-1, 4),
    }
    samples = (
        cases(
            X=[(2, 3, 4, 6)],
            grid=[Floats((2, 3, 5, 2), -1.6, 1.6)],
            mode=["linear", "nearest", "cubic"],
            padding_mode=["zeros", "border", "reflection"],
            align_corners=[0, 1],
        ),
        cases(
            X=[(1, 2, 3, 4, 5), (2, 18, 7)],
            grid=[Floats((1, 2, 3, 2, 3), -1.3, 1.3), Floats((2, 4, 1), -1.3, 1.3)],
            mode=["linear", "nearest"],
            padding_mode=["zeros", "reflection"],
        ),
        cases(
            X=[(1, 1, 3, 3, 4)],
            grid=[Floats((1, 2, 2, 3, 3), -1.2, 1.2)],
            mode=["cubic"],
            padding_mode=["border"],
        ),
        cases(X=[Ints((1, 2, 4, 4))], grid=[Floats((1, 3, 3, 2), -1.5, 1.5)], mode=["nearest"]),
    )

    def infer(self, X: Value, grid: Value) -> Inferred:
        if self.mode not in self._reach or self.padding_mode not in (
            "zeros",
            "border",
            "reflection",
        ):
            raise ShapeError(
                f"GridSample has no mode {self.mode!r} with padding {self.padding_mode!r}"
            )
        if X.dtype.kind == "s" and self.mode != "nearest":
            raise TypeMismatchError("GridSample cannot interpolate strings")
        require_kind(self.name, grid.dtype, "f")
        if X.tensor.shape is None or grid.tensor.shape is None:
            return TensorType(X.dtype, None)
        if X.rank < 3 or grid.rank != X.rank:
            raise ShapeError(
                f"GridSample takes an image and a grid of its rank, found {X.type} and {grid.type}"
            )
        batch = agree(X.shape[0], grid.shape[0], "batches of GridSample")
        for size in X.shape[2:]:
            nonempty(size, self.name)
        agree(grid.shape[-1], X.rank - 2, "numbers of a place in the grid of GridSample")
        return TensorType(X.dtype, (batch, X.shape[1], *grid.shape[1:-1]))

    def eval(self, X: Array, grid: Array) -> Array:
        rank = X.ndim - 2
        places = widened(grid)
        taps = [self.taps(places[..., rank - 1 - axis], X.shape[2 + axis]) for axis in range(rank)]
        batch = np.arange(X.shape[0]).reshape(-1, *(1,) * rank)
        numbers = X.dtype.kind not in "OSU"
        wide = X.astype(np.float64) if X.dtype.kind in "iub" else widened(X)
        result = np.zeros((*places.shape[:-1], X.shape[1]), wide.dtype)
        if not numbers:
            result[...] = ""
        for chosen in itertools.product(range(taps[0][0].shape[-1]), repeat=rank):
            spots = tuple(index[..., k] for (index, _), k in zip(taps, chosen))
            weight = np.prod([w[..., k] for (_, w), k in zip(taps, chosen)], axis=0)[..., None]
            sampled = wide[index_of(batch, ALL, *spots)]
            if numbers:
                result = result + np.where(weight != 0, sampled * weight.astype(places.dtype), 0)
            else:
                result = np.where(weight != 0, sampled, result)
        return as_type(np.moveaxis(result, -1, 1), X.dtype)

    def taps(self, place: Array, size: int) -> tuple[Array, Array]:
        """Indices along an axis that every output is made of, and their weights; 0 outside where
        padding is zeros.
        """
        place = (
            ((place + 1) / 2 * (size - 1)) if self.align_corners else ((place + 1) * size - 1) / 2
        )
        place = np.where(np.isfinite(place), place, FAR_OUTSIDE)
        first, count = self._reach[self.mode]
        place = self._settled(np.rint(place) if self.mode == "nearest" else place, size)
        base = np.trunc(place) if self.mode == "nearest" else np.floor(place)
        offsets = np.arange(first, first + count)
        index = base[..., None] + offsets
        weights = self._weights(np.abs(place[..., None] - index))
        if self.padding_mode == "zeros":
            weights = np.where((index < 0) | (index > size - 1), 0, weights)
        elif self.padding_mode == "reflection":
            index = np.trunc(self._reflected(index, size))
        return np.clip(index, 0, size - 1).astype(np.intp), weights

    def _settled(self, place: Array, size: int) -> Array:
        """Places outside of the image brought into it, or near it where zeros lie around it."""
        low, high = self._limits(size)
        if self.padding_mode == "reflection":
            return self._reflected(place, size)
        if self.padding_mode == "border":
            return np.where((place < low) | (place > high), np.clip(place, 0, size - 1), place)
        return np.clip(place, -9, size + 8)

    def _limits(self, size: int) -> tuple[float, float]:
        return (0.0, size - 1.0) if self.align_corners else (-0.5, size - 0.5)

    def _reflected(self, place: Array, size: int) -> Array:
        low, high = self._limits(size)
        span = high - low
        if span <= 0:
            return np.full_like(place, low)
        beyond = np.where(place < low, low - place, place - high)
        times = np.trunc(beyond / span)
        rest = beyond - times * span
        from_low = (place < low) == (times % 2 == 0)
        return np.where(beyond <= 0, place, np.where(from_low, low + rest, high - rest))

    def _weights(self, distance: Array) -> Array:
        if self.mode == "nearest":
            return np.ones_like(distance)
        if self.mode == "linear":
            return 1 - distance
        a = -0.75
        near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        return np.where(distance <= 1, near, a * (((distance - 5) * distance + 8) * distance - 4))

    def flops(self, shapes: Shapes) -> Flops:
        """Every element blends the elements around its place; the places themselves take four
        operations an axis.
        """
        taps = {"nearest": 0, "linear": 2, "cubic": 4}[self.mode]
        blended = taps ** (len(shapes.input(0)) - 2)
        return Flops(shapes.made * blended, shapes.size(1) * 4)


class AffineGrid(Op):
    """The grid of places of an image of `size` (N, C, [D,] H, W), each multiplied by its batch's
    affine matrix.
    """

    align_corners: int = 0

    since = 20
    accuracy = Rounding(ulp=4, abs=1e-6, why="products may cancel")
    samples = cases(
        theta=[(2, 2, 3), (1, 3, 4), (1, 2, 3)],
        size=[int64s(2, 3, 4, 5), int64s(1, 1, 2, 3, 4), int64s(1, 1, 6, 2)],
        align_corners=[0, 1],
    )

    def infer(self, theta: Value, size: Value) -> Inferred:
        dtype = require_kind(self.name, theta.dtype, "f")
        require_rank(theta, 3, self.name, "theta")
        target, count = known_ints(size), length(size)
        if (
            target is None
            and count is None
            and theta.tensor.shape is not None
            and isinstance(theta.shape[1], int)
        ):
            count = theta.shape[1] + 2
        if target is None and count is None:
            return TensorType(dtype, None)
        sizes = (
            target if target is not None else tuple(fresh_dim("grid") for _ in range(count or 0))
        )
        rank = len(sizes) - 2
        if rank not in (2, 3):
            raise ShapeError(
                f"AffineGrid makes grids of two or three dimensions, its size has {len(sizes)} "
                "numbers"
            )
        batch: Dim = sizes[0]
        if theta.tensor.shape is not None:
            agree(theta.shape[1], rank, "rows of the matrices of AffineGrid")
            agree(theta.shape[2], rank + 1, "columns of the matrices of AffineGrid")
            batch = (
                agree(theta.shape[0], sizes[0], "batches of AffineGrid")
                if target is not None
                else theta.shape[0]
            )
        return TensorType(dtype, (batch, *sizes[2:], rank))

    def eval(self, theta: Array, size: Array) -> Array:
        sizes = [int(s) for s in size[2:]]
        expected = (int(size[0]), len(sizes), len(sizes) + 1)
        if theta.shape != expected:
            raise ShapeError(
                f"AffineGrid of size {size.tolist()} needs matrices {list(expected)}, found "
                f"{list(theta.shape)}"
            )
        axes = [self._places(n, widened(theta).dtype) for n in sizes]
        grids = np.meshgrid(*axes, indexing="ij")[::-1]
        places = np.stack([*grids, np.ones_like(grids[0])], axis=-1)
        result = np.einsum("nij,...j->n...i", widened(theta), places)
        return np.asarray(result, dtype=theta.dtype)

    def _places(self, size: int, dtype: np.dtype[Any]) -> Array:
        index = np.arange(size, dtype=dtype)
        if self.align_corners:
            return index * 2 / (size - 1) - 1 if size > 1 else np.zeros(size, dtype)
        return (index * 2 + 1) / size - 1

    def flops(self, shapes: Shapes) -> Flops:
        """A product with a matrix for every place."""
        return Flops(shapes.made * len(shapes.outputs[0][1:-1]), shapes.made)


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
        steps = np.arange(bins)[:, None] * width + (
            np.arange(count) + start.dtype.type(0.5)
        ) * width / max(count, 1)
        return (first + steps).reshape(-1), count

    def flops(self, shapes: Shapes) -> Flops:
        """Four elements for every point; where their number follows from the regions, it is taken
        to be four a bin.
        """
        points = (self.sampling_ratio or 2) ** 2
        return Flops(shapes.made * points * 4, shapes.made)


def _corners(image: Array, rows: Array, columns: Array) -> list[Array]:
    """The four pixels (C, rows, columns) around every point, weighed; nothing for points
    outside.
    """
    around = []
    for place, size in ((rows, image.shape[1]), (columns, image.shape[2])):
        inside = (place >= -1) & (place <= size)
        near = np.clip(np.where(inside, place, 0), 0, size - 1)
        low = np.floor(near).astype(np.intp)
        high = np.minimum(low + 1, size - 1)
        around.append(((low, (1 - (near - low)) * inside), (high, (near - low) * inside)))
    return [
        image[:, iy[:, None], ix[None, :]] * (wy[:, None] * wx[None, :])
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


def _bitmap() -> Array:
    """The smallest image file: two by two pixels."""
    pixels = bytes([0, 0, 255, 0, 255, 0, 0, 0, 255, 0, 0, 9, 8, 7, 0, 0])
    head = struct.pack("<2sIHHI", b"BM", 54 + len(pixels), 0, 0, 54)
    info = struct.pack("<IiiHHIIiiII", 40, 2, 2, 1, 24, 0, len(pixels), 2835, 2835, 0, 0)
    return np.frombuffer(head + info + pixels, np.uint8)


class ImageDecoder(Op):
    """The pixels (H, W, C) of an image file; none of them where it cannot be decoded. Needs the
    package Pillow.
    """

    traits = Trait.ZERO_FLOPS

    pixel_format: str = "RGB"

    since = 20
    samples = cases(encoded_stream=[_bitmap()], pixel_format=["RGB", "BGR", "Grayscale"])

    def infer(self, encoded_stream: Value) -> Inferred:
        if self.pixel_format not in ("RGB", "BGR", "Grayscale"):
            raise ShapeError(f"ImageDecoder has no pixel_format {self.pixel_format!r}")
        require_rank(encoded_stream, 1, self.name, "the encoded stream")
        return TensorType(dtypes.uint8, (fresh_dim("height"), fresh_dim("width"), self._channels))

    @property
    def _channels(self) -> int:
        return 1 if self.pixel_format == "Grayscale" else 3

    def eval(self, encoded_stream: Array) -> Array:
        try:
            from PIL import Image, UnidentifiedImageError
        except ImportError as error:
            raise UnsupportedOperatorError(
                "ImageDecoder needs the package Pillow", hint="install it: pip install pillow"
            ) from error
        try:
            with Image.open(io.BytesIO(encoded_stream.tobytes())) as image:
                pixels = np.asarray(image.convert("L" if self._channels == 1 else "RGB"))
        except (UnidentifiedImageError, OSError, ValueError, SyntaxError):
            return np.zeros((0, 0, self._channels), np.uint8)
        pixels = pixels.reshape(*pixels.shape[:2], self._channels)
        return np.ascontiguousarray(pixels[..., ::-1] if self.pixel_format == "BGR" else pixels)
