"""Images: other sizes, other orders of pixels, samples."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.paddle.calls import PaddleCall, operator
from infuse.frontends.paddle.operators.convolutions import as_image, image, pads_of, several
from infuse.ir.graph import Value
from infuse.tracing.semantics import movement

_MODES: Final = {
    "nearest": "nearest", "linear": "linear", "bilinear": "linear", "trilinear": "linear",
    "bicubic": "cubic",
}  # fmt: skip


def _coordinates(call: PaddleCall, mode: str) -> dict[str, Any]:
    corners = bool(call.attribute("align_corners", True))
    whole = int(call.attribute("align_mode", 1)) == 1
    if mode == "nearest":
        if corners:
            return {
                "coordinate_transformation_mode": "align_corners",
                "nearest_mode": "round_prefer_ceil",
            }
        return {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    if corners:
        return {"coordinate_transformation_mode": "align_corners"}
    asymmetric = whole and mode == "linear"
    return {"coordinate_transformation_mode": "asymmetric" if asymmetric else "half_pixel"}


@operator(
    "nearest_interp", "linear_interp", "bilinear_interp", "trilinear_interp", "bicubic_interp"
)
def interpolate(call: PaddleCall) -> Value:
    """Images of another size, which is an operand, or follows from scales, or is an attribute."""
    g, x = call.g, image(call, "x")
    name = call.operator.name.removesuffix("_interp")
    mode, count = _MODES[name], x.rank - 2
    call.require("interp_method", name)
    options = {"mode": mode, "cubic_coeff_a": -0.75, **_coordinates(call, mode)}
    axes = {"axes": tuple(range(2, x.rank))}
    scales = call.attribute("scale", [])
    scales = list(scales) if isinstance(scales, (list, tuple)) else [scales]
    sizes = [int(call.attribute(f"out_{n}", -1)) for n in "dhw"][-count:]
    if call.has("size_tensor") or call.has("out_size"):
        size = call.listed("size_tensor" if call.has("size_tensor") else "out_size")
        made = g("Resize", x, None, None, size, **options, **axes)
    elif call.has("scale_tensor") or any(scale > 0 for scale in scales):
        if call.has("scale_tensor"):
            const = call("scale_tensor").const
            if const is None:
                raise call.unsupported("a scale that is computed")
            scales = [float(scale) for scale in const.reshape(-1)]
        scales = scales * count if len(scales) == 1 else scales
        if len(scales) != count:
            raise ModelFileError(f"it has {len(scales)} scales of {count} sizes")
        factors = g.constant(np.array(scales, np.float32))
        made = g("Resize", x, None, factors, **options, **axes)
    else:
        if any(size <= 0 for size in sizes):
            raise ModelFileError(f"it makes images of the size {sizes}")
        made = g("Resize", x, None, None, g.ints(*sizes), **options, **axes)
    return as_image(call, made)


@operator("pixel_shuffle")
def pixel_shuffle(call: PaddleCall) -> Value:
    """Channels as pixels of larger images."""
    factor = int(call.attribute("upscale_factor", 1))
    x = image(call, "x")
    return as_image(call, call.g("DepthToSpace", x, blocksize=factor, mode="CRD"))


def _split(call: PaddleCall, x: Value, axis: int, *sizes: int) -> Value:
    """One axis as several; one of the sizes is -1."""
    g = call.g
    rest = [g.size_of(x, i) for i in range(axis + 1, x.rank)]
    return g("Reshape", x, g.ints(*[0] * axis, *sizes, *rest))


@operator("pixel_unshuffle")
def pixel_unshuffle(call: PaddleCall) -> Value:
    """Pixels of squares as channels."""
    g, x, factor = call.g, image(call, "x"), int(call.attribute("downscale_factor", 1))
    apart = _split(call, _split(call, x, 3, -1, factor), 2, -1, factor)
    moved = g.permute(apart, 0, 1, 3, 5, 2, 4)
    sizes = [g.size_of(moved, i) for i in (4, 5)]
    return as_image(call, g("Reshape", moved, g.ints(0, -1, *sizes)))


@operator("channel_shuffle")
def channel_shuffle(call: PaddleCall) -> Value:
    """Channels of groups in turn."""
    g, x = call.g, image(call, "x")
    apart = _split(call, x, 1, int(call.attribute("groups", 1)), -1)
    moved = g.permute(apart, 0, 2, 1, 3, 4)
    sizes = [g.size_of(x, i) for i in (2, 3)]
    return as_image(call, g("Reshape", moved, g.ints(0, -1, *sizes)))


@operator("grid_sample")
def grid_sample(call: PaddleCall) -> Value:
    """Samples of images at places."""
    mode, edge = call.attribute("mode", "bilinear"), call.attribute("padding_mode", "zeros")
    modes = {"bilinear": "linear", "nearest": "nearest"}
    if mode not in modes or edge not in ("zeros", "border", "reflection"):
        raise call.unsupported(f"mode={mode!r} with padding_mode={edge!r}")
    corners = int(bool(call.attribute("align_corners", True)))
    return call.g(
        "GridSample",
        call("x"),
        call("grid"),
        mode=modes[mode],
        padding_mode=edge,
        align_corners=corners,
    )


@operator("affine_grid")
def affine_grid(call: PaddleCall) -> Value:
    """The places that linear maps bring pixels to."""
    corners = int(bool(call.attribute("align_corners", True)))
    return call.g(
        "AffineGrid", call("input"), call.listed("output_shape", []), align_corners=corners
    )


@operator("roi_align")
def roi_align(call: PaddleCall) -> Value:
    """Means of samples of regions; regions of one image stand together."""
    g, boxes = call.g, call("boxes")
    aligned, ratio = call.attribute("aligned", False), int(call.attribute("sampling_ratio", -1))
    if call.has("boxes_num"):
        ends = g("CumSum", g.cast(call("boxes_num"), dtypes.int64), g.number(0, dtypes.int64))
        zero, one = g.number(0, dtypes.int64), g.number(1, dtypes.int64)
        count = g("Squeeze", g("Shape", boxes, start=0, end=1), g.ints(0))
        places = g("Unsqueeze", g("Range", zero, count, one), g.ints(1))
        behind = g.cast(g("GreaterOrEqual", places, ends), dtypes.int64)
        batch = g("ReduceSum", behind, g.ints(1), keepdims=0)
    else:
        count = g("Shape", boxes, start=0, end=1)
        batch = g("Expand", g.number(0, dtypes.int64), count)
    return g(
        "RoiAlign",
        call("x"),
        boxes,
        batch,
        mode="avg",
        output_height=int(call.attribute("pooled_height", 1)),
        output_width=int(call.attribute("pooled_width", 1)),
        sampling_ratio=max(ratio, 0),
        spatial_scale=float(call.attribute("spatial_scale", 1.0)),
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
    )


@operator("unfold")
def unfold(call: PaddleCall) -> Value:
    """The windows of images as columns."""
    g, x = call.g, call("x")
    kernel = call.ints("kernel_sizes")
    strides, dilations = (several(call, n, 2, 1) for n in ("strides", "dilations"))
    pads = call.ints("paddings", [0, 0])
    pads = pads if len(pads) == 4 else [*pads_of(call, 2)]
    if len(kernel) != 2 or not 0 < kernel[0] * kernel[1] <= 4096:
        raise ModelFileError(f"its windows are {kernel}")
    x = g("Pad", x, g.ints(*pads), None, g.ints(2, 3))
    return movement.columns(g, x, kernel, list(strides), list(dilations))


@operator("temporal_shift")
def temporal_shift(call: PaddleCall) -> Value:
    """A part of the channels from the frame before, another from the one after."""
    g, x = call.g, image(call, "x")
    frames, ratio = int(call.attribute("seg_num", 1)), float(call.attribute("shift_ratio", 0.25))
    channels = x.shape[1]
    if not isinstance(channels, int):
        raise call.unsupported("a number of channels that is not fixed")
    first, second = int(channels * ratio), int(channels * 2 * ratio)
    apart = g("Reshape", x, g.ints(-1, frames, *(g.size_of(x, i) for i in (1, 2, 3))))
    past = g.slice(g.pad(g.slice(apart, 2, 0, first), 1, 1, 0), 1, 0, frames)
    future = g.slice(g.pad(g.slice(apart, 2, first, second), 1, 0, 1), 1, 1, frames + 1)
    joined = g("Concat", past, future, g.slice(apart, 2, second, channels), axis=2)
    sizes = [g.size_of(x, i) for i in (1, 2, 3)]
    return as_image(call, g("Reshape", joined, g.ints(-1, *sizes)))
