"""Operators on images and regions, where their element types have no kernel."""

from __future__ import annotations

from infuse import dtypes
from infuse.ir.graph import Node
from infuse.lowering.expand.composer import Composer, Results, expands
from infuse.lowering.expand.narrow import widen

expands(
    "GridSample",
    "AffineGrid",
    "RoiAlign",
    "MaxRoiPool",
    "Col2Im",
    "DeformConv",
    "NonMaxSuppression",
)(widen)


@expands("NonMaxSuppression")
def narrowed(make: Composer, node: Node) -> Results:
    """Boxes are float32, as ONNX has them."""
    operands = [v for v in node.inputs[:2] if v is not None]
    if all(v.dtype == dtypes.float32 for v in operands):
        return None
    boxes, scores = (make.cast(v, dtypes.float32) for v in operands)
    return make.apply(node.op, [boxes, scores, *node.inputs[2:]])[0]
