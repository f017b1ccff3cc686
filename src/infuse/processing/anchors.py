"""Where the boxes of detectors start from: anchors, points and priors of grids, and what networks'
numbers make of them.

Maps are [channels, rows, columns] of one image; rows and columns may be those that only a run
knows. Boxes come out as xyxy, in pixels where strides are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse.errors import OptionError, ShapeError
from infuse.processing.block import block
from infuse.processing.boxes import boxes_of, halves, joined
from infuse.processing.image_sizes import floats, height_and_width, quotient, whole
from infuse.tracing.arrays.array import Array, lifted, node, nodes, source_line
from infuse.tracing.arrays.sizes import listed


@block
def grid_points(rows: Any, columns: Any, stride: float = 1, *, offset: float = 0.5) -> Array:
    """The middles (x, y) of a grid's cells, float32 [rows · columns, 2], row by row: column plus
    offset, and row plus offset, times stride.
    """
    return node("Reshape", _grid(rows, columns, stride, offset), listed((-1, 2)))


@block(settings=("sizes", "ratios"))
def grid_anchors(
    rows: Any,
    columns: Any,
    stride: float,
    sizes: Sequence[float],
    ratios: Sequence[float] = (1.0,),
    *,
    offset: float = 0.0,
    rounded: bool = True,
) -> Array:
    """Anchors xyxy around the cells of a grid, float32 [rows · columns · anchors, 4], as in Faster
    R-CNN: for each cell all sizes for the first ratio of height to width, then for the next.

    Their area is size². `rounded`: sides of the anchor around 0 are whole numbers, as torchvision
    has them.
    """
    heights = np.sqrt(_positive(ratios, "ratios"))
    scales = _positive(sizes, "sizes")
    high, wide = (np.outer(h, scales).reshape(-1) for h in (heights, 1 / heights))
    base = np.stack([-wide, -high, wide, high], axis=1) / 2
    base = np.round(base) if rounded else base
    points = _grid(rows, columns, stride, offset)
    corners = node("Unsqueeze", joined(points, points), listed(2))
    return node("Reshape", corners + _constant(base), listed((-1, 4)))


@block(settings=("ratios",))
def prior_boxes(
    rows: Any,
    columns: Any,
    scale: float,
    next_scale: float,
    ratios: Sequence[float] = (2.0,),
    *,
    image: Any,
    step: float | None = None,
    clip: bool = True,
) -> Array:
    """SSD's prior boxes of one map in pixels of an image of this (height, width): float32
    [rows · columns · (2 + 2 · ratios), 4], xyxy.

    Of every cell: a square of the side `scale` (1: the image's), one of √(scale · next_scale), and
    for each ratio of width to height a box lying and one standing. `step`: pixels between cells;
    without it, cells divide the image evenly. `clip`: no side is longer than the image's.
    """
    height, width = height_and_width(image, "image")
    pairs = [(scale, scale), (math.sqrt(scale * next_scale),) * 2]
    for ratio in _positive(ratios, "ratios"):
        root = math.sqrt(ratio)
        pairs += [(scale * root, scale / root), (scale / root, scale * root)]
    sides = np.array(pairs).clip(0, 1) if clip else np.array(pairs)
    extent = joined(*(node("Reshape", _float(side), listed(1)) for side in (width, height)))
    points = _grid(rows, columns, 1 if step is None else step, 0.5)
    if step is None:
        cells = (node("Reshape", _float(n), listed(1)) for n in (columns, rows))
        points = points * (extent / joined(*cells))
    middle, half = node("Unsqueeze", points, listed(2)), _constant(sides / 2) * extent
    return node("Reshape", joined(middle - half, middle + half), listed((-1, 4)))


@block(settings=("weights",))
def decode_deltas(
    deltas: Any,
    anchors: Any,
    *,
    weights: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
    limit: float = math.log(1000 / 16),
) -> Array:
    """Boxes xyxy of anchors xyxy [n, 4] and what a network says of them [..., n, 4]: the middle
    moved by parts of the sides, the sides times e to some power of at most `limit`.

    Numbers are divided by `weights`: (10, 10, 5, 5) for the heads of Faster R-CNN and for SSD.
    """
    x, base = boxes_of(deltas, "deltas"), boxes_of(anchors, "anchors")
    scale = _positive(weights, "weights")
    if scale.shape != (4,):
        raise OptionError(f"there are 4 weights, not {scale.size}", where=source_line() or None)
    moves, powers = halves(x if (scale == 1).all() else x / _constant(scale, x.dtype))
    begin, end = halves(base.astype(x.dtype))
    sides = end - begin
    middle = begin + sides * 0.5 + moves * sides
    half = node("Exp", node("Min", powers, lifted(limit, x.dtype))) * sides * 0.5
    return joined(middle - half, middle + half)


@block
def decode_distances(distances: Any, points: Any, stride: Any = 1) -> Array:
    """Boxes xyxy of points (x, y) [n, 2] and how far the left, upper, right and lower sides are
    from them [..., n, 4], in units of `stride`, as in FCOS and YOLOv8.
    """
    x = boxes_of(distances, "distances")
    middle = floats(points, "points").astype(x.dtype)
    if middle.value.shape[-1:] != (2,):
        raise ShapeError(
            f"points are floats [n, 2], not {middle.value.type}", where=source_line() or None
        )
    before, after = halves(x * lifted(stride, x.dtype))
    return joined(middle - before, middle + after)


@block
def decode_dfl(logits: Any, bins: int = 16) -> Array:
    """Distances [..., 4] of the logits [..., 4 · bins] of how likely each of 0 … bins - 1 is: their
    mean (distribution focal loss, Li et al. 2020).
    """
    x = floats(logits, "logits")
    whole(bins, "bins", 1)
    last = x.value.shape[-1] if x.ndim else 0
    if isinstance(last, int) and last != 4 * bins:
        raise ShapeError(
            f"4 · {bins} logits are needed along the last axis, there are {last}",
            where=source_line() or None,
        )
    parts = node("Reshape", x, listed((*x.shape[:-1], 4, bins)), allowzero=1)
    shares = node("Softmax", parts, axis=parts.ndim - 1)
    means = node("MatMul", shares, _constant(np.arange(bins)[:, None], x.dtype))
    return node("Squeeze", means, listed(means.ndim - 1))


@block(settings=("anchors",))
def decode_yolo_anchors(
    raw: Any, anchors: Any, stride: float, *, version: int = 5
) -> tuple[Array, Array]:
    """Boxes xyxy [n, 4] and scores [n, classes] of one map of a YOLO with anchors, n being
    anchors · rows · columns.

    `raw`: [anchors · (5 + classes), rows, columns], logits of x, y, width, height, whether there is
    something, and the classes. `anchors`: (width, height) in pixels, [anchors, 2]. `version` 5 (to
    7): middles are cell + 2σ - 0.5, sides (2σ)² · anchor; 3: cell + σ, and e^t · anchor. Scores are
    that there is something, times that of a class.
    """
    x = _map(raw)
    if version not in (3, 5):
        raise OptionError(f"version is 3 or 5, not {version}", where=source_line() or None)
    sizes = _positive(anchors, "anchors")
    channels, rows, columns = x.shape
    count = len(sizes)
    wrong = isinstance(channels, int) and (channels % count or channels // count < 6)
    if sizes.ndim != 2 or sizes.shape[1] != 2 or wrong:
        raise ShapeError(
            f"{channels} channels are not {count} anchors of 5 numbers and classes",
            where=source_line() or None,
        )
    split = listed((count, quotient(channels, count), rows, columns))
    parts = node("Reshape", x, split, allowzero=1)
    cells = node("Transpose", parts, perm=(0, 2, 3, 1))
    place, size, rest = _cut(cells, 2, 2)
    if version == 5:
        middle = node("Sigmoid", place) * 2.0 + _grid(rows, columns, 1, -0.5).astype(x.dtype)
        twice = node("Sigmoid", size) * 2.0
        factors = twice * twice
    else:
        middle = node("Sigmoid", place) + _grid(rows, columns, 1, 0.0).astype(x.dtype)
        factors = node("Exp", size)
    middle = middle * float(stride)
    half = factors * _constant(sizes.reshape(count, 1, 1, 2) / 2, x.dtype)
    boxes = node("Reshape", joined(middle - half, middle + half), listed((-1, 4)))
    something, kinds = _cut(node("Sigmoid", rest), 1)
    return boxes, _flat(something * kinds)


@block
def decode_yolo_distances(raw: Any, stride: float, *, bins: int = 16) -> tuple[Array, Array]:
    """Boxes xyxy [rows · columns, 4] and scores [rows · columns, classes] of one map of a YOLO
    without anchors (YOLOv8 and later): [4 · bins + classes, rows, columns], logits.
    """
    x = _map(raw)
    whole(bins, "bins", 1)
    channels, rows, columns = x.shape
    if isinstance(channels, int) and channels <= 4 * bins:
        raise ShapeError(
            f"{channels} channels are not 4 · {bins} and classes", where=source_line() or None
        )
    numbers, kinds = _cut(node("Transpose", x, perm=(1, 2, 0)), 4 * bins)
    points = _grid(rows, columns, stride, 0.5).astype(x.dtype)
    boxes = decode_distances(decode_dfl(numbers, bins), points, stride)
    return node("Reshape", boxes, listed((-1, 4))), _flat(node("Sigmoid", kinds))


# -- parts -----------------------------------------------------------------------------------------


def _grid(rows: Any, columns: Any, stride: float, offset: float) -> Array:
    """Points (x, y): float32 [rows, columns, 2]."""
    height, width = whole(rows, "rows", 0), whole(columns, "columns", 0)
    if isinstance(height, int) and isinstance(width, int):
        grid = np.stack(np.meshgrid(np.arange(width), np.arange(height)), axis=-1)
        return _constant((grid + offset) * stride)
    lines = []
    for count, axes in ((width, [0, 2]), (height, [1, 2])):
        ends = lifted(np.int64(0)), lifted(count).astype(np.int64), lifted(np.int64(1))
        line = (node("Range", *ends).astype(np.float32) + offset) * float(stride)
        shape = listed((height, width, 1))
        lines.append(node("Expand", node("Unsqueeze", line, listed(axes)), shape))
    return joined(*lines)


def _map(raw: Any) -> Array:
    x = floats(raw, "a map")
    if x.ndim != 3:
        raise ShapeError(
            f"a map of one image is [channels, rows, columns], not {x.value.type}",
            where=source_line() or None,
            hint="take one image of a batch with raw[0]",
        )
    return x


def _cut(x: Array, *sizes: int) -> list[Array]:
    """Parts of these sizes along the last axis, and the rest."""
    total = sum(sizes)
    last = x.shape[-1]
    lengths = listed((*sizes, last - total))
    return nodes(len(sizes) + 1, "Split", x, lengths, axis=x.ndim - 1)


def _flat(x: Array) -> Array:
    """All axes but the last as one."""
    count: Any = 1
    for size in x.shape[:-1]:
        count = size * count
    return node("Reshape", x, listed((count, x.shape[-1])), allowzero=1)


def _float(number: Any) -> Array:
    return lifted(number).astype(np.float32)


def _constant(numbers: Any, dtype: Any = np.float32) -> Array:
    return lifted(np.asarray(numbers, np.float64).astype(dtype))


def _positive(numbers: Any, what: str) -> Any:
    values = np.asarray(numbers, np.float64)
    if values.size == 0 or not (np.isfinite(values).all() and (values > 0).all()):
        raise OptionError(f"{what} are positive numbers", where=source_line() or None)
    return values
