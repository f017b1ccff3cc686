"""The two builders of TreeEnsemble's forest: by arrays, and branch by branch."""

from typing import Any

import numpy as np
import pytest

from infuse.ops.domains.tree_ensemble import _Chains, modern_forest

COLUMNS, TARGETS = 5, 3


def random_lists(rng: np.random.Generator, missing: bool) -> dict[str, Any]:
    """Trees of all modes whose nodes are shuffled, with limits that rows hit exactly; one of them
    is a leaf.
    """
    features, modes, ends, leaves, roots = [], [], [], [], []
    weights: list[float] = []

    def leaf() -> int:
        weights.append(float(rng.normal()))
        return len(weights) - 1

    def branch(depth: int) -> int:
        number = len(modes)
        features.append(int(rng.integers(COLUMNS)))
        modes.append(int(rng.integers(6)))
        ends.append([0, 0])
        leaves.append([0, 0])
        for side in range(2):
            is_leaf = depth == 0 or rng.random() < 0.3
            leaves[number][side] = int(is_leaf)
            ends[number][side] = leaf() if is_leaf else branch(depth - 1)
        return number

    for _ in range(6):
        roots.append(branch(4))
    roots.append(len(modes))
    features.append(0)
    modes.append(0)
    ends.append([leaf()] * 2)
    leaves.append([1, 1])
    order = rng.permutation(len(modes))
    place = np.argsort(order)
    both = [
        [e if is_leaf else int(place[e]) for e, is_leaf in zip(ends[i], leaves[i])] for i in order
    ]
    return {
        "tree_roots": tuple(int(place[root]) for root in roots),
        "nodes_featureids": tuple(features[i] for i in order),
        "nodes_modes": np.array([modes[i] for i in order], np.uint8),
        "nodes_splits": rng.choice([-1.0, 0.0, 0.5, 2.0, -np.inf], len(modes)),
        "nodes_falsenodeids": tuple(e[0] for e in both),
        "nodes_truenodeids": tuple(e[1] for e in both),
        "nodes_falseleafs": tuple(leaves[i][0] for i in order),
        "nodes_trueleafs": tuple(leaves[i][1] for i in order),
        "leaf_targetids": tuple(rng.integers(TARGETS, size=len(weights)).tolist()),
        "leaf_weights": np.array(weights),
        "n_targets": TARGETS,
        "nodes_missing_value_tracks_true": tuple(rng.integers(2, size=len(modes)).tolist())
        if missing
        else (),
        "membership_values": None,
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_both_builders_make_the_same_trees(seed: int, missing: bool, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    lists = random_lists(rng, missing)
    limits = [-1.0, 0.0, 0.5, 2.0, np.nan, np.inf, -np.inf, 0.25, np.nextafter(2.0, 0)]
    rows = rng.choice(limits, (500, COLUMNS)).astype(dtype)
    by_arrays = modern_forest("TreeEnsemble", lists, dtype)
    one_by_one = _Chains("TreeEnsemble", lists, dtype).build()
    assert by_arrays.depth == one_by_one.depth
    assert len(by_arrays.kinds) == len(one_by_one.kinds)
    for aggregate in ("SUM", "MIN"):
        np.testing.assert_array_equal(
            by_arrays.scores(rows, TARGETS, aggregate), one_by_one.scores(rows, TARGETS, aggregate)
        )
