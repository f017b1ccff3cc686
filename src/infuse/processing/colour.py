"""Colour spaces, and the formats that cameras give.

Images are in the layout `HWC` or `CHW`, maybe with axes in front. Bytes mean 0 to 255, floats 0 to
1 if nothing else is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from infuse.errors import ShapeError, TypeMismatchError
from infuse.processing.block import block
from infuse.processing.image_sizes import choice, floats, has_floats, quotient, rgb_channels
from infuse.tracing.arrays.array import Array, lifted, node, nodes, source_line
from infuse.tracing.arrays.sizes import listed

_FAR = np.iinfo(np.int64).max
_LUMA: Final = (0.299, 0.587, 0.114)
# Shares of red and blue in the brightness, by standard.
_SHARES: Final = {
    "bt601": (0.299, 0.114),
    "bt709": (0.2126, 0.0722),
    "bt2020": (0.2627, 0.0593),
}
_XYZ: Final = np.array(
    [
        [0.412453, 0.357580, 0.180423],
        [0.212671, 0.715160, 0.072169],
        [0.019334, 0.119193, 0.950227],
    ]
)
_WHITE: Final = np.array([0.95047, 1.0, 1.08883])


@block
def rgb_to_bgr(image: Any, *, layout: str = "HWC") -> Array:
    """The channels in reverse."""
    x = lifted(image)
    axis = rgb_channels(x, layout)
    return node("Slice", x, listed(-1), listed(-_FAR), listed(axis), listed(-1))


@block
def bgr_to_rgb(image: Any, *, layout: str = "HWC") -> Array:
    """The channels in reverse."""
    result: Array = rgb_to_bgr(image, layout=layout)
    return result


@block
def rgb_to_gray(image: Any, *, layout: str = "HWC") -> Array:
    """The brightness (ITU-R BT.601) as one channel, of the same element type.

    Bytes are exactly those of Pillow's `convert("L")`; OpenCV's may differ by one.
    """
    x = lifted(image)
    axis = rgb_channels(x, layout)
    if has_floats(x):
        return _mixed(_split(x, axis), [_LUMA], axis)
    red, green, blue = _split(_bytes(x, "rgb_to_gray").astype(np.float32), axis)
    # Whole numbers below 2^24, which float32 holds.
    total = red * 19595.0 + green * 38470.0 + blue * 7471.0 + 32768.0
    return node("Floor", total * (1 / 65536)).astype(np.uint8)


@block
def rgb_to_ycbcr(image: Any, *, layout: str = "HWC") -> Array:
    """Brightness and two differences of colour, as JPEG has them: around 128, or 0.5 for floats."""
    x = lifted(image)
    axis = rgb_channels(x, layout)
    matrix = _brightness_and_differences(1 / 1.772, 1 / 1.402)
    if has_floats(x):
        return _mixed(_split(x, axis), matrix, axis, (0, 0.5, 0.5))
    wide = _bytes(x, "rgb_to_ycbcr").astype(np.float32)
    return _rounded(_mixed(_split(wide, axis), matrix, axis, (0, 128, 128)))


@block
def ycbcr_to_rgb(image: Any, *, layout: str = "HWC") -> Array:
    """What `rgb_to_ycbcr` makes, back; within 0 to 255 for bytes."""
    x = lifted(image)
    axis = rgb_channels(x, layout)
    matrix = np.linalg.inv(_brightness_and_differences(1 / 1.772, 1 / 1.402))
    if has_floats(x):
        return _mixed(_split(x, axis), matrix, axis, matrix @ (0, -0.5, -0.5))
    wide = _bytes(x, "ycbcr_to_rgb").astype(np.float32)
    return _rounded(_mixed(_split(wide, axis), matrix, axis, matrix @ (0, -128, -128)))


@block
def rgb_to_yuv(image: Any, *, layout: str = "HWC") -> Array:
    """Brightness and the differences U and V of analog television (BT.601, PAL), of floats: U lies
    within ±0.436, V within ±0.615.
    """
    x = floats(image, "rgb_to_yuv")
    axis = rgb_channels(x, layout)
    matrix = _brightness_and_differences(0.436 / (1 - 0.114), 0.615 / (1 - 0.299))
    return _mixed(_split(x, axis), matrix, axis)


@block
def yuv_to_rgb(image: Any, *, layout: str = "HWC") -> Array:
    """What `rgb_to_yuv` makes, back."""
    x = floats(image, "yuv_to_rgb")
    axis = rgb_channels(x, layout)
    matrix = _brightness_and_differences(0.436 / (1 - 0.114), 0.615 / (1 - 0.299))
    return _mixed(_split(x, axis), np.linalg.inv(matrix), axis)


@block
def rgb_to_hsv(image: Any, *, layout: str = "HWC") -> Array:
    """Hue, saturation and value of floats, each from 0 to 1, as Python's colorsys has them."""
    x = floats(image, "rgb_to_hsv")
    axis = rgb_channels(x, layout)
    red, green, blue = _split(x, axis)
    most = node("Max", red, green, blue)
    spread = most - node("Min", red, green, blue)
    one = lifted(1, x.dtype)
    divisor = node("Where", spread == 0, one, spread)
    sector = node(
        "Where",
        red == most,
        (green - blue) / divisor,
        node("Where", green == most, (blue - red) / divisor + 2.0, (red - green) / divisor + 4.0),
    )
    turn = sector / 6.0
    saturation = spread / node("Where", most == 0, one, most)
    return node("Concat", turn - node("Floor", turn), saturation, most, axis=axis)


