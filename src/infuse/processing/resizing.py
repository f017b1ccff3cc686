"""Images in other sizes, and all that a network's input needs, in one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from infuse.errors import OptionError, ShapeError, TypeMismatchError
from infuse.processing.block import block
from infuse.processing.colour import bgr_to_rgb, rgb_to_gray
from infuse.processing.image_sizes import (
    Size,
    asserted,
    axes_of_image,
    choice,
    chosen,
    factor,
    half_even,
    has_floats,
    height_and_width,
    larger,
    quotient,
    scaled,
    smaller,
    vector,
    whole,
)
from infuse.processing.images import normalize, placed, to_pixels, to_planes, with_size
from infuse.processing.resampling import FILTERS, filtered
from infuse.tracing.arrays.array import Array, lifted, node, source_line
from infuse.tracing.arrays.sizes import listed

_ONNX: Final = {"bilinear": "linear", "bicubic": "cubic"}
_EMPTY: Final = "an image without pixels cannot be resized"
INTERPOLATIONS: Final = ("nearest", *_ONNX, *FILTERS)


@block
def resize(
    image: Any,
    size: Size | None = None,
    *,
    shortest: Any = None,
    longest: Any = None,
    interpolation: str = "bilinear",
    antialias: bool = True,
    layout: str = "HWC",
) -> Array:
    """The image in another size, of the same element type; integers are rounded.

    `size`: one number or (height, width). `shortest`: of the shorter side, the other one follows,
    rounded down and at least 1, as torchvision has it; with `longest` too, that is a limit for the
    longer side. `longest` alone: of the longer side. Sizes may be arrays without axes.

    `interpolation`: nearest, bilinear, bicubic, box, hamming, lanczos. With `antialias`, all pixels
    that a smaller picture's pixel covers count, as in Pillow and in PyTorch's antialiased
    interpolation; without it only those next to its middle, as in PyTorch and OpenCV. `nearest`
    takes the pixel under the middle, the later one of two. box, hamming and lanczos are Pillow's,
    always antialiased, and computed as products with matrices, which cost more. For bicubic and
    lanczos, bytes are rounded and cut off at 0 and 255 after the rows, before the columns.
    """
    x = lifted(image)
    before = _sides(x, layout)
    if size is not None and shortest is None and longest is None:
        after = height_and_width(size)
    elif size is None and (shortest is not None or longest is not None):
        after = _by_sides(before, shortest, longest)
    else:
        raise OptionError(
            "resize needs either a size, or shortest or longest or both of these",
            where=source_line() or None,
        )
    result = resampled(x, after, interpolation, antialias, layout)
    return result.astype(x.dtype)


def _by_sides(before: tuple[Any, Any], shortest: Any, longest: Any) -> tuple[Any, Any]:
    height, width = before
    short, long = smaller(height, width), larger(height, width)
    if shortest is not None:
        new_short = whole(shortest, "shortest", 1)
        new_long = quotient(new_short * long, short)
    if longest is not None:
        limit = whole(longest, "longest", 1)
        if shortest is None:
            new_short, new_long = larger(quotient(limit * short, long), 1), limit
        else:
            limited = larger(quotient(limit * new_short, new_long), 1)
            fits = new_long <= limit
            new_short, new_long = chosen(fits, new_short, limited), smaller(new_long, limit)
    tall = height > width
    return chosen(tall, new_long, new_short), chosen(tall, new_short, new_long)


def resampled(
    x: Array, size: tuple[Any, Any], interpolation: str, antialias: bool, layout: str
) -> Array:
    """The image in another size: integers as whole floats, but for `nearest`."""
    choice("interpolation", interpolation, INTERPOLATIONS)
    rows, columns, _ = axes_of_image(x, layout)
    if interpolation not in _ONNX:  # what Resize checks itself
        counts = [x.shape[axis] > 0 for axis in (rows, columns)]
        for count in counts:
            x = asserted(x, count, _EMPTY)
    if interpolation in FILTERS and not antialias:
        raise OptionError(f"{interpolation} is always antialiased", where=source_line() or None)
    if _has_sides(x, (rows, columns), size):
        return x
    planes = to_planes(x) if layout == "HWC" else x
    if interpolation == "nearest":
        result = _picked(planes, size)
    else:
        result = _blended(planes, size, interpolation, antialias)
    return with_size(to_pixels(result) if layout == "HWC" else result, size, layout)


def _has_sides(x: Array, axes: tuple[int, int], size: tuple[Any, Any]) -> bool:
    """Whether axes surely have these sizes."""
    shape = x.value.shape
    return all(isinstance(s, int) and shape[a] == s for a, s in zip(axes, size))


def _blended(planes: Array, size: tuple[Any, Any], interpolation: str, antialias: bool) -> Array:
    """Planes of which every new pixel is a weighted mean; of integers, whole floats."""
    is_float = has_floats(planes)
    if not is_float and planes.dtype.itemsize > 2:
        raise TypeMismatchError(
            f"images of {planes.dtype} are resized with interpolation='nearest' only",
            where=source_line() or None,
        )
    wide = planes if planes.dtype == np.float64 else planes.astype(np.float32)
    if interpolation in FILTERS:
        between = _rounding(planes) if interpolation == "lanczos" else None
        result = filtered(wide, size, interpolation, between)
    else:
        options: dict[str, Any] = {"mode": _ONNX[interpolation]}
        if antialias:
            options |= {"antialias": 1, "exclude_outside": 1}
        if interpolation == "bicubic":
            # Pillow and PyTorch take -0.5 for what is antialiased, PyTorch and OpenCV -0.75 else.
            options["cubic_coeff_a"] = -0.5 if antialias else -0.75
        if interpolation == "bicubic" and antialias and not is_float:
            # Pillow and PyTorch cut off between the two passes what lies beyond the limits.
            wide = _rounding(planes)(_resized(wide, (planes.shape[-2], size[1]), **options))
        result = _resized(wide, size, **options)
    return result if is_float else _rounding(planes)(result)


def _rounding(planes: Array) -> Callable[[Array], Array]:
    """What makes floats whole numbers in the range of an image's integers; nothing for floats."""
    if has_floats(planes):
        return lambda x: x
    limits = np.iinfo(planes.dtype)

    def rounded(x: Array) -> Array:
        ends = (lifted(float(end), x.dtype) for end in (limits.min, limits.max))
        return node("Clip", node("Floor", x + 0.5), *ends)

    return rounded


