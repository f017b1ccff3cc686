"""Boxes: their formats, areas and overlaps, and their way from a picture back to its image.

Boxes are floats [..., 4]. `xyxy` is the left, upper, right and lower side, `xywh` the left and
upper side, width and height, `cxcywh` the middle, width and height; x counts columns, y rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from infuse.errors import ShapeError
from infuse.processing.block import block
from infuse.processing.image_sizes import choice, floats, height_and_width
from infuse.tracing.arrays.array import Array, lifted, node, nodes, source_line
from infuse.tracing.arrays.sizes import listed

FORMATS: Final = ("xyxy", "xywh", "cxcywh")


@block
def convert_boxes(boxes: Any, source: str, target: str) -> Array:
    """Boxes of one format in another."""
    for name in (source, target):
        choice("format of boxes", name, FORMATS)
    x = boxes_of(boxes)
    if source == target:
        return x
    first, second = halves(x)
    half = second * 0.5
    if source == "cxcywh":
        begin, size = first - half, second
    else:
        begin, size = first, second if source == "xywh" else second - first
    if target == "xywh":
        return joined(begin, size)
    if target == "cxcywh":
        middle = (first + second) * 0.5 if source == "xyxy" else begin + size * 0.5
        return joined(middle, size)
    return joined(begin, first + (half if source == "cxcywh" else second))


@block
def clip_boxes(boxes: Any, size: Any) -> Array:
    """Boxes xyxy cut off at the borders of an image of this (height, width)."""
    x = boxes_of(boxes)
    return _limited(x, size)


@block
def scale_boxes(boxes: Any, placement: Any, size: Any = None) -> Array:
    """Boxes xyxy in a picture as boxes in the image that it shows.

    `placement`, floats [4], says where the image lies in the picture, as `letterbox` and
    `prepare_image` give it; with `size`, the image's (height, width), boxes are cut off there.
    """
    x = boxes_of(boxes)
    place = floats(placement, "a placement").astype(x.dtype)
    if place.ndim != 1 or place.value.shape[0] != 4:
        raise ShapeError(
            f"a placement is four numbers, not {place.value.type}", where=source_line() or None
        )
    scale, corner = (node("Gather", place, listed(i)) for i in ([1, 0, 1, 0], [3, 2, 3, 2]))
    result = (x - corner) / scale
    return result if size is None else _limited(result, size)


@block
def box_area(boxes: Any) -> Array:
    """Areas of boxes xyxy; 0 where a side is negative."""
    return area(boxes_of(boxes))


@block
def box_iou(boxes: Any, others: Any) -> Array:
    """What boxes xyxy [..., n, 4] and others [..., m, 4] have in common over what both cover:
    [..., n, m]. It is 0 where both cover nothing.
    """
    return _overlap(*_pairs(boxes, others))[0]


@block
def generalized_box_iou(boxes: Any, others: Any) -> Array:
    """The overlap less the share that neither covers of the smallest box around both (Rezatofighi
    et al. 2019): [..., n, m], from -1 to 1.
    """
    a, b = _pairs(boxes, others)
    iou, union = _overlap(a, b)
    width, height = _around(a, b)
    hull = width * height
    return iou - _over(hull - union, hull)


@block
def distance_box_iou(boxes: Any, others: Any) -> Array:
    """The overlap less the squared distance of the middles, over the squared diagonal of the box
    around both (Zheng et al. 2020): [..., n, m].
    """
    a, b = _pairs(boxes, others)
    return _overlap(a, b)[0] - _distance(a, b)


@block
def complete_box_iou(boxes: Any, others: Any) -> Array:
    """`distance_box_iou` less how much the proportions differ (Zheng et al. 2020): [..., n, m]."""
    a, b = _pairs(boxes, others)
    iou = _overlap(a, b)[0]
    angles = [node("Atan", _over(w, h)) for w, h in (_sides(a), _sides(b))]
    turn = angles[0] - angles[1]
    v = turn * turn * (4 / math.pi**2)
    return iou - _distance(a, b) - v * _over(v, 1 - iou + v)


# -- parts -----------------------------------------------------------------------------------------


def boxes_of(boxes: Any, what: str = "boxes") -> Array:
    """An array of floats [..., 4]; ShapeError and TypeMismatchError for anything else."""
    x = floats(boxes, what)
    last = x.value.shape[-1] if x.ndim else None
    if last is None or (isinstance(last, int) and last != 4):
        raise ShapeError(
            f"{what} are floats [..., 4], not {x.value.type}", where=source_line() or None
        )
    return x


def halves(x: Array) -> list[Array]:
    """The first two numbers of each box, and the last two: [..., 2]."""
    return nodes(2, "Split", x, listed([2, 2]), axis=x.ndim - 1)


def quarters(x: Array) -> list[Array]:
    """The four numbers of each box: [..., 1]."""
    return nodes(4, "Split", x, listed([1] * 4), axis=x.ndim - 1)


def joined(*parts: Array) -> Array:
    """Arrays behind one another along the last axis."""
    return node("Concat", *parts, axis=parts[0].ndim - 1)


def area(x: Array) -> Array:
    """Areas of boxes xyxy [..., 4]: [...]."""
    begin, end = halves(x)
    sides = node("Max", end - begin, lifted(0, x.dtype))
    return node("ReduceProd", sides, listed(x.ndim - 1), keepdims=0)


def _limited(x: Array, size: Any) -> Array:
    height, width = _size(size, x)
    limits = joined(width, height, width, height)
    return node("Max", node("Min", x, limits), lifted(0, x.dtype))


def _size(size: Any, x: Array) -> list[Array]:
    """Height and width as arrays of one element."""
    if isinstance(size, (Array, np.ndarray)) and size.ndim == 1:
        pair = lifted(size)
        if pair.value.shape[0] != 2:
            raise ShapeError(
                f"size is (height, width), not {pair.value.type}", where=source_line() or None
            )
        return nodes(2, "Split", pair.astype(x.dtype), listed([1, 1]), axis=0)
    sides: Sequence[Any] = height_and_width(size)
    return [node("Reshape", lifted(side).astype(x.dtype), listed(1)) for side in sides]


def _pairs(boxes: Any, others: Any) -> tuple[list[Array], list[Array]]:
    """The sides of boxes [..., n, 1] and of others [..., 1, m]."""
    x, y = boxes_of(boxes), boxes_of(others)
    if x.ndim < 2 or y.ndim < 2:
        raise ShapeError(
            f"boxes are [n, 4] and [m, 4], not {x.value.type} and {y.value.type}",
            where=source_line() or None,
        )
    y = y.astype(x.dtype)
    turned = node("Transpose", y, perm=(*range(y.ndim - 2), y.ndim - 1, y.ndim - 2))
    return quarters(x), nodes(4, "Split", turned, listed([1] * 4), axis=y.ndim - 2)


def _sides(box: Sequence[Array]) -> tuple[Array, Array]:
    zero = lifted(0, box[0].dtype)
    return node("Max", box[2] - box[0], zero), node("Max", box[3] - box[1], zero)


def _overlap(a: Sequence[Array], b: Sequence[Array]) -> tuple[Array, Array]:
    """What pairs have in common over what both cover, and the latter."""
    zero = lifted(0, a[0].dtype)
    common = None
    for begin in (0, 1):
        side = node("Min", a[begin + 2], b[begin + 2]) - node("Max", a[begin], b[begin])
        side = node("Max", side, zero)
        common = side if common is None else common * side
    assert common is not None
    areas = [width * height for width, height in (_sides(a), _sides(b))]
    union = areas[0] + areas[1] - common
    return _over(common, union), union


def _around(a: Sequence[Array], b: Sequence[Array]) -> list[Array]:
    """Width and height of the smallest boxes around pairs."""
    zero = lifted(0, a[0].dtype)
    ends = (node("Max", a[i + 2], b[i + 2]) - node("Min", a[i], b[i]) for i in (0, 1))
    return [node("Max", side, zero) for side in ends]


def _distance(a: Sequence[Array], b: Sequence[Array]) -> Array:
    """The squared distance of the middles of pairs, over the squared diagonal around them."""
    width, height = _around(a, b)
    apart = [(a[i] + a[i + 2] - b[i] - b[i + 2]) * 0.5 for i in (0, 1)]
    return _over(apart[0] * apart[0] + apart[1] * apart[1], width * width + height * height)


def _over(above: Array, below: Array) -> Array:
    """A quotient, 0 where the divisor is 0."""
    zero, one = lifted(0, below.dtype), lifted(1, below.dtype)
    is_zero = below == 0
    return node("Where", is_zero, zero, above / node("Where", is_zero, one, below))
