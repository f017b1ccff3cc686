"""Ensembles of trees in their newer form."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import TypeMismatchError
from infuse.ir.graph import Value
from infuse.ops.core.base import Array, Inferred, Sample
from infuse.ops.domains.forest import AGGREGATES, Forest
from infuse.ops.domains.ml import (
    TRANSFORMS,
    Ints,
    ListsOp,
    as_rows,
    operator_hash,
    require_number,
    rows_of,
    same_operator,
    table,
    transformed,
)
from infuse.ops.domains.ml_trees import ODD, SUMS, check_columns
from infuse.ops.domains.tree_ensemble import modern_forest


def _modern(**more: Any) -> dict[str, Any]:
    """Attributes of two trees for the samples of TreeEnsemble."""
    plain = {
        "tree_roots": (0, 2),
        "nodes_featureids": (0, 2, 1),
        "nodes_modes": np.array([0, 0, 0], np.uint8),
        "nodes_splits": np.array([0.5, -1.0, 0.25], np.float32),
        "nodes_truenodeids": (1, 1, 3),
        "nodes_trueleafs": (0, 1, 1),
        "nodes_falsenodeids": (0, 2, 4),
        "nodes_falseleafs": (1, 1, 1),
        "leaf_targetids": (0, 1, 0, 1, 0),
        "leaf_weights": np.array([0.5, -0.25, 1.5, 0.75, -1.0], np.float32),
        "n_targets": 2,
    }
    return {**plain, **more}


def _member(dtype: Any) -> dict[str, Any]:
    members = np.array([1.0, 2.0, 5.0, np.nan, 0.5, np.nan], dtype)
    splits, weights = (
        np.array([0.5, -1, 0.25], dtype),
        np.array([0.5, -0.25, 1.5, 0.75, -1.0], dtype),
    )
    return _modern(
        nodes_modes=np.array([6, 2, 6], np.uint8),
        membership_values=members,
        nodes_splits=splits,
        leaf_weights=weights,
    )


class TreeEnsemble(ListsOp):
    """The sum (mean, least or largest) of what the leaves of all trees vote for each target, then a
    transform.
    """

    tree_roots: Ints
    nodes_featureids: Ints
    nodes_modes: Any
    nodes_splits: Any
    nodes_truenodeids: Ints
    nodes_trueleafs: Ints
    nodes_falsenodeids: Ints
    nodes_falseleafs: Ints
    leaf_targetids: Ints
    leaf_weights: Any
    aggregate_function: int = 1
    membership_values: Any = None
    n_targets: int = 1
    nodes_hitrates: Any = None
    nodes_missing_value_tracks_true: Ints = ()
    post_transform: int = 0

    since = 5
    accuracy = SUMS
    __eq__ = same_operator
    __hash__ = operator_hash
    samples = (
        *(Sample({"x": (9, 3)}, _modern(aggregate_function=i, n_targets=2)) for i in range(4)),
        *(Sample({"x": (9, 4)}, _modern(post_transform=i)) for i in range(1, 4)),
        *(
            Sample({"x": ODD}, _modern(nodes_modes=np.array([i, i, i], np.uint8)))
            for i in range(1, 6)
        ),
        Sample({"x": ODD}, _modern(nodes_missing_value_tracks_true=(1, 0, 1))),
        Sample(
            {"x": np.array([[1, 0.5, -1], [3, 0, 0], [np.nan, 7, -2]], np.float32)},
            _member(np.float32),
        ),
        Sample(
            {"x": np.array([[1, 0.5, -1], [3, 0, 0], [5, 7, -2]], np.float64)}, _member(np.float64)
        ),
    )

    def infer(self, x: Value) -> Inferred:
        dtype = require_number(
            self.name, x, (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
        )
        if not 0 <= self.post_transform < len(TRANSFORMS) or not 0 <= self.aggregate_function < len(
            AGGREGATES
        ):
            raise TypeMismatchError(
                f"{self.name} knows no transform {self.post_transform} of {self.aggregate_function}"
            )
        check_columns(self.name, self.forest(dtype.numpy), x)
        return table(dtype, rows_of(self.name, x), self.n_targets)

    def forest(self, x: Any) -> Forest:
        """The trees, with numbers as wide as those of `x` compute in."""
        wide = np.float64 if x == np.float64 else np.float32
        cache: dict[Any, Forest] = self.__dict__.setdefault("_forests", {})
        if wide not in cache:
            cache[wide] = modern_forest(self.name, self.attributes(), wide)
        return cache[wide]

    @property
    def aggregate(self) -> str:
        """How votes are joined."""
        return AGGREGATES[self.aggregate_function]

    @property
    def transform(self) -> str:
        """What becomes of the scores."""
        return TRANSFORMS[self.post_transform]

    def eval(self, x: Array) -> Array:
        scores = self.forest(x.dtype).scores(as_rows(x), self.n_targets, self.aggregate)
        return transformed(self.transform, scores).astype(x.dtype)
