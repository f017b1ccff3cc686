"""Ensembles of decision trees as flat arrays: where every branch leads, what every leaf adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from infuse.errors import TypeMismatchError
from infuse.ops.core.base import Array

LEAF, AT_MOST, EQUAL = 0, 1, 2
"""Kinds of nodes: a leaf, or a branch that is taken where x <= threshold or x == threshold."""
MODES: Final = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")
_NO_TEST: Final = -1  # the mode of a leaf
_SWAPPED, _EQUALS, _BELOW = (
    np.isin(MODES, names) for names in (("GTE", "GT", "NEQ"), ("EQ", "NEQ"), ("LT", "GTE"))
)
AGGREGATES: Final = ("AVERAGE", "SUM", "MIN", "MAX")


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees of nodes, the same arrays for all: a row goes to `branches[node, 1]` where its feature
    is at most (or equal to) the threshold, or is NaN and the node is marked in `takes_nan`; else to
    `branches[node, 0]`.

    A leaf leads to itself; leaf i votes votes[starts[i]:starts[i + 1]] for `targets`. `depth`
    counts the branches.
    """

    kinds: Array
    features: Array
    thresholds: Array
    branches: Array
    takes_nan: Array
    roots: Array
    starts: Array
    targets: Array
    votes: Array
    depth: int

    @property
    def columns(self) -> int:
        """The number of columns that a row has at least."""
        return int(self.features.max(initial=-1)) + 1

    def leaves(self, rows: Array) -> Array:
        """The leaf that each row reaches in each tree."""
        places: Array = np.broadcast_to(self.roots, (len(rows), len(self.roots))).copy()
        line = np.arange(len(rows))[:, None]
        for _ in range(self.depth):
            x, limit = rows[line, self.features[places]], self.thresholds[places]
            taken = np.where(self.kinds[places] == EQUAL, x == limit, x <= limit)
            taken |= self.takes_nan[places] & np.isnan(x)
            places = self.branches[places, taken.astype(np.int64)]
        return places

    def scores(self, rows: Array, count: int, aggregate: str) -> Array:
        """What the leaves of each row vote, tree after tree; targets without any vote get zero."""
        leaves = self.leaves(rows)
        scores = np.zeros((len(rows), count), self.votes.dtype)
        seen = np.zeros(scores.shape, dtype=bool)
        every = np.arange(len(rows))
        for tree in range(len(self.roots)):
            starts, ends = self.starts[leaves[:, tree]], self.starts[leaves[:, tree] + 1]
            for extra in range(int((ends - starts).max(initial=0))):
                some = every[starts + extra < ends]
                vote = starts[some] + extra
                target, value = self.targets[vote], self.votes[vote]
                old = scores[some, target]
                if aggregate in ("MIN", "MAX"):
                    better = (value < old) if aggregate == "MIN" else (value > old)
                    scores[some, target] = np.where(better | ~seen[some, target], value, old)
                else:
                    scores[some, target] = old + value
                seen[some, target] = True
        return scores / scores.dtype.type(len(self.roots)) if aggregate == "AVERAGE" else scores


def plain_tests(
    modes: Array, limits: Array, ends: Array, takes_nan: Array
) -> tuple[Array, Array, Array, Array]:
    """Kinds, thresholds, ends and where NaN passes, of tests of any of `MODES`: `<`, `>`, `>=` and
    `!=` become `<=` and `==`. Ends are [n, 2]: where a row goes that fails a test, and where one
    that passes it does.
    """
    swapped, equals, below = _SWAPPED[modes], _EQUALS[modes], _BELOW[modes]
    before = np.nextafter(limits, limits.dtype.type(-np.inf))
    before[limits == -np.inf] = np.nan
    return (
        np.where(equals, np.uint8(EQUAL), np.uint8(AT_MOST)),
        np.where(below & ~np.isnan(limits), before, limits),
        np.where(swapped[:, None], ends[:, ::-1], ends),
        # NaN goes where it was to go; it differs from every number.
        (takes_nan ^ swapped) & ~(equals & swapped),
    )


