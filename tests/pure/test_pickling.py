"""Graphs can be pickled and copied deeply, of any length and depth."""

import copy
import pickle
import random

import numpy as np
import pytest

import infuse
from infuse.errors import GraphError
from infuse.ir import Graph, Node, Value, tensor
from infuse.ir.equality import equal
from infuse.ir.printer import print_graph
from infuse.ir.verify import verify
from tests.pure.graph_parts import Parts
from tests.pure.random_graphs import Toy, random_graph

COPIES = {"pickle": lambda graph: pickle.loads(pickle.dumps(graph)), "deepcopy": copy.deepcopy}


@pytest.mark.parametrize("kind", COPIES)
@pytest.mark.parametrize("seed", range(30))
def test_a_copy_is_equal_and_apart(seed: int, kind: str) -> None:
    graph = random_graph(random.Random(seed))
    graph.doc, graph.metadata, graph.opsets = "a doc", {"author": "me"}, {"": 21}
    before = print_graph(graph)
    other = COPIES[kind](graph)
    assert equal(graph, other) is None
    verify(other, infer=False)
    assert (other.doc, other.metadata, other.opsets) == (graph.doc, graph.metadata, graph.opsets)
    other.metadata["author"] = "you"
    for inner in other.all_graphs():
        inner.clear()
    assert print_graph(graph) == before
    assert graph.metadata == {"author": "me"}


@pytest.mark.parametrize("kind", COPIES)
def test_chains_of_any_length_are_copied(kind: str) -> None:
    graph = Graph("chain")
    value = graph.add_input("x", tensor("float32", (2, 3)))
    for number in range(5000):
        output = Value(value.type, f"y{number}")
        graph.add_node(Node(Toy(alpha=0.5), [value], [output], name=f"n{number}"))
        value = output
    graph.add_output(value, "y")
    assert len(COPIES[kind](graph).nodes) == 5000


def optimized() -> Graph:
    graph = infuse.trace(lambda x: x * 1 + 1, {"x": infuse.Spec("float32", (2, 3))})
    result = infuse.optimize(graph)
    assert result.report.rewrites
    return result


@pytest.mark.parametrize("kind", COPIES)
def test_reports_go_along(kind: str) -> None:
    graph = optimized()
    other = COPIES[kind](graph)
    assert other.report is not graph.report
    assert other.report.to_dict() == graph.report.to_dict()
    refs = [ref for rewrite in other.report.rewrites for ref in rewrite.removed]
    assert [ref.serial for ref in refs] == [
        ref.serial for rewrite in graph.report.rewrites for ref in rewrite.removed
    ]


@pytest.mark.parametrize("kind", COPIES)
def test_weights_of_a_copy_are_its_own(kind: str) -> None:
    p = Parts()
    assert p.w.const is not None
    p.w.const = p.w.const.copy()
    other = COPIES[kind](p.graph)
    (weights,) = [value.const for value in other.constants()]
    weights[...] = 7
    np.testing.assert_array_equal(p.w.const, [1, 2, 3, 4])


def test_later_nodes_have_serial_numbers_of_their_own() -> None:
    p = Parts()
    p.node_a.serial += 10**6
    copied = pickle.loads(pickle.dumps(p.graph))
    later = Node(Toy(alpha=0.5), [], [])
    assert later.serial > max(node.serial for node in copied.nodes)


def test_parts_are_refused() -> None:
    p = Parts()
    for part in (p.node_a, p.x, p.body):
        with pytest.raises(GraphError, match=r"whole graph|outermost graph"):
            pickle.dumps(part)
    for part in (p.node_a, p.x):
        with pytest.raises(GraphError, match="whole graph"):
            copy.deepcopy(part)
