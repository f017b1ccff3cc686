"""Pareto fronts: which of several points no other one beats in both its cost and its score."""

from __future__ import annotations

import math
from collections.abc import Sequence


def front(costs: Sequence[float], scores: Sequence[float], higher_is_better: bool) -> list[int]:
    """The numbers of the points that no other one dominates, from the cheapest to the best: none
    costs as little and scores as well. Of equal points the first; none that is NaN or costs an
    infinite amount.
    """
    sign = -1 if higher_is_better else 1
    points = [
        (cost, sign * score, number)
        for number, (cost, score) in enumerate(zip(costs, scores))
        if math.isfinite(cost) and not math.isnan(score)
    ]
    chosen: list[int] = []
    least = math.inf
    for _, loss, number in sorted(points):
        if loss < least or not chosen:
            chosen.append(number)
            least = loss
    return chosen


def nearest(
    costs: Sequence[float], scores: Sequence[float], higher_is_better: bool, count: int
) -> list[int]:
    """The numbers of so many points: those on the front, those on the front of the others, and so
    on.
    """
    left = list(range(len(costs)))
    chosen: list[int] = []
    while left and len(chosen) < count:
        places = front([costs[n] for n in left], [scores[n] for n in left], higher_is_better)
        if not places:
            break
        chosen += [left[place] for place in places]
        left = [number for place, number in enumerate(left) if place not in set(places)]
    return chosen[:count]
