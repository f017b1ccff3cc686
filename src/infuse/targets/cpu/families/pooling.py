"""Pooling of images."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from infuse.targets.cpu.families.base import Arguments, Array, Size, computes, declared_in
from infuse.targets.cpu.families.convolution import image_of, taps


@declared_in("pool.hpp")
class PoolSizes(NamedTuple):
    """Pooling of images; `pitch`: elements from one pixel to the next where channels lie last."""

    batch: Size
    height: Size
    width: Size
    channels: Size
    out_height: Size
    out_width: Size
    kernel_height: Size
    kernel_width: Size
    stride_height: Size
    stride_width: Size
    dilation_height: Size
    dilation_width: Size
    pad_top: Size
    pad_left: Size
    pad_bottom: Size
    pad_right: Size
    count_padding: bool
    pitch: Size


@computes("pool")
def pool(call: Arguments) -> Array:
    """Pixels of the result × channels: the largest, the norm or the mean."""
    s, kind, x = call.widened[:3]
    return _pooled(s, kind, image_of(x, s))


@computes("pool_planes")
def pool_planes(call: Arguments) -> Array:
    """The same of planes: lines of the result × columns."""
    s, kind, x = call.widened[:3]
    made = _pooled(s, kind, image_of(x, s, planar=True))
    image = made.reshape(s.batch, s.out_height, s.out_width, s.channels)
    lines: Array = image.transpose(0, 3, 1, 2).reshape(-1, s.out_width)
    return lines


def _pooled(s: PoolSizes, kind: Any, image: Array) -> Array:
    inside = taps(np.ones_like(image), s) > 0
    if kind.type in ("MaxPool", "MaxIntegerPool"):
        largest: Array = np.where(inside, taps(image, s), -np.inf).max(1, initial=-np.inf)
        return largest
    if kind.type == "PowerPool":
        (power,) = kind.items
        norm: Array = (np.abs(taps(image, s)) ** power).sum(1) ** (1 / power)
        return norm
    counted = inside
    if s.count_padding:
        below, beside = s.pad_top + s.pad_bottom, s.pad_left + s.pad_right
        wide = s._replace(height=s.height + below, width=s.width + beside, pad_top=0, pad_left=0)
        counted = taps(np.ones((s.batch, wide.height, wide.width, s.channels)), wide) > 0
    mean: Array = taps(image, s).sum(1) / counted.sum(1)
    return mean


@computes("global_mean_pool")
def global_mean_pool(call: Arguments) -> Array:
    """Images × channels: the mean of all pixels."""
    mean: Array = _planes(call).mean(1)
    return mean


@computes("global_max_pool")
def global_max_pool(call: Arguments) -> Array:
    """Images × channels: the largest of all pixels."""
    largest: Array = _planes(call).max(1)
    return largest


def _planes(call: Arguments) -> Array:
    batch, pixels, channels, x = call.widened[:4]
    planes: Array = x[: batch * pixels * channels].reshape(batch, pixels, channels)
    return planes
