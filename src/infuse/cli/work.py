"""How much arithmetic a model takes, as far as the comparison in NumPy is concerned."""

from __future__ import annotations

import math
from collections.abc import Mapping

from infuse.ir import dims
from infuse.ir.graph import Graph, Node, Value

LIMIT = 5e10
"""Multiplications up to which a model is evaluated in NumPy without being asked to: some ten seconds."""


def multiplications(graph: Graph, values: Mapping[str, int]) -> float:
    """Multiplications in the convolutions and matrix products of `graph`, as far as sizes are known."""
    return float(sum(_work(node, values) for inner in graph.all_graphs() for node in inner.unordered_nodes))


def _work(node: Node, values: Mapping[str, int]) -> int:
    if node.kind not in ("Conv", "ConvTranspose", "MatMul", "Gemm"):
        return 0
    first, second = node.input(0), node.input(1)
    if first is None or second is None:
        return 0
    if node.kind == "Conv":
        return _count(node.output, values) * (_count(second, values) // max(1, _sizes(second, values)[0]))
    if node.kind == "ConvTranspose":
        return _count(first, values) * (_count(second, values) // max(1, _sizes(second, values)[0]))
    across = _sizes(first, values)
    is_transposed = node.kind == "Gemm" and node.op.attributes()["transA"]
    return _count(node.output, values) * (across[0 if is_transposed else -1] if across else 1)


def _sizes(value: Value, values: Mapping[str, int]) -> list[int]:
    """The sizes of a value, 1 for those that are not known."""
    found = [dims.substitute(d, dict(values)) for d in value.tensor.shape or ()]
    return [d if isinstance(d, int) else 1 for d in found]


def _count(value: Value, values: Mapping[str, int]) -> int:
    return math.prod(_sizes(value, values))