def _picked(x: Array, size: tuple[Any, Any]) -> Array:
    """Planes of the pixels under the middles of the new ones, by whole numbers."""
    for axis, after in zip((x.ndim - 2, x.ndim - 1), size):
        before = x.shape[axis]
        if isinstance(after, int):
            numbers = lifted(np.arange(1, 2 * after, 2))
        else:
            ends = lifted(np.int64(1)), after.astype(np.int64) * 2, lifted(np.int64(2))
            numbers = node("Range", *ends)
        places = node("Div", numbers * before, lifted(after).astype(np.int64) * 2)
        x = node("Gather", x, places, axis=axis)
    return x


def _resized(x: Array, size: tuple[Any, Any], **options: Any) -> Array:
    """Planes in another size. Kernels are made for four axes.

    Sizes are those of all axes: ONNX Runtime 1.31 moves a Transpose past a Resize and then takes
    its sizes to be of all, whatever `axes` says.
    """
    if _has_sides(x, (-2, -1), size):
        return x
    flat = node("Unsqueeze", x, listed(0)) if x.ndim == 3 else x
    sizes = [listed(side) for side in (*flat.shape[:-2], *size)]
    result = node("Resize", flat, None, None, node("Concat", *sizes, axis=0), **options)
    return node("Squeeze", result, listed(0)) if x.ndim == 3 else result


@block
def letterbox(
    image: Any,
    size: Size,
    *,
    fill: float | None = None,
    align: str = "center",
    enlarge: bool = True,
    interpolation: str = "bilinear",
    antialias: bool = False,
    layout: str = "HWC",
) -> tuple[Array, Array]:
    """The whole image in a picture of this size, with its proportions, and where it lies in it.

    Sides are rounded to the nearest number, the even one of two. `align`: `center`, as YOLO has it
    (of an odd rest, the larger part is below and to the right), or `corner`, above and to the left,
    as detectron and SAM have it. `fill` is what is around it: 114 for bytes, 114/255 for floats
    where it is left out. `enlarge`: whether a smaller image is made larger.

    The placement, float32 [4], are the factors by which rows and columns were scaled, and the row
    and the column of the picture where the image's corner lies: `scale_boxes` takes it.
    """
    x = lifted(image)
    choice("align", align, ("center", "corner"))
    target = height_and_width(size)
    before = _sides(x, layout)
    if fill is None:
        fill = 114 / 255 if has_floats(x) else 114
    after = _fitted(before, target, enlarge)
    small = resampled(x, after, interpolation, antialias, layout).astype(x.dtype)
    corner: tuple[Any, Any] = (0, 0)
    if align == "center":
        corner = quotient(target[0] - after[0], 2), quotient(target[1] - after[1], 2)
    return placed(small, target, corner, fill, layout), _placement(before, after, corner)


@block
def placement_of(image: Any, picture: Any, *, layout: str = "HWC") -> Array:
    """The placement, float32 [4] as of `letterbox`, of an image in a picture that `resize` made."""
    x, small = lifted(image), lifted(picture)
    return _placement(_sides(x, layout), _sides(small, layout), (0, 0))


