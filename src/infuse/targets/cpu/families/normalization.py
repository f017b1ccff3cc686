"""Softmax, and normalization over rows and over groups of channels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from infuse.targets.cpu.families.base import (
    Arguments,
    Array,
    Size,
    computes,
    declared_in,
    leading,
    loaded,
)


@declared_in("norm.hpp")
class GroupSizes(NamedTuple):
    """A normalization over groups of channels."""

    batch: Size
    pixels: Size
    channels: Size
    groups: Size


@computes("softmax")
def softmax(call: Arguments) -> Array:
    """Of each row the shares that sum up to 1."""
    powers = np.exp(_below_zero(call))
    shares: Array = powers / powers.sum(1, keepdims=True)
    return shares


@computes("log_softmax")
def log_softmax(call: Arguments) -> Array:
    """Their logarithms."""
    below = _below_zero(call)
    logarithms: Array = below - np.log(np.exp(below).sum(1, keepdims=True))
    return logarithms


@computes("softmax_axis")
def softmax_axis(call: Arguments) -> Array:
    """The shares of elements that are rows: (outer, element) × columns."""
    powers = np.exp(_below_zero_of_columns(call))
    return _rows(powers / powers.sum(1, keepdims=True))


@computes("log_softmax_axis")
def log_softmax_axis(call: Arguments) -> Array:
    """Their logarithms."""
    below = _below_zero_of_columns(call)
    return _rows(below - np.log(np.exp(below).sum(1, keepdims=True)))


def _below_zero_of_columns(call: Arguments) -> Array:
    """Outer × elements × columns, less the largest element of each column."""
    outer, size, inner, loader = call.arguments[:4]
    x = loaded(loader, (outer * size, inner)).reshape(outer, size, inner)
    below: Array = x - x.max(1, keepdims=True, initial=-np.inf)
    return below


def _rows(cube: Array) -> Array:
    return cube.reshape(-1, cube.shape[2])


def _below_zero(call: Arguments) -> Array:
    """Rows less the largest of each."""
    rows, columns, loader = call.arguments[:3]
    x = loaded(loader, (rows, columns))
    below: Array = x - x.max(1, keepdims=True, initial=-np.inf)
    return below


@computes("layer_norm")
def layer_norm(call: Arguments) -> Array:
    """Rows of mean 0 and variance 1, scaled and shifted."""
    rows, columns, loader, scale, shift, epsilon = call.arguments[:6]
    x = loaded(loader, (rows, columns))
    centred = x - x.mean(1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(1, keepdims=True) + epsilon)
    return _scaled(centred / deviation, scale, shift)


@computes("rms_norm")
def rms_norm(call: Arguments) -> Array:
    """Rows of mean square 1, scaled."""
    rows, columns, loader, scale, epsilon = call.arguments[:5]
    x = loaded(loader, (rows, columns))
    return _scaled(x / np.sqrt((x**2).mean(1, keepdims=True) + epsilon), scale, None)


@computes("group_norm")
def group_norm(call: Arguments) -> Array:
    """Pixels × channels of which each group has mean 0 and variance 1, scaled and shifted."""
    s, loader, scale, shift, epsilon = call.arguments[:5]
    x = loaded(loader, (s.batch * s.pixels, s.channels))
    x = x.reshape(s.batch, s.pixels, s.groups, s.channels // s.groups)
    centred = x - x.mean((1, 3), keepdims=True)
    deviation = np.sqrt((centred**2).mean((1, 3), keepdims=True) + epsilon)
    rows = (centred / deviation).reshape(-1, s.channels)
    return _scaled(rows, scale, shift)


@computes("group_norm_planes")
def group_norm_planes(call: Arguments) -> Array:
    """The same of channels × pixels."""
    s, loader, scale, shift, epsilon = call.arguments[:5]
    x = loaded(loader, (s.batch * s.channels, s.pixels)).reshape(s.batch * s.groups, -1)
    centred = x - x.mean(1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(1, keepdims=True) + epsilon)
    planes = (centred / deviation).reshape(s.batch, s.channels, s.pixels)
    rows = planes.transpose(0, 2, 1).reshape(-1, s.channels)
    scaled = _scaled(rows, scale, shift).reshape(s.batch, s.pixels, s.channels)
    result: Array = scaled.transpose(0, 2, 1).reshape(-1, s.pixels)
    return result


def _scaled(rows: Array, scale: Array | None, shift: Array | None) -> Array:
    """Rows with a factor and an addend of each column."""
    columns = rows.shape[1]
    scaled: Array = rows * _columns(scale, columns, 1) + _columns(shift, columns, 0)
    return scaled


def _columns(elements: Array | None, count: int, otherwise: float) -> Array:
    """A number for each column, the same for all where there is no pointer."""
    if elements is None:
        return np.full(count, otherwise)
    if elements.size < count:
        raise IndexError(f"{count} columns of {elements.size} elements")
    return elements[:count].astype(np.float64)


@computes("lp_norm")
def lp_norm(call: Arguments) -> Array:
    """Lines of length 1, in rows; a line of zeros stays."""
    s, elements = call.arguments[:2]
    x = leading(elements, s.outer * s.reduce * s.inner).astype(np.float64)
    x = x.reshape(s.outer, s.reduce, s.inner)
    order = {"L1Norm": 1, "L2Norm": 2}[call.template[0]]
    lengths = np.linalg.norm(x, order, 1, keepdims=True)
    made: Array = x / np.where(lengths == 0, 1, lengths)
    return made.reshape(-1, s.cols) if made.size else made
