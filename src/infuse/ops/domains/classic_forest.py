"""The forest of TreeEnsembleRegressor and TreeEnsembleClassifier, from the lists that ONNX has for
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from infuse.errors import TypeMismatchError
from infuse.immutable import Immutable, replace
from infuse.ops.core.base import Array
from infuse.ops.domains.forest import LEAF, MODES, Forest, depth_of, picked, plain_tests

_CODES: Final = {
    "LEAF": len(MODES),
    **{name: code for code, name in enumerate(MODES) if name != "MEMBER"},
    **{f"BRANCH_{name}": code for code, name in enumerate(MODES) if name != "MEMBER"},
}


_INDEX: Final = np.int32  # of a node: protobuf holds no list of more
_BLOCK: Final = 1 << 16  # nodes that are looked at together: what they need stays in the cache


class _Places(Immutable):
    """Where the node of a number of a tree stands in the lists: for node n of tree t, where
    t * span + n - low is among the keys.
    """

    trees: Array
    """The numbers of the trees, in order."""
    firsts: Array
    """Where each tree has its first node."""
    ranks: Array
    """For each node, the place of its tree among `trees`."""
    low: int
    span: int
    keys: Array | None = None
    """None where each tree's nodes stand together, counted from `low` on."""
    order: Array | None = None

    @classmethod
    def of(cls, op: str, trees: Array, ids: Array) -> _Places:
        """The places of these nodes; TypeMismatchError where one is there twice."""
        new = np.concatenate([[True], trees[1:] != trees[:-1]])
        names, firsts = trees[new], np.flatnonzero(new)
        if (names[1:] > names[:-1]).all():
            ranks: Array = np.cumsum(new, dtype=_INDEX) - 1
        else:
            names, firsts, ranks = np.unique(trees, return_index=True, return_inverse=True)
        low, high = int(ids.min()), int(ids.max())
        places = cls(names, firsts.astype(_INDEX), ranks.reshape(-1), low, high - low + 1)
        if places.span * len(names) >= 1 << 62:
            raise TypeMismatchError(f"{op} has numbers of nodes from {low} to {high}")
        if places.span <= len(ids) and all(
            (
                places._counted(places.ranks[some], ids[some]) == np.arange(some.start, some.stop)
            ).all()
            for some in _blocks(len(ids))
        ):
            return places
        keys = places._keys(places.ranks, ids)
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        if (keys[1:] == keys[:-1]).any():
            raise TypeMismatchError(f"{op} has two nodes of one number in a tree")
        return replace(places, keys=keys, order=order)

    def _counted(self, ranks: Array, ids: Array) -> Array:
        """Where nodes stand if those of a tree are counted from its first on."""
        places: Array = self.firsts[ranks] + np.subtract(ids, np.int64(self.low), dtype=_INDEX)
        return places

    def _keys(self, ranks: Array, ids: Array) -> Array:
        keys: Array = ranks.astype(np.int64) * self.span
        return np.add(keys, np.subtract(ids, self.low, dtype=np.int64), out=keys)

    def find(self, ranks: Array, ids: Array) -> Array:
        """The places of nodes of trees, given by their ranks; -1 where there is none."""
        inside = (ids >= self.low) & (ids < self.low + self.span) & (ranks >= 0)
        if self.keys is None or self.order is None:
            at = self._counted(ranks, ids)
            found = inside & (at < np.append(self.firsts[1:], len(self.ranks))[ranks])
        else:
            keys = self._keys(ranks, ids)
            place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
            found, at = inside & (self.keys[place] == keys), self.order[place]
        at[~found] = -1
        return at

    def rank(self, trees: Array) -> Array:
        """The ranks of trees; -1 for one that is not there."""
        ranks = np.minimum(np.searchsorted(self.trees, trees), len(self.trees) - 1)
        found: Array = np.where(self.trees[ranks] == trees, ranks, -1)
        return found


