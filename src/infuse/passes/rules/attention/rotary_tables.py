"""Tables of a rotary embedding that say the same twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.contents import known_ints
from infuse.ir.expression import Call
from infuse.ir.graph import Array, Node, Value
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.common import attribute, is_one

UNARY = ("Cos", "Sin", "Cast", "Neg", "Identity")
DEEPEST = 8
"""Operators that make a table from angles and are looked through."""


def half_table(table: Value, neighbours: bool, left: int = DEEPEST) -> Any:
    """The numbers of a table whose last axis holds each of them twice: in both halves, or side by
    side; or None.
    """
    if table.const is not None:
        return _half_array(table.const, neighbours)
    node = table.producer
    if node is None or node.op.domain or not left or table.tensor.shape is None or table.rank == 0:
        return None
    if node.kind in UNARY:
        return _rebuilt(node, [_deeper(node.input(0), neighbours, left)], node.op.attributes())
    if node.kind == "Mul":
        parts = [_factor(v, table, neighbours, left) for v in node.operands()]
        return _rebuilt(node, parts, {})
    if node.kind == "Concat" and not neighbours:
        same = len(node.inputs) == 2 and node.inputs[0] is node.inputs[1]
        return node.inputs[0] if same and attribute(node, "axis") in (-1, table.rank - 1) else None
    if node.kind == "Expand":
        source = node.input(0)
        single = source is not None and source.tensor.shape == (*table.shape[:-1], 1)
        return source if single and table.shape[-1] == 2 else None
    if node.kind in ("Unsqueeze", "Squeeze", "Gather"):
        return _beside(node, table, neighbours, left)
    return _repeated(node, table) if neighbours and node.kind in ("Reshape", "Flatten") else None


def _deeper(table: Value | None, neighbours: bool, left: int) -> Any:
    return None if table is None else half_table(table, neighbours, left - 1)


def _half_array(array: Array, neighbours: bool) -> Any:
    if not array.ndim or array.shape[-1] % 2:
        return None
    half = array.shape[-1] // 2
    parts = (
        (array[..., ::2], array[..., 1::2])
        if neighbours
        else (array[..., :half], array[..., half:])
    )
    return np.ascontiguousarray(parts[0]) if np.array_equal(*parts) else None


def _rebuilt(node: Node, operands: list[Any], attributes: Mapping[str, Any]) -> Any:
    return (
        None
        if any(x is None for x in operands)
        else Call(node.kind, (*operands, *node.inputs[2:]), attributes)
    )


def _factor(factor: Value, table: Value, neighbours: bool, left: int) -> Any:
    """An operand of a product: one number for all columns, or a table of the same kind."""
    if factor.tensor.shape is None:
        return None
    if factor.rank == 0 or is_one(factor.shape[-1]):
        return factor
    return half_table(factor, neighbours, left - 1)


def _beside(node: Node, table: Value, neighbours: bool, left: int) -> Any:
    """An operator that leaves the last axis alone."""
    source = node.input(0)
    if (
        source is None
        or source.tensor.shape is None
        or source.rank == 0
        or source.shape[-1] != table.shape[-1]
    ):
        return None
    if node.kind == "Gather":
        if attribute(node, "axis") % source.rank == source.rank - 1:
            return None
    else:
        axes = known_ints(node.input(1))
        rank = max(source.rank, table.rank)
        if axes is None or any(not isinstance(a, int) or a % rank == rank - 1 for a in axes):
            return None
    half = _deeper(source, neighbours, left)
    return None if half is None else Call(node.kind, (half, *node.inputs[1:]), node.op.attributes())


def _repeated(node: Node, table: Value) -> Any:
    """What Reshape(Expand(x)) repeats, each number twice."""
    wide = node.input(0)
    expand = None if wide is None else wide.producer
    narrow = expand.input(0) if expand is not None and expand.kind == "Expand" else None
    if wide is None or narrow is None or wide.tensor.shape is None or narrow.tensor.shape is None:
        return None
    twice = narrow.rank == wide.rank == table.rank + 1 and narrow.shape[:-1] == wide.shape[:-1]
    if (
        not twice
        or wide.shape[:-2] != table.shape[:-1]
        or not is_one(narrow.shape[-1])
        or wide.shape[-1] != 2
    ):
        return None
    return ops.squeeze(narrow, int64s(narrow.rank - 1))
