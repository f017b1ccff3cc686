"""Small graphs and rules for tests of the rewriting engine."""

from collections.abc import Callable
from typing import Any

import numpy as np

from infuse import dtypes, ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.registry import make_operator
from infuse.ir.types import TensorType
from infuse.rewrite import Patch, Rule
from infuse.testing.patterns import graph_of

X, Y, C = Variable("x"), Variable("y"), Variable("c")
SHAPES = {"x": (2, 3), "y": (2, 3), "c": np.float32(2)}


def written(*results: Call, **operands: Any) -> Graph:
    return graph_of(*results, **{**SHAPES, **operands})


def rule_of(match: Callable[..., Any], build: Callable[..., Any], **attributes: Any) -> Rule:
    """A rule made of functions."""
    parts = {"match": staticmethod(match), "build": staticmethod(build), **attributes}
    if "when" in parts:
        parts["when"] = staticmethod(parts["when"])
    return type("Made", (Rule,), parts)()


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.nodes]


def with_branch(inside: Callable[[Value], Call]) -> tuple[Graph, Graph]:
    """A graph whose If reads relu(x) of the graph around it; and the body of its then-branch."""
    graph = written(ops.relu(X), c=np.True_)
    outer = graph.outputs[0]
    condition = graph.add_input("condition", TensorType(dtypes.bool_, ()))
    bodies = {}
    for name in ("then_branch", "else_branch"):
        body = Graph(name)
        body.add_output(Patch(body).value(inside(outer)), "result")
        bodies[name] = body
    node = Node(
        make_operator("", "If", {}), [condition], [Value(outer.type)], name="if", subgraphs=bodies
    )
    graph.add_node(node)
    node.op.infer_node(node)
    graph.add_output(node.output, "chosen")
    return graph, bodies["then_branch"]
