"""Rewrites that change results: how much, and what they say of it."""

from typing import Any

import numpy as np
import pytest

from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate
from infuse.passes.rules.activation.approximate import SeparateConv
from infuse.passes.run import optimize_in_place
from infuse.passes.selection import Selection
from infuse.rewrite import Report
from infuse.testing.patterns import graph_of

pytestmark = pytest.mark.row("G22")


def network(weights: Any) -> Graph:
    """One convolution with these filters."""
    return graph_of(Call("Conv", (Variable("x"), weights), {"pads": (1, 1, 1, 1)}), x=(2, 4, 6, 5))


def separated(weights: Any, tolerance: float) -> tuple[Graph, Report]:
    graph = network(weights)
    rule = type("Separate", (SeparateConv,), {"tolerance": tolerance})()
    options = Selection("basic", extra=(rule,), only=frozenset({"Separate"}))
    return graph, optimize_in_place(graph, options)


def nearly_separable(rng: np.random.Generator, noise: float) -> Any:
    pixels, spatial = rng.normal(size=(16, 4)), rng.normal(size=(4, 3, 3))
    weights = np.einsum("oc,chw->ochw", pixels, spatial) + noise * rng.normal(size=(16, 4, 3, 3))
    return weights.astype(np.float32)


def test_filters_that_are_separable_are_separated_exactly(rng: np.random.Generator) -> None:
    weights = nearly_separable(rng, 0)
    graph, report = separated(weights, 1e-5)
    assert [n.kind for n in graph.nodes] == ["Conv", "Conv"]
    assert "with 1 filters for each channel" in report.rewrites[0].note
    feeds = {"x": rng.normal(size=(2, 4, 6, 5)).astype(np.float32)}
    before, after = (evaluate(g, feeds)["y0"] for g in (network(weights), graph))
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4)


def test_the_report_tells_the_error_of_the_weights(rng: np.random.Generator) -> None:
    weights = nearly_separable(rng, 0.02)
    graph, report = separated(weights, 0.1)
    spatial, pixels = (np.asarray(node.inputs[1].const) for node in graph.nodes)  # type: ignore[union-attr]
    made = np.einsum("oc,chw->ochw", pixels[:, :, 0, 0], spatial[:, 0])
    error = np.linalg.norm(made - weights) / np.linalg.norm(weights)
    assert 0.001 < error < 0.1
    assert f"the weights change by {error:.2%}" in report.rewrites[0].note


def test_a_smaller_error_takes_more_filters_until_none_are_saved(rng: np.random.Generator) -> None:
    weights = nearly_separable(rng, 0.5)
    channels = [
        separated(weights, tolerance)[0].nodes[0].output.shape[1] for tolerance in (0.5, 0.3)
    ]
    assert channels[0] < channels[1]
    assert not separated(weights, 1e-6)[1].rewrites


def test_it_fires_only_when_asked_for(rng: np.random.Generator) -> None:
    graph = network(nearly_separable(rng, 0))
    assert not optimize_in_place(graph, Selection("all")).fired["SeparateConv"]
    assert (
        optimize_in_place(graph, Selection("all", enable=frozenset({"SeparateConv"}))).fired[
            "SeparateConv"
        ]
        == 1
    )
