"""The search beyond rules: its e-graph, its equalities and its bounds."""

from typing import Any

import numpy as np
import pytest

from infuse import dtypes, ops
from infuse.errors import OptionError
from infuse.ir.clone import clone
from infuse.ir.expression import Variable
from infuse.ir.graph import Graph
from infuse.ir.printer import print_graph
from infuse.ir.types import tensor
from infuse.ir.verify import verify
from infuse.ops.activations import Relu
from infuse.ops.arithmetic import Add, Mul
from infuse.ops.core.base import Op
from infuse.ops.core.samples import Ints
from infuse.rewrite import Patch
from infuse.search import EQUALITIES, Bounds, improve
from infuse.search.egraph import EGraph
from infuse.search.regions import regions
from infuse.search.saturation import saturate
from infuse.search.terms import Apply, Leaf, Opaque, SliceTerm, Term, folded
from infuse.testing.patterns import graph_of
from tests.pure.search_cases import CASES, X, Y, case_graph, weights
from tests.pure.searched import ENOUGH, SlowCalls, agree, region_of
from tests.support.generators.networks import random_network


def check_sound(g: EGraph) -> None:
    """All terms of each class give the same, on random numbers."""
    rng = np.random.default_rng(0)
    known: dict[int, np.ndarray] = {}
    pending = True
    while pending:
        pending = False
        for number, each in g.classes.items():
            for term in [] if number in known else each.terms:
                value = computed(g, term, known, rng)
                if value is not None:
                    known[number], pending = value, True
                    break
    assert known.keys() == g.classes.keys()
    for number, each in g.classes.items():
        assert known[number].shape == g.shape(number)
        for term in each.terms:
            if not isinstance(term.head, Leaf):
                found = computed(g, term, known, rng)
                assert found is not None
                scale = max(
                    float(np.abs(known[number][np.isfinite(known[number])]).max(initial=0)), 1.0
                )
                np.testing.assert_allclose(
                    found,
                    known[number],
                    rtol=0,
                    atol=1e-9 * scale,
                    err_msg=str(g.reasons.get(term)),
                )


def computed(
    g: EGraph, term: Term, known: dict[int, np.ndarray], rng: np.random.Generator
) -> np.ndarray | None:
    if isinstance(term.head, Leaf):
        value = term.head.value
        if value.const is not None:
            return value.const.astype(np.float64) if value.dtype.is_float else value.const
        return rng.standard_normal(value.shape)  # type: ignore[arg-type]
    if not all(g.find(a) in known for a in term.args):
        return None
    arrays = [known[g.find(a)] for a in term.args]
    if isinstance(term.head, Opaque):
        assert isinstance(term.head.node.op, Op)
        return np.asarray(term.head.node.op.eval(*arrays))
    return folded(term.head, arrays)


# -- the e-graph -----------------------------------------------------------------------------------


def leaves(*names: str) -> tuple[EGraph, list[int]]:
    g = EGraph()
    graph = graph_of(*(ops.relu(Variable(name)) for name in names), **dict.fromkeys(names, (2, 3)))
    return g, [g.add(Leaf(value)) for value in graph.inputs]


def test_equal_terms_are_one() -> None:
    g, (x, y) = leaves("x", "y")
    assert g.add(Add(), (x, y)) == g.add(Add(), (x, y))
    assert g.add(Add(), (x, y)) != g.add(Add(), (y, x))
    assert len(g) == 4


def test_terms_of_equal_operands_are_equal() -> None:
    g, (x, y, z) = leaves("x", "y", "z")
    left, right = g.add(Relu(), (g.add(Add(), (x, z)),)), g.add(Relu(), (g.add(Add(), (y, z)),))
    assert g.find(left) != g.find(right)
    assert g.union(x, y)
    g.rebuild()
    assert g.find(left) == g.find(right)
    assert not g.union(left, right)


def test_what_has_a_reason_tells_the_way() -> None:
    g, (x,) = leaves("x")
    first, second = Term(Relu(), (x,)), Term(Relu(), (1,))
    g.build(Apply(Relu(), (x,)))
    from infuse.search.egraph import Reason

    g.build(Apply(Relu(), (Apply(Relu(), (x,)),)), Reason("one", (first,)))
    g.build(Apply(Mul(), (Apply(Relu(), (1,)), x)), Reason("two", (second,)))
    assert g.proof([first]) == []
    assert g.proof([Term(Mul(), (g.find(2), x))]) == ["one", "two"]


