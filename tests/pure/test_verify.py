"""The verifier finds each way in which a graph can be broken."""

import itertools
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from infuse import dtypes
from infuse.errors import GraphError, ShapeError, UnsupportedOperatorError
from infuse.ir import (
    DataFormat,
    Graph,
    Node,
    OptionalType,
    SequenceType,
    TensorType,
    Type,
    Use,
    Value,
    constant,
    dims,
    tensor,
)
from infuse.ir.verify import agree, verify
from tests.pure.graph_parts import Parts
from tests.pure.random_graphs import Toy, random_graph


def forget_use(p: Parts) -> None:
    del p.a.uses[Use(p.node_b, 0)]


def invent_use(p: Parts) -> None:
    p.a.uses[Use(p.node_b, 1)] = None


def invent_use_beyond(p: Parts) -> None:
    p.a.uses[Use(p.node_b, 7)] = None


def forget_output_use(p: Parts) -> None:
    del p.b.uses[Use(p.graph, 0)]


def stale_reader(p: Parts) -> None:
    Node(Toy(), [p.a], [Value(p.a.type, "lost")], name="stray")


def wrong_producer(p: Parts) -> None:
    p.b.producer = p.node_a


def wrong_index(p: Parts) -> None:
    p.b.index = 1


def wrong_graph(p: Parts) -> None:
    p.node_b.graph = p.body


def wrong_parent(p: Parts) -> None:
    p.body.parent = p.node_a


def made_twice(p: Parts) -> None:
    p.node_b.outputs.append(p.b)


def input_twice(p: Parts) -> None:
    p.graph.inputs.append(p.x)


def produced_input(p: Parts) -> None:
    p.x.producer = p.node_a


def foreign_value(p: Parts) -> None:
    p.node_b.set_operand(0, Parts().a)


def unmade_value(p: Parts) -> None:
    p.node_b.set_operand(0, Value(p.a.type, "nowhere"))


def reads_a_body(p: Parts) -> None:
    p.node_b.set_operand(0, p.inner.output)


def reads_a_sibling(p: Parts) -> None:
    (other,) = p.sibling.nodes
    p.inner.set_operand(0, other.output)


def cycle(p: Parts) -> None:
    p.node_a.set_operand(0, p.b)


def self_loop(p: Parts) -> None:
    p.node_a.set_operand(0, p.a)


def cycle_through_body(p: Parts) -> None:
    p.inner.set_operand(0, p.branch.output)


def shared_body(p: Parts) -> None:
    p.branch.subgraphs["else"] = p.body


def lost_output_name(p: Parts) -> None:
    p.graph.output_names.pop()


def produced_constant(p: Parts) -> None:
    p.w.producer = p.node_a  # type: ignore[union-attr]


def constant_output(p: Parts) -> None:
    p.b.const = np.zeros(4, np.float32)


def constant_shape(p: Parts) -> None:
    p.w.const = np.zeros(5, np.float32)  # type: ignore[union-attr]


def constant_dtype(p: Parts) -> None:
    p.w.const = np.zeros(4, np.float64)  # type: ignore[union-attr]


def constant_sequence(p: Parts) -> None:
    p.w.type = SequenceType(p.w.type)  # type: ignore[union-attr]


def negative_size(p: Parts) -> None:
    p.b.type = tensor(dtypes.float32, -1)


def odd_size(p: Parts) -> None:
    p.b.type = TensorType(dtypes.float32, (2.5,))  # type: ignore[arg-type]


def no_type(p: Parts) -> None:
    p.b.type = None  # type: ignore[assignment]


def flat_image(p: Parts) -> None:
    p.b.type = TensorType(dtypes.float32, (2, 4), DataFormat.NHWC)


BROKEN: dict[Callable[[Parts], None], str] = {
    forget_use: "node 'b': value 'a' does not know that it is read here",
    invent_use: r"value 'a' believes that Toy\(b\) reads it as 1",
    invent_use_beyond: r"value 'a' believes that Toy\(b\) reads it as 7",
    forget_output_use: "outer: output 'y': value 'b' does not know",
    stale_reader: r"value 'a' is read by Toy\(stray\), outside of this graph",
    wrong_producer: "node 'b': output 0, value 'b', names another producer",
    wrong_index: "node 'b': output 0, value 'b', names another producer",
    wrong_graph: "node 'b': the node believes to be in another graph",
    wrong_parent: "node 'c': body 'then' belongs to another node",
    made_twice: "value 'b' is made twice",
    input_twice: "outer: input 2: value 'x' is made twice",
    produced_input: "value 'x' is an input and the output of a node",
    foreign_value: "node 'b': value 'a' is not made in this graph",
    unmade_value: "node 'b': value 'nowhere' is not made in this graph",
    reads_a_body: (
        "node 'b': value 'inner' is made in graph 'body', which does not enclose this one"
    ),
    reads_a_sibling: (
        "node 'inner': value 'other' is made in graph 'sibling', which does not enclose"
    ),
    cycle: "outer: the graph has a cycle through Toy node",
    self_loop: "outer: the graph has a cycle through Toy node 'a'",
    cycle_through_body: "outer: the graph has a cycle through Branch node 'c'",
    shared_body: "a graph is the body of two nodes",
    lost_output_name: "outer: there are 2 outputs with 1 names",
    produced_constant: "constant 'w' has a producer",
    constant_output: "value 'b' has elements like a constant but is made here",
    constant_shape: r"constant 'w' is float32\[4\], its array float32\[5\]",
    constant_dtype: r"constant 'w' is float32\[4\], its array float64\[4\]",
    constant_sequence: r"constant 'w' is a seq\(float32\[4\]\)",
    negative_size: "value 'b': -1 is not a size",
    odd_size: "value 'b': 2.5 is not a size",
    no_type: "value 'b': None is not a type",
    flat_image: "value 'b': a tensor of rank 2 cannot be stored as NHWC",
}


