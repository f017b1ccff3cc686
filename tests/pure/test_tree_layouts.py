"""Forests as kernels read them: walked in NumPy by what the kernels mean, beside the forest."""

from dataclasses import replace

import numpy as np
import pytest

from infuse import dtypes
from infuse.dtypes import DType
from infuse.lowering.expand.tree_rows import with_rows
from infuse.lowering.tree_layouts import PlainForest, RankedForest, least_ranked_rows
from infuse.ops.domains.forest import Forest, ForestBuilder
from infuse.ops.domains.tree_ensemble import modern_forest
from tests.forests import COLUMNS, LIMITS, ensemble, graph_of, random_lists
from tests.pure.kernel_runs import TARGETS, run


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
@pytest.mark.parametrize(("trees", "depth", "targets"), [(40, 3, 3), (1, 7, 1), (40, 2, 1)])
@pytest.mark.parametrize("missing", [False, True])
def test_kernels_reach_the_leaves_of_the_forest(
    target: str, dtype: DType, trees: int, depth: int, targets: int, missing: bool
) -> None:
    rng = np.random.default_rng(depth)
    lists = random_lists(rng, missing, trees=trees, depth=depth, targets=targets)
    rows = rng.choice(LIMITS, (70, COLUMNS)).astype(dtype.numpy)
    made = run(graph_of(ensemble(lists, dtype), dtype, 70), target, "fp32", feeds={"x": rows})
    assert made.calls == 1


def shared_forest() -> Forest:
    """Two trees that have a branch and its leaves in common."""
    builder = ForestBuilder(np.float32)
    low, high, other = (builder.leaf([(0, v)]) for v in (1.0, 2.0, 4.0))
    common = builder.branch("LEQ", 1, 0.5, low, high, False)
    first = builder.branch("EQ", 0, 2.0, common, other, False)
    second = builder.branch("LT", 2, 0.0, other, common, True)
    return builder.build([first, second])


def test_trees_that_share_branches_are_not_ranked() -> None:
    plain = PlainForest.of(shared_forest())
    assert not plain.is_disjoint
    assert RankedForest.of(plain) is None


def test_trees_of_many_leaves_are_not_ranked() -> None:
    lists = random_lists(np.random.default_rng(0), False, trees=1, depth=9, early=0)
    plain = PlainForest.of(modern_forest("TreeEnsemble", lists, np.float32))
    assert max(np.bincount(plain.trees[plain.leaves])) > 256
    assert RankedForest.of(plain) is None


def test_a_column_of_many_thresholds_begins_another_piece() -> None:
    builder, roots = ForestBuilder(np.float64), []
    for number in range(300):
        ends = [builder.leaf([(0, v)]) for v in (number, -number)]
        roots.append(builder.branch("LEQ", 0, number / 7, *ends, False))
    ranked = RankedForest.of(PlainForest.of(builder.build(roots)))
    assert ranked is not None
    assert ranked.pieces.tolist() == [[255, 1], [300, 2]]


def test_branches_for_equality_and_for_nan_become_plain_ones() -> None:
    plain = PlainForest.of(shared_forest())
    features, kinds = np.divmod(plain.columns, 4)
    assert features.tolist() == [0, 1, 2]
    assert kinds.tolist() == [0, 0, 1]
    assert plain.branch_counts.sum() == 4


def test_few_trees_of_many_columns_are_walked() -> None:
    builder = ForestBuilder(np.float32)

    def branch(feature: int, depth: int) -> int:
        if depth == 0:
            return builder.leaf([(0, 1.0)])
        below = [branch(2 * feature + side, depth - 1) for side in (1, 2)]
        return builder.branch("LEQ", feature, 0.5, *below, False)

    root = branch(0, 5)
    one = PlainForest.of(builder.build([root]))
    many = PlainForest.of(builder.build([branch(0, 5) for _ in range(100)]))
    for lanes in (4, 8, 16):
        assert least_ranked_rows(one, lanes) is None
    least = least_ranked_rows(many, 16)
    assert least is not None
    assert 1 < least < 64


def test_rows_of_a_table_need_one_row_for_each_leaf() -> None:
    builder = ForestBuilder(np.float32)
    trees = []
    for tree in range(2):
        ends = [builder.leaf([(tree, 2 * tree + side)]) for side in range(2)]
        trees.append(builder.branch("LEQ", tree, 0.5, *ends, False))
    forest = builder.build(trees)
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    made = with_rows(forest, table)
    assert made is not None
    rows = np.array([[0, 0], [0, 1], [1, 1]], np.float32)
    numbers = forest.scores(rows, 2, "SUM").astype(int)
    assert (made.scores(rows, 3, "SUM") == table[numbers].sum(axis=1)).all()
    assert with_rows(forest, table[:3]) is None
    assert with_rows(replace(forest, votes=forest.votes + 0.5), table) is None
    assert with_rows(replace(forest, targets=forest.targets[::-1]), table) is None
