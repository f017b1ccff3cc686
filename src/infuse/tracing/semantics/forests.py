"""Decision trees of any library as the operator TreeEnsemble has them: lists of branches and
leaves that all trees share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError
from infuse.immutable import Immutable
from infuse.ir.graph import Array, Value
from infuse.ir.registry import make_operator
from infuse.tracing.importer import Importer

LEQ: Final = 0
LESS: Final = 1
"""Modes of branches: numbers that TreeEnsemble has for them."""


class Pieces(Immutable):
    """A split of more than two intervals: numbers up to and including `bounds[i]`, and above the
    one before, go left where `left[i]`; those above all bounds where the last of `left` says so.
    """

    bounds: tuple[float, ...]
    left: tuple[bool, ...]
    nan_left: bool


def pieces_of_members(members: Sequence[int], members_left: bool, nan_left: bool) -> Pieces:
    """A split of whole numbers into those of a set and all others."""
    bounds: list[float] = []
    left: list[bool] = []
    for member in sorted(set(members)):
        if bounds and bounds[-1] == member - 1:
            bounds[-1] = float(member)
            continue
        bounds += [float(member) - 1, float(member)]
        left += [not members_left, members_left]
    return Pieces(tuple(bounds), (*left, not members_left), nan_left)


class Tree(Immutable):
    """A tree by its nodes, of which the first is the root; a leaf has no `left` (a negative number)
    and its number in `values` (a row of them, where it votes for several targets).

    `nan_left`: whether NaN goes left. `pieces`: nodes whose test is another than `feature <=
    threshold` (`<` where the forest says so).
    """

    left: Array
    right: Array
    feature: Array
    threshold: Array
    nan_left: Array
    values: Array
    pieces: Mapping[int, Pieces]


class Forest:
    """Collects trees, and makes the nodes that compute their votes.

    Thresholds and votes are of `dtype`, in which inputs are compared and votes summed; a branch
    goes left where its feature is at most (LEQ) or less than (LESS) its threshold.
    """

    def __init__(self, columns: int, dtype: DType, mode: int = LEQ) -> None:
        self.columns, self.dtype, self._mode = columns, dtype, mode
        self._layout = np.dtype(
            [
                ("feature", np.int64),
                ("mode", np.uint8),
                ("threshold", dtype.numpy),
                ("nan", bool),
                ("ends", np.int64, 2),
                ("is_leaf", bool, 2),
            ]
        )
        self._parts: list[Array] = []
        self._values: list[Array] = []
        self._targets: list[Array] = []
        self._roots: list[int] = []
        self._branches = self._leaves = 0

    def add(self, tree: Tree, target: int = 0, where: str = "") -> None:
        """The next tree, whose votes are for `target` (for all, where its leaves have rows).

        ModelFileError where it is no tree, or its numbers cannot be.
        """
        try:
            self._add(tree, target)
        except ModelFileError as error:
            error.within(where or f"tree {len(self._roots)}")
            raise

    def constant(self, value: float, target: int = 0) -> None:
        """A tree of one leaf."""
        self._leaf(np.array([value]), target)

    def _add(self, tree: Tree, target: int) -> None:
        inner = _checked(tree, self.columns)
        if not inner[0]:
            self._leaf(tree.values[:1], target)
            return
        number = np.where(
            inner, np.cumsum(inner) - 1 + self._branches, np.cumsum(~inner) - 1 + self._leaves
        )
        ends = np.stack([tree.left, tree.right], axis=1)[inner]
        made = np.zeros(len(ends), self._layout)
        made["feature"], made["mode"] = tree.feature[inner], self._mode
        made["threshold"], made["nan"] = tree.threshold[inner], tree.nan_left[inner]
        made["ends"], made["is_leaf"] = number[ends], ~inner[ends]
        more: list[Any] = []
        for node, pieces in tree.pieces.items():
            if inner[node]:
                place = int(number[node]) - self._branches
                made[place] = self._search(made[place], pieces, self._branches + len(made), more)
        self._roots.append(self._branches)
        self._parts += [made, np.array(more, self._layout)]
        self._branches += len(made) + len(more)
        self._vote(tree.values[~inner], target)

    def _search(self, branch: Any, pieces: Pieces, first: int, more: list[Any]) -> Any:
        """The branch that stands for a split of intervals; those below it, which are numbered from
        `first` on, are added to `more`.
        """
        feature = branch["feature"]
        left, right = zip(branch["ends"].tolist(), branch["is_leaf"].tolist())
        sides = [left if is_left else right for is_left in pieces.left]

        def end(low: int, high: int) -> tuple[int, bool]:
            if len(set(sides[low:high])) == 1:
                return sides[low]
            middle = (low + high) // 2
            below, above = end(low, middle), end(middle, high)
            limit, ends, leaf = pieces.bounds[middle - 1], *zip(below, above)
            more.append((feature, LEQ, limit, False, ends, leaf))
            return first + len(more) - 1, False

        # NaN is below no bound; here nothing else is below -infinity.
        ends, leaf = zip(left if pieces.nan_left else right, end(0, len(sides)))
        return (feature, LESS, -np.inf, True, ends, leaf)

    def _vote(self, values: Array, target: int) -> None:
        self._values.append(values)
        self._targets.append(np.full(len(values), target))
        self._leaves += len(values)

    def _leaf(self, values: Array, target: int) -> None:
        """A tree of one leaf: TreeEnsemble has it as a branch to the same leaf at both ends."""
        self._roots.append(self._branches)
        last = self._leaves
        self._parts.append(
            np.array([(0, LEQ, 0.0, False, (last, last), (True, True))], self._layout)
        )
        self._branches += 1
        self._vote(values, target)

    # -- nodes -------------------------------------------------------------------------------------

    def sums(self, g: Importer, x: Value, targets: int = 1) -> Value:
        """The sum of all votes for each target: [rows, targets]."""
        return self._ensemble(
            g, x, np.concatenate(self._targets), np.concatenate(self._values), targets
        )

    def rows(self, g: Importer, x: Value) -> Value:
        """The sums of the rows of values at the leaves that are reached: [rows, targets]."""
        table = np.concatenate(self._values).astype(self.dtype.numpy)
        leaves = g("Gather", g.constant(table), self.reached(g, x), axis=0)
        return g("ReduceSum", leaves, g.ints(1), keepdims=0)

    def reached(self, g: Importer, x: Value) -> Value:
        """The numbers of the leaves that are reached, counted over all trees: [rows, trees]."""
        counts = [len(values) for values in self._values]
        trees = np.repeat(np.arange(len(counts)), counts)
        found = self._ensemble(g, x, trees, np.arange(sum(counts)), len(self._roots))
        return g("Cast", found, to=dtypes.int64)

    def _ensemble(self, g: Importer, x: Value, targets: Any, weights: Any, count: int) -> Value:
        branches = np.concatenate(self._parts)
        ends, is_leaf = branches["ends"], branches["is_leaf"].astype(np.int64)
        attributes = {
            "tree_roots": self._roots,
            "nodes_featureids": branches["feature"],
            "nodes_modes": np.ascontiguousarray(branches["mode"]),
            "nodes_splits": np.ascontiguousarray(branches["threshold"]),
            "nodes_truenodeids": ends[:, 0],
            "nodes_trueleafs": is_leaf[:, 0],
            "nodes_falsenodeids": ends[:, 1],
            "nodes_falseleafs": is_leaf[:, 1],
            "leaf_targetids": targets,
            "leaf_weights": weights.astype(self.dtype.numpy),
            "n_targets": count,
        }
        if branches["nan"].any():
            missing = branches["nan"].astype(np.int64)
            attributes["nodes_missing_value_tracks_true"] = missing
        return g.apply(make_operator("ai.onnx.ml", "TreeEnsemble", attributes), [x])[0]


def _checked(tree: Tree, columns: int) -> Array:
    """Which nodes are branches; ModelFileError where the nodes make no tree."""
    count = len(tree.left)
    lists = (tree.right, tree.feature, tree.threshold, tree.nan_left, tree.values)
    if not count or any(len(entries) != count for entries in lists):
        raise ModelFileError(
            f"its lists of nodes are of {[len(v) for v in (tree.left, *lists)]} numbers"
        )
    inner: Array = tree.left >= 0
    ends = np.concatenate([tree.left[inner], tree.right[inner]])
    if ends.size and (ends.min() <= 0 or ends.max() >= count):
        wrong = ends[(ends <= 0) | (ends >= count)][0]
        raise ModelFileError(f"a branch leads to node {wrong} of {count}")
    if len(np.unique(ends)) < len(ends):
        raise ModelFileError("two branches lead to one node")
    if not np.isfinite(tree.values[~inner]).all():
        raise ModelFileError("the value of a leaf is not a finite number")
    features = tree.feature[inner]
    if features.size and (features.min() < 0 or features.max() >= columns):
        wrong = features[(features < 0) | (features >= columns)][0]
        raise ModelFileError(f"a branch looks at feature {wrong} of {columns}")
    plain = inner.copy()
    plain[list(tree.pieces)] = False
    if np.isnan(tree.threshold[plain].astype(np.float64)).any():
        raise ModelFileError("a threshold is NaN")
    return inner


def plain_tree(
    left: Any,
    right: Any,
    feature: Any,
    threshold: Any,
    values: Any,
    nan_left: Any = False,
    pieces: Mapping[int, Pieces] | None = None,
) -> Tree:
    """A tree of lists of numbers; `nan_left` may be one answer for all."""
    ends = np.asarray(left, np.int64)
    nan = (
        np.broadcast_to(np.asarray(nan_left, bool), ends.shape)
        if np.ndim(nan_left) == 0
        else np.asarray(nan_left, bool)
    )
    return Tree(
        ends,
        np.asarray(right, np.int64),
        np.asarray(feature, np.int64),
        np.asarray(threshold, np.float64),
        nan,
        np.asarray(values, np.float64),
        pieces or {},
    )
