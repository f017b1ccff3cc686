"""A graph in stages: what is native code, and what the interpreter has to do in between (strings,
sequences, …).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from infuse.ir import dims
from infuse.ir.clone import clone_nodes
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value, captured
from infuse.ir.registry import make_operator
from infuse.ir.types import TensorType
from infuse.lowering.tensors import is_native_type
from infuse.ops.core.inference import infer_graph


@dataclass
class Stage:
    """A part of a graph as a graph of its own; inputs and outputs have the names of values between
    stages.
    """

    graph: Graph
    is_host: bool


def must_be_hosted(node: Node, unranked: Collection[Value] = ()) -> bool:
    """Whether a node reads or makes what native code cannot hold, itself or in its bodies;
    `unranked` are results that it gives as lists (`ranks.py`).
    """
    bodies = node.subgraphs.values()
    values = [
        *node.operands(),
        *node.outputs,
        *(v for b in bodies for v in (*b.inputs, *b.outputs)),
    ]
    if not all(is_native_type(v.type) or v in unranked for v in values):
        return True
    return any(must_be_hosted(inner, unranked) for body in bodies for inner in body.unordered_nodes)


def make_outputs(graph: Graph) -> None:
    """Let every output be made by a node, also where it is an input or a constant."""
    for number, value in enumerate(graph.outputs):
        if value.producer is None:
            passed = Node(
                make_operator("", "Identity", {}),
                [value],
                [Value(value.type, graph.output_names[number])],
            )
            graph.add_node(passed)
            graph.set_operand(number, passed.output)


def split(graph: Graph, hosted: Collection[Node]) -> tuple[list[Stage], list[str]]:
    """The stages of `graph` in order, and the names that its outputs have between them.

    Nodes in `hosted` are the interpreter's; there are as few stages as the order of the nodes
    allows.
    """
    make_outputs(graph)
    level: dict[Node, int] = {}
    for node in graph.nodes:
        own = int(node in hosted)
        level[node] = own
        for value in _reads(graph, node):
            producer = value.producer
            if producer is not None:
                before = level[producer]
                level[node] = max(level[node], before + (before % 2 != own))
    names = _names(graph)
    stages = [_stage(graph, number, level, names) for number in sorted(set(level.values()))]
    return stages, [names[value] for value in graph.outputs]


def _reads(graph: Graph, node: Node) -> list[Value]:
    """The values of the graph that a node or its bodies read."""
    values = dict.fromkeys([*node.operands(), *captured(node)])
    own = set(graph.inputs)
    return [v for v in values if v in own or (v.producer is not None and v.producer.graph is graph)]


def _names(graph: Graph) -> dict[Value, str]:
    names: dict[Value, str] = {}
    taken = {*graph.output_names, *(v.name for v in graph.inputs)}
    for value in graph.inputs:
        names[value] = value.name
    for node in graph.nodes:
        for value in node.outputs:
            name = value.name or "value"
            while name in taken:
                name += "_"
            taken.add(name)
            names[value] = name
    return names


def _stage(graph: Graph, number: int, level: dict[Node, int], names: dict[Value, str]) -> Stage:
    nodes = [node for node in graph.nodes if level[node] == number]
    inside = {v for node in nodes for v in node.outputs}
    later = {v for node in graph.nodes if level[node] > number for v in _reads(graph, node)} | set(
        graph.outputs
    )
    taken = dict.fromkeys(v for node in nodes for v in _reads(graph, node) if v not in inside)
    part = Graph(f"{graph.name} {number}")
    part.opsets = dict(graph.opsets)
    values = {v: part.add_input(names[v], v.type) for v in taken}
    for value in taken:
        values[value].content, values[value].default = value.content, value.default
    for node in clone_nodes(nodes, values):
        part.add_node(node)
    for value in dict.fromkeys(v for node in nodes for v in node.outputs if v in later):
        part.add_output(values[value], names[value])
    _bind(part)
    return Stage(part, bool(number % 2))


def _bind(part: Graph) -> None:
    """Let the sizes of inputs tell all symbols: what they do not tell becomes a symbol of this
    stage.
    """
    shapes = [
        v.type.shape
        for v in part.inputs
        if isinstance(v.type, TensorType) and v.type.shape is not None
    ]
    told = {
        name
        for shape in shapes
        for size in shape
        for name in dims.symbols(size)
        if size == dims.symbol(name)
    }
    changed = False
    for value in part.inputs:
        if isinstance(value.type, TensorType) and value.type.shape is not None:
            shape = tuple(
                _told(size, told, f"_{value.name}_{i}") for i, size in enumerate(value.type.shape)
            )
            changed |= shape != value.type.shape
            value.type = TensorType(value.type.dtype, shape)
        sizes = [] if value.content is None else value.content.reshape(-1).tolist()
        if not set().union(*map(dims.symbols, sizes)) <= told:
            value.content = None
            changed = True
    if changed or part.inputs:
        infer_graph(part)


def _told(size: Dim, told: set[str], name: str) -> Dim:
    return (
        size
        if dims.symbols(size) <= told
        else dims.symbol("".join(c if c.isalnum() else "_" for c in name))
    )
