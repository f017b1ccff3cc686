"""Images of other sizes, and products of matrices."""

from __future__ import annotations

from typing import Any

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.ir.graph import Value
from infuse.tracing.layout import FROM_CHANNELS
from infuse.tracing.tensorflow.calls import OperandCall


def coordinates(call: OperandCall) -> str:
    """Where pixels are in a resized image."""
    aligned = call.option("align_corners", False)
    half = call.option("half_pixel_centers", False)
    if aligned and half:
        raise ModelFileError("it has both align_corners and half_pixel_centers")
    return "align_corners" if aligned else "half_pixel" if half else "asymmetric"


def resized(call: OperandCall, x: Value, nearest: bool) -> Value:
    """An image (NCHW) of the sizes of operand 1 (NHWC), of the nearest pixels or between them."""
    where, attributes = coordinates(call), {"mode": "linear"}
    if nearest:
        rounded = "floor" if where == "asymmetric" else "round_prefer_ceil"
        attributes = {"mode": "nearest", "nearest_mode": rounded}
    attributes["coordinate_transformation_mode"] = where
    y = call.g("Resize", x, None, None, call.list_of(1), axes=(2, 3), **attributes)
    return call.g.permute(call.quantized(y), *FROM_CHANNELS[4])


def batch_matmul(call: OperandCall) -> Any:
    """The product of the last two axes, of which those of an operand may be exchanged first."""
    operands = []
    for index, option in enumerate(("adj_x", "adj_y")):
        rank = call.raw(index).rank
        if rank < 2:
            raise ModelFileError(f"operand {index} has {rank} axes")
        perm = (*range(rank - 2), rank - 1, rank - 2)
        operands.append(call.real(index, *(perm if call.option(option, False) else ())))
    x, y = operands
    if not x.dtype.is_float and x.dtype != dtypes.int32:
        return call.g("MatMulInteger", x, y)
    return call.g("MatMul", x, y)
