"""Operators with a scalar, and weighted sums, in the operators of ONNX that they stand for."""

from __future__ import annotations

from typing import Any

from infuse.exporters.onnx.decompose import DECOMPOSITIONS, Inputs, instead
from infuse.ops.scalars import WITH_SCALAR, WeightedSum, WithScalar


def with_scalar(inputs: Inputs) -> Any:
    """The binary operator, its scalar a constant of all digits of the type."""
    op = inputs.node.op
    assert isinstance(op, WithScalar)
    return op.written_out(inputs[0], inputs.dtype(0))


DECOMPOSITIONS.update((op.name, with_scalar) for op in WITH_SCALAR)


@instead("WeightedSum")
def weighted_sum(inputs: Inputs) -> Any:
    """Products and their sum or difference."""
    op = inputs.node.op
    assert isinstance(op, WeightedSum)
    return op.written_out(inputs[0], inputs[1], inputs.dtype(0))
