"""Ensembles of decision trees."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from infuse.targets.cpu.families.base import Arguments, Array, Stores, writes

_BETTER: Final = {"TREE_LEAST": np.minimum, "TREE_MOST": np.maximum}
_KINDS: Final = 4
_BELOW, _IS_MISSING = 1, 2
_LIMITS, _RANKED_LEAVES, _LEAST_RANK = 272, 256, -128


@writes("run_trees")
def run_trees(call: Arguments) -> Stores:
    """The votes of the leaves that rows reach, added up, or the least or most of them."""
    trees, votes, rows, width, _, x = call.arguments[:6]
    lines = x[: rows * width].reshape(rows, width)
    columns = _columns(lines, trees.columns[: trees.column_count])
    layout = np.dtype([("threshold", x.dtype), ("column", np.int32), ("next", np.int32)])
    words = trees.nodes[: trees.nodes.nbytes // layout.itemsize * layout.itemsize // 4]
    nodes = np.ascontiguousarray(words).view(layout)
    reached = [trees.leaves[_walk(nodes, tree, columns)] for tree in range(trees.count)]
    return {6: _joined(votes, reached, rows, call.template[0])}


def _columns(rows: Array, columns: Array) -> Array:
    """What branches compare: [rows, columns]."""
    features, kinds = np.divmod(columns, _KINDS)
    values = rows[:, features]
    missing = np.isnan(values)
    shown = np.where(missing & (kinds == _BELOW), -np.inf, values)
    marks = np.where(missing, -1.0, 1.0)
    return np.asarray(np.where(kinds == _IS_MISSING, marks, shown).astype(rows.dtype))


def _walk(nodes: Array, root: int, columns: Array) -> Array:
    """The node of the leaf that each row reaches; a leaf leads to itself."""
    at, before = np.full(len(columns), root), np.full(len(columns), -1)
    every = np.arange(len(columns))
    while (at != before).any():
        before, own = at, nodes[at]
        is_leaf = np.isnan(own["threshold"])
        value = columns[every, np.where(is_leaf, 0, own["column"])] if columns.size else 0
        at = own["next"] + (value <= own["threshold"])
    return at


def _joined(votes: Any, reached: list[Array], rows: int, join: str) -> Array:
    """What the leaves that each tree reached vote: [rows, targets]."""
    result = np.full((rows, votes.count), np.nan)
    for tree, leaves in enumerate(reached):
        for row, leaf in enumerate(leaves):
            own = _votes_of(votes, tree, int(leaf), join)
            for target, value in own:
                before = result[row, target]
                better = _BETTER.get(join, np.add)
                result[row, target] = value if np.isnan(before) else better(before, value)
    return np.nan_to_num(result)


def _votes_of(votes: Any, tree: int, leaf: int, join: str) -> list[tuple[int, float]]:
    """The targets that a leaf votes for, and what."""
    if join == "TREE_ONE":
        return [(int(votes.targets[tree]), float(votes.votes[leaf]))]
    if join == "TREE_TABLE":
        own = votes.votes[leaf * votes.count : (leaf + 1) * votes.count]
        return list(enumerate(map(float, own)))
    part = slice(*votes.starts[leaf : leaf + 2])
    return list(zip(votes.targets[part].tolist(), votes.votes[part].tolist()))


@writes("run_ranked_trees")
def run_ranked_trees(call: Arguments) -> Stores:
    """The same; numbers are compared by their ranks among the thresholds of their column."""
    ranked, _, votes, rows, width, _, x = call.arguments[:7]
    lines = x[: rows * width].reshape(rows, width)
    reached: list[Array] = []
    first_column = node = 0
    for piece in range(ranked.pieces):
        last, last_column = ranked.ends_of_pieces[2 * piece : 2 * piece + 2]
        columns = slice(first_column, last_column)
        ranks = _ranks(_columns(lines, ranked.columns[columns]), ranked.limits, first_column)
        while len(reached) < last:
            end = ranked.ends[len(reached)]
            own = ranked.nodes[4 * node : 4 * end].reshape(-1, 4)
            local = _picked(own, ranks, rows)
            reached.append(ranked.first_leaves[len(reached)] + local)
            node = end
        first_column = last_column
    return {7: _joined(votes, reached, rows, call.template[0])}


def _ranks(columns: Array, limits: Array, first: int) -> Array:
    """The number of thresholds below each number, less 128; NaN is above all."""
    ranks = np.zeros(columns.shape, np.int64)
    for number, values in enumerate(columns.T):
        table = limits[(first + number) * _LIMITS :][16:_LIMITS]
        count = (table < values[:, None]).sum(axis=1)
        ranks[:, number] = np.where(np.isnan(values), 255, count) + _LEAST_RANK
    return ranks


def _picked(nodes: Array, ranks: Array, rows: int) -> Array:
    """The leaf of one tree that each row reaches, from the last branches up to the root."""
    results = np.zeros((_RANKED_LEAVES + len(nodes), rows), np.int64)
    results[:_RANKED_LEAVES] = np.arange(_RANKED_LEAVES)[:, None]
    for number, (column, limit, above, other) in enumerate(nodes):
        is_above = ranks[:, column] > np.array(limit & 0xFF, np.uint8).view(np.int8)
        results[_RANKED_LEAVES + number] = np.where(is_above, results[above], results[other])
    root: Array = results[-1] if len(nodes) else results[0]
    return root
