"""Constant weights of few bits in blocks (DequantizeLinear with `block_size`), and floats of 8 bits
with any scales: products, whose kernel decodes them as it multiplies; and rows of tables in blocks.
"""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Array, Node, Value, constant
from infuse.lowering.expand.composer import Composer, Results, expands
from infuse.ops.domains.microsoft_bits import FLOATS, MatMulNBits
from infuse.ops.quantization import DequantizeLinear, limits

TYPES = (dtypes.uint2, dtypes.int2, dtypes.uint4, dtypes.int4, dtypes.uint8, dtypes.int8)
SCALES = (dtypes.float16, dtypes.float32)
LEAST_BLOCK = 32
"""Rows of a block that fill vectors; blocks are multiples of it."""


@expands("MatMul", early=True)
def matmul(make: Composer, node: Node) -> Results:
    x = node.inputs[0]
    if x is None or x.rank < 2:
        return None
    weights = node.input(1)
    maker = None if weights is None else weights.producer
    if maker is not None and maker.kind == "Transpose" and maker.output.rank == 2:
        if maker.op.attributes()["perm"] == (0, 1):
            return None
        return _product(make, x, maker.input(0), depth_axis=1)
    return _product(make, x, weights, depth_axis=0)


@expands("Gemm", early=True)
def gemm(make: Composer, node: Node) -> Results:
    attributes = node.op.attributes()
    x, c = node.inputs[0], node.input(2)
    plain = attributes["alpha"] == attributes["beta"] == 1.0 and not attributes["transA"]
    if x is None or not plain:
        return None
    result = _product(make, x, node.input(1), depth_axis=int(bool(attributes["transB"])))
    return result if result is None or c is None else make("Add", result, c)


@expands("Gather", early=True)
def gather(make: Composer, node: Node) -> Results:
    """Rows of a constant table in blocks: gathered as codes, and dequantized then."""
    table, rows = node.inputs[0], node.inputs[1]
    numbers = None if table is None else table.producer
    if numbers is None or not isinstance(numbers.op, DequantizeLinear) or numbers.op.domain:
        return None
    op, parts = numbers.op, [numbers.input(i) for i in range(3)]
    if op.block_size == 0 or op.axis % numbers.output.rank == 0 or node.op.attributes()["axis"]:
        return None
    if rows is None or any(part is not None and part.const is None for part in parts):
        return None
    taken = [None if part is None else make("Gather", part, rows, axis=0) for part in parts]
    axis = op.axis % numbers.output.rank + rows.rank - 1
    return make("DequantizeLinear", *taken, **{**op.attributes(), "axis": axis})


def _product(make: Composer, x: Value, weights: Value | None, depth_axis: int) -> Value | None:
    """`x` times weights in blocks; None where these are anything else."""
    node = None if weights is None else weights.producer
    if node is None or not isinstance(node.op, DequantizeLinear) or node.output.rank != 2:
        return None
    block, axis = node.op.block_size, node.op.axis % 2
    codes, scales, zeros = (node.input(i) for i in range(3))
    if codes is not None and codes.dtype in FLOATS:
        return _product_of_floats(make, x, node, depth_axis)
    if block == 0 or block % LEAST_BLOCK or axis != depth_axis or codes is None or scales is None:
        return None
    if codes.const is None or scales.const is None or (zeros is not None and zeros.const is None):
        return None
    plain = x.dtype == node.output.dtype == dtypes.float32 and scales.dtype in SCALES
    if codes.dtype not in TYPES or not plain:
        return None
    matrix, steps = (_rows_of_columns(array, axis) for array in (codes.const, scales.const))
    bits, low = codes.dtype.bits, limits(codes.dtype)[0]
    shifts = np.zeros(steps.shape, np.int16)
    if zeros is not None and zeros.const is not None:
        shifts = _rows_of_columns(zeros.const, axis).astype(np.int16)
    columns, depth = matrix.shape
    op = MatMulNBits(K=depth, N=columns, block_size=block, bits=bits)
    stored = op.packed(matrix.astype(np.int16) - low, steps, shifts - low)
    return make.apply(op, [x, *map(constant, stored)])[0]


def _product_of_floats(make: Composer, x: Value, node: Node, depth_axis: int) -> Value | None:
    """The same with floats of 8 bits and any scales whose blocks fill vectors; None where not all
    are finite.
    """
    assert isinstance(node.op, DequantizeLinear)
    codes, scales, zeros = (node.input(i) for i in range(3))
    if codes is None or scales is None or codes.const is None or scales.const is None:
        return None
    if zeros is not None and (zeros.const is None or zeros.const.astype(np.float32).any()):
        return None
    plain = x.dtype == node.output.dtype == dtypes.float32 and scales.dtype in SCALES
    if not plain or not np.isfinite(codes.const.astype(np.float32)).all():
        return None
    matrix = _rows_of_columns(codes.const, depth_axis)
    columns, depth = matrix.shape
    block, axis, steps = node.op.block_size, node.op.axis % 2, scales.const
    if steps.size == 1 or (not block and axis != depth_axis):
        block = -(-depth // LEAST_BLOCK) * LEAST_BLOCK
        steps = np.broadcast_to(steps.reshape(-1, 1), (columns, 1))
    elif block and block % LEAST_BLOCK == 0 and axis == depth_axis:
        steps = _rows_of_columns(steps, depth_axis)
    else:
        return None
    op = MatMulNBits(K=depth, N=columns, block_size=block, bits=8)
    stored = np.zeros((columns, op.blocks * block), codes.const.dtype)
    stored[:, :depth] = matrix
    operands = stored.reshape(columns, op.blocks, block), steps.astype(np.float32).reshape(-1)
    return make.apply(op, [x, *map(constant, operands)])[0]


def _rows_of_columns(array: Array, axis: int) -> Array:
    """[depth, columns] or its transpose as [columns, depth]."""
    return array.T if axis == 0 else array
