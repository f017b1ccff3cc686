"""Operators with a scalar, and weighted sums, in the standard operators that they stand for: their
formulas have the number as a literal in either form, and there is one form to look for.
"""

from __future__ import annotations

from infuse.ir.graph import Node, Value
from infuse.lowering.expand.composer import Composer, Results, expands
from infuse.ops.scalars import WITH_SCALAR, WeightedSum, WithScalar


@expands(*(op.name for op in WITH_SCALAR), domain="infuse", spelling=True)
def with_scalar(make: Composer, node: Node) -> Results:
    """The binary operator and a constant."""
    op, x = node.op, node.inputs[0]
    assert isinstance(op, WithScalar)
    assert isinstance(x, Value)
    return make(op.written_out(x, x.dtype))


@expands("WeightedSum", domain="infuse", spelling=True)
def weighted_sum(make: Composer, node: Node) -> Results:
    """Products and their sum or difference."""
    op, (x, y) = node.op, node.inputs
    assert isinstance(op, WeightedSum)
    assert isinstance(x, Value)
    assert isinstance(y, Value)
    if x.dtype.bits < 32:  # whose formula computes in float32 and is rounded once
        return None
    return make(op.written_out(x, y, x.dtype))
