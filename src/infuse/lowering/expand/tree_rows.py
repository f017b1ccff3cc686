"""Trees whose leaves have several numbers: an ensemble that gives the number of the leaf of each
tree, whose rows of a table are then added up, becomes one pass over the trees.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Node, Value
from infuse.lowering.expand.composer import Composer, Results, drops_axis, expands
from infuse.lowering.expand.ml import as_rows
from infuse.lowering.expand.ml_kernels import TreeScores
from infuse.lowering.tree_layouts import PlainForest
from infuse.ops.core.base import Array
from infuse.ops.domains.forest import Forest
from infuse.ops.domains.ml_ensembles import TreeEnsemble


@expands("ReduceSum", early=True)
def sum_of_rows(make: Composer, node: Node) -> Results:
    """The sums over trees of the rows at the leaves that are reached: [rows, columns]."""
    gather = _producer(node.inputs[0], "Gather")
    if gather is None or not drops_axis(node, 1, 3):
        return None
    table, places = gather.inputs
    if table is None or table.const is None or table.rank != 2:
        return None
    cast = _producer(places, "Cast")
    trees = _producer(None if cast is None else cast.inputs[0], "TreeEnsemble")
    if gather.op.attributes()["axis"] % 2 or places is None or trees is None:
        return None
    x, ensemble = trees.inputs[0], trees.op
    assert isinstance(ensemble, TreeEnsemble)
    is_sum = ensemble.aggregate == "SUM" and ensemble.transform == "NONE"
    if x is None or not is_sum or places.dtype != dtypes.int64 or table.dtype != x.dtype:
        return None
    forest = with_rows(ensemble.forest(x.dtype.numpy), table.const)
    if forest is None or len(forest.roots) != trees.output.shape[1]:
        return None
    (scores,) = make.apply(TreeScores(forest, table.const.shape[1], "SUM"), [as_rows(make, x)])
    return scores


def _producer(value: Value | None, kind: str) -> Node | None:
    """The node that makes a value, if it is of this kind."""
    made = None if value is None else value.producer
    return made if made is not None and made.kind == kind else None


def with_rows(forest: Forest, table: Array) -> Forest | None:
    """The forest whose leaves vote for all columns of a table, with the row that their only vote is
    the number of; None where a leaf has other votes, or is not for the target of its tree alone.
    """
    plain = PlainForest.of(forest)
    leaves = plain.leaves
    starts = forest.starts[leaves]
    if not plain.is_disjoint or not (np.diff(forest.starts)[leaves] == 1).all():
        return None
    rows = forest.votes[starts]
    is_row = (rows >= 0) & (rows < len(table)) & (rows == np.floor(rows))
    if not is_row.all() or not (plain.trees[leaves] == forest.targets[starts]).all():
        return None
    width = table.shape[1]
    counts = np.zeros(len(forest.kinds), np.int64)
    counts[leaves] = width
    order = np.argsort(leaves)
    return replace(
        forest,
        starts=np.concatenate([[0], np.cumsum(counts)]),
        targets=np.tile(np.arange(width), len(leaves)),
        votes=table[rows[order].astype(np.int64)].reshape(-1),
    )
