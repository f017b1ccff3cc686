"""Building blocks for boxes beside torchvision's Python code and loops in plain Python."""

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from infuse.errors import InfuseError, OptionError, ShapeError, TypeMismatchError
from infuse.processing import (
    batched_nms,
    box_area,
    box_iou,
    clip_boxes,
    complete_box_iou,
    convert_boxes,
    detections,
    distance_box_iou,
    generalized_box_iou,
    letterbox,
    nms,
    scale_boxes,
)
from infuse.processing.boxes import FORMATS
from tests.pure.block_runs import boxes, picture, run, scores

pytestmark = pytest.mark.row("C10")

OPEN = {"boxes": ("n", 4), "scores": ("n",), "classes": ("n",)}
NAN, INF = np.float32(np.nan), np.float32(np.inf)


@pytest.fixture
def torchvision() -> Any:
    if find_spec("torchvision") is None:
        pytest.skip("torchvision is the witness")
    from benchmarks.torchvision_schemas import make_importable

    make_importable()
    return pytest.importorskip("torchvision")


# -- formats, areas, overlaps ----------------------------------------------------------------------


@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("target", FORMATS)
def test_formats(torchvision: Any, source: str, target: str) -> None:
    import torch

    for x in (boxes(9), boxes(0), boxes(6).reshape(2, 3, 4)):
        sizes = {"boxes": ("n", 4) if x.ndim == 2 else ("b", "n", 4)}
        result = run(lambda boxes: convert_boxes(boxes, source, target), sizes, boxes=x)
        expected = torchvision.ops.box_convert(torch.from_numpy(x), source, target).numpy()
        # Sums and halves of numbers up to 200 in float32.
        np.testing.assert_allclose(result, expected, atol=5e-5)


@pytest.mark.parametrize(
    ("ours", "name"),
    [
        (box_iou, "box_iou"),
        (generalized_box_iou, "generalized_box_iou"),
        (distance_box_iou, "distance_box_iou"),
        (complete_box_iou, "complete_box_iou"),
    ],
)
def test_overlaps(torchvision: Any, ours: Any, name: str) -> None:
    import torch

    for n, m in ((7, 5), (1, 1), (0, 3), (4, 0)):
        a, b = boxes(n), boxes(m, seed=1)
        result = run(ours, {"boxes": ("n", 4), "others": ("m", 4)}, boxes=a, others=b)
        expected = getattr(torchvision.ops, name)(torch.from_numpy(a), torch.from_numpy(b)).numpy()
        np.testing.assert_allclose(result, expected, atol=1e-6)
        wide = ours(a.astype(np.float64), b.astype(np.float64))
        np.testing.assert_allclose(wide, expected, atol=1e-5)
    batch = np.stack([boxes(3), boxes(3, seed=4)])
    np.testing.assert_array_equal(ours(batch, batch)[1], ours(batch[1], batch[1]))


def test_boxes_without_an_area() -> None:
    empty = np.float32([[5, 5, 5, 5], [9, 9, 2, 2], [0, 0, 10, 10]])
    np.testing.assert_array_equal(run(box_area, {"boxes": ("n", 4)}, boxes=empty), [0, 0, 100])
    overlap = box_iou(empty, empty)
    np.testing.assert_array_equal(overlap, np.diag([0, 0, 1]))
    for function in (generalized_box_iou, distance_box_iou, complete_box_iou):
        assert np.isfinite(function(empty, empty)).all()


def test_borders_of_an_image() -> None:
    x = np.float32([[-5, -6, 7, 8], [50, 60, 500, 600], [-9, -9, -1, -1]])
    expected = np.stack([x[:, ::2].clip(0, 64), x[:, 1::2].clip(0, 48)], axis=2)
    result = run(lambda boxes: clip_boxes(boxes, (48, 64)), {"boxes": ("n", 4)}, boxes=x)
    np.testing.assert_array_equal(result, expected.reshape(3, 4))
    size = np.array([48, 64])
    again = run(lambda boxes, size: clip_boxes(boxes, size), OPEN, boxes=x, size=size)
    np.testing.assert_array_equal(again, result)


@pytest.mark.parametrize("image", [(48, 64), (33, 7), (1, 300)])
def test_boxes_find_their_way_back(image: tuple[int, int]) -> None:
    x = picture(*image)
    _, placement = letterbox(x, (31, 50))
    rows, columns, top, left = placement.astype(np.float64)
    inside = boxes(20) / 160 * np.tile([image[1], image[0]], 2)
    moved = inside * np.tile([columns, rows], 2) + np.tile([left, top], 2)
    result = run(
        lambda boxes, placement: scale_boxes(boxes, placement),
        OPEN,
        boxes=moved.astype(np.float32),
        placement=placement,
    )
    # Numbers up to 50 in float32, over the scale.
    np.testing.assert_allclose(result, inside, atol=1e-5 / min(rows, columns))
    cut = scale_boxes(moved.astype(np.float32), placement, image)
    np.testing.assert_allclose(cut, clip_boxes(result, image), atol=1e-5)