@block
def hsv_to_rgb(image: Any, *, layout: str = "HWC") -> Array:
    """What `rgb_to_hsv` makes, back."""
    x = floats(image, "hsv_to_rgb")
    axis = rgb_channels(x, layout)
    hue, saturation, value = _split(x, axis)
    channels = []
    zero, one = lifted(0, x.dtype), lifted(1, x.dtype)
    for first in (5.0, 3.0, 1.0):
        turn = (hue * 6.0 + first) / 6.0
        place = (turn - node("Floor", turn)) * 6.0
        share = node("Max", node("Min", place, 4.0 - place, one), zero)
        channels.append(value - value * saturation * share)
    return node("Concat", *channels, axis=axis)


@block
def rgb_to_lab(image: Any, *, layout: str = "HWC") -> Array:
    """CIE L*a*b* of sRGB floats, for daylight (D65, 2°): L from 0 to 100, a and b around 0."""
    x = floats(image, "rgb_to_lab")
    axis = rgb_channels(x, layout)
    bright = node("Pow", (node("Max", x, lifted(0.04045, x.dtype)) + 0.055) / 1.055, _like(2.4, x))
    linear = node("Where", x > 0.04045, bright, x / 12.92)
    t = _mixed(_split(linear, axis), _XYZ / _WHITE[:, None], axis)
    root = node("Pow", node("Max", t, lifted(0.008856, x.dtype)), _like(1 / 3, x))
    f = node("Where", t > 0.008856, root, t * 7.787 + 16 / 116)
    matrix = [[0, 116, 0], [500, -500, 0], [0, 200, -200]]
    return _mixed(_split(f, axis), matrix, axis, (-16, 0, 0))


@block
def lab_to_rgb(image: Any, *, layout: str = "HWC") -> Array:
    """What `rgb_to_lab` makes, back; colours that sRGB does not have are cut off at 0 and 1."""
    x = floats(image, "lab_to_rgb")
    axis = rgb_channels(x, layout)
    matrix = np.linalg.inv([[0, 116, 0], [500, -500, 0], [0, 200, -200]])
    f = _mixed(_split(x, axis), matrix, axis, matrix @ (16, 0, 0))
    t = node("Where", f > 0.2068966, f * f * f, (f - 16 / 116) / 7.787)
    linear = _mixed(_split(t, axis), np.linalg.inv(_XYZ / _WHITE[:, None]), axis)
    base = node("Max", linear, lifted(0.0031308, x.dtype))
    bright = node("Pow", base, _like(1 / 2.4, x)) * 1.055 - 0.055
    result = node("Where", linear > 0.0031308, bright, linear * 12.92)
    return node("Clip", result, _like(0, x), _like(1, x))


@block
def nv12_to_rgb(frame: Any, *, standard: str = "bt601", full_range: bool = False) -> Array:
    """A camera's frame, uint8 [height · 3/2, width], as RGB bytes [height, width, 3]: rows of
    brightness, then rows in which two differences of colour for 2 × 2 pixels alternate.

    `standard`: bt601, bt709 or bt2020. Without `full_range` brightness goes from 16 to 235 and
    differences from 16 to 240. The sides of the image are even.
    """
    x, height, width = _frame(frame, standard)
    colours = node("Slice", x, listed(height), listed(_FAR), listed(0))
    shape = (quotient(height, 2), quotient(width, 2), 2)
    pairs = node("Reshape", colours, listed(shape), allowzero=1)
    return _camera(x, height, width, _split(pairs, 2, 2), standard, full_range)


