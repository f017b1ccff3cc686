"""Convolutions with filters of one channel each, alone and between two of 1 × 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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


def pack_depthwise(weights: Array) -> Array:
    """Weights [channels, 1, kh, kw] as [kh, kw, channels]."""
    return np.ascontiguousarray(np.transpose(weights[:, 0], (1, 2, 0)))


@computes("depthwise", "depthwise_any")
def depthwise(call: Arguments) -> Array:
    """Pixels of the result × channels, of which each channel of the image has so many."""
    s, *multiplier, x, packed, _ = call.widened
    read = np.repeat(taps(image_of(x, s), s), multiplier[0] if multiplier else 1, axis=2)
    filters = packed[: read[0].size].reshape(read[0].shape)
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
