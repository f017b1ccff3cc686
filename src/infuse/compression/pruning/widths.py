"""How many channels of each group stay, so that a graph costs a part of what it did at most."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from infuse.analysis.cost import totals
from infuse.compression.pruning.groups import Dependencies, Group
from infuse.compression.pruning.importance import Doubles, Importance
from infuse.compression.pruning.links import Bools
from infuse.compression.pruning.removal import removed_from
from infuse.ir.graph import Graph

LEAST_PART = 8
"""Of each group at least one of so many channels stays."""
STEPS = 12
"""Halvings of the range that the border of what stays lies in."""
Widths = dict[Group, int]
Removed = dict[Group, Bools]


def macs_of(graph: Graph) -> int:
    """Multiplications that are added up in a run, with usual sizes for symbols."""
    return int(str(totals(graph).cost.macs))


@dataclass(frozen=True)
class Rounding:
    """Widths that suit kernels: multiples of `multiple`, where a group is wide enough."""

    multiple: int

    def step(self, group: Group) -> int:
        """What widths of a group are multiples of."""
        multiple = max(1, self.multiple // max(1, _indices(group)))
        while multiple > 1 and multiple * 4 > group.size:
            multiple //= 2
        return multiple

    def of(self, group: Group, width: float) -> int:
        """The nearest width that suits, of at least one channel in `LEAST_PART`."""
        multiple = self.step(group)
        least = max(multiple, math.ceil(group.size / LEAST_PART / multiple) * multiple)
        return min(group.size, max(least, round(width / multiple) * multiple))


def _indices(group: Group) -> int:
    """Indices of a channel along the axis of the weights that make it."""
    made = {node.output for node in group.nodes}
    counts = [member.per_channel for member in group.members if member.value in made]
    return min(counts, default=1)


def evenly(dependencies: Dependencies, importance: Importance, rounding: Rounding) -> Shrink:
    """Widths by the part of channels that stays, the same in all groups."""

    def widths(part: float) -> Widths:
        return {g: rounding.of(g, part * g.size) for g in dependencies.groups}

    return widths


def by_loss(dependencies: Dependencies, importance: Importance, rounding: Rounding) -> Shrink:
    """Widths by a border: of each group, channels go whose importance for each multiplication that
    they cost is less. A channel of a hidden size counts for each of its readers.
    """
    prices = _prices(dependencies)
    rates: dict[Group, Doubles] = {
        group: np.sort(importance[group] * _readers(dependencies, group) / prices[group])
        for group in dependencies.groups
    }
    ordered = np.sort(np.concatenate([*rates.values(), np.zeros(1)]))

    def widths(part: float) -> Widths:
        border = ordered[min(int((1 - part) * len(ordered)), len(ordered) - 1)]
        return {
            group: rounding.of(group, group.size - int(np.searchsorted(rate, border)))
            for group, rate in rates.items()
        }

    return widths


Shrink = Callable[[float], Widths]
"""Widths from a number between 0, where as few channels stay as may be, and 1, where all do."""
STRATEGIES: Mapping[str, Callable[[Dependencies, Importance, Rounding], Shrink]] = {
    "evenly": evenly,
    "by loss": by_loss,
}


def _readers(dependencies: Dependencies, group: Group) -> int:
    """How many nodes multiply the channels of a hidden size by weights; 1 for other groups, whose
    importance is that of all that read them.
    """
    if not group.is_hidden:
        return 1
    own = {(member.value, member.axis) for member in group.members}
    return max(1, sum(each.activation in own for each in dependencies.contractions))


def _prices(dependencies: Dependencies) -> dict[Group, float]:
    """What a channel of each group costs: the part of all multiplications that go with it."""
    whole = macs_of(dependencies.graph)
    prices = {}
    for group in dependencies.groups:
        last = np.arange(group.size) == group.size - 1
        smaller, _ = removed_from(dependencies, {group: last})
        prices[group] = max(whole - macs_of(smaller), 1) / max(whole, 1)
    return prices


def removed_by(widths: Widths, importance: Importance) -> Removed:
    """Of each channel whether it goes: the least important ones do."""
    removed = {}
    for group, width in widths.items():
        order = np.argsort(importance[group], kind="stable")
        gone = np.zeros(group.size, np.bool_)
        gone[order[: group.size - width]] = True
        removed[group] = gone
    return removed


def fitted(
    shrink: Shrink, price: Callable[[Widths], float], limit: float, rounding: Rounding
) -> Widths | None:
    """The widths with the largest number whose price is within the limit, by bisection, and then as
    wide as it allows; None where none are within it.
    """
    low, high = 0.0, 1.0
    best = shrink(low)
    if price(best) > limit:
        return None
    if price(shrink(high)) <= limit:
        return shrink(high)
    for _ in range(STEPS):
        middle = (low + high) / 2
        widths = shrink(middle)
        if price(widths) <= limit:
            low, best = middle, widths
        else:
            high = middle
    return _filled(best, price, limit, rounding)


def _filled(
    widths: Widths, price: Callable[[Widths], float], limit: float, rounding: Rounding
) -> Widths:
    """Wider where the limit allows it: a bisection ends below it, as widths are rounded."""
    for group in sorted(widths, key=lambda g: widths[g] / g.size):
        wider = {**widths, group: min(group.size, widths[group] + rounding.step(group))}
        if wider[group] > widths[group] and price(wider) <= limit:
            widths = wider
    return widths
