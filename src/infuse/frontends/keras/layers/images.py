"""Layers of images: sizes, scales, and those that change something in training only."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.errors import ModelFileError
from infuse.frontends.keras.calls import KerasCall, layer
from infuse.frontends.keras.layers.convolutions import channels_back, channels_in_front
from infuse.frontends.keras.layers.movement import interpolation
from infuse.ir.graph import Value


@layer(
    "RandomBrightness",
    "RandomContrast",
    "RandomFlip",
    "RandomRotation",
    "RandomShear",
    "RandomTranslation",
    "RandomZoom",
    "RandomColorDegeneration",
    "RandomColorJitter",
    "RandomErasing",
    "RandomGaussianBlur",
    "RandomGrayscale",
    "RandomHue",
    "RandomInvert",
    "RandomPerspective",
    "RandomPosterization",
    "RandomSaturation",
    "RandomSharpness",
    "RandomElasticTransform",
    "RandomHeight",
    "RandomWidth",
    "AugMix",
    "CutMix",
    "MixUp",
    "RandAugment",
)
def augmentation(call: KerasCall, x: Value) -> Value:
    """Images as they are, in the type of the layer."""
    return call.floats(x)


@layer("Rescaling", masking=True)
def rescaling(call: KerasCall, x: Value) -> Value:
    """X · scale + offset, where both may be lists over channels."""
    g, values = call.g, call.floats(x)
    scale, offset = (
        _channels(call, call.config.get(name, start), x)
        for name, start in (("scale", 1.0), ("offset", 0.0))
    )
    return g("Add", g("Mul", values, scale), offset)


def _channels(call: KerasCall, value: Any, x: Value) -> Value:
    if isinstance(value, dict):
        value = value.get("config", {}).get("value")
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or array.ndim > 1:
        raise ModelFileError(f"its scale or offset is {str(value)[:60]!r}")
    if array.ndim and call.config.channels_first and x.rank > 2:
        array = array.reshape(-1, *(1,) * (x.rank - 2))
    return call.constant(array)


def _sizes(call: KerasCall, x: Value) -> tuple[int, int, int, int]:
    """Height and width of the operand and of the result."""
    target = call.config.whole("height"), call.config.whole("width")
    sizes = x.shape[2:4]
    if not all(isinstance(size, int) for size in sizes):
        raise call.unsupported("images of unknown sizes")
    height, width = (int(size) for size in sizes if isinstance(size, int))
    return height, width, *target


@layer("Resizing")
def resizing(call: KerasCall, x: Value) -> Value:
    """Images of another size, cropped first to the shape that is asked for, or padded to it."""
    g, config = call.g, call.config
    config.require("antialias", False)
    config.require("pad_to_aspect_ratio", False)
    kind = str(config.get("interpolation", "bilinear")).lower()
    values = x if kind == "nearest" else call.floats(x)
    single = values.rank == 3
    images = channels_in_front(call, call.unsqueezed(values, 0) if single else values, 4)
    if config.flag("crop_to_aspect_ratio"):
        images = _cropped_to_ratio(call, images)
    target = [config.whole("height"), config.whole("width")]
    if min(target) < 1:
        raise ModelFileError(f"its images have the sizes {target}")
    y = g("Resize", images, None, None, g.ints(*target), axes=(2, 3), **interpolation(call, kind))
    y = g.cast(channels_back(call, y), call.dtype)
    return call.squeezed(y, 0) if single else y


def _cropped_to_ratio(call: KerasCall, images: Value) -> Value:
    height, width, new_height, new_width = _sizes(call, images)
    crop_height = min(int(width * new_height / new_width), height)
    crop_width = min(int(height * new_width / new_height), width)
    for axis, size, kept in ((2, height, crop_height), (3, width, crop_width)):
        start = int(float(size - kept) / 2)
        images = call.g.slice(images, axis, start, start + kept)
    return images


@layer("CenterCrop", "RandomCrop")
def center_crop(call: KerasCall, x: Value) -> Value:
    """The middle of images; images that are smaller are enlarged first."""
    values = call.floats(x)
    single = values.rank == 3
    images = channels_in_front(call, call.unsqueezed(values, 0) if single else values, 4)
    height, width, new_height, new_width = _sizes(call, images)
    if height >= new_height and width >= new_width:
        for axis, size, kept in ((2, height, new_height), (3, width, new_width)):
            images = call.g.slice(images, axis, (size - kept) // 2, (size - kept) // 2 + kept)
    else:
        images = _cropped_to_ratio(call, images)
        modes = interpolation(call, "bilinear")
        target = call.g.ints(new_height, new_width)
        images = call.g("Resize", images, None, None, target, axes=(2, 3), **modes)
    y = channels_back(call, images)
    return call.squeezed(y, 0) if single else y
