"""Squares of distances from constant vectors, in one pass: the differences of all rows from all
vectors are never stored.
"""

from __future__ import annotations

from infuse import dtypes
from infuse.ir.graph import Node, Value
from infuse.lowering.expand.composer import Composer, Results, drops_axis, expands
from infuse.lowering.expand.ml_kernels import SquareDistances
from infuse.ops.core.base import Array


@expands("ReduceSumSquare", early=True)
def square_distances(make: Composer, node: Node) -> Results:
    """The sums of squares of x [rows, 1, width] and constant vectors [count, width] subtracted from
    each other: [rows, count].
    """
    differences = node.inputs[0]
    if differences is None or not drops_axis(node, 2, 3) or len(differences.uses) != 1:
        return None
    made = differences.producer
    if made is None or made.kind not in ("Add", "Sub"):
        return None
    for place, sign in enumerate((-1, -1) if made.kind == "Add" else (1, 1)):
        x, vectors = made.inputs[place], _vectors(made.inputs[1 - place])
        if x is None or vectors is None or x.dtype not in (dtypes.float32, dtypes.float64):
            continue
        if x.rank == 3 and x.shape[1] == 1 and x.shape[2] == vectors.shape[1]:
            rows = make.reshape(x, x.shape[0], x.shape[2])
            (result,) = make.apply(SquareDistances(sign * vectors), [rows])
            return result
    return None


def _vectors(value: Value | None) -> Array | None:
    """The content of a constant [count, width] or [1, count, width]."""
    array = None if value is None else value.const
    if array is None or array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[0] != 1):
        return None
    return array.reshape(array.shape[-2:])
