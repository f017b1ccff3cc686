"""A detector whose answers need no more work: thresholds and the choice among overlapping boxes are
in the graph.

`python -m examples.detector` runs it. The head reads a feature map (1, 16, height, width) and
guesses, for every cell and every anchor, a box, whether there is something, and of which class it
is. The graph leaves out what scores too little and boxes that overlap better ones of their class,
and returns boxes, scores and classes, best first. How many there are, only the run knows. The same
in NumPy is in `expected`.
"""

from typing import Any

import numpy as np

import infuse
from infuse.processing import decode_yolo_anchors, detections

CHANNELS, CLASSES, STRIDE = 16, 3, 8
ANCHORS = np.array([[10, 13], [30, 23], [60, 80]], np.float32)
NUMBERS = 5 + CLASSES
MOST = 50


def head_weights() -> np.ndarray:
    """The filters of the head's 1 × 1 convolution."""
    rng = np.random.default_rng(11)
    return rng.standard_normal((len(ANCHORS) * NUMBERS, CHANNELS)).astype(np.float32) * 0.3


def head(features: Any, overlap: Any, least: Any) -> dict[str, Any]:
    """What is in an image with these features; `overlap` and `least` are the thresholds."""
    xp = features.__array_namespace__()
    raw = xp.tensordot(xp.asarray(head_weights()), features[0], axes=1)
    boxes, scores = decode_yolo_anchors(raw, ANCHORS, STRIDE)
    chosen = detections(boxes, scores, iou=overlap, score=least, count=MOST)
    return dict(zip(("boxes", "scores", "classes"), chosen))


def detector() -> infuse.Graph:
    """The graph: `features`, `overlap` and `least` in; `boxes`, `scores`, `classes` out."""
    specs = {
        "features": infuse.Spec("float32", (1, CHANNELS, "height", "width")),
        "overlap": infuse.Spec("float32", (1,)),
        "least": infuse.Spec("float32", (1,)),
    }
    return infuse.trace(head, specs, name="detector")


def expected(
    features: np.ndarray, overlap: float, least: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Boxes, scores and classes, best first, in NumPy."""
    height, width = features.shape[2:]
    raw = np.einsum("fc,chw->fhw", head_weights().astype(np.float64), features[0])
    cells = 1 / (
        1 + np.exp(-raw.reshape(len(ANCHORS), NUMBERS, height, width).transpose(2, 3, 0, 1))
    )
    grid = np.stack(np.meshgrid(np.arange(width), np.arange(height)), axis=-1)[:, :, None]
    centers, sizes = (
        (cells[..., :2] * 2 - 0.5 + grid) * STRIDE,
        (cells[..., 2:4] * 2) ** 2 * ANCHORS,
    )
    boxes = np.concatenate([centers - sizes / 2, centers + sizes / 2], axis=-1).reshape(-1, 4)
    scores = (cells[..., 4:5] * cells[..., 5:]).reshape(-1, CLASSES)
    rows = []
    for kind in range(CLASSES):
        chosen: list[int] = []
        for box in np.argsort(-scores[:, kind], kind="stable").tolist():
            free = not (_overlaps(boxes[box], boxes[chosen]) > overlap).any()
            if scores[box, kind] > least and free:
                chosen.append(box)
        rows += [(scores[box, kind], kind, box) for box in chosen]
    rows = sorted(rows, key=lambda row: -row[0])[:MOST]
    return (
        boxes[[box for _, _, box in rows]],
        np.array([score for score, _, _ in rows]),
        np.array([kind for _, kind, _ in rows], np.int64),
    )


def _overlaps(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The common area of a box and each other one, as a part of the area that both cover."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    common = np.prod(np.maximum(sides, 0), axis=1)
    return common / (
        np.prod(box[2:] - box[:2]) + np.prod(others[:, 2:] - others[:, :2], axis=1) - common
    )


def main() -> None:
    """Detect in feature maps of two sizes, with two thresholds."""
    model = infuse.compile(infuse.optimize(detector()))
    rng = np.random.default_rng(5)
    for size, least in (((20, 20), 0.5), ((20, 20), 0.8), ((12, 30), 0.5)):
        features = rng.standard_normal((1, CHANNELS, *size), np.float32)
        feeds = {"features": features, "overlap": np.float32([0.45]), "least": np.float32([least])}
        results = model.run(feeds)
        counts = np.bincount(results["classes"], minlength=CLASSES).tolist()
        print(
            f"{size[0]} × {size[1]} cells, score above {least}: {len(results['boxes'])} boxes, by "
            f"class {counts}"
        )
        for box, score, kind in list(zip(*results.values()))[:3]:
            print(f"  class {kind}, {score:.1%}, at {np.round(box).astype(int).tolist()}")


if __name__ == "__main__":
    main()
