"""Type inference over whole graphs."""

from __future__ import annotations

from infuse.ir import dims
from infuse.ir.graph import Graph
from infuse.ir.nesting import room_for
from infuse.ir.types import HOLDERS, TensorType, Type
from infuse.ops.core.base import Op, infer_node
from infuse.ops.core.sizes import numbering


def infer_graph(graph: Graph) -> None:
    """Set the types and contents of all values that nodes of `graph` and of its bodies make, from
    its inputs' types.

    Sizes that only run time knows get symbols numbered from one, so the same graph always gets the
    same names. Errors carry the node.
    """
    with numbering(_given_symbols(graph)), room_for(graph):
        infer_body(graph)


def infer_body(graph: Graph) -> None:
    """The same within the inference of a graph around it; the body's inputs have their types."""
    for node in graph.nodes:
        infer_node(node)


def symbols_of(type: Type) -> set[str]:
    """Names of all symbols in the sizes of a type."""
    if isinstance(type, HOLDERS):
        return symbols_of(type.element)
    assert isinstance(type, TensorType)
    return set().union(*[dims.symbols(d) for d in type.shape or () if not isinstance(d, int)])


def _given_symbols(graph: Graph) -> set[str]:
    """Symbols that inference does not make itself: of the inputs, and of what unknown operators
    give.
    """
    values = [*graph.inputs, *graph.outputs]
    for inner in graph.all_graphs():
        for node in inner.unordered_nodes:
            if not isinstance(node.op, Op):
                values += node.outputs
    return set().union(
        *(
            symbols_of(v.type)
            for v in values
            if v.producer is None or not isinstance(v.producer.op, Op)
        )
    )
