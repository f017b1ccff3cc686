"""Graphs run node by node, with a say in what each node gets and gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from infuse.ir.graph import Graph, Node, Value
from infuse.ops.core.evaluate import evaluate_node

Read = Callable[[Value], Any]
Change = Callable[[Node, Sequence[Any]], Sequence[Any]]


def run_graph(
    graph: Graph,
    arguments: Sequence[Any],
    outer: Read,
    change: Change | None = None,
    before: Change | None = None,
) -> list[Any]:
    """The outputs of a graph on these inputs, node by node; `outer` tells what constants and
    captured values hold, `change` may put other results in place of a node's, and `before` other
    operands.
    """
    inner: dict[Value, Any] = dict(zip(graph.inputs, arguments))

    def read(value: Value) -> Any:
        return inner[value] if value in inner else outer(value)

    def run_body(body: Graph, inputs: Sequence[Any]) -> list[Any]:
        return run_graph(body, inputs, read, change, before)

    for node in graph.nodes:
        operands: Sequence[Any] = [None if v is None else read(v) for v in node.inputs]
        results = evaluate_node(
            node, operands if before is None else before(node, operands), run_body
        )
        inner.update(zip(node.outputs, results if change is None else change(node, results)))
    return [read(v) for v in graph.outputs]
