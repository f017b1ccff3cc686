"""Products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.tensorflow.calls import FlowCall, operator
from infuse.ir.graph import Value
from infuse.tracing.semantics import movement
from infuse.tracing.tensorflow import indexing
from infuse.tracing.tensorflow.images import batch_matmul


@operator("MatMul")
def matmul(call: FlowCall) -> Value:
    """The product of two matrices, each of which may be transposed first."""
    g, operands = call.g, []
    for index, option in enumerate(("transpose_a", "transpose_b")):
        turned = call.option(option, False)
        value = call.real(index, 1, 0) if turned else call.raw(index)
        if value.rank != 2:
            raise ModelFileError(f"operand {index} has {value.rank} axes, not two")
        operands.append(value)
    return g("MatMul", *operands)


@operator("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batched(call: FlowCall) -> Any:
    """The product of the last two axes."""
    x, out = call.raw(0), call.option("Tout", None)
    if x.dtype != call.raw(1).dtype or (out is not None and call.type("Tout") != x.dtype):
        raise call.unsupported("a product of different types")
    return batch_matmul(call)


@operator("Einsum")
def einsum(call: FlowCall) -> Value:
    """The sum of products that an equation says."""
    equation = str(call.option("equation", ""))
    values = [call.raw(index) for index in range(call.count)]
    return call.g("Einsum", *values, equation=equation.replace(" ", ""))


@operator("MatrixBandPart")
def band(call: FlowCall) -> Value:
    """Matrices without what lies further from the diagonal than two numbers; negative ones keep
    all.
    """
    g, x = call.g, call.raw(0)
    lower, upper = call.one(1), call.one(2)
    if lower >= 0:
        x = g("Trilu", x, g.constant(np.array(-lower)), upper=1)
    if upper >= 0:
        x = g("Trilu", x, g.constant(np.array(upper)), upper=0)
    return g("Identity", x)


@operator("MatrixDiag", "MatrixDiagV2", "MatrixDiagV3")
def diagonal(call: FlowCall) -> Value:
    """Square matrices with these diagonals, zero elsewhere."""
    _plain(call, {1: [0], 2: [-1], 3: [-1]})
    if call.count > 4 and np.any(call.const(4)):
        raise call.unsupported("another padding than zero")
    return indexing.matrix_diag(call.on(call.raw(0)))


@operator("MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def set_diagonal(call: FlowCall) -> Value:
    """Matrices with other diagonals."""
    _plain(call, {2: [0]})
    return indexing.matrix_set_diag(call)


def _plain(call: FlowCall, stated: dict[int, list[int]]) -> None:
    for index, numbers in stated.items():
        if call.has(index) and call.ints(index) not in (numbers, numbers * 2):
            raise call.unsupported(f"operand {index} of {call.ints(index)[:4]}")


@operator("MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3")
def diagonal_part(call: FlowCall) -> Value:
    """The diagonals of matrices."""
    g, x = call.g, call.raw(0)
    _plain(call, {1: [0]})
    if x.rank < 2:
        raise ModelFileError(f"a tensor of {x.rank} axes is no matrix")
    return movement.diagonal(g, x, 0, x.rank - 2, x.rank - 1)


@operator("DiagPart")
def tensor_diagonal(call: FlowCall) -> Value:
    """The diagonal of a matrix."""
    if call.raw(0).rank != 2:
        raise call.unsupported("the diagonal of a tensor of more than two axes")
    return diagonal_part(call)


@operator("Diag")
def tensor_diag(call: FlowCall) -> Value:
    """A matrix with this diagonal."""
    if call.raw(0).rank != 1:
        raise call.unsupported("a diagonal of more than one axis")
    return indexing.matrix_diag(call)


operator("MatrixDeterminant")(lambda call: call.g("Det", call.raw(0)))


@operator("Cross")
def cross(call: FlowCall) -> Value:
    """The cross product of vectors along the last axis."""
    g = call.g
    x, y = call.raw(0), call.raw(1)

    def turned(value: Value, *order: int) -> Value:
        return g("Gather", value, g.constant(np.array(order, np.int64)), axis=-1)

    ahead = g("Mul", turned(x, 1, 2, 0), turned(y, 2, 0, 1))
    return g("Sub", ahead, g("Mul", turned(x, 2, 0, 1), turned(y, 1, 2, 0)))


@operator("Bincount", "DenseBincount")
def bincount(call: FlowCall) -> Value:
    """How often each number comes, or the sum of its weights."""
    g, x, size, weights = call.g, call.raw(0), call.list_of(1), call.raw(2)
    if x.rank > 1 and call.node.op == "DenseBincount":
        raise call.unsupported("counting in rows")
    binary = bool(call.option("binary_output", False))
    flat = g("Reshape", g.cast(x, dtypes.int64), g.ints(-1))
    if weights.tensor.size == 0:
        weights = g("Expand", g.constant(np.ones((), weights.dtype.numpy)), g("Shape", flat))
    flat_weights = g("Reshape", weights, g.ints(-1))
    count = g("Reshape", size, g.ints(1))
    inside = g("Less", flat, count)
    place = g("Where", inside, flat, count)
    zero = g.constant(np.zeros((), weights.dtype.numpy))
    full = g("Expand", zero, g("Add", count, 1))
    made = g("ScatterND", full, g("Unsqueeze", place, g.ints(-1)), flat_weights, reduction="add")
    made = g("Slice", made, g.ints(0), count, g.ints(0))
    return g("Min", made, 1) if binary else made
