"""Tensors that are too large for any memory: told of before something counts their elements."""

from __future__ import annotations

from typing import Final

from infuse.errors import ModelFileError
from infuse.ir.graph import Graph, Value
from infuse.ir.types import TensorType

_MOST: Final = (1 << 63) - 1  # what an int64 holds, which counts elements


def check_sizes(graph: Graph) -> None:
    """ModelFileError for a tensor, of which all sizes are given, with more elements than can be
    counted.
    """
    for inner in graph.all_graphs():
        for value in inner.inputs:
            _check(value)
        for node in inner.unordered_nodes:
            for value in node.outputs:
                _check(value)


def _check(value: Value) -> None:
    kind = value.type
    if not isinstance(kind, TensorType) or not kind.shape:
        return
    count = 1
    for size in kind.shape:
        if not isinstance(size, int):
            return
        count *= size
    if count > _MOST:
        raise ModelFileError(
            f"its tensor {value.name!r} has the shape {list(kind.shape)}: more elements than can "
            "be counted"
        )
