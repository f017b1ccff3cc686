"""What of a graph runs: the nodes that make what the outputs need, and those that find sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.relations import Relation, relations
from infuse.ir.types import TensorType


def live_nodes(
    graph: Graph, available: set[str], reads: Callable[[Node], Iterable[Value]]
) -> list[Node]:
    """The nodes that run, in order. `available` are the sizes that no node has to resolve, `reads`
    tells what a node reads.
    """
    nodes = graph.nodes
    finders = _finders(nodes, available)
    seen: set[Node] = set()
    pending = list(graph.outputs)
    while pending:
        value = pending.pop()
        makers = {finders[s] for size in _sizes(value) for s in dims.symbols(size) if s in finders}
        if value.producer is not None and value.producer.graph is graph and value.content is None:
            makers.add(value.producer)
        for node in makers - seen:
            seen.add(node)
            pending.extend(reads(node))
            pending.extend(v for v in node.operands() if v.content is not None)
    return [node for node in nodes if node in seen]


def _finders(nodes: Iterable[Node], available: set[str]) -> dict[str, Node]:
    """The node that finds each size that is not given: the first that has it in a result."""
    finders: dict[str, Node] = {}
    for node in nodes:
        for value in node.outputs:
            for size in _sizes(value):
                for name in dims.symbols(size) - available:
                    finders.setdefault(name, node)
    return finders


def _sizes(value: Value) -> list[Dim]:
    """The sizes of a value, and those that its elements are known to be."""
    shape = value.type.shape if isinstance(value.type, TensorType) else None
    content = [] if value.content is None else value.content.reshape(-1).tolist()
    return [*(shape or ()), *content]


def is_known(value: Value) -> bool:
    """Whether the elements of a value are known before the run."""
    return value.const is not None or value.content is not None


def relations_of(node: Node) -> list[Relation]:
    """What a node relies on that its types do not prove, a run has to check it; that of bodies is
    their own.
    """
    if node.subgraphs:
        return []
    with relations() as collected:
        again = node.op.infer_types(node)
    names: dict[str, Dim] = {}
    for type, value in zip(again, node.outputs):
        if isinstance(type, TensorType):
            pairs = zip(type.shape or (), value.shape)
            names.update(
                {str(new): old for new, old in pairs if new != old and new == dims.symbol(str(new))}
            )
    sizes = (d for v in node.outputs if isinstance(v.type, TensorType) for d in v.type.shape or ())
    positive = [Relation("<=", 0, d) for d in sizes if dims.compare("<=", 0, d) is None]
    return list(dict.fromkeys([*(relation.substitute(names) for relation in collected), *positive]))