def test_a_sound_graph_passes() -> None:
    p = Parts()
    verify(p.graph, infer=False)
    verify(p.body, infer=False)
    verify(Graph())


@pytest.mark.parametrize("damage", BROKEN, ids=lambda d: d.__name__)
def test_damage_is_found(damage: Callable[[Parts], None]) -> None:
    p = Parts()
    damage(p)
    with pytest.raises(GraphError, match=BROKEN[damage]):
        verify(p.graph, infer=False)


def test_damage_in_a_body_is_found_from_there() -> None:
    p = Parts()
    p.inner.inputs[0] = p.b
    with pytest.raises(GraphError, match="body: Toy node 'inner': value 'b' does not know"):
        verify(p.body, infer=False)


def test_a_graph_inside_itself_is_found() -> None:
    p = Parts()
    p.inner.subgraphs["self"] = p.graph
    p.graph.parent = p.inner
    with pytest.raises(GraphError, match="of a node inside itself"):
        verify(p.graph, infer=False)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6))
def test_random_graphs_pass(seed: int) -> None:
    verify(random_graph(random.Random(seed)), infer=False)


@dataclass(frozen=True)
class Picky:
    """Declares these types, or raises."""

    name: ClassVar[str] = "Picky"
    domain: ClassVar[str] = "test.toys"
    outcome: Any = None

    def attributes(self) -> Mapping[str, Any]:
        return {"outcome": self.outcome}

    def infer_types(self, node: Node) -> Sequence[Type]:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return [self.outcome]

    def infer_node(self, node: Node) -> None:
        (node.output.type,) = self.infer_types(node)


@pytest.mark.parametrize(
    ("outcome", "what"),
    [
        (tensor(dtypes.float32, "batch", 4), None),
        (tensor(dtypes.float32, "n", 4), None),
        (tensor(dtypes.float32, 7, 4), None),
        (TensorType(dtypes.float32, None), None),
        (
            TensorType(dtypes.float32, (dims.symbol("batch"), 4, 1, 1), DataFormat.NHWC),
            r"float32\[batch, 4, 1, 1\]@NHWC",
        ),
        (
            tensor(dtypes.float32, "batch", 5),
            r"value 'v' is float32\[batch, 4\], inferred is float32\[batch, 5\]",
        ),
        (tensor(dtypes.float32, "batch + 1", 4), r"inferred is float32\[batch \+ 1, 4\]"),
        (tensor(dtypes.int8, "batch", 4), r"inferred is int8\[batch, 4\]"),
        (TensorType(dtypes.int8, None), r"inferred is int8\[\?\]"),
        (SequenceType(tensor(dtypes.float32, "batch", 4)), r"inferred is seq\("),
        (UnsupportedOperatorError("no inference"), None),
        (
            ShapeError("sizes 3 and 4 differ", hint="look"),
            "types do not fit: sizes 3 and 4 differ. Hint: look",
        ),
    ],
)
def test_types_are_inferred_again(outcome: Any, what: str | None) -> None:
    graph = Graph("g")
    value = Value(tensor(dtypes.float32, "batch", 4), "v")
    graph.add_node(Node(Picky(outcome), [], [value], name="n"))
    graph.add_output(value)
    if what is None:
        verify(graph)
    else:
        with pytest.raises(GraphError, match=f"g: Picky node 'n': .*{what}"):
            verify(graph)


def test_agreement_of_nested_types() -> None:
    a, b = tensor(dtypes.int8, 2), tensor(dtypes.int8, 3)
    assert agree(SequenceType(a), SequenceType(a))
    assert not agree(SequenceType(a), SequenceType(b))
    assert agree(OptionalType(a), OptionalType(a))
    assert not agree(OptionalType(a), SequenceType(a))


def chain(length: int) -> Graph:
    graph = Graph()
    value = graph.add_input("x", tensor(dtypes.float32, "batch", 4))
    weight = constant(np.ones(4, np.float32), "w")
    for index in range(length):
        node = Node(Toy(), [value, weight], [Value(value.type, f"v{index}")], name=f"n{index}")
        value = graph.add_node(node).output
    graph.add_output(value, "y")
    return graph


def test_verification_takes_linear_work() -> None:
    def calls(length: int) -> int:
        graph, events = chain(length), itertools.count()
        sys.setprofile(lambda *_: next(events))
        try:
            verify(graph)
        finally:
            sys.setprofile(None)
        return next(events)

    assert calls(4000) < 4 * 1.1 * calls(1000)
