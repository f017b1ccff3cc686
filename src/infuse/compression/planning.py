"""The plan of a compression: one of several forms for each layer, so that what the model costs is
least for a change of its outputs.

That is a multiple-choice knapsack: layers are the classes, the change of the outputs is the weight.
Its continuous relaxation is solved by steps along the lower convex hulls of the classes, taken in
the order of what they gain (Sinha and Zoltners, 1979); after each whole step the solution is one of
the integer program, too, for the change that it makes. These solutions are the rungs of a ladder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from infuse.compression.layers import Layer


@dataclass(frozen=True)
class Option:
    """A form that a layer could have: what it costs, and how much it changes the outputs."""

    plan: int | None
    """The number of the plan that the form is of; None for float32."""
    cost: float
    change: float


Selection = frozenset[tuple[Layer, int]]
"""Layers that are compressed, each with the number of the plan that its form is of."""


def ladder(options: Mapping[Layer, Sequence[Option]]) -> list[Selection]:
    """Selections from the cheapest one to that which changes the outputs least: each is, for the
    sum of the changes of its layers, the one with the least sum of costs.
    """
    fronts = {layer: _hull(offers) for layer, offers in options.items()}
    steps = [
        (_gain(before, after), layer, after)
        for layer, front in fronts.items()
        for before, after in pairwise(front)
    ]
    steps.sort(key=lambda step: step[0], reverse=True)
    chosen = {layer: front[0] for layer, front in fronts.items()}
    rungs = [_selection(chosen)]
    for _, layer, option in steps:
        chosen[layer] = option
        rungs.append(_selection(chosen))
    return rungs


def _selection(chosen: Mapping[Layer, Option]) -> Selection:
    return frozenset(
        (layer, option.plan) for layer, option in chosen.items() if option.plan is not None
    )


def _gain(before: Option, after: Option) -> float:
    """What a step takes off the change for each unit of cost."""
    return (before.change - after.change) / (after.cost - before.cost)


def _hull(options: Sequence[Option]) -> list[Option]:
    """The options on the lower convex hull, from the cheapest to the one that changes least."""
    hull: list[Option] = []
    finite = [option for option in options if math.isfinite(option.change + option.cost)]
    for option in sorted(finite, key=lambda each: (each.cost, each.change)):
        if hull and option.change >= hull[-1].change:
            continue
        while len(hull) > 1 and _gain(hull[-2], hull[-1]) <= _gain(hull[-1], option):
            hull.pop()
        if hull and option.cost == hull[-1].cost:
            hull.pop()
        hull.append(option)
    return hull
