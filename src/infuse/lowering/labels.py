"""Classifiers whose labels are strings: native code finds the place of the label, the interpreter
the string.
"""

from __future__ import annotations

from typing import Any, Final

from infuse.ir.clone import clone
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN
from infuse.ops.domains.ml import DOMAIN, as_texts

_INTEGERS: Final = {
    "LinearClassifier": "classlabels_ints",
    "SVMClassifier": "classlabels_ints",
    "TreeEnsembleClassifier": "classlabels_int64s",
}
"""The attribute of a classifier that takes labels that are integers."""


def separate_labels(graph: Graph) -> Graph:
    """`graph`, or a copy in which classifiers give places in lists of strings, from which a Gather
    takes the labels.
    """
    if not any(_has_texts(node) for inner in graph.all_graphs() for node in inner.unordered_nodes):
        return graph
    copy = clone(graph)
    for inner in copy.all_graphs():
        for node in inner.nodes:
            if _has_texts(node):
                _separate(inner, node)
    return copy


def _has_texts(node: Node) -> bool:
    has_integers = node.op.domain == DOMAIN and node.kind in _INTEGERS
    return has_integers and bool(node.op.attributes()["classlabels_strings"])


def _separate(graph: Graph, node: Node) -> None:
    op: Any = node.op
    texts = op.classlabels_strings
    numbered = op.replace(
        classlabels_strings=(), **{_INTEGERS[node.kind]: tuple(range(len(texts)))}
    )
    outputs = [Value(UNKNOWN, value.name) for value in node.outputs]
    scored = Node(numbered, node.inputs, outputs, name=node.name, origin=node.origin)
    label = Value(UNKNOWN, node.output.name)
    listed = constant(as_texts(texts), f"{node.name}/labels")
    taken = Node(
        make_operator("", "Gather", {"axis": 0}),
        [listed, outputs[0]],
        [label],
        name=f"{node.name}/labels",
    )
    for new in (scored, taken):
        graph.add_node(new).op.infer_node(new)
    for old, value in zip(node.outputs, [label, *outputs[1:]]):
        old.replace_by(value)
    graph.remove(node)
