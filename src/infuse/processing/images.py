"""Images: decoding, cutting, padding, turning and normalizing.

An image is an array in the layout `HWC` (rows, columns, channels) or `CHW` (planes), maybe with
axes in front, of bytes or floats. Sizes may be those that only a run knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import OptionError, ShapeError, TypeMismatchError
from infuse.processing.block import block
from infuse.processing.image_sizes import (
    Size,
    asserted,
    axes_of_image,
    choice,
    half_even,
    has_floats,
    height_and_width,
    larger,
    quotient,
    whole,
)
from infuse.tracing.arrays.array import Array, lifted, node, source_line
from infuse.tracing.arrays.sizes import listed

_PIXEL_FORMATS = {"rgb": "RGB", "bgr": "BGR", "gray": "Grayscale"}
_MODES = ("constant", "edge", "reflect", "wrap")
_FAR = np.iinfo(np.int64).max


@block
def decode_image(file: Any, *, colour: str = "rgb") -> Array:
    """The pixels, uint8 [height, width, channels], of an image file, uint8 [length].

    `colour`: rgb, bgr or gray. It is ONNX's ImageDecoder, which a compiled model runs as a host
    step by Pillow: JPEG, PNG, WebP, BMP and the other formats that this has. EXIF data do not turn
    the image. TypeMismatchError and ShapeError where `file` is no list of bytes, DataError of a run
    where it cannot be decoded.
    """
    encoded = lifted(file)
    if encoded.dtype != np.uint8:
        raise TypeMismatchError(
            f"an image file is an array of uint8, not of {encoded.dtype}",
            where=source_line() or None,
            hint="np.frombuffer(bytes, np.uint8)",
        )
    if encoded.ndim != 1:
        raise ShapeError(
            f"an image file has one axis, not {encoded.ndim}", where=source_line() or None
        )
    format = _PIXEL_FORMATS[choice("colour", colour, tuple(_PIXEL_FORMATS))]
    pixels = node("ImageDecoder", encoded, pixel_format=format)
    return asserted(pixels, pixels.shape[0] > 0, "the file is not an image that can be decoded")


@block
def to_planes(image: Any) -> Array:
    """HWC → CHW, also with axes in front."""
    x = lifted(image)
    axes_of_image(x, "HWC")
    front = range(x.ndim - 3)
    return node("Transpose", x, perm=(*front, x.ndim - 1, x.ndim - 3, x.ndim - 2))


@block
def to_pixels(image: Any) -> Array:
    """CHW → HWC, also with axes in front."""
    x = lifted(image)
    axes_of_image(x, "CHW")
    front = range(x.ndim - 3)
    return node("Transpose", x, perm=(*front, x.ndim - 2, x.ndim - 1, x.ndim - 3))


@block
def flip(image: Any, direction: str = "horizontal", *, layout: str = "HWC") -> Array:
    """The image mirrored: `horizontal` (left and right exchanged), `vertical` or `both`."""
    x = lifted(image)
    rows, columns, _ = axes_of_image(x, layout)
    choice("direction", direction, ("horizontal", "vertical", "both"))
    axes = {"horizontal": [columns], "vertical": [rows]}.get(direction, [rows, columns])
    ones = [-1] * len(axes)
    ends = listed([-_FAR] * len(axes))
    return node("Slice", x, listed(ones), ends, listed(axes), listed(ones))


@block
def crop(image: Any, top: Any, left: Any, height: Any, width: Any, *, layout: str = "HWC") -> Array:
    """The part of an image with this corner and size, in pixels; numbers or arrays without axes.

    A part that does not lie inside is a ShapeError, or, where only a run knows, a DataError of it.
    """
    x = lifted(image)
    axes = axes_of_image(x, layout)[:2]
    begins = [whole(top, "top", 0), whole(left, "left", 0)]
    sides = [whole(height, "height", 0), whole(width, "width", 0)]
    ends = [begin + side for begin, side in zip(begins, sides)]
    for axis, end in zip(axes, ends):
        x = asserted(x, end <= x.shape[axis], "a part that is cut out lies outside of its image")
    for number in (*begins, *sides):
        x = _positive(x, number)
    part = node("Slice", x, listed(begins), listed(ends), listed(axes))
    return with_size(part, (sides[0], sides[1]), layout)


def _positive(x: Array, number: Any) -> Array:
    return asserted(x, number >= 0, "a place or a size in an image is negative")


@block
def center_crop(image: Any, size: Size, *, fill: float = 0, layout: str = "HWC") -> Array:
    """The middle of an image, [height, width]; where the image is smaller, the rest is `fill`.

    Places are those of torchvision: half of what is cut off is rounded to the even number, half of
    what is added is rounded down.
    """
    x = lifted(image)
    rows, columns, _ = axes_of_image(x, layout)
    height, width = height_and_width(size)
    corner = []
    for side, before in ((height, x.shape[rows]), (width, x.shape[columns])):
        corner.append(quotient(larger(side - before, 0), 2) - half_even(larger(before - side, 0)))
    return placed(x, (height, width), (corner[0], corner[1]), fill, layout)


@block
def pad(
    image: Any,
    *,
    top: Any = 0,
    bottom: Any = 0,
    left: Any = 0,
    right: Any = 0,
    mode: str = "constant",
    fill: float = 0,
    layout: str = "HWC",
) -> Array:
    """The image with so many rows and columns around it: of `fill` (`constant`), of the outermost
    pixels (`edge`), mirrored without them (`reflect`) or from the other side (`wrap`).
    """
    x = lifted(image)
    rows, columns, _ = axes_of_image(x, layout)
    choice("mode", mode, _MODES)
    names = {"top": top, "left": left, "bottom": bottom, "right": right}
    amounts = [whole(number, name, 0) for name, number in names.items()]
    for number in amounts:
        x = _positive(x, number)
    if mode != "constant":
        return node("Pad", x, listed(amounts), None, listed([rows, columns]), mode=mode)
    filling = lifted(byte_or_float(fill, x, "fill"), x.dtype)
    return node("Pad", x, listed(amounts), filling, listed([rows, columns]))


@block
def pad_to_multiple(image: Any, multiple: int, *, fill: float = 0, layout: str = "HWC") -> Array:
    """The image with rows below and columns to the right, so that both sides are multiples of a
    number, as networks with strides need them.
    """
    x = lifted(image)
    rows, columns, _ = axes_of_image(x, layout)
    whole(multiple, "multiple", 1)
    bottom, right = (
        quotient(size + multiple - 1, multiple) * multiple - size
        for size in (x.shape[rows], x.shape[columns])
    )
    return pad(x, bottom=bottom, right=right, fill=fill, layout=layout)


@block(settings=("mean", "std"))
def normalize(
    image: Any,
    scale: float | None = None,
    mean: float | Sequence[float] = 0.0,
    std: float | Sequence[float] = 1.0,
    *,
    layout: str = "HWC",
    dtype: Any = None,
) -> Array:
    """(v · scale - mean) / std, mean and std being one number or one for each channel.

    `scale` is 1/255 for integers and 1 for floats where it is left out. The result is float32 for
    integers, else as the image, or of the type `dtype`. ShapeError where numbers and channels do
    not fit, OptionError for a `std` of zero or numbers that are not finite.
    """
    x = lifted(image)
    axis = axes_of_image(x, layout)[2]
    is_float = has_floats(x)
    if scale is None:
        scale = 1.0 if is_float else 1 / 255
    target = np.dtype(dtype or (x.dtype if is_float else np.float32))
    if not dtypes.by_numpy(target).is_float:
        raise OptionError(
            f"normalized images are floats, dtype is {target}", where=source_line() or None
        )
    means, stds = (
        _per_channel(numbers, x, axis, name) for numbers, name in ((mean, "mean"), (std, "std"))
    )
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slope, shift = np.broadcast_arrays(scale / stds, -means / stds)
    if not (np.isfinite(slope).all() and np.isfinite(shift).all()):
        raise OptionError(
            "scale, mean and std are finite and std is not zero", where=source_line() or None
        )
    compute = np.dtype(np.float64) if x.dtype == np.float64 else np.dtype(np.float32)
    spread = (-1,) + (1,) * (x.ndim - 1 - axis)
    values = x.astype(compute)
    if (slope != 1).any():
        values = values * lifted(slope.reshape(spread), compute)
    if shift.any():
        values = values + lifted(shift.reshape(spread), compute)
    return values.astype(target)


def _per_channel(numbers: float | Sequence[float], x: Array, axis: int, name: str) -> Any:
    values = np.atleast_1d(np.asarray(numbers, np.float64))
    channels = x.value.shape[axis]
    wrong = isinstance(channels, int) and values.size not in (1, channels)
    if values.ndim != 1 or values.size == 0 or wrong:
        raise ShapeError(
            f"{name} has {values.size} numbers for {channels} channels",
            where=source_line() or None,
            hint="give one number, or one for each channel",
        )
    return values


def byte_or_float(number: Any, image: Array, what: str) -> Any:
    """A number that the image's element type holds; OptionError for another one."""
    if not has_floats(image):
        limits = np.iinfo(image.dtype)
        if number != int(number) or not limits.min <= number <= limits.max:
            raise OptionError(
                f"{what} is {number}, which is no {image.dtype}", where=source_line() or None
            )
    return number


def placed(
    x: Array, size: tuple[Any, Any], corner: tuple[Any, Any], fill: float, layout: str
) -> Array:
    """A picture of this size with the image's corner at this row and column: what lies outside is
    cut off, what is left over is `fill`.
    """
    rows, columns, _ = axes_of_image(x, layout)
    filling = lifted(byte_or_float(fill, x, "fill"), x.dtype)
    ends = [
        after - before - begin
        for after, before, begin in zip(size, (x.shape[rows], x.shape[columns]), corner)
    ]
    amounts = [*corner, *ends]
    if any(isinstance(n, Array) or n for n in amounts):
        x = node("Pad", x, listed(amounts), filling, listed([rows, columns]))
    return with_size(x, size, layout)


def with_size(x: Array, size: tuple[Any, Any], layout: str) -> Array:
    """The image, which has this size, with a type that tells so."""
    rows, columns, _ = axes_of_image(x, layout)
    if all(x.value.shape[a] == s for a, s in zip((rows, columns), size) if isinstance(s, int)):
        return x
    shape = list(x.shape)
    shape[rows], shape[columns] = size
    return node("Reshape", x, listed(shape), allowzero=1)
