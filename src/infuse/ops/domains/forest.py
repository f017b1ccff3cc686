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


class ForestBuilder:
    """Collects nodes of any comparison; `<`, `>`, `>=` and `!=` become `<=` and `==`."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self.kinds: list[int] = []
        self.features: list[int] = []
        self.thresholds: list[Any] = []
        self.branches: list[tuple[int, int]] = []
        self.takes_nan: list[bool] = []
        self.votes: list[list[tuple[int, Any]]] = []

    def leaf(self, votes: Sequence[tuple[int, Any]]) -> int:
        """A new leaf."""
        return self._add(LEAF, 0, 0.0, (len(self.kinds),) * 2, False, votes)

    def branch(
        self, mode: str, feature: int, threshold: Any, true: int, false: int, nan_is_true: bool
    ) -> int:
        """A new branch; TypeMismatchError for a mode that is not known."""
        limit = self.dtype.type(threshold)
        if mode in ("GTE", "GT"):
            # Not x < t, and not x <= t; NaN goes where it was to go.
            mode, true, false, nan_is_true = (
                "LT" if mode == "GTE" else "LEQ",
                false,
                true,
                not nan_is_true,
            )
        elif mode == "NEQ":
            # NaN differs from every number.
            mode, true, false, nan_is_true = "EQ", false, true, False
        if mode == "LT":
            limit = (
                np.nextafter(limit, self.dtype.type(-np.inf))
                if limit > -np.inf
                else self.dtype.type(np.nan)
            )
        elif mode not in ("LEQ", "EQ"):
            raise TypeMismatchError(f"there is no branch BRANCH_{mode} in a tree")
        return self._add(
            EQUAL if mode == "EQ" else AT_MOST, feature, limit, (false, true), nan_is_true, ()
        )

    def _add(
        self,
        kind: int,
        feature: int,
        limit: Any,
        branches: tuple[int, int],
        nan: bool,
        votes: Sequence[tuple[int, Any]],
    ) -> int:
        self.kinds.append(kind)
        self.features.append(feature)
        self.thresholds.append(limit)
        self.branches.append(branches)
        self.takes_nan.append(nan)
        self.votes.append(list(votes))
        return len(self.kinds) - 1

    def build(self, roots: Sequence[int]) -> Forest:
        """The forest with these roots."""
        lengths = [len(v) for v in self.votes]
        branches = np.array(self.branches, np.int64).reshape(-1, 2)
        top = np.array(roots, np.int64)
        return Forest(
            kinds=np.array(self.kinds, np.uint8),
            features=np.array(self.features, np.int64),
            thresholds=np.array(self.thresholds, self.dtype),
            branches=branches,
            takes_nan=np.array(self.takes_nan, bool),
            roots=top,
            starts=np.cumsum([0, *lengths]),
            targets=np.array([target for votes in self.votes for target, _ in votes], np.int64),
            votes=np.array([weight for votes in self.votes for _, weight in votes], self.dtype),
            depth=depth_of(branches, top, np.array(self.kinds, np.uint8) == LEAF),
        )


def levels_of(branches: Array, roots: Array, is_leaf: Array) -> Array:
    """The most branches on a way from a root to each node; -1 where no way leads. TypeMismatchError
    where a way does not end.
    """
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
        np.array(attributes[name], np.float32) if tensor is None else np.asarray(tensor).reshape(-1)
    )


def classic_forest(
    op: str, attributes: Mapping[str, Any], votes: str, count: int, dtype: Any
) -> Forest:
    """The forest of TreeEnsembleRegressor and TreeEnsembleClassifier, whose votes have this prefix.

    TypeMismatchError where its lists contradict each other.
    """
    trees, ids, modes = (
        attributes["nodes_treeids"],
        attributes["nodes_nodeids"],
        attributes["nodes_modes"],
    )
    values, missing = (
        picked(attributes, "nodes_values"),
        attributes["nodes_missing_value_tracks_true"],
    )
    true, false, features = (
        attributes[f"nodes_{k}"] for k in ("truenodeids", "falsenodeids", "featureids")
    )
    size = len(trees)
    if (
        not size
        or any(len(v) != size for v in (ids, modes, values, true, false, features))
        or len(missing) not in (0, size)
    ):
        raise TypeMismatchError(f"{op} has lists of nodes of different lengths")
    place = {key: i for i, key in enumerate(zip(trees, ids))}
    if len(place) < size:
        raise TypeMismatchError(f"{op} has two nodes of one number in a tree")
    leaf_votes: dict[int, list[tuple[int, Any]]] = {}
    weights = picked(attributes, f"{votes}_weights")
    lists = (
        attributes[f"{votes}_treeids"],
        attributes[f"{votes}_nodeids"],
        attributes[f"{votes}_ids"],
        weights,
    )
    if any(len(v) != len(weights) for v in lists):
        raise TypeMismatchError(f"{op} has lists of votes of different lengths")
    for tree, node, target, weight in zip(*lists):
        if (tree, node) not in place or not 0 <= target < count:
            raise TypeMismatchError(
                f"{op} has a vote of node {node} of tree {tree} for {target}, which is not there"
            )
        leaf_votes.setdefault(place[tree, node], []).append((int(target), weight))
    builder = ForestBuilder(dtype)
    for i in range(size):
        if modes[i] == "LEAF":
            builder.leaf(leaf_votes.get(i, ()))
            continue
        ends = (trees[i], true[i]), (trees[i], false[i])
        if not all(end in place for end in ends) or features[i] < 0:
            raise TypeMismatchError(f"{op} has a branch of tree {trees[i]} that leads nowhere")
        mode, is_true = modes[i].removeprefix("BRANCH_"), bool(missing[i]) if missing else False
        builder.branch(mode, features[i], values[i], place[ends[0]], place[ends[1]], is_true)
    # The first node of a tree is its root; trees count in the order of their numbers.
    roots = dict(sorted({tree: i for i, tree in reversed(list(enumerate(trees)))}.items()))
    return builder.build(list(roots.values()))
