"""Operators that keep some elements; how many, only run time knows."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.errors import ShapeError, TypeMismatchError
from infuse.ir import dims
from infuse.ir.graph import Value
from infuse.ir.relations import must_equal
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op, normalize_axis
from infuse.ops.core.elementwise import widened
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.samples import Bools, Floats, Ints, cases
from infuse.ops.core.sizes import agree, fresh_dim, known_one, require_rank, scalar, with_dim
from infuse.ops.core.traits import Trait


class NonZero(Op):
    """The places of elements other than zero: one row per axis, in row-major order."""

    since = 9
    samples = cases(
        X=[Ints((3, 4), 0, 2), Ints((5,), 0, 2), Bools((2, 3)), np.zeros((2, 2), np.float32)]
    )

    def infer(self, X: Value) -> Inferred:
        rank = X.tensor.rank
        return TensorType(
            dtypes.int64, (fresh_dim("rank") if rank is None else rank, fresh_dim("nonzero"))
        )

    def eval(self, X: Array) -> Array:
        if X.ndim == 0:
            return np.zeros((0, int(bool(X))), dtype=np.int64)
        return np.array(np.nonzero(X), dtype=np.int64).reshape(X.ndim, -1)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.size(0))


class Compress(Op):
    """The parts along an axis (of the flattened input where none is given) whose condition
    holds.
    """

    traits = Trait.MOVEMENT | Trait.SELECTION
    axis: int | None = None
    since = 11
    samples = cases(
        input=[(3, 4), (3, 4)],
        condition=[np.array([True, False, True]), Bools((2,))],
        axis=[None, 0, 1, -2],
    )

    def infer(self, input: Value, condition: Value) -> Inferred:
        require_rank(condition, 1, self.name, "condition")
        if not condition.dtype.is_bool:
            raise TypeMismatchError(f"Compress needs a boolean condition, found {condition.dtype}")
        mask = condition.const
        count = fresh_dim("compress") if mask is None else int(np.count_nonzero(mask))
        if self.axis is None:
            return TensorType(input.dtype, (count,))
        shape = input.tensor.shape
        if shape is None:
            return TensorType(input.dtype, None)
        return TensorType(
            input.dtype, with_dim(shape, normalize_axis(self.axis, len(shape), self.name), count)
        )

    def eval(self, input: Array, condition: Array) -> Array:
        return np.compress(condition, input, axis=self.axis)


class Unique(Op):
    """The different elements (or slices along an axis), where each first occurs, which one each is,
    and how often.

    In ascending order, or in order of their first occurrence.
    """

    axis: int | None = None
    sorted: int = 1
    since = 11
    samples = (
        cases(X=[Ints((7,), 0, 4)], sorted=[0, 1]),
        cases(X=[Ints((3, 3), 0, 3)]),
        cases(
            X=[Ints((6, 2), 0, 2), np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4]], np.float32)],
            axis=[0],
            sorted=[0, 1],
        ),
        cases(X=[Ints((2, 6), 0, 2)], axis=[1, -1]),
    )

    def infer(self, X: Value) -> Inferred:
        count = fresh_dim("unique")
        places = TensorType(dtypes.int64, (count,))
        shape = X.tensor.shape
        if self.axis is None:
            size = X.tensor.size
            return TensorType(X.dtype, (count,)), places, self._inverse(size), places
        if shape is None:
            return TensorType(X.dtype, None), places, self._inverse(None), places
        axis = normalize_axis(self.axis, len(shape), self.name)
        return (
            TensorType(X.dtype, with_dim(shape, axis, count)),
            places,
            self._inverse(shape[axis]),
            places,
        )

    def _inverse(self, size: object) -> TensorType:
        return TensorType(dtypes.int64, (fresh_dim("unique") if size is None else size,))  # type: ignore[arg-type]

    def eval(self, X: Array) -> tuple[Array, ...]:
        values, first, inverse, counts = np.unique(
            X, return_index=True, return_inverse=True, return_counts=True, axis=self.axis
        )
        inverse = inverse.reshape(-1)
        if not self.sorted:
            order = np.argsort(first)
            values = np.take(values, order, axis=self.axis or 0)
            first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
        return values, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.size(0))


class NonMaxSuppression(Op):
    """Boxes kept per batch and class, best score first, none overlapping a better one by more than
    `iou_threshold`.

    Boxes are opposite corners (y, x, y, x), or centers with width and height where
    `center_point_box` is 1. Each row of the result is (batch, class, box).
    """

    center_point_box: int = 0
    since = 11
    samples = cases(
        boxes=[Floats((1, 6, 4), 0, 1), Floats((2, 8, 4), 0.1, 1)],
        scores=[Floats((1, 2, 6), 0, 1), Floats((2, 1, 8), 0, 1)],
        max_output_boxes_per_class=[np.array([3]), np.array([8])],
        iou_threshold=[np.array([0.3], np.float32), np.array([0.5], np.float32)],
        score_threshold=[None, np.array([0.4], np.float32)],
        center_point_box=[0, 1],
    )

    def infer(
        self,
        boxes: Value,
        scores: Value,
        max_output_boxes_per_class: Value | None = None,
        iou_threshold: Value | None = None,
        score_threshold: Value | None = None,
    ) -> Inferred:
        for value, name in ((boxes, "boxes"), (scores, "scores")):
            require_rank(value, 3, self.name, name)
        if boxes.tensor.shape is not None and not must_equal(boxes.shape[2], 4):
            raise ShapeError(f"NonMaxSuppression needs four numbers per box, found {boxes.type}")
        if boxes.tensor.shape is not None and scores.tensor.shape is not None:
            agree(
                boxes.shape[0], scores.shape[0], "batches of boxes and scores of NonMaxSuppression"
            )
            agree(boxes.shape[1], scores.shape[2], "boxes and scores of NonMaxSuppression")
        for limit in (max_output_boxes_per_class, iou_threshold, score_threshold):
            if limit is not None and limit.tensor.size not in (None, 0):
                known_one(limit, self.name)
        return TensorType(dtypes.int64, (fresh_dim("boxes"), 3))

    def eval(
        self,
        boxes: Array,
        scores: Array,
        max_output_boxes_per_class: Array | None = None,
        iou_threshold: Array | None = None,
        score_threshold: Array | None = None,
    ) -> Array:
        most = 0 if _absent(max_output_boxes_per_class) else int(scalar(max_output_boxes_per_class))
        overlap = 0.0 if _absent(iou_threshold) else float(scalar(iou_threshold))
        least = None if _absent(score_threshold) else float(scalar(score_threshold))
        rows = [
            (batch, kind, box)
            for batch in range(scores.shape[0])
            for kind in range(scores.shape[1])
            for box in self._kept(
                self._corners(widened(boxes[batch])),
                widened(scores[batch, kind]),
                most,
                overlap,
                least,
            )
        ]
        return np.array(rows, dtype=np.int64).reshape(-1, 3)

    def _corners(self, boxes: Array) -> Array:
        """Boxes as lowest and highest corner."""
        if self.center_point_box:
            half = boxes[:, 2:] / 2
            return np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1)
        return np.concatenate(
            [np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])], axis=1
        )

    def _kept(
        self, boxes: Array, scores: Array, most: int, overlap: float, least: float | None
    ) -> list[int]:
        selected: list[int] = []
        for box in np.argsort(-scores, kind="stable").tolist():
            if len(selected) >= most:
                break
            good = least is None or scores[box] > least
            if good and not (_iou(boxes[box], boxes[selected]) > overlap).any():
                selected.append(box)
        return selected

    def flops(self, shapes: Shapes) -> Flops:
        """Overlap of every box with every other one, 12 operations, for each class."""
        boxes = shapes.input(0)[1]
        pairs = dims.floordiv(boxes * (boxes - 1), 2)
        return Flops(0, shapes.input(0)[0] * shapes.input(1)[1] * pairs * 12)


def _absent(x: Array | None) -> bool:
    """Whether an optional input is left out; exporters write an empty vector for an absent one."""
    return x is None or x.size == 0


def _iou(box: Array, others: Array) -> Array:
    """Area that a box has in common with each other one, as a part of the area of both; 0 without
    such an area.
    """
    sides = np.maximum(np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2]), 0)
    common = np.prod(sides, axis=1)
    areas = np.prod(box[2:] - box[:2]) + np.prod(others[:, 2:] - others[:, :2], axis=1)
    return np.where(common > 0, common / (areas - common), 0.0)