@block(settings=("mean", "std"))
def prepare_image(
    image: Any,
    size: Size | None = None,
    *,
    resize: str = "crop",
    shortest: int | None = None,
    interpolation: str = "bilinear",
    colour: str = "rgb",
    scale: float | None = None,
    mean: float | Sequence[float] = 0.0,
    std: float | Sequence[float] = 1.0,
    layout: str = "NCHW",
    dtype: Any = "float32",
    fill: int = 0,
) -> tuple[Array, Array]:
    """A network's input of one image, uint8 [height, width, 3] or [height, width, 1], and its
    placement.

    Options and results are those of the model server's step DecodeImage, which uses Pillow; pixels
    may differ from its by one of 255; for bicubic and lanczos by more at hard edges, where
    releases of Pillow differ too. `size`: one number or (height, width); without it the image
    keeps its own. `resize`: `crop` makes the shorter side as long as `shortest` (without it: just
    long enough) and cuts out the middle; `stretch` ignores the proportions; `letterbox` keeps them
    and puts `fill` around. `interpolation` is antialiased. `colour`: rgb, bgr or gray. Values are
    (v · scale - mean) / std; `scale` is 1/255 if it is left out, and uint8 has none of the three.

    Results: pixels [1, c, h, w] or, with the layout NHWC, [1, h, w, c], of the type `dtype`; the
    placement, float32 [4], as `letterbox` gives it, with a negative corner where the image was cut.
    """
    x = lifted(image)
    rgb, target = _checked(x, size, resize, shortest, layout), np.dtype(dtype)
    choice("colour", colour, ("rgb", "bgr", "gray"))
    numbers = (scale, tuple(np.atleast_1d(mean)), tuple(np.atleast_1d(std)))
    if target == np.uint8 and numbers != (None, (0.0,), (1.0,)):
        raise OptionError(
            "scale, mean and std make no uint8; choose float32 or float16",
            where=source_line() or None,
        )
    if colour == "gray" and rgb:
        x = rgb_to_gray(x)
    before = _sides(x, "HWC")
    picture, placement = x, _placement(before, before, (0, 0))
    if size is not None:
        sides = height_and_width(size)
        after = _wished(before, sides, resize, shortest)
        corner = tuple(_offset(side, new) for side, new in zip(sides, after))
        picture = resampled(x, after, interpolation, True, "HWC")
        picture = placed(picture, sides, (corner[0], corner[1]), fill, "HWC")
        placement = _placement(before, after, corner)
    if colour != "gray" and not rgb:
        picture = node("Concat", picture, picture, picture, axis=2)
    elif colour == "bgr":
        picture = bgr_to_rgb(picture)
    if target != np.uint8:
        factor_ = 1 / 255 if scale is None else scale
        picture = normalize(picture, factor_, mean, std, dtype=target)
    planes = to_planes(picture) if layout == "NCHW" else picture
    return node("Unsqueeze", planes.astype(target), listed(0)), placement


def _checked(x: Array, size: Any, resize: str, shortest: Any, layout: str) -> bool:
    """Whether an image has three channels and not one; errors for what makes no sense."""
    choice("layout", layout, ("NCHW", "NHWC"))
    choice("resize", resize, ("crop", "stretch", "letterbox"))
    channels = x.value.shape[axes_of_image(x, "HWC")[2]]
    if x.dtype != np.uint8 or x.ndim != 3 or channels not in (1, 3):
        raise TypeMismatchError(
            f"an image is uint8 [height, width, 3] or [height, width, 1], not {x.value.type}",
            where=source_line() or None,
        )
    if size is None and (resize != "crop" or shortest is not None):
        raise OptionError("resize and shortest need a size", where=source_line() or None)
    if shortest is not None:
        sides = [s for s in height_and_width(size) if isinstance(s, int)]
        if resize != "crop" or whole(shortest, "shortest", 1) < max(sides, default=0):
            raise OptionError(
                "shortest belongs to resize='crop', and is at least as large as size",
                where=source_line() or None,
            )
    return bool(channels == 3)


def _wished(before: Any, size: tuple[Any, Any], resize: str, shortest: Any) -> tuple[Any, Any]:
    """The size of an image before what is too much is cut off or what is missing is added."""
    if resize == "stretch":
        return size
    if resize == "letterbox":
        return _fitted(before, size, True)
    rows, columns = before
    height, width = size if shortest is None else (shortest, shortest)
    wide = columns * height >= rows * width
    return (
        chosen(wide, height, quotient(rows * width, columns)),
        chosen(wide, quotient(columns * height, rows), width),
    )


def _sides(x: Array, layout: str) -> tuple[Any, Any]:
    """Rows and columns; ShapeError where it is known that there are none."""
    rows, columns, _ = axes_of_image(x, layout)
    sides = x.shape[rows], x.shape[columns]
    if any(isinstance(side, int) and side == 0 for side in sides):
        raise ShapeError(_EMPTY, where=source_line() or None)
    return sides


def _fitted(before: tuple[Any, Any], size: tuple[Any, Any], enlarge: bool) -> tuple[Any, Any]:
    ratio = smaller(factor(size[0], before[0]), factor(size[1], before[1]))
    if not enlarge:
        ratio = smaller(ratio, 1.0)
    return scaled(before[0], ratio), scaled(before[1], ratio)


def _offset(side: Any, size: Any) -> Any:
    """Half of the difference, rounded as Python does."""
    return half_even(larger(side - size, 0)) - half_even(larger(size - side, 0))


def _placement(before: Any, after: Any, corner: Any) -> Array:
    factors = (factor(new, old) for new, old in zip(after, before))
    return vector([*factors, *corner], np.float32)
