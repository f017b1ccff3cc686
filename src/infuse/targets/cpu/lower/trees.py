"""Kernels of ensembles of decision trees."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from infuse.ir.graph import Node
from infuse.lowering.expand.ml_kernels import KERNELS
from infuse.lowering.expressions import infix
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand, row_major
from infuse.lowering.tree_layouts import (
    PlainForest,
    RankedForest,
    least_ranked_rows,
    walked_nodes,
)
from infuse.lowering.writer import FunctionWriter
from infuse.ops.core.base import Array
from infuse.ops.domains.forest import Forest
from infuse.targets.cpu.table import lowers

_JOINS = {"SUM": "TREE_SUM", "AVERAGE": "TREE_SUM", "MIN": "TREE_LEAST", "MAX": "TREE_MOST"}
_SMALL: Final = 4096
"""Votes that may always be a table."""


@lowers("TreeScores", domain=KERNELS)
def tree_scores(low: Lowering, node: Node, group: Group) -> None:
    x, attributes = operand(node), node.op.attributes()
    forest: Forest = attributes["forest"]
    plain = PlainForest.of(forest)
    source, target = row_major(low, x), low.storage.allocate(node.output)
    kind, votes_kind = x.dtype.c_name, node.output.dtype.c_name
    least_rows = least_ranked_rows(plain, low.machine.lanes)
    ranked = None if least_rows is None else RankedForest.of(plain)
    count = attributes["count"]
    f = low.function("trees", node)
    f.include("tree_ranks.hpp" if ranked else "trees.hpp")
    width = f.number(x.shape[1])
    f.fail_unless(infix(width, ">=", forest.columns))
    join = _votes(low, f, forest, plain, attributes["aggregate"], count, votes_kind)
    _walked(low, f, plain, kind)
    trees = ["trees"]
    size, columns = plain.thresholds.itemsize, len(plain.columns)
    f.scratch("trees_scratch", "trees.hpp", str(columns), str(size), str(count))
    if least_rows is not None and ranked:
        _ranked(low, f, ranked, least_rows, kind)
        trees.insert(0, "ranked")
        counts = (ranked.most_columns, ranked.most_nodes, size, count)
        f.scratch("ranked_trees_scratch", "tree_ranks.hpp", *map(str, counts))
    f.call(
        "run_ranked_trees" if ranked else "run_trees",
        *trees,
        "votes",
        f"{f.number(x.shape[0])}, {width}, {f.number(int(plain.depths.max(initial=0)))}",
        f.read(source),
        f.write(target),
        template=(join,),
    )
    f.finish("trees")
    low.storage.tensors[node.output] = target


def _words(low: Lowering, f: FunctionWriter, *arrays: Array) -> list[str]:
    """Pointers to arrays of int32."""
    return [f.read(low.program.weight(a.reshape(-1).astype(np.int32))) for a in arrays]


def _walked(low: Lowering, f: FunctionWriter, plain: PlainForest, kind: str) -> None:
    """The struct `trees`."""
    nodes, leaf_numbers = walked_nodes(plain)
    columns, words, depths, leaves = _words(
        low,
        f,
        plain.columns if len(plain.columns) else np.zeros(1),
        nodes,
        plain.depths,
        leaf_numbers,
    )
    f.struct(
        f"Trees<{kind}>",
        "trees",
        count=f.number(len(plain.roots)),
        column_count=f.number(len(plain.columns)),
        columns=columns,
        nodes=f"(const TreeNode<{kind}>*){words}",
        depths=depths,
        leaves=leaves,
    )


def _ranked(
    low: Lowering, f: FunctionWriter, ranked: RankedForest, least_rows: int, kind: str
) -> None:
    """The struct `ranked`."""
    pieces, columns, nodes, ends, first_leaves = _words(
        low, f, ranked.pieces, ranked.columns, ranked.nodes, ranked.ends, ranked.first_leaves
    )
    counts = {
        "pieces": len(ranked.pieces),
        "trees": len(ranked.ends),
        "most_columns": ranked.most_columns,
        "most_nodes": ranked.most_nodes,
        "least_rows": least_rows,
    }
    f.struct(
        f"RankedTrees<{kind}>",
        "ranked",
        **{name: f.number(count) for name, count in counts.items()},
        ends_of_pieces=f"(const RankPiece*){pieces}",
        columns=columns,
        limits=f.read(low.program.weight(ranked.limits)),
        nodes=f"(const RankNode*){nodes}",
        ends=ends,
        first_leaves=first_leaves,
    )


def _votes(
    low: Lowering,
    f: FunctionWriter,
    forest: Forest,
    plain: PlainForest,
    aggregate: str,
    count: int,
    kind: str,
) -> str:
    """The struct `votes`; how they are joined."""
    lengths = np.diff(forest.starts)[plain.leaves]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    places = np.repeat(forest.starts[plain.leaves] - starts[:-1], lengths) + np.arange(starts[-1])
    targets, votes = forest.targets[places], forest.votes[places]
    join = _JOINS[aggregate]
    if join == "TREE_SUM":
        own = _targets_of_trees(plain, lengths, targets)
        table = None if own is not None else _table(starts, targets, votes, count)
        if own is not None:
            join, targets = "TREE_ONE", own
        elif table is not None:
            join, votes = "TREE_TABLE", table
    lists: list[Any] = [starts, targets if targets.size else np.zeros(1)]
    pointers = _words(low, f, *lists)
    numbers = votes if votes.size else np.zeros(1, votes.dtype)
    f.struct(
        f"TreeVotes<{kind}>",
        "votes",
        count=f.number(count),
        starts=pointers[0],
        targets=pointers[1],
        votes=f.read(low.program.weight(numbers.reshape(-1))),
    )
    return join


def _targets_of_trees(plain: PlainForest, lengths: Array, targets: Array) -> Array | None:
    """The target of each tree; None where its leaves have other numbers of votes than one, or
    several targets.
    """
    trees = plain.trees[plain.leaves]
    if not (lengths == 1).all() or not plain.is_disjoint:
        return None
    own = targets[np.searchsorted(trees, np.arange(len(plain.roots)))]
    return own if (own[trees] == targets).all() else None


def _table(starts: Array, targets: Array, votes: Array, count: int) -> Array | None:
    """The vote of each leaf for each target; None where that is much more than the votes, or a leaf
    has several for one.
    """
    leaves = len(starts) - 1
    if leaves * count > 4 * votes.size + _SMALL:
        return None
    places = np.repeat(np.arange(leaves), np.diff(starts)) * count + targets
    if len(np.unique(places)) < len(places):
        return None
    table = np.zeros(leaves * count, votes.dtype)
    table[places] = votes
    return table