@block
def i420_to_rgb(frame: Any, *, standard: str = "bt601", full_range: bool = False) -> Array:
    """As `nv12_to_rgb`, of frames in which one difference of colour follows the other."""
    x, height, width = _frame(frame, standard)
    colours = node("Slice", x, listed(height), listed(_FAR), listed(0))
    shape = (2, quotient(height, 2), quotient(width, 2))
    both = node("Reshape", colours, listed(shape), allowzero=1)
    pair = [node("Transpose", part, perm=(1, 2, 0)) for part in _split(both, 0, 2)]
    return _camera(x, height, width, pair, standard, full_range)


def _frame(frame: Any, standard: str) -> tuple[Array, Any, Any]:
    choice("standard", standard, tuple(_SHARES))
    x = _bytes(lifted(frame), "a camera's frame")
    if x.ndim != 2:
        raise ShapeError(
            f"a camera's frame has two axes, not {x.ndim}", where=source_line() or None
        )
    rows, columns = x.value.shape
    if (isinstance(rows, int) and rows % 3) or (isinstance(columns, int) and columns % 2):
        raise ShapeError(
            f"a frame of an image with even sides has height · 3/2 rows, this has {rows} rows of "
            f"{columns}",
            where=source_line() or None,
        )
    return x, quotient(x.shape[0] * 2, 3), x.shape[1]


def _camera(
    x: Array, height: Any, width: Any, pair: Sequence[Array], standard: str, full_range: bool
) -> Array:
    """RGB of brightness and differences [h/2, w/2, 1]."""
    red, blue = _SHARES[standard]
    low, bright, wide = (0, 255, 255) if full_range else (16, 219, 224)
    grown = (quotient(height, 2), 2, quotient(width, 2), 2)
    sides = []
    for part in pair:
        # Every difference is that of 2 × 2 pixels.
        spread = node("Unsqueeze", part, listed(1))
        large = node("Expand", spread, listed(grown))
        sides.append(node("Reshape", large, listed((height, width, 1)), allowzero=1))
    plane = node("Slice", x, listed(0), listed(height), listed(0))
    light = node("Reshape", plane, listed((height, width, 1)), allowzero=1).astype(np.float32)
    channels = [light, *(side.astype(np.float32) for side in sides)]
    green = 1 - red - blue
    u, v = 2 * (1 - blue), 2 * (1 - red)
    differences = [[1, 0, v], [1, -u * blue / green, -v * red / green], [1, u, 0]]
    matrix = np.array(differences) * (255 / bright, 255 / wide, 255 / wide)
    return _rounded(_mixed(channels, matrix, 2, matrix @ (-low, -128, -128)))


# -- parts -----------------------------------------------------------------------------------------


def _bytes(x: Array, what: str) -> Array:
    if x.dtype != np.uint8:
        raise TypeMismatchError(
            f"{what} is of bytes (uint8) or, where it says so, of floats, not of {x.dtype}",
            where=source_line() or None,
        )
    return x


def _brightness_and_differences(blue: float, red: float) -> Any:
    """The matrix of brightness, and of how far blue and red lie from it, times these."""
    light = np.array(_LUMA)
    return np.stack([light, (np.eye(3)[2] - light) * blue, (np.eye(3)[0] - light) * red])


def _split(x: Array, axis: int, count: int = 3) -> list[Array]:
    return nodes(count, "Split", x, listed([1] * count), axis=axis)


def _mixed(channels: Sequence[Array], matrix: Any, axis: int, shift: Any = ()) -> Array:
    """Channels that are sums of others, by the rows of a matrix."""
    rows = []
    for number, row in enumerate(matrix):
        terms = [c if w == 1 else c * float(w) for c, w in zip(channels, row) if w]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        rows.append(total + float(shift[number]) if len(shift) and shift[number] else total)
    return node("Concat", *rows, axis=axis) if len(rows) > 1 else rows[0]


def _rounded(x: Array) -> Array:
    limited = node("Clip", node("Floor", x + 0.5), _like(0, x), _like(255, x))
    return limited.astype(np.uint8)


def _like(number: float, x: Array) -> Array:
    return lifted(number, x.dtype)
