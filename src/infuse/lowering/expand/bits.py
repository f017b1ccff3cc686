"""Bits read as booleans: memory holds no other booleans than 0 and 1."""

from __future__ import annotations

from infuse import dtypes
from infuse.ir.graph import Node
from infuse.lowering.expand.composer import Composer, Results, expands


@expands("BitCast")
def bits_as_booleans(make: Composer, node: Node) -> Results:
    x = node.inputs[0]
    assert x is not None
    if not node.output.dtype.is_bool or x.dtype in (dtypes.bool_, dtypes.uint8):
        return (
            make.cast(x, dtypes.bool_)
            if node.output.dtype.is_bool and x.dtype == dtypes.uint8
            else None
        )
    return make.cast(make("BitCast", x, to=dtypes.uint8), dtypes.bool_)
