"""Models that mix the rows of a batch are told from those that do not, before and after they are
optimized; both kinds are held against the interpreter.
"""

import numpy as np
import pytest

import infuse
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate
from infuse.ops.core.rows import independent_rows
from tests.pure.row_programs import INDEPENDENT, MIXING, WIDTH, built

pytestmark = pytest.mark.row("S4")
Array = np.ndarray
SCALES = (1.0, 50.0, 0.01)


def apart_and_together(graph: Graph, rng: np.random.Generator) -> tuple[Array, Array]:
    """The answers of three callers, whose numbers have different sizes, together and alone."""
    rows = rng.standard_normal((3, WIDTH)) * np.reshape(rng.permutation(SCALES), (3, 1))
    x = rows.astype(np.float32)
    alone = [evaluate(graph, {"x": x[i : i + 1]})["y"] for i in range(3)]
    return evaluate(graph, {"x": x})["y"], np.concatenate(alone)


def differ(graph: Graph, rng: np.random.Generator) -> bool:
    together, alone = apart_and_together(graph, rng)
    if together.shape != alone.shape:
        return True
    scale = np.abs(alone).max(axis=-1, keepdims=True) + 1e-12
    return bool((np.abs(together - alone.astype(np.float64)) > 1e-5 * scale).any())


def test_there_are_enough() -> None:
    assert len(MIXING) >= 40
    assert len(INDEPENDENT) >= 20


@pytest.mark.parametrize("name", MIXING)
def test_rows_that_mix_are_found(name: str, rng: np.random.Generator) -> None:
    graph = built(MIXING[name])
    assert any(differ(graph, rng) for _ in range(5)), "the example mixes nothing"
    report = independent_rows(graph)
    assert not report.independent
    assert report.reason
    assert not independent_rows(infuse.optimize(graph)).independent


@pytest.mark.parametrize("name", INDEPENDENT)
def test_rows_that_do_not_mix_are_proven(name: str, rng: np.random.Generator) -> None:
    graph = built(INDEPENDENT[name])
    assert not any(differ(graph, rng) for _ in range(5))
    report = independent_rows(graph)
    assert report.independent, report.reason
    report = independent_rows(infuse.optimize(graph))
    assert report.independent, report.reason


def test_the_node_that_mixes_is_named() -> None:
    graph = built(MIXING["integers_added_up"])
    next(node for node in graph.nodes if node.op.name == "CumSum").name = "sums"
    report = independent_rows(graph)
    assert report.node == "CumSum ('sums')"
    assert "along the axis of the rows" in report.reason


def test_rows_need_a_first_dimension_that_is_free() -> None:
    report = independent_rows(_fixed())
    assert not report.independent
    assert "'x' is fixed" in report.reason


def _fixed() -> Graph:
    graph = built(INDEPENDENT["layers"])
    copy = Graph("fixed")
    x = copy.add_input("x", graph.inputs[0].type.substitute({"batch": 3}))
    copy.add_output(x, "y")
    return copy
