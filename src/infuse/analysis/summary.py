"""What a graph holds, in a few numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from infuse.analysis.cost import totals
from infuse.ir.graph import Graph, Node, Value, count_operators
from infuse.ops.core.inference import symbols_of


def summary(graph: Graph) -> dict[str, Any]:
    """Inputs, outputs, operators, sizes and costs of a graph, as plain data."""
    arrays = {
        id(v.const): (v.dtype, v.const) for inner in graph.all_graphs() for v in inner.constants()
    }
    arrays |= {id(v.default): (v.dtype, v.default) for v in graph.inputs}
    weights = [(dtype, array) for dtype, array in arrays.values() if array is not None]
    outputs = zip(graph.output_names, graph.outputs)
    whole = totals(graph)
    return {
        "name": graph.name,
        "opsets": {domain or "ai.onnx": version for domain, version in graph.opsets.items()},
        "inputs": [_tensor(value.name, value) for value in graph.inputs],
        "outputs": [_tensor(name, value) for name, value in outputs],
        "dynamic_axes": sorted(set().union(*(symbols_of(value.type) for value in graph.inputs))),
        "nodes": sum(len(inner) for inner in graph.all_graphs()),
        "operators": dict(count_operators(graph).most_common()),
        "cost": {"macs": whole.cost.macs, "flops": whole.cost.flops, "sizes": whole.assumed},
        "parameters": sum(array.size for dtype, array in weights if dtype.is_float),
        "weights_bytes": sum(array.nbytes for _, array in weights),
    }


def by_operator(nodes: Iterable[Node], kind: str) -> list[dict[str, Any]]:
    """The operators of nodes, with how often they occur and where first, as plain data; `kind` is
    what all of them are.
    """
    rows: dict[str, dict[str, Any]] = {}
    for node in nodes:
        name = f"{node.op.domain}::{node.kind}" if node.op.domain else node.kind
        source = node.metadata.get("source", "")
        first = f"{node.name} ({source})" if source else node.name
        row = rows.setdefault(name, {"operator": name, "is": kind, "count": 0, "first": first})
        row["count"] += 1
    return list(rows.values())


def _tensor(name: str, value: Value) -> dict[str, str]:
    return {
        "name": name,
        "type": f"{value.type}{' with a default' if value.default is not None else ''}",
    }
