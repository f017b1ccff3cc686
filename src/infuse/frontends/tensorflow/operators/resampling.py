"""Images of other sizes whose pixels are weighted sums of rows and columns: kernels that are moved
and scaled, and areas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.tensorflow.calls import FlowCall, operator
from infuse.frontends.tensorflow.operators.images import LARGEST
from infuse.ir.graph import Array, Value

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


_KERNELS: Final[dict[str, tuple[float, Curve]]] = {
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


def _spans(call: FlowCall) -> tuple[Value, list[tuple[int, int]]]:
    """Images as floats, and their sizes before and after along rows and columns."""
    x, after = call.g.cast(call.raw(0), dtypes.float32), call.ints(1)
    if x.rank != 4 or len(after) != 2 or min(after) < 1 or max(after) > LARGEST:
        raise ModelFileError(f"images of {x.rank} axes become {after[:4]}")
    spans = []
    for size, count in zip(x.shape[1:3], after):
        if not isinstance(size, int) or not 0 < size <= LARGEST:
            raise call.unsupported(f"an image of size {size}")
        spans.append((size, count))
    return x, spans


def _weighted(call: FlowCall, x: Value, rows: Array, columns: Array) -> Value:
    for weights, equation in ((rows, "ph,nhwc->npwc"), (columns, "qw,nhwc->nhqc")):
        x = call.g("Einsum", call.g.constant(weights.astype(np.float32)), x, equation=equation)
    return x


@operator("ScaleAndTranslate")
def scale_and_translate(call: FlowCall) -> Value:
    """Images scaled and moved, between whose pixels lie the curves of a kernel."""
    x, spans = _spans(call)
    kind = call.text("kernel_type", "lanczos3", *_KERNELS)
    smooth = bool(call.option("antialias", True))
    parts = [call.const(index) for index in (2, 3)]
    if any(part is None or part.shape != (2,) for part in parts):
        raise call.unsupported("a scale or translation that is computed")
    (scale, shift) = ([float(v) for v in part] for part in parts if part is not None)
    if not all(value > 0 and np.isfinite(value) for value in scale):
        raise ModelFileError(f"its scale is {scale}")
    weights = [
        _moved(*span, factor, by, *_KERNELS[kind], smooth)
        for span, factor, by in zip(spans, scale, shift)
    ]
    return _weighted(call, x, weights[0], weights[1])


def _moved(
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


@operator("ResizeArea")
def area(call: FlowCall) -> Value:
    """Images of other sizes whose pixels are the means of what they cover."""
    x, spans = _spans(call)
    aligned = bool(call.option("align_corners", False))
    rows, columns = (_covered(size, count, aligned) for size, count in spans)
    return _weighted(call, x, rows, columns)


def _covered(size: int, count: int, aligned: bool) -> Array:
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
