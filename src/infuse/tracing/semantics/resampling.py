"""Images of other sizes whose pixels are weighted sums of rows and columns: kernels that are moved
and scaled, curves of the third degree, and areas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Array, Value
from infuse.tracing.importer import Importer
from infuse.tracing.layout import FROM_CHANNELS

Curve = Callable[[Array], Array]


def _lanczos(radius: float) -> Curve:
    def curve(x: Array) -> Array:
        angle = np.float32(np.pi) * np.where(x == 0, np.float32(1), x)
        y = radius * np.sin(angle) * np.sin(angle / radius) / (angle * angle)
        return np.asarray(np.where(x == 0, 1, np.where(x >= radius, 0, y)))

    return curve


def _cubic(b: float, c: float) -> Curve:
    """The curves of the third degree of Mitchell and Netravali."""

    def curve(x: Array) -> Array:
        near = ((12 - 9 * b - 6 * c) * x + (-18 + 12 * b + 6 * c)) * x * x + (6 - 2 * b)
        far = ((-b - 6 * c) * x + (6 * b + 30 * c)) * x * x + (-12 * b - 48 * c) * x
        far = far + (8 * b + 24 * c)
        return np.asarray(np.where(x < 1, near, np.where(x < 2, far, 0)) / 6)

    return curve


KERNELS: Final[dict[str, tuple[float, Curve]]] = {
    "lanczos1": (1, _lanczos(1)),
    "lanczos3": (3, _lanczos(3)),
    "lanczos5": (5, _lanczos(5)),
    "mitchellcubic": (2, _cubic(1 / 3, 1 / 3)),
    "keyscubic": (2, _cubic(0, 0.5)),
    "triangle": (1, lambda x: np.maximum(0, 1 - x)),
    "gaussian": (1.5, lambda x: np.where(x >= 1.5, 0, np.exp(-x * x / np.float32(0.5)))),
    "box": (1, lambda x: np.where(x < 0.5, 1, np.where(x == 0.5, 0.5, 0))),
}
"""How far kernels reach, and what they are at a distance."""


_STEPS: Final = 1024
"""TensorFlow takes its curves from a table of so many places between two pixels."""


def cubic_weights(size: int, count: int, aligned: bool, half: bool) -> Array:
    """What each pixel after takes of each before."""
    scale = np.float32((size - 1) / (count - 1) if aligned and count > 1 else size / count)
    places = np.arange(count, dtype=np.float32)
    places = (places + np.float32(0.5)) * scale - np.float32(0.5) if half else places * scale
    first = np.floor(places)
    steps = np.rint((places - first) * np.float32(_STEPS))
    near, a = steps / _STEPS, -0.5 if half else -0.75
    weights = np.zeros((count, size), np.float32)
    for offset, distance in ((-1, near + 1), (0, near), (1, 1 - near), (2, 2 - near)):
        inner = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        outer = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        share = np.where(distance <= 1, inner, outer) if offset in (0, 1) else outer
        index = first.astype(np.int64) + offset
        inside = np.clip(index, 0, size - 1)
        share = np.where(index == inside, share, 0) if half else share
        np.add.at(weights, (np.arange(count), inside), share.astype(np.float32))
    return weights / weights.sum(1, keepdims=True) if half else weights


def weighted(g: Importer, x: Value, rows: Array, columns: Array) -> Value:
    """Images (NHWC) of which rows and columns are weighted sums of those of others."""
    for weights, equation in ((rows, "ph,nhwc->npwc"), (columns, "qw,nhwc->nhqc")):
        x = g("Einsum", g.constant(weights.astype(np.float32)), x, equation=equation)
    return x


def moved_weights(
    size: int, count: int, scale: float, shift: float, radius: float, curve: Curve, smooth: bool
) -> Array:
    """What each pixel after takes of each before; nothing where it lies outside."""
    one = np.float32(1)
    step = one / np.float32(scale)
    wide = max(step, one) if smooth else one
    places = (np.arange(count, dtype=np.float32) + np.float32(0.5)) * step
    places = places - step * np.float32(shift)
    reach = np.float32(radius) * wide
    first = np.maximum(np.ceil(places - reach - np.float32(0.5)), 0)
    last = np.minimum(np.floor(places + reach - np.float32(0.5)), size - 1)
    pixels = np.arange(size, dtype=np.float32)
    taken = (pixels >= first[:, None]) & (pixels <= last[:, None])
    inside = (places >= 0) & (places <= size)
    distances = np.abs(pixels + np.float32(0.5) - places[:, None]) * (one / wide)
    weights = np.where(taken & inside[:, None], curve(distances), 0)
    total = weights.sum(1, keepdims=True)
    tiny = np.abs(total) < 1000 * np.finfo(np.float32).tiny
    return np.asarray(np.where(tiny, 0, weights / np.where(tiny, 1, total)))


def area_weights(size: int, count: int, aligned: bool) -> Array:
    """How much of each pixel before lies in each after."""
    scale = np.float32((size - 1) / (count - 1) if aligned and count > 1 else size / count)
    begins = np.arange(count, dtype=np.float32) * scale
    ends = (np.arange(count, dtype=np.float32) + 1) * scale
    weights = np.zeros((count, size))
    for place, (begin, end) in enumerate(zip(begins, ends)):
        for pixel in range(int(np.floor(begin)), int(np.ceil(end))):
            share = min(pixel + 1, float(end)) - max(pixel, float(begin))
            weights[place, min(max(pixel, 0), size - 1)] += share
    return weights / float(scale)


def crops(
    g: Importer, x: Value, boxes: Value, numbers: Value, sizes: list[int], outside: float
) -> Value:
    """Boxes of images (NCHW) in one size (NHWC), each of the image of its number; `outside` is what
    lies beyond an image.
    """
    height, width = (g.size_of(x, axis) for axis in (2, 3))
    grids = []
    for axis, (count, size) in enumerate(zip(sizes, (height, width))):
        ends = [g("Gather", boxes, g.constant(np.array([axis + 2 * i])), axis=1) for i in (0, 1)]
        last = _float(g, size)
        last = g("Sub", last, 1.0)
        if count > 1:
            steps = g.constant((np.arange(count) / (count - 1)).astype(np.float32))
            place = g("Add", ends[0], g("Mul", g("Sub", ends[1], ends[0]), steps))
        else:
            place = g("Mul", g("Add", ends[0], ends[1]), 0.5)
        # GridSample counts from -1 at the first pixel to 1 at the last.
        grids.append((g("Mul", place, last), last))
    return _sampled(g, x, numbers, grids, sizes, outside)


def _float(g: Importer, size: Any) -> Value:
    if isinstance(size, int):
        return g.constant(np.float32(size))
    return g.cast(size, dtypes.float32)


def _sampled(
    g: Importer, x: Value, numbers: Value, grids: Any, sizes: list[int], outside: float
) -> Value:
    rows = g("Gather", x, numbers, axis=0)
    parts, valid = [], None
    for axis, (place, last) in enumerate(grids):
        inside = g("And", g("GreaterOrEqual", place, 0.0), g("LessOrEqual", place, last))
        scaled = g("Sub", g("Div", g("Mul", place, 2.0), g("Max", last, 1e-9)), 1.0)
        shape = g.ints(-1, sizes[0], 1) if axis == 0 else g.ints(-1, 1, sizes[1])
        inside, scaled = (g("Reshape", value, shape) for value in (inside, scaled))
        valid = inside if valid is None else g("And", valid, inside)
        whole = g.ints(1, *sizes)
        parts.append(g("Unsqueeze", g("Expand", scaled, whole), g.ints(-1)))
    assert valid is not None
    grid = g("Concat", parts[1], parts[0], axis=-1)
    y = g("GridSample", rows, grid, mode="linear", padding_mode="border", align_corners=1)
    y = g("Where", g("Unsqueeze", valid, g.ints(1)), y, g.number(outside, y.dtype))
    return g.permute(y, *FROM_CHANNELS[4])
