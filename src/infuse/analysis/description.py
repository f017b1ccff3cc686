"""A graph as plain data: what a picture of it shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from infuse.analysis.cost import Cost, Sizes, Totals, body_of, node_cost, totals
from infuse.errors import GraphError
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.printer import changed_attributes
from infuse.ir.text import attribute_text
from infuse.ops.core.base import Op
from infuse.ops.core.signatures import signature

LONGEST_TEXT = 200
SHOWN_ELEMENTS = 8
FAMILIES = {
    "convolution": "product",
    "contraction": "product",
    "attending": "attention",
    "normalization": "normalization",
    "activations": "activation",
    "pooling": "reduction",
    "reduction": "reduction",
    "running": "reduction",
    "softmax_family": "normalization",
    "blocks": "movement",
    "pass_through": "movement",
    "arithmetic": "elementwise",
    "comparison": "elementwise",
    "conversion": "elementwise",
    "special": "elementwise",
    "unary": "elementwise",
    "creation": "movement",
    "indexing": "movement",
    "movement": "movement",
    "padding": "movement",
    "resampling": "movement",
    "selection": "movement",
    "shaping": "movement",
    "control": "control",
    "sequences": "control",
}
"""Families of operators by the module that defines them."""
_BY_WORD = {
    "Attention": "attention",
    "Rotary": "attention",
    "Norm": "normalization",
    "Softmax": "normalization",
    "Conv": "product",
    "Gemm": "product",
    "MatMul": "product",
    "Gelu": "activation",
}


@dataclass
class Operand:
    """One input or output of a node: its role, the value's name and type, and its elements where it
    is a constant.
    """

    role: str
    name: str
    type: str
    constant: str | None = None

    def to_dict(self) -> dict[str, str]:
        result = {"role": self.role, "name": self.name, "type": self.type}
        return result if self.constant is None else {**result, "constant": self.constant}


@dataclass
class NodeDescription:
    """One node; `id` is the same for the same node in the graphs before and after."""

    id: int
    kind: str
    domain: str
    name: str
    family: str
    body: str
    """The control-flow body that it stands in, as `If name / then_branch`; empty in the main graph.
    """
    attributes: dict[str, str]
    inputs: list[Operand]
    outputs: list[Operand]
    cost: Cost
    is_counted: bool
    """Whether its arithmetic is known; that of bodies is the cost of their nodes."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind,
            "domain": self.domain,
            "name": self.name,
            "family": self.family,
            "body": self.body,
            "attributes": self.attributes,
            "inputs": [x.to_dict() for x in self.inputs],
            "outputs": [x.to_dict() for x in self.outputs],
            "cost": self.cost.to_dict(),
            "is_counted": self.is_counted,
        }


@dataclass
class GraphDescription:
    """A graph and its bodies: nodes in execution order, a body before the node that holds it, and
    what they cost.

    An edge (from, to, type) joins positions in `nodes`; those after the last node are the inputs of
    the graph, then its outputs.
    """

    name: str
    nodes: list[NodeDescription] = field(default_factory=list)
    inputs: list[Operand] = field(default_factory=list)
    outputs: list[Operand] = field(default_factory=list)
    edges: list[tuple[int, int, str]] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "totals": self.totals.to_dict(),
            "nodes": [n.to_dict() for n in self.nodes],
            "inputs": [x.to_dict() for x in self.inputs],
            "outputs": [x.to_dict() for x in self.outputs],
            "edges": [list(edge) for edge in self.edges],
        }


def describe(graph: Graph, sizes: Sizes) -> GraphDescription:
    """The description of a graph under these sizes."""
    description = GraphDescription(graph.name, totals=totals(graph, sizes.values))
    description.totals.assumed = dict(sizes.assumed)
    order = list(flat_nodes(graph))
    place: dict[Value, int] = {}
    for number, node in enumerate(order):
        description.nodes.append(_node(node, sizes))
        place.update((v, number) for v in node.outputs)
    for value in graph.inputs:
        place[value] = len(order) + len(description.inputs)
        description.inputs.append(Operand("input", value.name, str(value.type)))
    for number, node in enumerate(order):
        read = [*node.operands(), *(v for body in node.subgraphs.values() for v in body.outputs)]
        description.edges += [
            (place[v], number, str(v.type)) for v in dict.fromkeys(read) if v in place
        ]
    for name, value in zip(graph.output_names, graph.outputs):
        description.outputs.append(Operand("output", name, str(value.type), elements_text(value)))
        if value in place:
            description.edges.append(
                (
                    place[value],
                    len(order) + len(description.inputs) + len(description.outputs) - 1,
                    str(value.type),
                )
            )
    return description


def flat_nodes(graph: Graph) -> Iterator[Node]:
    """The nodes of a graph and its bodies in execution order, a body before the node that has
    it.
    """
    for node in graph.nodes:
        for inner in node.subgraphs.values():
            yield from flat_nodes(inner)
        yield node


def _node(node: Node, sizes: Sizes) -> NodeDescription:
    cost = node_cost(node, sizes)
    return NodeDescription(
        id=node.serial,
        kind=node.kind,
        domain=node.op.domain,
        name=node.name,
        family=family(node),
        body=body_of(node),
        attributes={name: shown(value) for name, value in changed_attributes(node).items()},
        inputs=[
            Operand(r, v.name, str(v.type), elements_text(v))
            for r, v in zip(_roles(node), node.inputs)
            if v
        ],
        outputs=[Operand("", v.name, str(v.type)) for v in node.outputs],
        cost=cost,
        is_counted=cost.is_known or bool(node.subgraphs),
    )


def family(node: Node) -> str:
    """What sort of operator a node is: product, attention, normalization, …; other where nothing is
    known.
    """
    module = type(node.op).__module__.rpartition(".")[2]
    families = FAMILIES.get(module) if isinstance(node.op, Op) else None
    if families == "normalization" or families is None:
        return next(
            (name for word, name in _BY_WORD.items() if word in node.kind), families or "other"
        )
    return families


def _roles(node: Node) -> list[str]:
    if not isinstance(node.op, Op):
        return [""] * len(node.inputs)
    names = list(signature(type(node.op)).names)
    return names + names[-1:] * (len(node.inputs) - len(names))


def elements_text(value: Value) -> str | None:
    """The elements of a constant where they are few, dots where they are many; None for other
    values.
    """
    if value.const is None:
        return None
    if value.const.size > SHOWN_ELEMENTS:
        return "…"
    texts = [
        f"{x:.6g}" if isinstance(x, float) else str(x) for x in value.const.reshape(-1).tolist()
    ]
    return short(texts[0] if value.const.ndim == 0 else f"[{', '.join(texts)}]")


def shown(value: Any) -> str:
    """An attribute value as people read it: the type of an array with many elements, and of what
    has no text form.
    """
    if isinstance(value, np.ndarray) and value.size > SHOWN_ELEMENTS:
        return f"{value.dtype}[{', '.join(map(str, value.shape))}] …"
    try:
        return short(attribute_text(value))
    except GraphError:
        return f"({type(value).__name__})"


def short(text: str, most: int = LONGEST_TEXT) -> str:
    """`text`, cut where it is long."""
    return text if len(text) <= most else f"{text[: most - 2]} …"
