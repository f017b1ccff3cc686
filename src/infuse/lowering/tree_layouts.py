"""Forests as kernels read them: branches that all ask `column <= threshold`, in two layouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from infuse.ops.core.base import Array
from infuse.ops.domains.forest import EQUAL, LEAF, Forest, levels_of

ABOVE, BELOW, IS_MISSING = range(3)
"""What a column has for NaN: NaN itself; -infinity; -1 (and 1 for every number)."""
MISSING_KINDS: Final = 4

_RANKED_LEAVES: Final = 256
_RANKED_LIMITS: Final = 255
_BLOCK: Final = 16
_LEAST_RANK: Final = 128
"""What is subtracted from ranks, so that they are signed bytes."""


@dataclass(frozen=True, eq=False)
class PlainForest:
    """A forest whose branches all lead to `ends[i, 1]` where `column <= threshold`, else to
    `ends[i, 0]`; arrays of all nodes.

    `columns` are features * MISSING_KINDS + what they have for NaN; `trees` and `levels` say to
    which tree a node belongs (the first of several), and how deep in it, at most.
    """

    columns: Array
    column: Array
    thresholds: Array
    ends: Array
    is_leaf: Array
    roots: Array
    trees: Array
    levels: Array
    leaves: Array
    """The node of each leaf, by its number: tree after tree."""

    @classmethod
    def of(cls, forest: Forest) -> PlainForest:
        """The same trees. Tests for equality become two branches, `<=` and not `<=` the number
        before.
        """
        kinds, limits, nan = forest.kinds, forest.thresholds, forest.takes_nan
        missing = np.where(nan, BELOW, ABOVE)
        equal = np.flatnonzero((kinds == EQUAL) & ~np.isnan(limits))
        more = np.arange(len(equal)) + len(kinds)
        before = np.nextafter(limits[equal], limits.dtype.type(-np.inf))
        before[limits[equal] == -np.inf] = np.nan
        ends = np.concatenate([forest.branches, forest.branches[equal][:, ::-1]])
        ends[equal, 1] = more
        limits = np.concatenate([limits, before])
        missing = np.concatenate([missing, np.full(len(equal), ABOVE)])
        nan = np.concatenate([nan, np.zeros(len(equal), bool)])
        features = np.concatenate([forest.features, forest.features[equal]])
        is_leaf = np.concatenate([kinds == LEAF, np.zeros(len(equal), bool)])
        # Nothing is at most NaN: only what is missing may pass such a branch.
        never = np.isnan(limits)
        missing[never] = IS_MISSING
        limits[never] = np.where(nan[never], 0, -2)
        named = features * MISSING_KINDS + missing
        columns, places = np.unique(named[~is_leaf], return_inverse=True)
        column = np.zeros(len(named), np.int64)
        column[~is_leaf] = places
        trees, levels = _trees(ends, is_leaf, forest.roots)
        order = np.lexsort((np.arange(len(named)), trees))
        reached = order[trees[order] < len(forest.roots)]
        return cls(
            columns=columns,
            column=column,
            thresholds=limits,
            ends=ends,
            is_leaf=is_leaf,
            roots=forest.roots,
            trees=trees,
            levels=levels,
            leaves=reached[is_leaf[reached]],
        )

    @property
    def is_disjoint(self) -> bool:
        """Whether no node is in two trees."""
        inner = ~self.is_leaf & (self.trees < len(self.roots))
        own = self.trees[self.ends[inner]] == self.trees[inner][:, None]
        return len(np.unique(self.roots)) == len(self.roots) and bool(own.all())

    @property
    def leaf_numbers(self) -> Array:
        """The number of the leaf at each node; 0 for branches."""
        numbers = np.zeros(len(self.column), np.int64)
        numbers[self.leaves] = np.arange(len(self.leaves))
        return numbers

    @property
    def depths(self) -> Array:
        """The most branches on a way down, by tree."""
        below = np.zeros(len(self.column), np.int64)
        for nodes in reversed(_by_level(self.levels, self.is_leaf)):
            below[nodes] = below[self.ends[nodes]].max(axis=1) + 1
        return below[self.roots]

    @property
    def branch_counts(self) -> Array:
        """The number of branches of each tree."""
        reached = (self.trees < len(self.roots)) & ~self.is_leaf
        return np.bincount(self.trees[reached], minlength=len(self.roots))


def _trees(ends: Array, is_leaf: Array, roots: Array) -> tuple[Array, Array]:
    """The tree of each node (their count, where none reaches it), and its level."""
    levels = levels_of(ends, roots, is_leaf)
    trees = np.full(len(ends), len(roots))
    np.minimum.at(trees, roots, np.arange(len(roots)))
    for nodes in _by_level(levels, is_leaf):
        np.minimum.at(trees, ends[nodes], trees[nodes][:, None])
    return trees, levels


def _by_level(levels: Array, is_leaf: Array) -> list[Array]:
    """The branches that are reached, from the first level on."""
    inner = np.flatnonzero((levels >= 0) & ~is_leaf)
    order = inner[np.argsort(levels[inner], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(levels[order])) + 1) if len(order) else []


def walked_nodes(forest: PlainForest) -> tuple[Array, Array]:
    """The roots, and two nodes for each branch, as `TreeNode` has them (seen as words of 32 bits);
    and the number of the leaf at each.
    """
    inner = np.flatnonzero(~forest.is_leaf & (forest.trees < len(forest.roots)))
    inner = inner[np.lexsort((inner, forest.levels[inner], forest.trees[inner]))]
    pairs = np.zeros(len(forest.column), np.int64)
    pairs[inner] = len(forest.roots) + 2 * np.arange(len(inner))
    nodes = np.concatenate([forest.roots, forest.ends[inner].reshape(-1)])
    is_leaf, limits = forest.is_leaf[nodes], forest.thresholds[nodes]
    layout = np.dtype([("threshold", limits.dtype), ("column", np.int32), ("next", np.int32)])
    words = np.zeros(len(nodes), layout)
    words["threshold"] = np.where(is_leaf, np.nan, limits)
    words["column"] = forest.column[nodes]
    words["next"] = np.where(is_leaf, np.arange(len(nodes)), pairs[nodes])
    return words.view(np.int32), forest.leaf_numbers[nodes]


@dataclass(frozen=True, eq=False)
class RankedForest:
    """The arrays of `RankedTrees`."""

    pieces: Array
    columns: Array
    limits: Array
    nodes: Array
    ends: Array
    first_leaves: Array
    most_columns: int
    most_nodes: int

    @classmethod
    def of(cls, forest: PlainForest) -> RankedForest | None:
        """The layout; None for trees of too many leaves, or that share
        branches.
        """
        count = len(forest.roots)
        if not forest.is_disjoint:
            return None
        of_leaf = forest.trees[forest.leaves]
        first_leaves = np.searchsorted(of_leaf, np.arange(count + 1))
        inner = np.flatnonzero(~forest.is_leaf & (forest.trees < count))
        tree = forest.trees[inner]
        if np.diff(first_leaves).max(initial=0) > _RANKED_LEAVES:
            return None
        order = np.lexsort((inner, -forest.levels[inner], tree))
        inner, tree = inner[order], tree[order]
        ends = np.searchsorted(tree, np.arange(1, count + 1))
        starts = np.concatenate([[0], ends])[:-1]
        if np.diff(ends, prepend=0).max(initial=0) > _RANKED_LIMITS:
            return None
        slots = np.zeros(len(forest.column), np.int64)
        slots[inner] = _RANKED_LEAVES + np.arange(len(inner)) - starts[tree]
        slots[forest.leaves] = np.arange(len(forest.leaves)) - first_leaves[of_leaf]
        nodes = np.zeros((len(inner), 4), np.int64)
        nodes[:, 2:] = slots[forest.ends[inner]]
        widths, columns, limits = _rank(forest, inner, ends, nodes)
        return cls(
            pieces=np.array(widths),
            columns=np.array(columns or [0]),
            limits=np.concatenate(limits or [np.zeros(1, forest.thresholds.dtype)]),
            nodes=nodes.astype(np.uint32).view(np.int32),
            ends=ends,
            first_leaves=first_leaves[:-1],
            most_columns=int(np.diff([0, *(width for _, width in widths)]).max(initial=0)),
            most_nodes=int(np.diff(ends, prepend=0).max(initial=0)),
        )


def _rank(
    forest: PlainForest, inner: Array, ends: Array, nodes: Array
) -> tuple[list[tuple[int, int]], list[int], list[Array]]:
    """Write the columns and ranks of branches into `nodes`. The ends of pieces, as trees and
    columns, and all columns with their limits.
    """
    widths: list[tuple[int, int]] = []
    columns: list[int] = []
    limits: list[Array] = []
    start = 0
    for last, tables in _pieces(forest.column[inner], forest.thresholds[inner], ends):
        end = int(ends[last - 1]) if last else 0
        part, own = nodes[start:end], inner[start:end]
        for place, number in enumerate(sorted(tables)):
            asks = np.flatnonzero(forest.column[own] == number)
            table = np.array(sorted(tables[number]), forest.thresholds.dtype)
            ranks = np.searchsorted(table, forest.thresholds[own[asks]]) - _LEAST_RANK
            part[asks, 0], part[asks, 1] = place, (ranks & 0xFF) * 0x01010101
            columns.append(int(forest.columns[number]))
            limits.append(_blocks(table))
        widths.append((last, len(columns)))
        start = end
    return widths, columns, limits


def _pieces(column: Array, thresholds: Array, ends: Array) -> list[tuple[int, dict[int, set[Any]]]]:
    """Trees one after another, as long as no column has too many thresholds: the tree after the
    last, and the thresholds by column.
    """
    pieces: list[tuple[int, dict[int, set[Any]]]] = []
    tables: dict[int, set[Any]] = {}
    start = 0
    for tree, end in enumerate(ends):
        own: dict[int, set[Any]] = {}
        for number, limit in zip(column[start:end].tolist(), thresholds[start:end].tolist()):
            own.setdefault(number, set()).add(limit)
        if any(len(tables.get(c, set()) | limits) > _RANKED_LIMITS for c, limits in own.items()):
            pieces.append((tree, tables))
            tables = {}
        for number, new in own.items():
            tables.setdefault(number, set()).update(new)
        start = int(end)
    return [*pieces, (len(ends), tables)]


def _blocks(limits: Array) -> Array:
    """Ascending limits in blocks, filled with infinity; before them the last of each block."""
    filled = np.full((_BLOCK, _BLOCK), np.inf, limits.dtype)
    filled.reshape(-1)[: len(limits)] = limits
    return np.concatenate([filled[:, -1], filled.reshape(-1)])


def least_ranked_rows(forest: PlainForest, lanes: int) -> int | None:
    """The fewest rows for which it takes less time to ask all branches for a vector of rows than to
    walk down row by row; None where not even a whole vector of them does. Estimates of cycles,
    measured on a Zen 4.
    """
    if not len(forest.roots):
        return None
    walk = 3.0 * float(forest.levels[forest.leaves].mean()) * len(forest.roots)
    branches = 4.0 * float(forest.branch_counts.sum())
    rank = (4.0 * forest.thresholds.itemsize / lanes + 2.0) * len(forest.columns)
    rows = 4 * lanes
    return None if branches >= (walk - rank) * rows else 1 + int(branches / (walk - rank))
