"""Groups split on request stay split."""

import numpy as np
import pytest

from infuse.ir.expression import Call, Variable
from infuse.ops.core.evaluate import evaluate
from infuse.passes.run import optimize_in_place
from infuse.passes.selection import Selection
from infuse.testing.patterns import graph_of


@pytest.mark.row("G23")
@pytest.mark.parametrize(
    ("enable", "kinds"),
    [((), ["Conv"]), (("SplitGroupedConv",), ["Split", "Conv", "Conv", "Concat"])],
)
def test_one_direction_is_basic_and_the_other_on_request(
    enable: tuple[str, ...], kinds: list[str], rng: np.random.Generator
) -> None:
    """Both directions are there, and they do not undo each other."""
    weights = rng.normal(size=(6, 2, 3, 3)).astype(np.float32)
    graph = graph_of(Call("Conv", (Variable("x"), weights), {"group": 2}), x=(1, 4, 5, 5))
    feeds = {"x": rng.normal(size=(1, 4, 5, 5)).astype(np.float32)}
    before = evaluate(graph, feeds)["y0"]
    optimize_in_place(graph, Selection("all", enable=frozenset(enable)))
    assert sorted(n.kind for n in graph.nodes) == sorted(kinds)
    np.testing.assert_allclose(evaluate(graph, feeds)["y0"], before, rtol=1e-5, atol=1e-5)
