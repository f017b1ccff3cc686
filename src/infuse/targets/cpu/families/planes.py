"""Convolutions of images whose channels are planes, to such images, and copies that turn images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse.targets.cpu.families.base import Arguments, Array, computes
from infuse.targets.cpu.families.convolution import ConvSizes, image_of, taps
from infuse.targets.cpu.families.work import Work, ceil_div, counts
from infuse.targets.machine import Machine


@computes("conv_planes")
def conv_planes(call: Arguments) -> Array:
    """Channels of the results × pixels."""
    s, x, w, _ = call.widened
    read = taps(image_of(x, s, planar=True), s)
    window, depth, own = read.shape[1], s.channels // s.groups, s.out_channels // s.groups
    filters = w[: s.out_channels * depth * window].reshape(s.groups, own, depth, window)
    windows = read.reshape(s.batch, -1, window, s.groups, depth)
    result: Array = np.einsum("npwgd,godw->ngop", windows, filters, optimize=True)
    return result.reshape(s.batch * s.out_channels, -1)


# -- work ------------------------------------------------------------------------------------------


@counts("planes", "product")
def _product(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    s = ConvSizes(*sizes)
    taps = s.kernel_height * s.kernel_width
    depth, own = s.channels // s.groups * taps, s.out_channels // s.groups
    images, pixels = s.batch * s.groups, s.out_height * s.out_width
    vectors, panels = ceil_div(pixels, machine.lanes), ceil_div(pixels, machine.tile_columns)
    in_place = taps == 1 and pixels == s.height * s.width
    runs = panels + (0 if in_place else s.out_height)
    parts = 0 if in_place else images * (depth // taps) * s.height * s.stride_width
    return (
        images * own * depth * vectors / threads,
        images * own * vectors / threads,
        images * depth * runs / threads,
        parts / threads,
        1.0,
    )


@counts("turned", "images")
def _turned(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    """Of images of so many elements."""
    (count,) = sizes
    return (count / threads, 1.0)
