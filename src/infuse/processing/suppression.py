"""The best of boxes that overlap."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.errors import OptionError, ShapeError, TypeMismatchError
from infuse.processing.block import block
from infuse.processing.boxes import boxes_of
from infuse.processing.image_sizes import floats, whole
from infuse.tracing.arrays.array import Array, lifted, node, nodes, source_line
from infuse.tracing.arrays.sizes import listed


@block
def nms(boxes: Any, scores: Any, iou: Any = 0.5, *, score: Any = None, count: Any = None) -> Array:
    """Which boxes xyxy [n, 4] stay, int64 [k], best scores [n] first: none of them overlaps a
    better one by more than `iou`, all score more than `score`, and they are at most `count`.

    Corners may be in either order. Boxes whose score is NaN or whose sides are not finite do not
    stay. Equal scores stand in the order of the boxes. `iou` and `score` are numbers or arrays of
    one float. Computed in float32 by ONNX's NonMaxSuppression.
    """
    x, values = _boxes_and_scores(boxes, scores, 1)
    rows = _suppressed(x, node("Unsqueeze", values, listed(0)), iou, score, count)
    return node("Gather", rows, lifted(np.int64(2)), axis=1)


@block
def batched_nms(
    boxes: Any, scores: Any, classes: Any, iou: Any = 0.5, *, score: Any = None, count: Any = None
) -> Array:
    """As `nms`, with boxes of each class, integers [n], by themselves: int64 [k], best first, of
    all classes together.
    """
    x, values = _boxes_and_scores(boxes, scores, 1)
    kinds = lifted(classes)
    if kinds.dtype.kind not in "iu" or kinds.ndim != 1:
        raise TypeMismatchError(
            f"classes are integers [n], not {kinds.value.type}", where=source_line() or None
        )
    names = node("Unique", kinds.astype(np.int64), sorted=1)
    rows = _suppressed(x, _by_class(values, kinds, names), iou, score, count)
    chosen = node("Gather", rows, lifted(np.int64(2)), axis=1)
    order = _best(node("Gather", values, chosen, axis=0), count)[1]
    return node("Gather", chosen, order, axis=0)


@block
def detections(
    boxes: Any,
    scores: Any,
    *,
    iou: Any = 0.5,
    score: Any = 0.05,
    count: int = 100,
    by_class: bool = True,
    best_class: bool = False,
) -> tuple[Array, Array, Array]:
    """What is seen in one image: boxes [k, 4], scores [k] and classes, int64 [k], best first.

    `boxes`: xyxy [n, 4], or [n, classes, 4] where they differ by class; `scores`: [n, classes], or
    [n] for a single class. Boxes that score more than `score` stay, at most `count`, of which none
    overlaps a better one by more than `iou`: of the same class, or of any without `by_class`. With
    `best_class` a box counts for the class that it scores highest in alone, as in YOLOv8;
    otherwise for all of them, as in torchvision. Scores that are NaN and boxes with sides that are
    not finite do not count. `iou` and `score` may be arrays of one float.
    """
    whole(count, "count", 0)
    x, values = _boxes_and_scores(boxes, scores, 2)
    kinds = values.shape[1]
    if best_class:
        return _of_best_class(x, values, iou, score, count, by_class)
    if x.ndim == 3 or not by_class:
        return _one_by_one(x, values, kinds, iou, score, count, by_class)
    rows = _suppressed(x, values.mT, iou, score, count)
    kind, place = (node("Gather", rows, lifted(np.int64(i)), axis=1) for i in (1, 2))
    both = node("Concat", *(node("Unsqueeze", i, listed(1)) for i in (place, kind)), axis=1)
    best, order = _best(node("GatherND", values, both), count)
    return _gathered(x, node("Gather", place, order, axis=0)), best, node("Gather", kind, order)


def _of_best_class(
    x: Array, values: Array, iou: Any, score: Any, count: int, by_class: bool
) -> tuple[Array, Array, Array]:
    if x.ndim == 3:
        raise ShapeError(
            "with best_class, boxes do not differ by class: they are [n, 4]",
            where=source_line() or None,
        )
    # NaN is nobody's best score.
    clean = node("Where", node("IsNaN", values), lifted(-np.inf, values.dtype), values)
    kind = node("ArgMax", clean, axis=1, keepdims=0)
    most = node("ReduceMax", clean, listed(1), keepdims=0)
    if by_class:
        chosen = batched_nms(x, most, kind, iou, score=score, count=count)
    else:
        chosen = nms(x, most, iou, score=score, count=count)
    return _gathered(x, chosen), node("Gather", most, chosen), node("Gather", kind, chosen)


def _one_by_one(
    x: Array, values: Array, kinds: Any, iou: Any, score: Any, count: int, by_class: bool
) -> tuple[Array, Array, Array]:
    """Every box as often as there are classes."""
    amount = values.shape[0]
    if x.ndim == 2:
        x = node("Expand", node("Unsqueeze", x, listed(1)), listed((amount, kinds, 4)))
    flat, most = node("Reshape", x, listed((-1, 4))), node("Reshape", values, listed(-1))
    numbers = lifted(np.int64(0)), lifted(kinds).astype(np.int64), lifted(np.int64(1))
    line = node("Unsqueeze", node("Range", *numbers), listed(0))
    kind = node("Reshape", node("Expand", line, listed((amount, kinds))), listed(-1))
    if by_class:
        chosen = batched_nms(flat, most, kind, iou, score=score, count=count)
    else:
        chosen = nms(flat, most, iou, score=score, count=count)
    return _gathered(flat, chosen), node("Gather", most, chosen), node("Gather", kind, chosen)


def _boxes_and_scores(boxes: Any, scores: Any, rank: int) -> tuple[Array, Array]:
    x, values = boxes_of(boxes), floats(scores, "scores")
    if rank == 2 and values.ndim == 1:
        values = node("Unsqueeze", values, listed(1))
    counts = [shape[0] for shape in (x.value.shape, values.value.shape) if shape]
    differ = all(isinstance(n, int) for n in counts) and len({*counts}) > 1
    by_class = rank == 2 and x.ndim == 3
    if by_class and not differ:
        kinds = x.value.shape[1], values.value.shape[-1]
        differ = all(isinstance(n, int) for n in kinds) and kinds[0] != kinds[1]
    if values.ndim != rank or (x.ndim != 2 and not by_class) or differ:
        shape = "[n]" if rank == 1 else "[n, classes]"
        raise ShapeError(
            f"boxes are [n, 4] and scores {shape} of one image, not {x.value.type} and "
            f"{values.value.type}",
            where=source_line() or None,
            hint="take one image of a batch with boxes[0] and scores[0]",
        )
    return x, values


def _suppressed(x: Array, values: Array, iou: Any, score: Any, count: Any) -> Array:
    """The rows (0, class, box) of NonMaxSuppression, of boxes [n, 4] and scores [classes, n]."""
    amount = x.shape[0] if count is None else whole(count, "count", 0)
    if isinstance(iou, (int, float)) and not 0 <= iou <= 1:
        raise OptionError(f"iou is {iou}, it is from 0 to 1", where=source_line() or None)
    wide, ranks = x.astype(np.float32), values.astype(np.float32)
    # x - x is 0 for finite numbers only.
    rest = node("ReduceSum", abs(wide - wide), listed(1), keepdims=0)
    lost = node("Or", node("IsNaN", ranks), node("Not", rest == 0))
    ranks = node("Where", lost, lifted(-np.inf, np.dtype(np.float32)), ranks)
    least = -np.inf if score is None else score
    return node(
        "NonMaxSuppression",
        node("Unsqueeze", wide, listed(0)),
        node("Unsqueeze", ranks, listed(0)),
        listed(amount),
        _one_float(iou, "iou"),
        _one_float(least, "score"),
    )


def _one_float(number: Any, what: str) -> Array:
    value = lifted(number)
    size = value.value.tensor.size
    if value.dtype.kind not in "fiu" or (isinstance(size, int) and size != 1):
        raise OptionError(f"{what} is one number, not {number!r}", where=source_line() or None)
    return node("Reshape", value.astype(np.float32), listed(1))


def _by_class(values: Array, kinds: Array, names: Array) -> Array:
    """Scores [classes, n], NaN where a box is not of a class."""
    mine = node("Equal", node("Unsqueeze", names, listed(1)), kinds.astype(np.int64))
    return node("Where", mine, values, lifted(np.nan, values.dtype))


def _best(values: Array, count: Any) -> list[Array]:
    """Values in order, greatest first, at most `count`, and where they were."""
    most = node("Shape", values)
    if count is not None:
        most = node("Min", most, listed(count))
    return nodes(2, "TopK", values, most, axis=0, largest=1, sorted=1)


def _gathered(x: Array, places: Array) -> Array:
    return node("Gather", x, places, axis=0)
