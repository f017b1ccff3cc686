"""How many nodes a model has once its functions are inlined, found out without inlining them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

_Key = tuple[str, str, str]


def count_nodes(model: ModelProto) -> int:
    """Nodes of the graph, its bodies and every function as often as it is called.

    A function that calls itself counts once: whoever inlines it refuses it.
    """
    functions = {_key_of(f): f for f in model.functions}
    counts: dict[_Key, int] = {}
    waiting: list[tuple[_Key, bool]] = [(key, False) for key in functions]
    begun: set[_Key] = set()
    while waiting:
        key, ready = waiting.pop()
        if ready:
            counts[key] = _count(functions[key].node, counts)
        elif key not in begun:
            begun.add(key)
            waiting.append((key, True))
            called = {_called(node) for node in _nodes(functions[key].node)} & functions.keys()
            waiting += [(other, False) for other in called - begun]
    return _count(model.graph.node, counts)


def _count(nodes: Iterable[NodeProto], counts: dict[_Key, int]) -> int:
    return sum(1 + counts.get(_called(node), 0) for node in _nodes(nodes))


def _nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Nodes, and those of their bodies, however deep."""
    waiting: list[Iterable[NodeProto]] = [nodes]
    while waiting:
        for node in waiting.pop():
            yield node
            for attribute in node.attribute:
                graphs: list[GraphProto] = [
                    *attribute.graphs,
                    *([attribute.g] if attribute.HasField("g") else []),
                ]
                waiting += [graph.node for graph in graphs]


def _domain(text: str) -> str:
    return "" if text == "ai.onnx" else text


def _key_of(function: FunctionProto) -> _Key:
    return _domain(function.domain), function.name, getattr(function, "overload", "")


def _called(node: NodeProto) -> _Key:
    return _domain(node.domain), node.op_type, getattr(node, "overload", "")