def classic_forest(
    op: str, attributes: Mapping[str, Any], votes: str, count: int, dtype: Any
) -> Forest:
    """The forest of an operator whose votes have this prefix. TypeMismatchError where its lists
    contradict each other.
    """
    trees, ids, true, false, features = (
        np.asarray(attributes[f"nodes_{name}"])
        for name in ("treeids", "nodeids", "truenodeids", "falsenodeids", "featureids")
    )
    modes, values = attributes["nodes_modes"], picked(attributes, "nodes_values")
    missing = np.asarray(attributes["nodes_missing_value_tracks_true"])
    size = len(trees)
    if (
        not size
        or any(len(v) != size for v in (ids, modes, values, true, false, features))
        or len(missing) not in (0, size)
    ):
        raise TypeMismatchError(f"{op} has lists of nodes of different lengths")
    places, codes = _Places.of(op, trees, ids), _codes(modes)
    is_leaf = codes == _CODES["LEAF"]
    kinds, columns = np.full(size, LEAF, np.uint8), np.zeros(size, _INDEX)
    thresholds, takes_nan = np.zeros(size, dtype), np.zeros(size, bool)
    branches = np.empty((size, 2), _INDEX)
    for some in _blocks(size):
        branches[some] = np.arange(some.start, some.stop, dtype=_INDEX)[:, None]
        inner = np.flatnonzero(~is_leaf[some]) + some.start
        ends = np.empty((len(inner), 2), _INDEX)
        for side, numbers in enumerate((false, true)):
            ends[:, side] = places.find(places.ranks[inner], numbers[inner])
        columns[inner] = features[inner]
        astray = (ends < 0).any(axis=1) | (features[inner] < 0)
        if astray.any():
            tree = trees[inner[astray][0]]
            raise TypeMismatchError(f"{op} has a branch of tree {tree} that leads nowhere")
        nan = missing[inner] != 0 if len(missing) else takes_nan[inner]
        kinds[inner], thresholds[inner], branches[inner], takes_nan[inner] = plain_tests(
            codes[inner], values[inner].astype(dtype), ends, nan
        )
    starts, targets, weights = _votes(op, attributes, votes, count, places, is_leaf)
    return Forest(
        kinds=kinds,
        features=columns,
        thresholds=thresholds,
        branches=branches,
        takes_nan=takes_nan,
        # The first node of a tree is its root; trees count in the order of their numbers.
        roots=places.firsts,
        starts=starts,
        targets=targets,
        votes=weights.astype(dtype, copy=False),
        depth=depth_of(branches, places.firsts, is_leaf),
    )


def _codes(modes: Any) -> Array:
    """The tests of nodes as numbers of `MODES`, or one more for leaves."""
    try:
        return np.fromiter(map(_CODES.__getitem__, modes), np.uint8, len(modes))
    except KeyError as error:
        raise TypeMismatchError(f"there is no branch {error.args[0]} in a tree") from error


def _votes(
    op: str, attributes: Mapping[str, Any], prefix: str, count: int, places: _Places, is_leaf: Array
) -> tuple[Array, Array, Array]:
    """Where the votes of each node begin, and the targets and weights of all, leaf after leaf."""
    trees, nodes, targets = (
        np.asarray(attributes[f"{prefix}_{name}"]) for name in ("treeids", "nodeids", "ids")
    )
    weights = picked(attributes, f"{prefix}_weights")
    if any(len(v) != len(weights) for v in (trees, nodes, targets)):
        raise TypeMismatchError(f"{op} has lists of votes of different lengths")
    at = np.empty(len(trees), _INDEX)
    for some in _blocks(len(trees)):
        found = places.find(places.rank(trees[some]), nodes[some])
        wrong = np.flatnonzero((found < 0) | (targets[some] < 0) | (targets[some] >= count))
        if wrong.size:
            place = some.start + wrong[0]
            tree, node, target = (int(v[place]) for v in (trees, nodes, targets))
            raise TypeMismatchError(
                f"{op} has a vote of node {node} of tree {tree} for {target}, which is not there"
            )
        at[some] = found
    of_leaf = is_leaf[at]
    if not of_leaf.all():
        at, targets, weights = at[of_leaf], targets[of_leaf], weights[of_leaf]
    if (at[1:] < at[:-1]).any():
        order = np.argsort(at, kind="stable")
        at, targets, weights = at[order], targets[order], weights[order]
    starts = np.zeros(len(is_leaf) + 1, _INDEX)
    for some in _blocks(len(at)):
        low = int(at[some.start])
        counts = np.bincount(at[some] - low)
        starts[low + 1 : low + 1 + len(counts)] += counts.astype(_INDEX)
    np.cumsum(starts, out=starts)
    return starts, targets.astype(_INDEX), weights


def _blocks(size: int) -> Iterator[slice]:
    """Parts of so many elements, one after the other."""
    for start in range(0, size, _BLOCK):
        yield slice(start, min(start + _BLOCK, size))
