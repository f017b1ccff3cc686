"""Inputs whose first axis is no batch: the steps of a sequence lie along it, which the model
computes from one another.
"""

from __future__ import annotations

from collections.abc import Iterator

from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value
from infuse.ops.control import Scan
from infuse.ops.core.base import Op
from infuse.ops.core.traits import Trait, has_trait
from infuse.ops.recurrent_base import Recurrent


def sequence_inputs(graph: Graph) -> dict[Value, Node]:
    """The inputs of a graph with a first axis of free size whose places are no examples, each with
    the first operator that computes elements from others along an axis of that size, or of that
    size and a fixed number more.
    """
    free = {
        value: value.shape[0]
        for value in graph.inputs
        if value.tensor.shape and not isinstance(value.shape[0], int)
    }
    result: dict[Value, Node] = {}
    for inner in graph.all_graphs() if free else ():
        for node in inner.nodes:
            sizes = list(_mixed_sizes(node))
            for value, first in free.items():
                if value not in result and any(isinstance(size - first, int) for size in sizes):
                    result[value] = node
    return result


def _mixed_sizes(node: Node) -> Iterator[Dim]:
    """The free sizes of axes along which an operator computes elements from others."""
    for value, axes in _mixed_axes(node):
        shape = None if value is None else value.tensor.shape
        for axis in axes:
            if shape is not None and dims.symbols(shape[axis]):
                yield shape[axis]


def _mixed_axes(node: Node) -> Iterator[tuple[Value | None, list[int]]]:
    op = node.op
    if isinstance(op, Recurrent):
        yield node.input(0), [op.layout]
    elif isinstance(op, Scan):
        scanned = node.inputs[len(node.inputs) - op.num_scan_inputs :]
        for value, axis in zip(scanned, op.scan_input_axes or (0,) * len(scanned)):
            yield value, [axis]
    elif isinstance(op, Op) and not has_trait(node, Trait.MOVEMENT):
        axes = op.shared_axes(node)
        if axes is not None:
            for value, order in zip(node.inputs, axes.operands):
                yield value, [place for place, axis in enumerate(order or ()) if axis in axes.mixed]


def sequence_notes(graph: Graph) -> list[str]:
    """What is to be said of data for a graph, parts of which are whole runs."""
    return [
        f"data of input {value.name!r} are not cut into batches: {node.kind} {node.name!r} "
        f"computes the places of its first axis ({value.shape[0]}) from one another, so each array "
        "is a run"
        for value, node in sequence_inputs(graph).items()
    ]
