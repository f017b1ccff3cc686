"""Windows as cosines of a range."""

from __future__ import annotations

import math

import numpy as np

from infuse import dtypes, ops
from infuse.ir.contents import known_ints
from infuse.ir.graph import Node, Value, constant
from infuse.ir.types import TensorType
from infuse.lowering.expand.composer import Composer, Results, expands
from infuse.ops.windows import Window


@expands("HannWindow", "HammingWindow", "BlackmanWindow")
def window(make: Composer, node: Node) -> Results:
    size, op = node.inputs[0], node.op
    assert size is not None
    assert isinstance(op, Window)
    if size.const is not None:
        return constant(np.ascontiguousarray(op.eval(size.const)))
    count = make.cast(make.reshape(size, *()), dtypes.int64)
    places = _places(make, size, count, node.output)
    whole = make.cast(count, dtypes.float64)
    turned = make.cast(places, dtypes.float64) * make.number(2 * math.pi, dtypes.float64)
    angle = make(turned / (whole if op.periodic else whole - 1))
    total = make.number(op.cosines[0], dtypes.float64)
    for n, weight in enumerate(op.cosines[1:], 1):
        total = make(total + ops.cos(angle * n) * weight)
    return make.cast(total, op.output_datatype)


def _places(make: Composer, size: Value, count: Value, result: Value) -> Value:
    """0, 1, … as many as the window has; their number is what the node found out."""
    if known_ints(size) is not None:
        return make.range(result.shape[0])
    places = make("Range", make.size(0), count, make.size(1))
    places.type = TensorType(dtypes.int64, result.shape)
    return places
