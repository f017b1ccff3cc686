"""The forest of TreeEnsemble, from the lists that ONNX has for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from infuse.errors import TypeMismatchError
from infuse.immutable import Immutable
from infuse.ops.core.base import Array
from infuse.ops.domains.forest import LEAF, MODES, Forest, ForestBuilder, depth_of, plain_tests


def modern_forest(op: str, attributes: Mapping[str, Any], dtype: Any) -> Forest:
    """The forest of TreeEnsemble; a branch that tests for members of a set becomes a chain of tests
    for equality. TypeMismatchError where its lists contradict each other.
    """
    nodes = _Nodes.of(op, attributes)
    has_sets = attributes["membership_values"] is not None
    if has_sets or (nodes.modes == MODES.index("MEMBER")).any():
        return _Chains(op, attributes, dtype).build()
    return nodes.forest([int(root) for root in attributes["tree_roots"]], dtype)


class _Nodes(Immutable):
    """The lists of TreeEnsemble as arrays; ends are [branch, 2], where a row goes that fails the
    test, and where one that passes it does.
    """

    op: str
    modes: Array
    features: Array
    splits: Array
    ends: Array
    are_leaves: Array
    takes_nan: Array
    targets: Array
    weights: Array
    count: int

    @classmethod
    def of(cls, op: str, attributes: Mapping[str, Any]) -> _Nodes:
        """The lists of an operator, all of one length."""
        modes = np.asarray(attributes["nodes_modes"]).reshape(-1).astype(np.int64)
        splits = np.asarray(attributes["nodes_splits"]).reshape(-1)
        numbers = [
            np.asarray(attributes[f"nodes_{name}"], np.int64)
            for name in ("featureids", "falsenodeids", "truenodeids", "falseleafs", "trueleafs")
        ]
        missing = np.asarray(attributes["nodes_missing_value_tracks_true"], np.int64)
        if any(len(entries) != len(modes) for entries in (*numbers, splits)) or len(
            missing
        ) not in (0, len(modes)):
            raise TypeMismatchError(f"{op} has lists of nodes of different lengths")
        weights = np.asarray(attributes["leaf_weights"]).reshape(-1)
        targets = np.asarray(attributes["leaf_targetids"], np.int64)
        if len(weights) != len(targets):
            raise TypeMismatchError(f"{op} has {len(weights)} leaf weights, {len(targets)} targets")
        return cls(
            op,
            modes,
            numbers[0],
            splits,
            np.stack(numbers[1:3], axis=1),
            np.stack(numbers[3:5], axis=1) != 0,
            missing != 0 if len(missing) else np.zeros(len(modes), bool),
            targets,
            weights,
            int(attributes["n_targets"]),
        )

    def forest(self, roots: Sequence[int], dtype: Any) -> Forest:
        """The forest of what the roots reach; each leaf stands behind the branch that leads to it
        first.
        """
        tops = self._in_range(np.asarray(roots, np.int64), len(self.modes))
        single = self.are_leaves[tops].all(axis=1)
        single &= self.ends[tops, 0] == self.ends[tops, 1]
        branches = self._reached(tops[~single])
        below = self.ends[branches][self.are_leaves[branches]]
        above = np.broadcast_to(branches[:, None], (len(branches), 2))[self.are_leaves[branches]]
        below = np.concatenate([below, self.ends[tops[single], 1]])
        above = np.concatenate([above, tops[single]])
        leaves, places = self._leaves(below, above)
        order = np.argsort(np.concatenate([branches, places + 0.5]), kind="stable")
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.arange(len(order))
        of_branch, of_leaf = np.zeros(len(self.modes), np.int64), np.zeros(len(self.weights), int)
        of_branch[branches], of_leaf[leaves] = np.split(numbers, [len(branches)])
        return self._numbered(
            branches,
            leaves,
            of_branch,
            of_leaf,
            np.where(single, of_leaf[self.ends[tops, 1] * single], of_branch[tops]),
            np.dtype(dtype),
        )

    def _in_range(self, ends: Array, count: int) -> Array:
        wrong = ends[(ends < 0) | (ends >= count)]
        if wrong.size:
            raise TypeMismatchError(
                f"{self.op} has a branch that leads to {wrong[0]}, where there is nothing"
            )
        return ends

    def _reached(self, roots: Array) -> Array:
        """The branches that roots lead to, in the order of the lists."""
        seen = np.zeros(len(self.modes), bool)
        level = np.unique(roots)
        while level.size:
            seen[level] = True
            inner = self.ends[level][~self.are_leaves[level]]
            level = np.unique(self._in_range(inner, len(self.modes)))
            level = level[~seen[level]]
        branches: Array = np.flatnonzero(seen)
        modes, features = self.modes[branches], self.features[branches]
        wrong = (modes < 0) | (modes >= len(MODES)) | (features < 0)
        if wrong.any():
            raise TypeMismatchError(
                f"{self.op} has no mode {modes[wrong][0]} for feature {features[wrong][0]}"
            )
        return branches

    def _leaves(self, below: Array, above: Array) -> tuple[Array, Array]:
        """The leaves that branches lead to, and the first branch to each."""
        self._in_range(below, len(self.weights))
        first = np.full(len(self.weights), len(self.modes), np.int64)
        np.minimum.at(first, below, above)
        leaves = np.flatnonzero(first < len(self.modes))
        targets = self.targets[leaves]
        wrong = (targets < 0) | (targets >= self.count)
        if wrong.any():
            raise TypeMismatchError(
                f"{self.op} has a leaf for target {targets[wrong][0]}, which is not there"
            )
        return leaves, first[leaves]

    def _numbered(
        self,
        branches: Array,
        leaves: Array,
        of_branch: Array,
        of_leaf: Array,
        roots: Array,
        dtype: np.dtype[Any],
    ) -> Forest:
        """The forest of these nodes, which have these numbers."""
        count = len(branches) + len(leaves)
        place, leaf = of_branch[branches], of_leaf[leaves]
        ends, are_leaves = self.ends[branches], self.are_leaves[branches]
        next_ = np.where(are_leaves, of_leaf[ends * are_leaves], of_branch[ends * ~are_leaves])
        modes, nan = self.modes[branches], self.takes_nan[branches]
        kinds, features = np.zeros(count, np.uint8), np.zeros(count, np.int64)
        thresholds, takes_nan = np.zeros(count, dtype), np.zeros(count, bool)
        both = np.repeat(np.arange(count)[:, None], 2, axis=1)
        features[place] = self.features[branches]
        kinds[place], thresholds[place], both[place], takes_nan[place] = plain_tests(
            modes, self.splits[branches].astype(dtype), next_, nan
        )
        votes = np.zeros(count, np.int64)
        votes[leaf] = 1
        order = np.argsort(leaf)
        return Forest(
            kinds=kinds,
            features=features,
            thresholds=thresholds,
            branches=both,
            takes_nan=takes_nan,
            roots=roots,
            starts=np.concatenate([[0], np.cumsum(votes)]),
            targets=self.targets[leaves][order],
            votes=self.weights[leaves][order].astype(dtype),
            depth=depth_of(both, roots, kinds == LEAF),
        )


class _Chains:
    """Builds a forest branch by branch, those that test for members as chains."""

    def __init__(self, op: str, attributes: Mapping[str, Any], dtype: Any) -> None:
        self.op, self.attributes = op, attributes
        self.builder = ForestBuilder(dtype)
        self.modes = [int(m) for m in np.asarray(attributes["nodes_modes"]).reshape(-1)]
        self.splits = np.asarray(attributes["nodes_splits"]).reshape(-1)
        self.missing = attributes["nodes_missing_value_tracks_true"]
        self.weights = np.asarray(attributes["leaf_weights"]).reshape(-1)
        self.members = self._members()
        self.made: dict[int, int] = {}
        self.leaves: dict[int, int] = {}

    def _members(self) -> dict[int, list[Any]]:
        """The members of each branch that tests for them."""
        members = [i for i, mode in enumerate(self.modes) if mode == MODES.index("MEMBER")]
        membership = self.attributes["membership_values"]
        values = np.asarray([] if membership is None else membership).reshape(-1)
        sets: list[list[Any]] = [[]]
        for value in values:
            if np.isnan(value):
                sets.append([])
            else:
                sets[-1].append(value)
        if len(sets) - 1 != len(members):
            raise TypeMismatchError(
                f"{self.op} has {len(members)} tests for members and {len(sets) - 1} sets"
            )
        return dict(zip(members, sets))

    def build(self) -> Forest:
        return self.builder.build([self.root(int(i)) for i in self.attributes["tree_roots"]])

    def root(self, index: int) -> int:
        attributes = self.attributes
        self.check(index, len(self.modes))
        both = attributes["nodes_trueleafs"][index] and attributes["nodes_falseleafs"][index]
        if (
            both
            and attributes["nodes_truenodeids"][index] == attributes["nodes_falsenodeids"][index]
        ):
            return self.leaf(int(attributes["nodes_truenodeids"][index]))
        return self.tree(index)

    def check(self, index: int, count: int) -> None:
        if not 0 <= index < count:
            raise TypeMismatchError(
                f"{self.op} has a branch that leads to {index}, where there is nothing"
            )

    def leaf(self, index: int) -> int:
        self.check(index, len(self.weights))
        if index not in self.leaves:
            vote = int(self.attributes["leaf_targetids"][index]), self.weights[index]
            if not 0 <= vote[0] < self.attributes["n_targets"]:
                raise TypeMismatchError(
                    f"{self.op} has a leaf for target {vote[0]}, which is not there"
                )
            self.leaves[index] = self.builder.leaf([vote])
        return self.leaves[index]

    def tree(self, top: int) -> int:
        """The node that branch `top` becomes, and all below it before it."""
        pending, open_ = [top], set()
        while pending:
            index = pending[-1]
            if index in self.made:
                pending.pop()
                continue
            below = self.below(index)
            waiting = [i for leaf, i in below if not leaf and i not in self.made]
            if waiting and index in open_:
                raise TypeMismatchError(
                    "a tree of the ensemble comes back to a node that it has passed"
                )
            open_.add(index)
            if not waiting:
                true, false = (self.leaf(i) if leaf else self.made[i] for leaf, i in below)
                self.made[index] = self.node(index, true, false)
                pending.pop()
            pending += waiting
        return self.made[top]

    def below(self, index: int) -> list[tuple[bool, int]]:
        ends = []
        for side in ("true", "false"):
            leaf = bool(self.attributes[f"nodes_{side}leafs"][index])
            end = int(self.attributes[f"nodes_{side}nodeids"][index])
            self.check(end, len(self.weights if leaf else self.modes))
            ends.append((leaf, end))
        return ends

    def node(self, index: int, true: int, false: int) -> int:
        mode, feature = self.modes[index], int(self.attributes["nodes_featureids"][index])
        is_true = bool(self.missing[index]) if len(self.missing) else False
        if not 0 <= mode < len(MODES) or feature < 0:
            raise TypeMismatchError(f"{self.op} has no mode {mode} for feature {feature}")
        if MODES[mode] != "MEMBER":
            return self.builder.branch(
                MODES[mode], feature, self.splits[index], true, false, is_true
            )
        node = false
        for value in reversed(self.members[index] or [np.nan]):
            node = self.builder.branch("EQ", feature, value, true, node, is_true)
        return node
