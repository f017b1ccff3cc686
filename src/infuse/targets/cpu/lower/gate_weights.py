"""Weights of recurrent layers that are stored as integers of 8 bits, with a scale for each row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Array, Node, Value
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.ops.quantization import DequantizeLinear
from infuse.ops.recurrent_base import Recurrent
from infuse.targets.cpu.table import lowers


@dataclass(frozen=True, eq=False)
class IntegerRows:
    """Integers [directions, gates · hidden, k], and the scale [directions, gates · hidden] of each
    row.
    """

    integers: Array
    scales: Array


def integer_rows(value: Value) -> IntegerRows | None:
    """What a weight of a recurrent layer is made of, where kernels read it so: constant int8 with
    constant scales of rows (or of more), and zero points of zero.
    """
    node = value.producer
    if node is None or not isinstance(node.op, DequantizeLinear) or value.dtype != dtypes.float32:
        return None
    integers, scales, zeros = (node.input(i) for i in range(3))
    if integers is None or scales is None or integers.const is None or scales.const is None:
        return None
    if integers.dtype != dtypes.int8 or scales.dtype != dtypes.float32 or integers.rank != 3:
        return None
    if zeros is not None and (zeros.const is None or zeros.const.any()):
        return None
    rows = _scales_of_rows(node.op, integers.const.shape, scales.const)
    return None if rows is None else IntegerRows(integers.const, rows)


def _scales_of_rows(op: DequantizeLinear, shape: tuple[int, ...], scales: Array) -> Array | None:
    """Scales [directions, rows] of integers [directions, rows, k]; None where a row has several."""
    if scales.size == 1:
        return np.broadcast_to(scales.reshape(1, 1), shape[:2])
    axis = op.axis % 3
    if op.block_size:
        whole = axis == 2 and op.block_size >= shape[2]
        return scales.reshape(shape[:2]) if whole else None
    if axis == 2:
        return None
    return np.broadcast_to(scales.reshape((-1, 1) if axis == 0 else (1, -1)), shape[:2])


def quads_of(packed: Array) -> Array:
    """[directions, unit, k, block, gate, width] with four k side by side, zeros behind the last:
    [directions, unit, quad, block, gate, width, 4].
    """
    directions, units, k, *rest = packed.shape
    padded = np.pad(packed, ((0, 0), (0, 0), (0, -k % 4), (0, 0), (0, 0), (0, 0)))
    parts = padded.reshape(directions, units, -1, 4, *rest)
    return np.ascontiguousarray(np.moveaxis(parts, 3, -1))


def serves_gates_alone(node: Node) -> bool:
    """Whether nobody but recurrent layers of the same graph reads what a DequantizeLinear gives,
    and these read its integers.
    """
    uses = list(node.output.uses)
    serves_gates = all(
        isinstance(use.user, Node)
        and use.user.graph is node.graph
        and isinstance(use.user.op, Recurrent)
        and use.index in (1, 2)
        for use in uses
    )
    return bool(uses) and serves_gates and integer_rows(node.output) is not None


@lowers("DequantizeLinear", runtime_inputs=(), takes=serves_gates_alone)
def dequantize(low: Lowering, node: Node, group: Group) -> None:
    """Nothing: what others than recurrent layers read is expanded."""
    if not serves_gates_alone(node):
        low.unsupported(node, "other readers than recurrent layers")
