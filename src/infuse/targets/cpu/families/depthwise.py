"""Convolutions with filters of one channel each, alone and between two of 1 × 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from infuse.targets.cpu.families.base import Arguments, Array, Size, computes, declared_in
from infuse.targets.cpu.families.convolution import image_of, taps
from infuse.targets.cpu.families.work import Work, ceil_div, counts
from infuse.targets.machine import Machine


@declared_in("depthwise_sizes.hpp")
class DepthwiseSizes(NamedTuple):
    """A convolution with filters of one channel each; `channels` are those of its input."""

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


@declared_in("chain.hpp")
class ChainSizes(NamedTuple):
    """A depthwise convolution with 1 × 1 convolutions before and after it."""

    mid: DepthwiseSizes
    in_channels: Size
    pitch: Size
    out_channels: Size


MOST_PLANES: Final = 4
"""Results a channel whose filters lie one after another (kernels/depthwise_any.hpp)."""


def pack_depthwise(weights: Array, multiplier: int = 1) -> Array:
    """Weights [channels · multiplier, 1, kh, kw] as [kh, kw, multiplier, channels], of more than
    MOST_PLANES as [kh, kw, channels, multiplier].
    """
    by_channel = weights[:, 0].reshape(-1, multiplier, *weights.shape[2:])
    order = (2, 3, 1, 0) if multiplier <= MOST_PLANES else (2, 3, 0, 1)
    return np.ascontiguousarray(np.transpose(by_channel, order))


def depthwise_forms(sizes: DepthwiseSizes, out: Size) -> list[str]:
    """The forms of a convolution with so many results: for usual windows, and for any."""
    usual = sizes.kernel_width in (3, 5, 7) and sizes.stride_width in (1, 2)
    fits = usual and sizes.dilation_width == 1 and out == sizes.channels
    return ["rows", "any"] if fits else ["any"]


@computes("depthwise", "depthwise_any")
def depthwise(call: Arguments) -> Array:
    """Pixels of the result × channels, of which each channel of the image has so many."""
    s, *more, x, packed, _ = call.widened
    multiplier = more[0] if more else 1
    read = np.repeat(taps(image_of(x, s), s), multiplier, axis=2)
    filters = packed[: read[0].size].reshape(len(read[0]), -1)
    if multiplier <= MOST_PLANES:
        by_plane = filters.reshape(len(filters), multiplier, -1)
        filters = by_plane.transpose(0, 2, 1).reshape(len(filters), -1)
    result: Array = np.einsum("ptc,tc->pc", read, filters)
    return result


# -- work ------------------------------------------------------------------------------------------


@counts("depthwise", "rows", "any")
def _filters(sizes: Sequence[int], machine: Machine, threads: int) -> Work:
    s = DepthwiseSizes(*sizes)
    vectors = s.batch * s.out_height * s.out_width * ceil_div(s.channels, machine.lanes)
    pixels = s.batch * s.height * s.width
    return (
        vectors * s.kernel_height * s.kernel_width / threads,
        vectors / threads,
        pixels * s.channels / threads,
        1.0,
    )
