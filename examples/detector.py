"""A detector whose answers need no more work: thresholds and the choice among overlapping boxes are
in the graph.

`python -m examples.detector` runs it. The head reads a feature map (1, 16, height, width) and
guesses, for every cell and every anchor, a box, whether there is something, and of which class it
is. The graph keeps what scores enough, leaves out boxes that overlap better ones of their class,
and returns boxes, scores and classes, best first. How many there are, only the run knows. The same
in NumPy is in `detections`.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper

import infuse
from examples.networks import Builder

CHANNELS, CLASSES, STRIDE = 16, 3, 8
ANCHORS = np.array([[10, 13], [30, 23], [60, 80]], np.float32)
NUMBERS = 5 + CLASSES
MOST = 50


def head_weights() -> np.ndarray:
    """The filters of the head's 1 × 1 convolution."""
    rng = np.random.default_rng(11)
    return rng.standard_normal((len(ANCHORS) * NUMBERS, CHANNELS, 1, 1)).astype(np.float32) * 0.3


def guesses(make: Builder, features: str) -> tuple[str, str]:
    """Boxes (1, cells · anchors, 4) as corners, and scores (1, classes, cells · anchors)."""
    raw = make.op("Conv", features, make.weight(head_weights()))
    size = make.op("Shape", features, start=2)
    split = make.op("Concat", make.constant(np.array([1, len(ANCHORS), NUMBERS])), size, axis=0)
    cells = make.op(
        "Transpose", make.op("Sigmoid", make.op("Reshape", raw, split)), perm=[0, 3, 4, 1, 2]
    )
    parts = [f"part_{i}" for i in range(4)]
    lengths = make.constant(np.array([2, 2, 1, CLASSES]))
    make.nodes.append(helper.make_node("Split", [cells, lengths], parts, axis=-1))
    grid = _grid(make, size)
    two, half, stride = (make.weight(np.float32(x)) for x in (2, 0.5, STRIDE))
    moved = make.op("Add", make.op("Sub", make.op("Mul", parts[0], two), half), grid)
    centers = make.op("Mul", moved, stride)
    twice = make.op("Mul", parts[1], two)
    halves = make.op("Mul", make.op("Mul", twice, twice), make.weight(ANCHORS / 2))
    corners = make.op(
        "Concat", make.op("Sub", centers, halves), make.op("Add", centers, halves), axis=-1
    )
    boxes = make.op("Reshape", corners, make.constant(np.array([1, -1, 4])))
    scores = make.op(
        "Reshape", make.op("Mul", parts[2], parts[3]), make.constant(np.array([1, -1, CLASSES]))
    )
    return boxes, make.op("Transpose", scores, perm=[0, 2, 1])


def _grid(make: Builder, size: str) -> str:
    """Column and row of every cell: (height, width, 1, 2)."""
    zero, one = make.constant(np.array(0)), make.constant(np.array(1))
    rows, columns = (
        make.op("Range", zero, make.op("Gather", size, index), one)
        for index in (zero, make.constant(np.array(1)))
    )
    tall = make.op("Reshape", rows, make.constant(np.array([-1, 1, 1, 1])))
    wide = make.op("Reshape", columns, make.constant(np.array([1, -1, 1, 1])))
    shape = make.op("Concat", size, make.constant(np.array([1, 1])), axis=0)
    both = [make.op("Expand", axis, shape) for axis in (wide, tall)]
    return make.op("Cast", make.op("Concat", *both, axis=-1), to=TensorProto.FLOAT)


def select(make: Builder, boxes: str, scores: str) -> tuple[str, str, str]:
    """The boxes that stay, their scores and classes, best first."""
    most = make.constant(np.array([MOST]))
    kept = make.op("NonMaxSuppression", boxes, scores, most, "overlap", "least")
    image, kind, box = (make.constant(np.array([i])) for i in range(3))
    value = make.op("GatherND", scores, kept)
    best, order = "best", "order"
    make.nodes.append(
        helper.make_node("TopK", [value, make.op("Shape", value)], [best, order], axis=0)
    )
    rows = make.op("Gather", kept, order, axis=0)
    kinds = make.op("Squeeze", make.op("Gather", rows, kind, axis=1), make.constant(np.array([1])))
    places = make.op(
        "Concat", *(make.op("Gather", rows, column, axis=1) for column in (image, box)), axis=1
    )
    return make.op("GatherND", boxes, places), best, kinds


def detector() -> onnx.ModelProto:
    """The model: `features` and the thresholds `overlap` and `least` in; `boxes`, `scores`,
    `classes` out.
    """
    make = Builder(seed=0)
    results = select(make, *guesses(make, "features"))
    names = ("boxes", "scores", "classes")
    for name, result in zip(names, results):
        make.nodes.append(helper.make_node("Identity", [result], [name]))
    shapes = [("boxes", TensorProto.FLOAT, ["found", 4]), ("scores", TensorProto.FLOAT, ["found"])]
    shapes.append(("classes", TensorProto.INT64, ["found"]))
    graph = helper.make_graph(
        make.nodes,
        "detector",
        [
            helper.make_tensor_value_info(
                "features", TensorProto.FLOAT, [1, CHANNELS, "height", "width"]
            ),
            helper.make_tensor_value_info("overlap", TensorProto.FLOAT, [1]),
            helper.make_tensor_value_info("least", TensorProto.FLOAT, [1]),
        ],
        [helper.make_tensor_value_info(*row) for row in shapes],
        make.weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def detections(
    features: np.ndarray, overlap: float, least: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Boxes, scores and classes, best first, in NumPy."""
    height, width = features.shape[2:]
    raw = np.einsum("fc,chw->fhw", head_weights()[:, :, 0, 0].astype(np.float64), features[0])
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
    found = []
    for kind in range(CLASSES):
        kept: list[int] = []
        for box in np.argsort(-scores[:, kind], kind="stable").tolist():
            free = not (_overlaps(boxes[box], boxes[kept]) > overlap).any()
            if scores[box, kind] > least and len(kept) < MOST and free:
                kept.append(box)
        found += [(scores[box, kind], kind, box) for box in kept]
    found.sort(key=lambda row: -row[0])
    places = [box for _, _, box in found]
    return (
        boxes[places],
        np.array([row[0] for row in found]),
        np.array([row[1] for row in found], np.int64),
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
    session = infuse.InferenceSession(detector().SerializeToString())
    rng = np.random.default_rng(5)
    for size, least in (((20, 20), 0.5), ((20, 20), 0.8), ((12, 30), 0.5)):
        features = rng.standard_normal((1, CHANNELS, *size), np.float32)
        given = {"features": features, "overlap": np.float32([0.45]), "least": np.float32([least])}
        boxes, scores, classes = session.run(None, given)
        counts = np.bincount(classes, minlength=CLASSES).tolist()
        print(
            f"{size[0]} × {size[1]} cells, score above {least}: {len(boxes)} boxes, by class "
            f"{counts}"
        )
        for box, score, kind in list(zip(boxes, scores, classes))[:3]:
            print(f"  class {kind}, {score:.1%}, at {np.round(box).astype(int).tolist()}")


if __name__ == "__main__":
    main()