class ForestBuilder:
    """Collects nodes of any comparison."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self.modes: list[int] = []
        self.features: list[int] = []
        self.thresholds: list[Any] = []
        self.branches: list[tuple[int, int]] = []
        self.takes_nan: list[bool] = []
        self.votes: list[list[tuple[int, Any]]] = []

    def leaf(self, votes: Sequence[tuple[int, Any]]) -> int:
        """A new leaf."""
        return self._add(_NO_TEST, 0, 0.0, (len(self.modes),) * 2, False, votes)

    def branch(
        self, mode: str, feature: int, threshold: Any, true: int, false: int, nan_is_true: bool
    ) -> int:
        """A new branch."""
        return self._add(MODES.index(mode), feature, threshold, (false, true), nan_is_true, ())

    def _add(
        self,
        mode: int,
        feature: int,
        limit: Any,
        branches: tuple[int, int],
        nan: bool,
        votes: Sequence[tuple[int, Any]],
    ) -> int:
        self.modes.append(mode)
        self.features.append(feature)
        self.thresholds.append(limit)
        self.branches.append(branches)
        self.takes_nan.append(nan)
        self.votes.append(list(votes))
        return len(self.modes) - 1

    def build(self, roots: Sequence[int]) -> Forest:
        """The forest with these roots."""
        lengths = [len(v) for v in self.votes]
        modes = np.array(self.modes, np.int64)
        inner = np.flatnonzero(modes != _NO_TEST)
        kinds = np.full(len(modes), LEAF, np.uint8)
        thresholds = np.array(self.thresholds, self.dtype)
        branches = np.array(self.branches, np.int64).reshape(-1, 2)
        takes_nan = np.array(self.takes_nan, bool)
        kinds[inner], thresholds[inner], branches[inner], takes_nan[inner] = plain_tests(
            modes[inner], thresholds[inner], branches[inner], takes_nan[inner]
        )
        top = np.array(roots, np.int64)
        return Forest(
            kinds=kinds,
            features=np.array(self.features, np.int64),
            thresholds=thresholds,
            branches=branches,
            takes_nan=takes_nan,
            roots=top,
            starts=np.cumsum([0, *lengths]),
            targets=np.array([target for votes in self.votes for target, _ in votes], np.int64),
            votes=np.array([weight for votes in self.votes for _, weight in votes], self.dtype),
            depth=depth_of(branches, top, kinds == LEAF),
        )


def levels_of(branches: Array, roots: Array, is_leaf: Array) -> Array:
    """The most branches on a way from a root to each node; -1 where no way leads. TypeMismatchError
    where a way does not end.
    """
    levels = np.full(len(branches), -1, np.int32)
    if not _each_has_one_way(branches, roots, is_leaf, levels):
        levels[:] = _levels_of_graph(branches, roots, is_leaf)
    return levels


def _each_has_one_way(branches: Array, roots: Array, is_leaf: Array, levels: Array) -> bool:
    """Whether at most one way leads from the roots to each node; if so, `levels`, which are all
    negative, become those of the nodes.
    """
    nodes, level, passed = roots, 0, 0
    while nodes.size:
        levels[nodes] = level
        passed += len(nodes)
        if passed > len(levels):
            return False
        nodes, level = branches[nodes[~is_leaf[nodes]]].reshape(-1), level + 1
    return passed == np.count_nonzero(levels >= 0)


def _levels_of_graph(branches: Array, roots: Array, is_leaf: Array) -> Array:
    levels = np.full(len(branches), -1, np.int64)
    reached = np.zeros(len(branches), bool)
    nodes = np.unique(roots)
    while nodes.size:
        reached[nodes] = True
        below = branches[nodes[~is_leaf[nodes]]]
        nodes = np.unique(below[~reached[below]])
    inner = np.flatnonzero(reached & ~is_leaf)
    waits_for = np.bincount(branches[inner].reshape(-1), minlength=len(branches))
    nodes, level = np.flatnonzero(reached & (waits_for == 0)), 0
    while nodes.size:
        levels[nodes] = level
        below, ways = np.unique(branches[nodes[~is_leaf[nodes]]], return_counts=True)
        waits_for[below] -= ways
        nodes, level = below[waits_for[below] == 0], level + 1
    if (levels[reached] < 0).any():
        raise TypeMismatchError("a tree of the ensemble comes back to a node that it has passed")
    return levels


def depth_of(branches: Array, roots: Array, is_leaf: Array) -> int:
    """The most branches on a way from a root to a leaf; TypeMismatchError where a way does not
    end.
    """
    return int(levels_of(branches, roots, is_leaf).max(initial=0))


def picked(attributes: Mapping[str, Any], name: str) -> Array:
    """A list of numbers, from the attribute of floats or from the tensor that may stand for it."""
    tensor = attributes.get(f"{name}_as_tensor")
    return (
        np.asarray(attributes[name], np.float32)
        if tensor is None
        else np.asarray(tensor).reshape(-1)
    )
