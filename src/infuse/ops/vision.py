"""Sampling of images at given places, and images as files hold them."""

from __future__ import annotations

import io
import itertools
import struct
from typing import Any, ClassVar

import numpy as np

from infuse import dtypes
from infuse.errors import DataError, ShapeError, TypeMismatchError, UnsupportedOperatorError
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op, Rounding
from infuse.ops.core.elementwise import require_kind, widened
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.samples import Floats, Ints, cases
from infuse.ops.core.sizes import agree, fresh_dim, int64s, length, nonempty, require_rank
from infuse.ops.core.traits import Trait
from infuse.ops.resampling import as_type
from infuse.ops.unfolding import ALL, index_of

FAR_OUTSIDE = -100.0
"""Where a place that is no finite number is taken to be."""


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
            if numbers and self.mode != "nearest":
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
        if self.padding_mode == "border" and self.mode != "cubic":  # its taps are limited alone
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
        # Products, whose signs no rounding turns.
        near = (1 - distance) * (1 + distance - 1.25 * distance**2)
        return np.where(distance <= 1, near, -0.75 * (distance - 1) * (distance - 2) ** 2)

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
        except Image.DecompressionBombError as error:
            raise DataError(f"the image has too many pixels for Pillow: {error}") from error
        except (UnidentifiedImageError, OSError, ValueError, SyntaxError):
            return np.zeros((0, 0, self._channels), np.uint8)
        pixels = pixels.reshape(*pixels.shape[:2], self._channels)
        return np.ascontiguousarray(pixels[..., ::-1] if self.pixel_format == "BGR" else pixels)
