"""Windows over any number of axes and elements of any type, and plain products of matrices.

Windows are what a function's struct `Windows` has: images `n`, channels `c`, and `axis` by axis
their sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.targets.cpu.families.base import Arguments, Array, Stores, matrix, writes


def places(windows: Any) -> tuple[Array, Array, Array]:
    """Of every window [windows, taps]: the number of the pixel, the same with the first axis
    fastest, and which taps lie inside.
    """
    pixel, leading, inside = np.zeros((1, 1), int), np.zeros((1, 1), int), np.ones((1, 1), bool)
    step = 1
    for axis in windows.axis[: windows.rank]:
        size = getattr(axis, "in")
        at = _along(axis)
        pixel = _outer(pixel * size, at)
        leading = _outer(leading, at * step)
        inside = ~_outer(~inside, ~((at >= 0) & (at < size)))
        step *= size
    return pixel, leading, inside


def windowed(x: Array, windows: Any, outside: float = 0) -> Array:
    """What windows read of images, channels last: [n · windows, taps, c]."""
    pixel, _, inside = places(windows)
    images = _images(x, windows)
    read = np.full((windows.n, *pixel.shape, windows.c), outside, x.dtype)
    read[:, inside] = images[:, pixel[inside]]
    result: Array = read.reshape(-1, pixel.shape[1], windows.c)
    return result


def _images(x: Array, windows: Any) -> Array:
    pixels = int(np.prod([getattr(axis, "in") for axis in windows.axis[: windows.rank]]))
    images: Array = x[: windows.n * pixels * windows.c].reshape(windows.n, pixels, windows.c)
    return images


def _along(axis: Any) -> Array:
    """Where the taps of the windows along an axis lie."""
    first = np.arange(axis.out) * axis.stride - axis.before
    result: Array = first[:, None] + np.arange(axis.kernel) * axis.dilation
    return result


def _outer(whole: Array, axis: Array) -> Array:
    """Sums over one more axis of windows and taps, which is the last."""
    each = whole[:, None, :, None] + axis[None, :, None, :]
    result: Array = each.reshape(len(whole) * len(axis), -1)
    return result


@writes("window_conv")
def window_conv(call: Arguments) -> Stores:
    """Pixels × filters; the filters are [groups, taps, channels, filters of a group]."""
    windows, filters, groups, x, w, bias = call.arguments[:6]
    read = windowed(x.astype(np.float64), windows)
    depth, wide = windows.c // groups, filters // groups
    shape = (groups, read.shape[1] * depth, wide)
    weights = w[: np.prod(shape)].astype(np.float64).reshape(shape)
    parts = [
        part.reshape(len(read), shape[1]) @ own
        for part, own in zip(np.split(read, groups, axis=2), weights)
    ]
    result = np.concatenate(parts, axis=1)
    return {6: result if bias is None else result + bias[:filters]}


@writes("window_sum")
def window_sum(call: Arguments) -> Stores:
    """Pixels × channels: means, of borders too where those count, or norms."""
    windows, counts_padding, op, x = call.arguments[:4]
    read = windowed(x.astype(np.float64), windows)
    if op != "WindowMean{}":
        power = float(op.removeprefix("WindowPower{").removesuffix("}"))
        return {4: (np.abs(read) ** power).sum(1) ** (1 / power)}
    counted = places(windows)[2].sum(1)
    if counts_padding:
        counted = np.ones(1)
        for axis in windows.axis[: windows.rank]:
            ends = _along(axis) < getattr(axis, "in") + axis.after
            counted = np.outer(counted, ends.sum(1)).reshape(-1)
    return {4: read.sum(1) / np.tile(counted, windows.n)[:, None]}


@writes("window_max")
def window_max(call: Arguments) -> Stores:
    """Pixels × channels: the largest elements, and where they lie."""
    windows, lowest, x, _, index, first_leads = call.arguments
    pixel, leading, inside = places(windows)
    read = windowed(x, windows)
    within: Array = np.tile(inside, (windows.n, 1))[:, :, None]
    ranked = np.where(within, read, np.array(lowest).astype(x.dtype))
    best = _first_of(ranked, within).argmax(1)
    largest = np.take_along_axis(ranked, np.expand_dims(best, 1), 1)[:, 0]
    if index is None:
        return {3: largest}
    numbers = np.where(inside, leading if first_leads else pixel, -1)
    numbers = np.where(inside.any(1, keepdims=True), numbers, -1)
    chosen = np.take_along_axis(np.tile(numbers, (windows.n, 1)), best, 1)
    planes = np.arange(windows.n * windows.c).reshape(windows.n, 1, windows.c)
    pixels = _images(x, windows).shape[1]
    return {3: largest, 4: chosen.reshape(windows.n, -1, windows.c) + planes * pixels}


def _first_of(ranked: Array, within: Array) -> Array:
    """Where the largest elements inside are; what is no number is larger than all of them."""
    odd: Array = (ranked != ranked) & within
    largest = ranked == np.where(odd, 0, ranked).max(1, keepdims=True)
    return np.asarray(np.where(odd.any(1, keepdims=True), odd, largest & within))


@writes("plain_matmul")
@writes("double_matmul")
def plain_matmul(call: Arguments) -> Stores:
    """Products of matrices with any strides; integers wrap."""
    s, a, a_at, b, b_at, y = call.arguments
    kind = np.float64 if y.dtype.kind == "f" else np.int64
    products = [
        matrix(a[a_at(i=i) :], (s.m, s.k), (s.a_row, s.a_col)).astype(kind)
        @ matrix(b[b_at(i=i) :], (s.k, s.n), (s.b_row, s.b_col)).astype(kind)
        for i in range(s.batch)
    ]
    result = np.concatenate([np.empty((0, s.n), kind), *products])
    return {5: result if kind is np.float64 else result.astype(y.dtype)}
