"""Images sampled at given places, and windows that are put together again."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from infuse.targets.cpu.families.base import Arguments, Array, Stores, leading, writes


@writes("grid_sample")
def grid_sample(call: Arguments) -> Stores:
    """Points × channels of images [n, .., c], at the places of a grid whose first axis is the
    innermost.
    """
    s, x, grid, y = call.arguments
    sizes = getattr(s, "in")[: s.rank]
    images = x[: s.n * int(np.prod(sizes)) * s.c].reshape(s.n, -1, s.c)
    places = grid[: s.n * s.points * s.rank].astype(np.float64).reshape(s.n, s.points, s.rank)
    taps = [_taps(s, places[..., s.rank - 1 - a], size) for a, size in enumerate(sizes)]
    image = np.arange(s.n)[:, None]
    result = np.zeros((s.n, s.points, s.c))
    for chosen in product(*taps):
        flat, weight = np.zeros((s.n, s.points), np.int64), np.ones((s.n, s.points))
        for (at, own), size in zip(chosen, sizes):
            flat, weight = flat * size + at, weight * own
        if s.mode == "nearest":
            return {3: np.where(weight[..., None] > 0, images[image, flat], y.dtype.type(0))}
        result += images[image, flat].astype(np.float64) * weight[..., None]
    if y.dtype.kind in "iu":
        limits = np.iinfo(y.dtype)
        result = np.clip(np.trunc(result), limits.min, limits.max)
    return {3: result}


def _taps(s: Any, g: Array, size: int) -> list[tuple[Array, Array]]:
    """The places along one axis that make each point, and what they weigh."""
    at = (g + 1) / 2 * (size - 1) if s.align_corners else ((g + 1) * size - 1) / 2
    at = np.where(np.isfinite(at), at, -100)
    low, high = (0, size - 1) if s.align_corners else (-0.5, size - 0.5)
    nearest = s.mode == "nearest"
    at = np.rint(at) if nearest else at
    if s.padding == "reflection":
        at = _reflected(at, low, high)
    elif s.padding == "border" and s.mode != "cubic":
        at = np.where((at < low) | (at > high), np.clip(at, 0, size - 1), at)
    else:
        at = np.clip(at, -9, size + 8)
    base = np.trunc(at) if nearest else np.floor(at)
    far = at - base
    if nearest:
        weights = [np.ones_like(at)]
    elif s.mode == "linear":
        weights = [1 - far, far]
    else:
        weights = [_cubic(far + 1 - k) for k in range(4)]
    first = base.astype(np.int64) - (len(weights) == 4)
    made = []
    for k, weight in enumerate(weights):
        place = first + k
        if s.padding == "zeros":
            weight = np.where((place < 0) | (place >= size), 0, weight)
        if s.padding == "reflection":
            place = np.trunc(_reflected(place.astype(np.float64), low, high)).astype(np.int64)
        made.append((np.clip(place, 0, size - 1), weight))
    return made


def _reflected(x: Array, low: float, high: float) -> Array:
    """Places beyond an end, mirrored there as often as that takes."""
    span = high - low
    if span <= 0:
        return np.full_like(x, low)
    back = (x - low) % (2 * span)
    return np.asarray(low + np.where(back <= span, back, 2 * span - back))


def _cubic(distance: Array) -> Array:
    a, s = -0.75, np.abs(distance)
    near = (a + 2) * s**3 - (a + 3) * s**2 + 1
    return np.where(s <= 1, near, a * (s**3 - 5 * s**2 + 8 * s - 4))


@writes("affine_grid")
def affine_grid(call: Arguments) -> Stores:
    """The places of all pixels, from -1 to 1, multiplied by the matrix of each image."""
    count, rank, sizes, aligned, theta = call.arguments[:5]
    lines = [_line(size, aligned) for size in sizes[:rank]]
    places = np.stack(np.meshgrid(*lines, indexing="ij")[::-1], axis=-1).reshape(-1, rank)
    matrices = theta[: count * rank * (rank + 1)].astype(np.float64).reshape(count, rank, rank + 1)
    ones = np.concatenate([places, np.ones((len(places), 1))], axis=1)
    return {5: ones @ matrices.transpose(0, 2, 1)}


def _line(size: int, aligned: bool) -> Array:
    if not aligned:
        return np.asarray((2 * np.arange(size) + 1) / size - 1)
    return np.linspace(-1, 1, size) if size > 1 else np.zeros(size)


# -- windows ---------------------------------------------------------------------------------------


def _unfolded(shape: Any) -> tuple[Array, Array]:
    """The pixel that each tap of each window lies on, [taps, windows], and whether that is
    inside.
    """
    pixel, inside = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    for axis in shape.axis[: shape.rank]:
        tap = np.arange(axis.kernel) * axis.dilation - axis.before
        at = np.add.outer(tap, np.arange(axis.count) * axis.stride)
        fits = (at >= 0) & (at < axis.size)
        pixel = _crossed(pixel * axis.size, at, np.add)
        inside = _crossed(inside, fits, np.logical_and)
    return pixel, inside


def _crossed(whole: Array, axis: Array, join: Any) -> Array:
    each = join(whole[:, None, :, None], axis[None, :, None, :])
    result: Array = each.reshape(len(whole) * len(axis), -1)
    return result


@writes("col2im")
def col2im(call: Arguments) -> Stores:
    """Planes whose pixels are the sums of the windows over them."""
    shape, planes, x, y = call.arguments
    pixel, inside = _unfolded(shape)
    size = int(np.prod([axis.size for axis in shape.axis[: shape.rank]]))
    windows = x[: planes * pixel.size].reshape(planes, *pixel.shape)
    exact = np.float64 if y.dtype.kind not in "iub" else y.dtype
    image = np.zeros((size, planes), exact)
    np.add.at(image, pixel[inside], windows[:, inside].T.astype(exact))
    return {3: image.T}


@writes("max_unpool")
def max_unpool(call: Arguments) -> Stores:
    """Elements at their places in the beginning of a tensor of zeros."""
    rank, least, size, count, x, index, y = call.arguments
    places = np.unravel_index(leading(index, count).astype(np.int64), least[:rank])
    result = np.zeros(size[:rank], y.dtype)
    result[places] = leading(x, count)
    return {6: result}


@writes("deform_columns")
def deform_columns(call: Arguments) -> Stores:
    """What moved windows read, between pixels: [n, windows, groups, taps, channels of a group]."""
    s, x, offset, mask = call.arguments[:4]
    shape, parts = s.windows, s.offset_groups
    axes = shape.axis[: shape.rank]
    sizes = [axis.size for axis in axes]
    taps = int(np.prod([axis.kernel for axis in axes]))
    counts = [axis.count for axis in axes]
    windows = int(np.prod(counts))
    images = x[: s.n * int(np.prod(sizes)) * s.c].astype(np.float64)
    images = images.reshape(s.n, -1, parts, s.c // parts)
    moved = offset[: s.n * parts * taps * shape.rank * windows].astype(np.float64)
    moved = moved.reshape(s.n, parts, taps, shape.rank, windows)
    tap = np.indices([axis.kernel for axis in axes]).reshape(shape.rank, -1)
    window = np.indices(counts).reshape(shape.rank, -1)
    weights = np.ones((s.n, parts, taps, windows))
    if mask is not None:
        weights = mask[: weights.size].astype(np.float64).reshape(weights.shape)
    read = np.zeros((s.n, parts, taps, windows, s.c // parts))
    image, part = np.ogrid[: s.n, :parts]
    for corner in product((0, 1), repeat=shape.rank):
        flat, weight = np.zeros(weights.shape, np.int64), weights
        for a, (axis, far) in enumerate(zip(axes, corner)):
            start = tap[a][:, None] * axis.dilation + window[a] * axis.stride - axis.before
            place = start + moved[:, :, :, a]
            base = np.floor(place)
            at = base + far
            inside = (place > -1) & (place < axis.size) & (at >= 0) & (at < axis.size)
            weight = weight * np.where(inside, place - base if far else 1 - (place - base), 0)
            flat = flat * axis.size + np.clip(at, 0, axis.size - 1).astype(np.int64)
        each = images[image[..., None, None], flat, part[..., None, None]]
        read += each * weight[..., None]
    columns = read.transpose(0, 3, 2, 1, 4).reshape(s.n, windows, taps, s.groups, -1)
    return {4: columns.transpose(0, 1, 3, 2, 4)}
