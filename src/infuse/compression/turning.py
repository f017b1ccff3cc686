"""Graphs whose channels are turned: constants multiplied by orthogonal matrices, and scales of
normalizations moved into the layers that read them. They compute the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from infuse.compression.bases import Basis
from infuse.compression.bases_walk import Fold
from infuse.compression.forms import Writer, add_behind
from infuse.compression.layers import Floats, Layer
from infuse.compression.scratch import ScratchArrays
from infuse.ir.clone import clone
from infuse.ir.graph import Array, Graph, Node, Value, constant
from infuse.ir.scales import note_rotated
from infuse.mapped import give_back


def turned(graph: Graph, turns: Sequence[tuple[Basis, Array]], scratch: ScratchArrays) -> Graph:
    """A copy of a graph in which bases are turned; what is new lies in `scratch`. Its nodes have
    the serial numbers of the graph's, and its metadata say which values are turned
    (`infuse.ir.scales`).
    """
    values: dict[Value, Value] = {}
    copy = clone(graph, values)
    copy.report = graph.report
    for is_behind_norm in (False, True):
        # what a normalization adds goes through weights whose columns are turned already
        for basis, matrix in turns:
            for fold in basis.folds:
                if (fold.norm is not None) == is_behind_norm:
                    _fold(copy, _copy_of(fold.node, values), fold, matrix, scratch)
    for basis, _ in turns:
        for node in basis.norms:
            norm = _copy_of(node, values)
            scale = _constant(norm, 1)
            norm.set_inputs([norm.inputs[0], constant(np.ones_like(scale))])
    changed = [value for basis, _ in turns for value in basis.values]
    changed += [
        fold.node.output  # what the normalization adds comes behind it now
        for basis, _ in turns
        for fold in basis.folds
        if fold.norm is not None and fold.norm.input(2) is not None and fold.node.kind != "Gemm"
    ]
    note_rotated(copy, [value.name for value in changed])
    return copy


def _copy_of(node: Node, values: Mapping[Value, Value]) -> Node:
    copy = values[node.output].producer
    assert copy is not None
    return copy


def _constant(node: Node, operand: int) -> Array:
    value = node.inputs[operand]
    assert value is not None
    assert value.const is not None
    return value.const


def _fold(graph: Graph, node: Node, fold: Fold, matrix: Array, scratch: ScratchArrays) -> None:
    """Turn a constant operand of a node, which nobody else then shares."""
    old = _constant(node, fold.operand)
    if fold.norm is not None and fold.norm.input(2) is not None:
        addend = np.tensordot(old.astype(np.float64), _constant(fold.norm, 2), (fold.axis, 0))
        _add(graph, node, np.asarray(addend, np.float64))
    new = turned_constant(old, fold, matrix)
    give_back(old)
    node.set_operand(fold.operand, constant(scratch.store(new)))


def turned_constant(array: Array, fold: Fold, matrix: Array) -> Floats:
    """What a constant becomes."""
    scaled = array.astype(np.float64)
    if fold.norm is not None:
        behind = (1,) * (array.ndim - 1 - fold.axis)
        scaled = scaled * _constant(fold.norm, 1).reshape(-1, *behind)
    return along(scaled, fold.axis, matrix)


def along(array: Array, axis: int, matrix: Array) -> Floats:
    """An array multiplied by a matrix along an axis, part by part where that is longer."""
    rows = np.moveaxis(array, axis, -1)
    product = (rows.reshape(-1, len(matrix)) @ matrix).reshape(rows.shape)
    return np.ascontiguousarray(np.moveaxis(product, -1, axis), dtype=np.float32)


def _add(graph: Graph, node: Node, addend: Array) -> None:
    """Let a layer add a number for each output channel: with what it adds already, if there is
    such.
    """
    if node.kind == "Gemm":
        bias = node.input(2)
        total = addend if bias is None else _constant(node, 2) + addend
        node.set_inputs([*node.inputs[:2], constant(np.asarray(total, np.float32))])
        return
    users = list(node.output.uses)
    user = users[0].user if len(users) == 1 else None
    if isinstance(user, Node) and user.kind == "Add" and user.graph is graph:
        index = 1 - users[0].index
        other = user.inputs[index]
        if other is not None and other.const is not None and other.shape[-1:] == addend.shape:
            total = np.asarray(other.const + addend, np.float32)
            user.set_operand(index, constant(total))
            return
    add_behind(Writer(graph, node, node.name or node.kind), node, np.asarray(addend, np.float32))


def turned_rows(layer: Layer, rows: Floats, fold: Fold, matrix: Array) -> Floats:
    """The rows [rows, groups, depth] that a layer multiplies once its activation is turned."""
    channels = layer.weights.shape[fold.axis]
    by_channel = rows.reshape(len(rows), channels, -1).astype(np.float64)
    if fold.norm is not None:
        scale = _constant(fold.norm, 1).astype(np.float64)
        if fold.norm.input(2) is not None:
            by_channel = by_channel - _constant(fold.norm, 2)[:, None]
        safe = np.where(scale == 0, 1, scale)
        by_channel = np.where(scale[:, None] == 0, 0, by_channel / safe[:, None])
    return along(by_channel, 1, matrix).reshape(rows.shape)
