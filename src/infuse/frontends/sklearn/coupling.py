"""Probabilities of support vector machines: those of all classes from those of each pair."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from infuse.frontends.sklearn.calls import PROBABILITIES, reads
from infuse.frontends.sklearn.kernels import MACHINES, pair_scores
from infuse.ir.graph import Value
from infuse.tracing.importer import Importer
from infuse.tracing.items import Item
from infuse.tracing.loops import repeat
from infuse.tracing.tensors import Tensor, beside, stacked, total

_LEAST = 1e-7
"""Probabilities of pairs lie between this and its distance from one."""


@reads(PROBABILITIES, *MACHINES)
def machine_probabilities(model: Any, x: Tensor) -> Tensor:
    """The probabilities that agree best with those of pairs, as LIBSVM finds them: by rounds in
    which one class after the other is set, for each row until its error is small.
    """
    count = len(model.classes_)
    slopes, offsets = np.asarray(model._probA), np.asarray(model._probB)
    first = (-(pair_scores(model, x) * slopes + offsets)).sigmoid().clip(_LEAST, 1 - _LEAST)
    wins: dict[tuple[int, int], Tensor] = {}
    for k, (i, j) in enumerate(combinations(range(count), 2)):
        wins[i, j] = first.column(k)
        wins[j, i] = 1.0 - wins[i, j]
    rows = []
    for t in range(count):
        others = [j for j in range(count) if j != t]
        squares = total([wins[j, t] * wins[j, t] for j in others])
        row = [squares if j == t else -(wins[j, t] * wins[t, j]) for j in range(count)]
        rows.append(beside(*row))
    return _balanced(stacked(rows, 1), count)


def _balanced(costs: Tensor, count: int) -> Tensor:
    """The shares of classes, [batch, classes], that cost least by a matrix for each row."""
    g, limit, rounds = costs.g, 0.005 / count, max(100, count)
    start = costs.sum(2) * 0.0 + 1.0 / count

    def goes_on(inner: Importer, states: list[Item]) -> list[Item]:
        _, done, number = _values(states)
        open_rows = Tensor(inner, inner("Not", done)).integers()
        left = Tensor(inner, inner("ReduceSum", open_rows.value, inner.ints(0, 1), keepdims=0))
        few = Tensor(inner, number) < rounds
        return [((left > 0) & few).value]

    def next_round(inner: Importer, states: list[Item]) -> list[Item]:
        shares, was_done, number = (Tensor(inner, value) for value in _values(states))
        matrix = Tensor(inner, costs.value)
        gains = (matrix * shares.expand(1)).sum(2)
        mean = (shares * gains).sum(keep=True)
        done = was_done | ((gains - mean).abs().max(keep=True) < limit)
        moved = _one_round(matrix, shares, gains, mean, count)
        return [done.where(shares, moved).value, done.value, (number + 1).value]

    none_done = (start.column(0) * 0.0) > 1.0
    states: list[Item] = [start.value, none_done.value, g.constant(np.int64(0))]
    result = repeat(g, states, goes_on, next_round)[0]
    assert isinstance(result, Value)
    return Tensor(g, result)


def _one_round(matrix: Tensor, shares: Tensor, gains: Tensor, mean: Tensor, count: int) -> Tensor:
    """Shares after each class was set once."""
    for t in range(count):
        row = matrix.call("Gather", matrix.g.constant(np.int64(t)), axis=1)
        own, gain = row.column(t), gains.column(t)
        step = (mean - gain) / own
        scale = step + 1.0
        mean = (mean + step * (step * own + gain * 2.0)) / scale / scale
        gains = (gains + step * row) / scale
        shares = (shares + step * np.eye(count)[t : t + 1]) / scale
    return shares


def _values(states: list[Item]) -> list[Value]:
    assert all(isinstance(state, Value) for state in states)
    return [state for state in states if isinstance(state, Value)]