@pytest.mark.parametrize("seed", range(6))
def test_closure_holds_after_any_unions(seed: int) -> None:
    """Against the definition: whenever the operands of two terms are equal, so are the terms."""
    rng = np.random.default_rng(seed)
    g, numbers = leaves("x", "y", "z", "u", "v")
    for _ in range(40):
        a, b = (int(n) for n in rng.choice(numbers, 2))
        numbers.append(g.add(*((Add(), (a, b)) if rng.random() < 0.6 else (Relu(), (a,)))))
    for _ in range(6):
        g.union(*(int(n) for n in rng.choice(numbers, 2)))
    g.rebuild()
    owners: dict[Term, int] = {}
    for number, each in g.classes.items():
        assert g.find(number) == number
        for term in each.terms:
            assert term == g.canonical(term)
            assert owners.setdefault(term, number) == number
            for arg in term.args:
                assert (number, term) in g.parents(arg)


# -- equalities ------------------------------------------------------------------------------------


@pytest.mark.row("G37")
@pytest.mark.parametrize("name", CASES)
def test_all_terms_of_a_class_are_equal(name: str) -> None:
    region = region_of(case_graph(name))
    saturate(region.g, ENOUGH)
    check_sound(region.g)


def test_every_equality_is_found_in_some_case() -> None:
    fired: set[str] = set()
    for name in CASES:
        region = region_of(case_graph(name))
        saturate(region.g, ENOUGH)
        fired |= {reason.equality for reason in region.g.reasons.values()} | joining(name)
    assert fired == set(EQUALITIES)


def joining(name: str) -> set[str]:
    """Equalities that join classes of a case by what is there already."""
    found = set()
    for each in EQUALITIES.values():
        g = region_of(case_graph(name)).g
        before = g.unions
        saturate(g, Bounds(1, 1200), equalities=[each])
        found |= {each.name} if g.unions > before else set()
    return found


def test_every_equality_has_its_equation() -> None:
    assert all("=" in each.about and each.kinds for each in EQUALITIES.values())


def test_integers_are_left_alone() -> None:
    ones = np.ones((3, 3), np.int64)
    graph = graph_of(ops.matmul(ops.matmul(X, ones), Y), x=Ints((2, 3)), y=Ints((3, 3)))
    g = region_of(graph).g
    assert saturate(g, ENOUGH) == "saturated"
    assert not g.reasons


def test_sizes_that_are_symbols_are_kept() -> None:
    graph = Graph()
    x = graph.add_input("x", tensor(dtypes.float32, "batch", "n", 4))
    y = graph.add_input("y", tensor(dtypes.float32, "batch", "m", 4))
    joined = ops.concat(x, y, axis=1)
    patch = Patch(graph)
    graph.add_output(patch.value(ops.matmul(ops.relu(joined), weights(4, 6)) + weights(6)), "sum")
    graph.add_output(patch.value(ops.matmul(ops.relu(joined), weights(4, 2)) + weights(2)), "other")
    region = region_of(graph)
    saturate(region.g, ENOUGH)
    made = [t.head for each in region.g.classes.values() if not each.is_const for t in each.terms]
    assert {head.axis for head in made if isinstance(head, SliceTerm)} == {2}, (
        "only columns are known to be cut"
    )
    original = clone(graph)
    improve(graph, 60, prices=SlowCalls())
    verify(graph)
    feeds = {"x": weights(2, 3, 4), "y": weights(2, 5, 4)}
    agree(original, graph, feeds)


# -- bounds ----------------------------------------------------------------------------------------


def test_bounds_are_kept() -> None:
    for limit in (50, 70, 90):
        g = region_of(case_graph("branches")).g
        assert saturate(g, Bounds(50, limit)) == "terms"
        assert limit <= len(g) < limit + 25
        check_sound(g)
    g = region_of(case_graph("branches")).g
    before = len(g)
    assert saturate(g, Bounds(0, 1000)) == "iterations"
    assert saturate(g, Bounds(5, 1000), expired=lambda: True) == "time"
    assert len(g) == before


def test_the_same_bounds_give_the_same_graph() -> None:
    texts = []
    for _ in range(2):
        graph = case_graph("branches")
        improve(graph, 600)
        texts.append(print_graph(graph))
    assert texts[0] == texts[1]


def test_without_time_nothing_changes() -> None:
    graph = case_graph("branches")
    before = print_graph(graph)
    found = improve(graph, 1e-9)
    assert not found.is_complete
    assert "its time ran out" in str(found)
    assert print_graph(graph) == before
    with pytest.raises(OptionError, match="more than no time"):
        improve(graph, 0)


@pytest.mark.parametrize("seed", range(12))
def test_regions_are_all_nodes_once(seed: int) -> None:
    graph = random_network(seed, 120).graph
    for shift in (0, 1):
        found = [node for group in regions(graph, shift) for node in group]
        assert len(found) == len(set(found))
        left = set(graph.nodes) - set(found)
        assert all(node.subgraphs or not known(node) or not node.op.deterministic for node in left)  # type: ignore[attr-defined]


def known(node: Any) -> bool:
    values = [*node.outputs, *node.operands()]
    return all(getattr(v.type, "shape", None) is not None for v in values) and isinstance(
        node.op, Op
    )
