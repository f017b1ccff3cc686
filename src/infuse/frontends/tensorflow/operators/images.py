"""Images of other sizes, and parts of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.tensorflow.calls import Call, operator
from infuse.frontends.tflite.builtins.convolutions import FROM_CHANNELS, TO_CHANNELS
from infuse.ir.graph import Value


def _resized(call: Call, **attributes: Any) -> Value:
    x, sizes = call.real(0, *TO_CHANNELS[4]), call.list_of(1)
    mode = _coordinates(call)
    y = call.g(
        "Resize", x, None, None, sizes, axes=(2, 3), coordinate_transformation_mode=mode,
        **attributes,
    )  # fmt: skip
    return call.g.permute(y, *FROM_CHANNELS[4])


def _coordinates(call: Call) -> str:
    aligned = call.option("align_corners", False)
    half = call.option("half_pixel_centers", False)
    if aligned and half:
        raise ModelFileError("it has both align_corners and half_pixel_centers")
    return "align_corners" if aligned else "half_pixel" if half else "asymmetric"


@operator("ResizeBilinear")
def bilinear(call: Call) -> Value:
    """Images of other sizes, whose pixels lie between those of the operand; floats."""
    x = call.raw(0)
    real = call.on(call.g.cast(x, dtypes.float32), call.item(1))
    return _resized(real, mode="linear")


@operator("ResizeNearestNeighbor")
def nearest(call: Call) -> Value:
    """Images of other sizes, of the nearest pixels of the operand."""
    rounded = "floor" if _coordinates(call) == "asymmetric" else "round_prefer_ceil"
    return _resized(call, mode="nearest", nearest_mode=rounded)


@operator("ResizeBicubic")
def bicubic(call: Call) -> Value:
    """Images of other sizes, between whose pixels lie curves of the third degree."""
    real = call.on(call.g.cast(call.raw(0), dtypes.float32), call.item(1))
    if _coordinates(call) == "half_pixel":
        return _resized(real, mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1)
    return _resized(real, mode="cubic", cubic_coeff_a=-0.75)


@operator("CropAndResize")
def crop(call: Call) -> Value:
    """Boxes of images, in one size."""
    g, x = call.g, call.real(0, *TO_CHANNELS[4])
    boxes, numbers, sizes = call.raw(1), call.raw(2), call.ints(3)
    kind = call.text("method", "bilinear", "nearest")
    if kind == "nearest":
        raise call.unsupported("cropping to the nearest pixels")
    outside = float(call.option("extrapolation_value", 0.0))
    height, width = (g.size_of(x, axis) for axis in (2, 3))
    if len(sizes) != 2 or min(sizes) < 1:
        raise ModelFileError(f"its sizes are {sizes[:4]}")
    grids = []
    for axis, (count, size) in enumerate(zip(sizes, (height, width))):
        ends = [g("Gather", boxes, g.constant(np.array([axis + 2 * i])), axis=1) for i in (0, 1)]
        last = _float(call, size)
        last = g("Sub", last, 1.0)
        if count > 1:
            steps = g.constant((np.arange(count) / (count - 1)).astype(np.float32))
            place = g("Add", ends[0], g("Mul", g("Sub", ends[1], ends[0]), steps))
        else:
            place = g("Mul", g("Add", ends[0], ends[1]), 0.5)
        # GridSample counts from -1 at the first pixel to 1 at the last.
        grids.append((g("Mul", place, last), last))
    return _sampled(call, x, numbers, grids, sizes, outside)


def _float(call: Call, size: Any) -> Value:
    g = call.g
    if isinstance(size, int):
        return g.constant(np.float32(size))
    return g.cast(size, dtypes.float32)


def _sampled(
    call: Call, x: Value, numbers: Value, grids: Any, sizes: list[int], outside: float
) -> Value:
    g = call.g
    rows = g("Gather", x, numbers, axis=0)
    parts, valid = [], None
    for axis, (place, last) in enumerate(grids):
        inside = g("And", g("GreaterOrEqual", place, 0.0), g("LessOrEqual", place, last))
        scaled = g("Sub", g("Div", g("Mul", place, 2.0), g("Max", last, 1e-9)), 1.0)
        shape = g.ints(-1, sizes[0], 1) if axis == 0 else g.ints(-1, 1, sizes[1])
        inside, scaled = (g("Reshape", value, shape) for value in (inside, scaled))
        valid = inside if valid is None else g("And", valid, inside)
        whole = g.ints(1, *sizes)
        parts.append(g("Unsqueeze", g("Expand", scaled, whole), g.ints(-1)))
    assert valid is not None
    grid = g("Concat", parts[1], parts[0], axis=-1)
    y = g("GridSample", rows, grid, mode="linear", padding_mode="border", align_corners=1)
    y = g("Where", g("Unsqueeze", valid, g.ints(1)), y, outside)
    return g.permute(y, *FROM_CHANNELS[4])


@operator("AdjustContrastv2")
def contrast(call: Call) -> Value:
    """Images whose distance from their mean is multiplied."""
    g, x, factor = call.g, call.raw(0), call.raw(1)
    mean = g("ReduceMean", x, g.ints(-3, -2), keepdims=1)
    return g("Add", g("Mul", g("Sub", x, mean), factor), mean)
