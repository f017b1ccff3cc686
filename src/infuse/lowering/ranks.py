"""Outputs whose rank only the run finds out: a list of their elements, and as a further output one
of their sizes.
"""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.ir.clone import clone
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN, TensorType
from infuse.lowering.tensors import is_native_type
from infuse.ops.core.inference import symbols_of
from infuse.ops.core.sizes import fresh_dim, numbering


def unranked_results(graph: Graph) -> set[Value]:
    """Results of Ifs that need no place of one rank: they only leave the graph, and every branch
    that gives them knows their rank.
    """
    found: set[Value] = set()
    for value in graph.outputs:
        if not is_native_type(value.type):
            found |= _chosen(value, graph) or set()
    return found


def _chosen(value: Value, graph: Graph) -> set[Value] | None:
    """`value` and what branches give for it, as far as that has no rank; None where it has to have
    one.
    """
    if is_native_type(value.type):
        return set()
    node = value.producer
    if node is None or node.graph is not graph or node.kind != "If" or node.op.domain:
        return None
    bodies = node.subgraphs.values()
    if (
        not isinstance(value.type, TensorType)
        or any(use.user is not graph for use in value.uses)
        or any(len(body.outputs) != len(node.outputs) for body in bodies)
    ):
        return None
    inner = [_chosen(body.outputs[value.index], body) for body in bodies]
    return None if None in inner else {value}.union(*(found for found in inner if found))


def list_outputs(graph: Graph) -> tuple[Graph, dict[int, int]]:
    """`graph`, or a copy that has in place of each output of `unranked_results` its elements as a
    list, and behind all outputs its sizes; by number of such an output that of its sizes.
    """
    if not unranked_results(graph):
        return graph, {}
    copy = clone(graph)
    unranked = unranked_results(copy)
    numbers: dict[int, int] = {}
    sizes: dict[Value, Value] = {}
    with numbering(_symbols(copy)):
        for number, value in enumerate(list(copy.outputs)):
            if value in unranked:
                if value not in sizes:
                    sizes[value] = _list(value, copy)[1]
                numbers[number] = len(copy.outputs)
                copy.add_output(sizes[value], f"{copy.output_names[number]}.sizes")
    return copy, numbers


def _symbols(graph: Graph) -> set[str]:
    """The names of all sizes, which new ones must not take."""
    names: set[str] = set()
    for inner in graph.all_graphs():
        values = [*inner.inputs, *(v for node in inner.unordered_nodes for v in node.outputs)]
        names.update(*(symbols_of(v.type) for v in values))
    return names


def _list(value: Value, graph: Graph) -> tuple[Value, Value]:
    """The elements of a value as a list, and its sizes; what an If gives becomes its list."""
    if is_native_type(value.type):
        elements = _made(graph, "Reshape", value, constant(np.array([-1])))
        return elements, _made(graph, "Shape", value)
    node = value.producer
    assert node is not None
    for body in node.subgraphs.values():
        elements, sizes = _list(body.outputs[value.index], body)
        body.set_operand(value.index, elements)
        body.add_output(sizes, f"{value.name}.sizes")
    value.type = TensorType(value.dtype, (fresh_dim("if"),))
    result = Value(TensorType(dtypes.int64, (fresh_dim("if"),)), f"{value.name}.sizes")
    result.producer, result.index = node, len(node.outputs)
    node.outputs.append(result)
    return value, result


def _made(graph: Graph, kind: str, *operands: Value) -> Value:
    node = Node(make_operator("", kind, {}), operands, [Value(UNKNOWN, operands[0].name)])
    node.op.infer_node(graph.add_node(node))
    return node.output
