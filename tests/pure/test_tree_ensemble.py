"""The two builders of TreeEnsemble's forest: by arrays, and branch by branch."""

from typing import Any

import numpy as np
import pytest

from infuse.ops.domains.tree_ensemble import _Chains, modern_forest
from tests.forests import COLUMNS, LIMITS, random_lists

TARGETS = 3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_both_builders_make_the_same_trees(seed: int, missing: bool, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    lists = random_lists(rng, missing)
    rows = rng.choice(LIMITS, (500, COLUMNS)).astype(dtype)
    by_arrays = modern_forest("TreeEnsemble", lists, dtype)
    one_by_one = _Chains("TreeEnsemble", lists, dtype).build()
    assert by_arrays.depth == one_by_one.depth
    assert len(by_arrays.kinds) == len(one_by_one.kinds)
    for aggregate in ("SUM", "MIN"):
        np.testing.assert_array_equal(
            by_arrays.scores(rows, TARGETS, aggregate), one_by_one.scores(rows, TARGETS, aggregate)
        )
