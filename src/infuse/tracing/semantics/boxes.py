"""Boxes of objects in images: YOLO's cells, differences from priors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Array, Value
from infuse.tracing.importer import Importer


def yolo(
    g: Importer,
    x: Value,
    size: Value,
    anchors: Sequence[int],
    classes: int,
    shape: tuple[int, int],
    stride: int,
    scale: float,
    least: float,
    inside: bool,
) -> tuple[Value, Value]:
    """Boxes and scores of the cells of YOLO's grid, for images of these sizes: zero where no object
    is as likely as `least`. `inside`: whether boxes end where their images do.
    """
    count, (height, width) = len(anchors) // 2, shape
    cells = g("Reshape", x, g.ints(-1, count, 5 + classes, height, width))
    sure = g("Sigmoid", g.slice(cells, 2, 4, 5))
    likely = g("GreaterOrEqual", sure, least)
    sizes = g.cast(size, dtypes.float32)
    edges = []
    for axis, extent in ((0, width), (1, height)):
        image = g("Reshape", g.slice(sizes, 1, 1 - axis, 2 - axis), g.ints(-1, 1, 1, 1, 1))
        places = np.arange(extent, dtype=np.float32)
        shape = (1, extent) if axis == 0 else (extent, 1)
        start = g("Sigmoid", g.slice(cells, 2, axis, axis + 1))
        start = g("Sub", g("Mul", start, scale), 0.5 * (scale - 1))
        middle = g("Div", g("Add", start, g.constant(places.reshape(shape))), float(extent))
        side = np.array(anchors[axis::2], np.float32).reshape(1, count, 1, 1, 1)
        length = g("Exp", g.slice(cells, 2, 2 + axis, 3 + axis))
        length = g("Div", g("Mul", length, g.constant(side)), float(stride * extent))
        half = g("Mul", length, 0.5)
        edges.append([g("Mul", g(k, middle, half), image) for k in ("Sub", "Add")])
        if inside:
            low, high = edges[-1]
            edges[-1] = [g("Max", low, 0.0), g("Min", high, g("Sub", image, 1.0))]
    (left, right), (top, bottom) = edges
    boxes = g("Concat", left, top, right, bottom, axis=2)
    scores = g("Mul", sure, g("Sigmoid", g.slice(cells, 2, 5, 5 + classes)))
    made = []
    for part, last in ((boxes, 4), (scores, classes)):
        hidden = g("Where", likely, part, g.number(0, x.dtype))
        rows = g.permute(hidden, 0, 1, 3, 4, 2)
        made.append(g("Reshape", rows, g.ints(0, count * height * width, last)))
    return made[0], made[1]


def decoded(
    g: Importer,
    prior: Value,
    target: Value,
    variances: Value | None,
    stored: Sequence[float],
    axis: int,
    one: float,
) -> Value:
    """Boxes out of their differences from priors, which lie along an axis; `one` is the length of
    what begins and ends at one place.
    """

    def column(value: Value, i: int) -> Value:
        part = g.slice(value, value.rank - 1, i, i + 1)
        return g("Unsqueeze", part, g.ints(axis)) if value.rank == 2 else part

    scaled = []
    for i in range(4):
        part = column(target, i)
        if variances is not None:
            part = g("Mul", part, column(variances, i) if variances.rank > 1 else
                     g.slice(variances, 0, i, i + 1))  # fmt: skip
        elif stored:
            part = g("Mul", part, float(stored[i]))
        scaled.append(part)
    low, high = [], []
    for i in (0, 1):
        size = g("Add", g("Sub", column(prior, i + 2), column(prior, i)), one)
        middle = g("Add", column(prior, i), g("Mul", size, 0.5))
        middle = g("Add", g("Mul", scaled[i], size), middle)
        half = g("Mul", g("Mul", g("Exp", scaled[i + 2]), size), 0.5)
        low.append(g("Sub", middle, half))
        high.append(g("Sub", g("Add", middle, half), one))
    return g("Concat", *low, *high, axis=2)


def priors(
    shape: tuple[int, int],
    whole: tuple[int, int],
    steps: Sequence[float],
    offset: float,
    sides: Sequence[tuple[float, float]],
    clip: bool,
) -> Array:
    """The boxes of the cells of an image of this shape, as parts of another: (height, width, boxes,
    4). `sides`: half the width and the height of those of each cell.
    """
    height, width = shape
    y, x = ((np.arange(n) + offset) * step for n, step in zip((height, width), steps))
    boxes = np.empty((height, width, len(sides), 4))
    for number, (w, h) in enumerate(sides):
        boxes[:, :, number, 0], boxes[:, :, number, 2] = ((x + s * w) / whole[1] for s in (-1, 1))
        boxes[:, :, number, 1] = ((y - h) / whole[0])[:, None]
        boxes[:, :, number, 3] = ((y + h) / whole[0])[:, None]
    return (boxes.clip(0, 1) if clip else boxes).astype(np.float32)
