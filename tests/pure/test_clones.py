"""Clones are equal and apart; comparisons of graphs name the first difference."""

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from infuse import dtypes
from infuse.ir import (
    Node,
    Value,
    constant,
    tensor,
)
from infuse.ir.clone import clone
from infuse.ir.equality import equal
from infuse.ir.printer import print_graph
from infuse.ir.verify import verify
from tests.pure.graph_parts import Parts
from tests.pure.random_graphs import Branch, Toy, random_graph


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6))
def test_clones_are_equal_and_apart(seed: int) -> None:
    graph = random_graph(random.Random(seed))
    before = print_graph(graph)
    values: dict[Value, Value] = {}
    copy = clone(graph, values)
    assert equal(graph, copy) is None
    verify(copy, infer=False)
    for value, other in values.items():
        assert other is not value
        assert other.const is value.const
    for inner in copy.all_graphs():
        inner.clear()
    assert print_graph(graph) == before
    verify(graph, infer=False)


def test_a_body_is_cloned_with_other_values_for_those_it_captures() -> None:
    p = Parts()
    copy = clone(p.body)
    assert copy.nodes[0].inputs[0] is p.a
    copy.clear()
    replacement = Value(p.a.type, "replacement")
    copy = clone(p.body, {p.a: replacement})
    assert copy.nodes[0].inputs[0] is replacement
    assert copy.parent is None
    copy.clear()
    verify(p.graph, infer=False)


def change_attribute(p: Parts) -> None:
    p.node_a.op = Toy(alpha=-0.5)


def change_kind_of_attribute(p: Parts) -> None:
    p.node_a.op = Toy(axis=False)


def change_elements(p: Parts) -> None:
    p.w.const = np.array([1, 2, 3, 5], np.float32)  # type: ignore[union-attr]


def change_type(p: Parts) -> None:
    p.a.type = tensor(dtypes.float32, "batch", 5)


def change_operand(p: Parts) -> None:
    p.node_b.set_operand(0, p.x)


def drop_operand(p: Parts) -> None:
    p.inner.set_inputs([p.a, None, p.body.inputs[0]])


def split_constant(p: Parts) -> None:
    p.node_b.set_operand(1, constant(np.array([1, 2, 3, 4], np.float32), "w"))


def add_node(p: Parts) -> None:
    p.graph.add_node(Node(Toy(), [p.b], [Value(p.b.type)]))


def change_operator(p: Parts) -> None:
    p.node_b.op = Branch()


def rename_output(p: Parts) -> None:
    p.graph.output_names[0] = "why"


def rename_input(p: Parts) -> None:
    p.x.name = "ex"


def swap_outputs(p: Parts) -> None:
    p.graph.set_operand(1, p.b)


def rename_body(p: Parts) -> None:
    p.branch.subgraphs = {"then": p.body, "other": p.sibling}


STRUCTURE: dict[Callable[[Parts], None], str] = {
    change_attribute: "outer: Toy node 'a': attribute alpha: 0.5 against -0.5",
    change_kind_of_attribute: "outer: Toy node 'a': attribute axis: -1 against False",
    change_elements: "outer: Toy node 'a': input 1: the elements of constant 'w' differ",
    change_type: "outer: Toy node 'a': output 0: type: float32[batch, 4] against float32[batch, 5]",
    change_operand: "outer: Toy node 'b': input 0: reads 'a' against 'x'",
    drop_operand: (
        "outer: Branch node 'c': then: Toy node 'inner': input 1: %w: float32[4] against None"
    ),
    split_constant: "outer: Toy node 'b': input 1: reads 'w' against 'w'",
    add_node: "outer: number of nodes: 3 against 4",
    change_operator: "outer: Toy node 'b': operator: ('test.toys', 'Toy') against ('', 'Branch')",
    rename_output: "outer: output names: ['y', 'z'] against ['why', 'z']",
    rename_input: "outer: name of input 0: x against ex",
    swap_outputs: "outer: output 'z': reads 'c' against 'b'",
    rename_body: "outer: Branch node 'c': bodies: ['then', 'else'] against ['then', 'other']",
}


@pytest.mark.parametrize("change", STRUCTURE, ids=lambda c: c.__name__)
def test_a_difference_is_named(change: Callable[[Parts], None]) -> None:
    a, b = Parts(), Parts()
    assert equal(a.graph, b.graph) is None
    change(b)
    assert equal(a.graph, b.graph, annotations=False) == STRUCTURE[change]
    assert equal(b.graph, a.graph, annotations=False) is not None


def rename_graph(p: Parts) -> None:
    p.graph.name = "inner"


def document(p: Parts) -> None:
    p.body.doc = "text"


def annotate(p: Parts) -> None:
    p.node_b.metadata["key"] = "value"


def trace(p: Parts) -> None:
    p.node_b.origin = ("one", "two")


def rename_node(p: Parts) -> None:
    p.node_b.name = "bee"


def rename_value(p: Parts) -> None:
    p.b.name = "bee"


def rename_constant(p: Parts) -> None:
    p.w.name = "weight"  # type: ignore[union-attr]


def version(p: Parts) -> None:
    p.graph.opsets[""] = 22


@pytest.mark.parametrize(
    "change",
    [rename_graph, document, annotate, trace, rename_node, rename_value, rename_constant, version],
    ids=lambda c: c.__name__,
)
def test_annotations_count_only_when_asked_for(change: Callable[[Parts], None]) -> None:
    a, b = Parts(), Parts()
    change(b)
    assert equal(a.graph, b.graph, annotations=False) is None
    assert equal(a.graph, b.graph) is not None
