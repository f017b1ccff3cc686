"""Images of other sizes, and parts of them."""

from __future__ import annotations

from typing import Final

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.tensorflow.calls import FlowCall, operator
from infuse.ir.graph import Value
from infuse.tracing.layout import TO_CHANNELS
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
    if len(sizes) != 2 or min(sizes) < 1 or max(sizes) > LARGEST:
        raise ModelFileError(f"its sizes are {sizes[:4]}")
    return resampling.crops(g, x, boxes, numbers, sizes, outside)


@operator("AdjustContrastv2")
def contrast(call: FlowCall) -> Value:
    """Images whose distance from their mean is multiplied."""
    g, x, factor = call.g, call.raw(0), call.raw(1)
    mean = g("ReduceMean", x, g.ints(-3, -2), keepdims=1)
    return g("Add", g("Mul", g("Sub", x, mean), factor), mean)
