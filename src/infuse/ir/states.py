"""States: tensors that outlive a run, which the graph changes where they lie.

A state is an input of type `StateType` of the outermost graph. A node that changes it takes the
state and gives the next one (`updates` of its operator says which of its outputs follows which of
its inputs); the last one is an output, behind all tensors. Every state has one reader, so no
reader can see elements that a later node has written, and the order of the nodes is that of the
changes.
"""

from __future__ import annotations

from infuse.errors import GraphError
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.types import StateType


def is_state(value: Value) -> bool:
    """Whether a value is a state."""
    return isinstance(value.type, StateType)


def results_of(graph: Graph) -> list[tuple[str, Value]]:
    """The outputs of a graph that are no states, by name."""
    pairs = zip(graph.output_names, graph.outputs)
    return [(name, value) for name, value in pairs if not is_state(value)]


def check_states(graph: Graph) -> None:
    """GraphError unless each state of a graph is changed by one node after the other, from an input
    to an output.
    """
    inputs = [value for value in graph.inputs if is_state(value)]
    kinds = [is_state(value) for value in graph.outputs]
    if kinds != sorted(kinds):
        raise GraphError("a state is an output in front of a tensor", where=graph.name)
    states = [v for node in graph.unordered_nodes for v in node.outputs if is_state(v)]
    if graph.parent is not None and (inputs or states or any(kinds)):
        raise GraphError("a state is changed in a body of control flow", where=graph.name)
    for value in (*inputs, *states):
        place = f"{graph.name}: state {value.name!r}"
        if len(value.uses) != 1:
            raise GraphError(f"it is read {len(value.uses)} times and not once", where=place)
        (user, index), *_ = value.uses
        if isinstance(user, Node) and index not in getattr(user.op, "updates", {}).values():
            raise GraphError(f"{user.kind} does not say what becomes of it", where=place)
        node = value.producer
        if node is None:
            continue
        number = getattr(node.op, "updates", {}).get(value.index)
        before = None if number is None else node.input(number)
        if before is None or not is_state(before):
            raise GraphError(f"{node.kind} makes it of no other state", where=place)