# -- the best of those that overlap ----------------------------------------------------------------


def _best(x: Any, values: Any, iou: float, least: float = -np.inf) -> list[int]:
    """One box after the other, in float64."""
    chosen: list[int] = []
    good = [i for i in range(len(x)) if values[i] > least and np.isfinite(x[i]).all()]
    for box in sorted(good, key=lambda i: (-values[i], i)):
        if all(_overlap(x[box], x[other]) <= iou for other in chosen):
            chosen.append(box)
    return chosen


def _overlap(a: Any, b: Any) -> float:
    a, b = (np.concatenate([np.minimum(p[:2], p[2:]), np.maximum(p[:2], p[2:])]) for p in (a, b))
    width, height = (min(a[i + 2], b[i + 2]) - max(a[i], b[i]) for i in (0, 1))
    if width <= 0 or height <= 0:
        return 0.0
    areas = [float((p[2] - p[0]) * (p[3] - p[1])) for p in (a, b)]
    return float(width * height / (sum(areas) - width * height))


def _cases() -> dict[str, tuple[Any, Any]]:
    bad = boxes(9)
    bad[3], bad[4, 2], bad[5], bad[6] = NAN, INF, [5, 5, 5, 5], [9, 9, 2, 2]
    lost = scores(9, 3)
    lost[::2, 1], lost[1] = NAN, NAN
    return {
        "many": (boxes(60), scores(60, 3)),
        "none": (boxes(0), scores(0, 3)),
        "one": (boxes(1), scores(1, 3) + np.float32(0.5)),
        "equal boxes": (np.tile(boxes(1), (8, 1)), scores(8, 3)),
        "equal boxes and scores": (np.tile(boxes(1), (4, 1)), np.full((4, 3), 0.5, np.float32)),
        "strange boxes": (bad, scores(9, 3)),
        "NaN scores": (boxes(9), lost),
        "only NaN": (boxes(4), np.full((4, 3), NAN)),
        "infinite scores": (boxes(3), np.float32([[INF, 1, -INF]] * 3)),
    }


CASES = pytest.mark.parametrize(("x", "values"), _cases().values(), ids=_cases())


@CASES
@pytest.mark.parametrize(("iou", "least"), [(0.5, None), (0.2, 0.3), (0.0, 0.0), (1.0, 0.9)])
def test_suppression(x: Any, values: Any, iou: float, least: float | None) -> None:
    kinds = np.arange(len(x)) % 4 - 1
    least_ = -np.inf if least is None else least
    for column in values.T:
        result = run(
            lambda boxes, scores: nms(boxes, scores, iou, score=least),
            OPEN,
            boxes=x,
            scores=column,
        )
        expected = _best(x, column, iou, least_)
        assert result.dtype == np.int64
        assert result.tolist() == expected
        assert nms(x, column, iou, score=least, count=2).tolist() == expected[:2]
        by_kind = [
            int(mine[i])
            for kind in np.unique(kinds)
            for mine in [np.flatnonzero(kinds == kind)]
            for i in _best(x[mine], column[mine], iou, least_)
        ]
        ordered = sorted(by_kind, key=lambda i: -column[i])
        result = run(
            lambda boxes, scores, classes: batched_nms(boxes, scores, classes, iou, score=least),
            OPEN,
            boxes=x,
            scores=column,
            classes=kinds,
        )
        assert column[result].tolist() == column[ordered].tolist()
        assert sorted(result.tolist()) == sorted(by_kind)


def _detected(
    x: Any, values: Any, iou: float, least: float, count: int, by_class: bool, best: bool
) -> list[tuple[float, int, int]]:
    """(score, class, box), best first."""
    entries = [
        (float(values[box, kind]), kind, box)
        for box in range(len(x))
        for kind in range(values.shape[1])
        if values[box, kind] > least
    ]
    if best:
        entries = [e for e in entries if e[0] == np.nanmax(values[e[2]])]
        seen: set[int] = set()
        entries = [e for e in entries if not (e[2] in seen or seen.add(e[2]))]  # type: ignore[func-returns-value]
    place = (lambda e: x[e[2], e[1]]) if x.ndim == 3 else (lambda e: x[e[2]])
    chosen: list[tuple[float, int, int]] = []
    for entry in sorted(entries, key=lambda e: -e[0]):
        rivals = [e for e in chosen if e[1] == entry[1] or not by_class]
        finite = np.isfinite(x[entry[2]]).all() if x.ndim == 2 else np.isfinite(place(entry)).all()
        if finite and all(_overlap(place(entry), place(e)) <= iou for e in rivals):
            chosen.append(entry)
    return chosen[:count]


