"""The ladder of plans: each rung is what the integer program has for the change that it makes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from infuse.compression.layers import Layer
from infuse.compression.planning import Option, Selection, ladder
from infuse.ir.graph import Node
from infuse.ir.parser import parse

pytestmark = [pytest.mark.row("Z2")]


def _layers(count: int) -> list[Layer]:
    lines = [f"%v{i + 1} = MatMul(%v{i}, float32[1, 1]{{1}})" for i in range(count)]
    body = "\n".join(lines)
    graph = parse(f'graph "g" (%v0: float32[1, 1]) {{\n{body}\nreturn y = %v{count}\n}}')
    return [Layer(node) for node in graph.nodes if isinstance(node, Node)]


def _sums(rung: Selection, options: dict[Layer, list[Option]]) -> tuple[float, float]:
    plans = dict(rung)
    chosen = [
        next(option for option in offers if option.plan == plans.get(layer))
        for layer, offers in options.items()
    ]
    return sum(each.cost for each in chosen), sum(each.change for each in chosen)


@pytest.mark.parametrize("seed", range(20))
def test_rungs_cost_least_for_what_they_change(seed: int) -> None:
    rng = np.random.default_rng(seed)
    options = {
        layer: [
            Option(None, 1.0, 0.0),
            *(Option(plan, 1.2 * rng.random(), rng.choice([0.5, rng.random()])) for plan in (0, 1)),
            Option(2, 0.0, math.inf),
        ]
        for layer in _layers(5)
    }
    rungs = ladder(options)
    assert rungs[-1] == frozenset()
    sums = [_sums(rung, options) for rung in rungs]
    assert sums == sorted(sums)
    assert [change for _, change in sums] == sorted((c for _, c in sums), reverse=True)
    for cost, change in sums:
        best = min(
            sum(each.cost for each in chosen)
            for chosen in itertools.product(*options.values())
            if sum(each.change for each in chosen) <= change + 1e-12
        )
        assert cost == pytest.approx(best)


def test_forms_that_cost_more_than_float32_are_never_taken() -> None:
    first, second = _layers(2)
    options = {
        first: [Option(None, 1.0, 0.0), Option(0, 1.0, 0.1)],
        second: [Option(None, 1.0, 0.0), Option(0, 0.9, 0.1), Option(1, 0.9, 0.2)],
    }
    assert ladder(options) == [frozenset({(second, 0)}), frozenset()]
