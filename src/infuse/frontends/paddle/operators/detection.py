"""Boxes: priors, codes, and those of YOLO."""

from __future__ import annotations

import numpy as np

from infuse.errors import ModelFileError
from infuse.frontends.paddle.calls import PaddleCall, operator
from infuse.ir.graph import Value
from infuse.tracing.semantics import boxes


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
    height, width = _grid(call, x)
    stride, scale = int(call.attribute("downsample_ratio")), float(call.attribute("scale_x_y", 1.0))
    least, inside = float(call.attribute("conf_thresh")), bool(call.attribute("clip_bbox", True))
    shape = (height, width)
    return boxes.yolo(g, x, size, anchors, classes, shape, stride, scale, least, inside)


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
    clip = bool(call.attribute("clip", False))
    priors = boxes.priors((height, width), whole, steps, offset, sides, clip)
    variances = np.array(call.attribute("variances", []), np.float32)
    if variances.shape != (4,):
        raise ModelFileError("it has no four variances")
    g = call.g
    return (
        g.constant(priors),
        g.constant(np.broadcast_to(variances, priors.shape).copy()),
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

    variances = call.maybe("prior_box_var")
    return boxes.decoded(g, prior, target, variances, stored, axis, one)
