"""Boxes: priors, codes, and those of YOLO."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.paddle.calls import PaddleCall, operator
from infuse.ir.graph import Value


def _grid(call: PaddleCall, x: Value) -> tuple[int, int]:
    height, width = x.shape[2:]
    if not isinstance(height, int) or not isinstance(width, int):
        raise call.unsupported("an image whose size is not fixed")
    if height * width > 1 << 22:
        raise ModelFileError(f"it has {height} times {width} cells")
    return height, width


@operator("yolo_box")
def yolo_box(call: PaddleCall) -> tuple[Value, Value]:
    """Boxes and scores of cells; both are zero where no object is likely enough."""
    g, x, size = call.g, call("x"), call("img_size")
    anchors, classes = call.ints("anchors"), int(call.attribute("class_num"))
    call.require("iou_aware", False)
    call.attribute("iou_aware_factor")
    count, (height, width) = len(anchors) // 2, _grid(call, x)
    stride, scale = int(call.attribute("downsample_ratio")), float(call.attribute("scale_x_y", 1.0))
    cells = g("Reshape", x, g.ints(-1, count, 5 + classes, height, width))
    sure = g("Sigmoid", g.slice(cells, 2, 4, 5))
    likely = g("GreaterOrEqual", sure, float(call.attribute("conf_thresh")))
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
        if call.attribute("clip_bbox", True):
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


def _ratios(call: PaddleCall) -> list[float]:
    ratios = [1.0]
    for ratio in call.attribute("aspect_ratios", []):
        if any(abs(ratio - other) < 1e-6 for other in ratios):
            continue
        ratios += [float(ratio), 1 / ratio] if call.attribute("flip", False) else [float(ratio)]
    call.attribute("flip")
    return ratios


def _sides(call: PaddleCall) -> list[tuple[float, float]]:
    """Half the width and the height of the boxes of each cell."""
    ratios, least = _ratios(call), call.attribute("min_sizes", [])
    most, first = call.attribute("max_sizes", []), call.attribute("min_max_aspect_ratios_order")
    if most and len(most) != len(least):
        raise ModelFileError(f"it has {len(least)} least and {len(most)} largest sizes")
    sides: list[tuple[float, float]] = []
    for number, size in enumerate(least):
        square = [(np.sqrt(size * most[number]) / 2,) * 2] if most else []
        others = [(size * np.sqrt(r) / 2, size / np.sqrt(r) / 2) for r in ratios]
        plain = [(size / 2, size / 2)]
        rest = [pair for r, pair in zip(ratios, others) if abs(r - 1) >= 1e-6]
        sides += plain + square + rest if first else others + square
    return sides


@operator("prior_box")
def prior_box(call: PaddleCall) -> tuple[Value, Value]:
    """The boxes of the cells of an image, as parts of it, and their variances."""
    height, width = _grid(call, call("input"))
    whole = _grid(call, call("image"))
    steps = [float(call.attribute(f"step_{n}", 0.0)) for n in "hw"]
    if not all(steps):
        steps = [whole[0] / height, whole[1] / width]
    offset, sides = float(call.attribute("offset", 0.5)), _sides(call)
    y, x = ((np.arange(n) + offset) * step for n, step in zip((height, width), steps))
    boxes = np.empty((height, width, len(sides), 4))
    for number, (w, h) in enumerate(sides):
        boxes[:, :, number, 0], boxes[:, :, number, 2] = ((x + s * w) / whole[1] for s in (-1, 1))
        boxes[:, :, number, 1] = ((y - h) / whole[0])[:, None]
        boxes[:, :, number, 3] = ((y + h) / whole[0])[:, None]
    if call.attribute("clip", False):
        boxes = boxes.clip(0, 1)
    variances = np.array(call.attribute("variances", []), np.float32)
    if variances.shape != (4,):
        raise ModelFileError("it has no four variances")
    g = call.g
    return (
        g.constant(boxes.astype(np.float32)),
        g.constant(np.broadcast_to(variances, boxes.shape).copy()),
    )


@operator("box_coder")
def box_coder(call: PaddleCall) -> Value:
    """Boxes out of their differences from priors."""
    g, prior, target = call.g, call("prior_box"), call("target_box")
    if str(call.attribute("code_type", "encode_center_size")).lower() != "decode_center_size":
        raise call.unsupported("code_type other than decode_center_size")
    one = 0.0 if call.attribute("box_normalized", True) else 1.0
    axis, stored = int(call.attribute("axis", 0)), call.attribute("variance", [])
    if target.rank != 3:
        raise ModelFileError(f"its boxes have {target.rank} axes, not 3")

    def column(value: Value, i: int) -> Value:
        part = g.slice(value, value.rank - 1, i, i + 1)
        return g("Unsqueeze", part, g.ints(axis)) if value.rank == 2 else part

    variances = call.maybe("prior_box_var")
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
