"""Images of other sizes, and parts of them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.tensorflow.calls import FlowCall, operator
from infuse.ir.graph import Value
from infuse.tracing.layout import FROM_CHANNELS, TO_CHANNELS
from infuse.tracing.semantics import resampling
from infuse.tracing.tensorflow.images import coordinates, resized

LARGEST: Final = 1 << 14
"""The size of an image that numbers of the model are made for."""


@operator("ResizeBilinear")
def bilinear(call: FlowCall) -> Value:
    """Images of other sizes, whose pixels lie between those of the operand; floats."""
    x = call.g.permute(g_float(call), *TO_CHANNELS[4])
    return resized(call, x, nearest=False)


@operator("ResizeNearestNeighbor")
def nearest(call: FlowCall) -> Value:
    """Images of other sizes, of the nearest pixels of the operand."""
    return resized(call, call.real(0, *TO_CHANNELS[4]), nearest=True)


@operator("ResizeBicubic")
def bicubic(call: FlowCall) -> Value:
    """Images of other sizes, between whose pixels lie curves of the third degree."""
    g, x, after = call.g, g_float(call), call.ints(1)
    before = x.shape[1:3]
    if len(after) != 2 or min(after) < 1 or max(after) > LARGEST:
        raise ModelFileError(f"its sizes are {after[:4]}")
    aligned, half = coordinates(call) == "align_corners", coordinates(call) == "half_pixel"
    weights = []
    for size, count in zip(before, after):
        if not isinstance(size, int) or not 0 < size <= LARGEST:
            raise call.unsupported(f"a bicubic image of size {size}")
        weights.append(resampling.cubic_weights(size, count, aligned, half))
    return resampling.weighted(g, x, weights[0], weights[1])


def g_float(call: FlowCall) -> Value:
    """Operand 0 in float32."""
    return call.g.cast(call.raw(0), dtypes.float32)


@operator("CropAndResize")
def crop(call: FlowCall) -> Value:
    """Boxes of images, in one size."""
    g, x = call.g, call.real(0, *TO_CHANNELS[4])
    boxes, numbers, sizes = call.raw(1), call.raw(2), call.ints(3)
    kind = call.text("method", "bilinear", "nearest")
    if kind == "nearest":
        raise call.unsupported("cropping to the nearest pixels")
    outside = float(call.option("extrapolation_value", 0.0))
    height, width = (g.size_of(x, axis) for axis in (2, 3))
    if len(sizes) != 2 or min(sizes) < 1 or max(sizes) > LARGEST:
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


def _float(call: FlowCall, size: Any) -> Value:
    g = call.g
    if isinstance(size, int):
        return g.constant(np.float32(size))
    return g.cast(size, dtypes.float32)


def _sampled(
    call: FlowCall, x: Value, numbers: Value, grids: Any, sizes: list[int], outside: float
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
    y = g("Where", g("Unsqueeze", valid, g.ints(1)), y, g.number(outside, y.dtype))
    return g.permute(y, *FROM_CHANNELS[4])


@operator("AdjustContrastv2")
def contrast(call: FlowCall) -> Value:
    """Images whose distance from their mean is multiplied."""
    g, x, factor = call.g, call.raw(0), call.raw(1)
    mean = g("ReduceMean", x, g.ints(-3, -2), keepdims=1)
    return g("Add", g("Mul", g("Sub", x, mean), factor), mean)