@CASES
@pytest.mark.parametrize("by_class", [True, False])
@pytest.mark.parametrize("best", [True, False])
@pytest.mark.parametrize("count", [3, 100, 0])
def test_detections(x: Any, values: Any, by_class: bool, best: bool, count: int) -> None:
    place, best_scores, kinds = run(
        lambda boxes, scores: detections(
            boxes, scores, iou=0.3, score=0.2, count=count, by_class=by_class, best_class=best
        ),
        {"boxes": ("n", 4), "scores": ("n", 3)},
        boxes=x,
        scores=values,
    )
    expected = _detected(x, values, 0.3, 0.2, count, by_class, best)
    np.testing.assert_array_equal(best_scores, np.float32([e[0] for e in expected]))
    assert kinds.dtype == np.int64
    if len({e[0] for e in expected}) == len(expected):
        assert kinds.tolist() == [e[1] for e in expected]
        np.testing.assert_array_equal(place, x[[e[2] for e in expected]].reshape(-1, 4))


@pytest.mark.parametrize("by_class", [True, False])
def test_boxes_of_every_class(by_class: bool) -> None:
    x = np.stack([boxes(30), boxes(30, seed=1), boxes(30, seed=2)], axis=1)
    values = scores(30, 3)
    place, best_scores, kinds = run(
        lambda boxes, scores: detections(boxes, scores, iou=0.3, score=0.2, by_class=by_class),
        {"boxes": ("n", 3, 4), "scores": ("n", 3)},
        boxes=x,
        scores=values,
    )
    expected = _detected(x, values, 0.3, 0.2, 100, by_class, False)
    np.testing.assert_array_equal(best_scores, np.float32([e[0] for e in expected]))
    assert kinds.tolist() == [e[1] for e in expected]
    np.testing.assert_array_equal(place, [x[e[2], e[1]] for e in expected])


def test_thresholds_may_be_inputs() -> None:
    x, values = boxes(20), scores(20)
    thresholds = {"iou": np.float32([0.3]), "score": np.float32(0.25)}
    result = run(
        lambda boxes, scores, iou, score: detections(boxes, scores, iou=iou, score=score),
        OPEN,
        boxes=x,
        scores=values,
        **thresholds,
    )
    for one, other in zip(result, detections(x, values, iou=0.3, score=0.25)):
        np.testing.assert_array_equal(one, other)


# -- bad arguments ---------------------------------------------------------------------------------

X, S = boxes(5), scores(5, 3)
BAD: list[tuple[Any, type[InfuseError], str]] = [
    (lambda: convert_boxes(X, "xyxy", "yxyx"), OptionError, "cxcywh"),
    (lambda: convert_boxes(X[:, :3], "xyxy", "xywh"), ShapeError, "4"),
    (lambda: convert_boxes(X.astype(np.int64), "xyxy", "xywh"), TypeMismatchError, "floats"),
    (lambda: box_iou(X[0], X), ShapeError, "m, 4"),
    (lambda: clip_boxes(X, (3, 4, 5)), OptionError, "height, width"),
    (lambda: clip_boxes(X, np.array([3, 4, 5])), ShapeError, "height, width"),
    (lambda: scale_boxes(X, np.zeros(3)), ShapeError, "four numbers"),
    (lambda: nms(X, S), ShapeError, "scores"),
    (lambda: nms(X, S[:4, 0]), ShapeError, "one image"),
    (lambda: nms(X, S[:, 0], 1.5), OptionError, "from 0 to 1"),
    (lambda: nms(X, S[:, 0], np.float32([0.5, 0.6])), OptionError, "one number"),
    (lambda: nms(X, S[:, 0], count=-1), OptionError, "count is -1"),
    (lambda: batched_nms(X, S[:, 0], S[:, 0]), TypeMismatchError, "integers"),
    (lambda: detections(X[None], S[None]), ShapeError, "boxes\\[0\\]"),
    (lambda: detections(X[:, None], S, best_class=True), ShapeError, "one image|class"),
    (lambda: detections(X[:, None].repeat(2, 1), S), ShapeError, "one image"),
    (lambda: detections(X, S, count=2.5), OptionError, "whole number"),
]


@pytest.mark.parametrize(("call", "error", "what"), BAD)
def test_bad_arguments_are_refused(call: Any, error: type[InfuseError], what: str) -> None:
    with pytest.raises(error, match=what):
        call()
