"""Ensembles of decision trees (ai.onnx.ml)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np

from infuse import dtypes
from infuse.errors import TypeMismatchError
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Rounding, Sample
from infuse.ops.core.sizes import at_most
from infuse.ops.domains.classic_forest import classic_forest
from infuse.ops.domains.forest import AGGREGATES, Forest, picked
from infuse.ops.domains.ml import (
    TRANSFORMS,
    Floats,
    Ints,
    ListsOp,
    as_rows,
    check_transform,
    label_type,
    labels_of,
    operator_hash,
    require_number,
    rows_of,
    same_operator,
    table,
    transformed,
)

SUMS: Final = Rounding(abs=4e-6, why="votes are added one after another, then transformed")

_TREES: Final[Mapping[str, Any]] = {
    "nodes_treeids": (0, 0, 0, 0, 0, 1, 1, 1),
    "nodes_nodeids": (0, 1, 2, 3, 4, 0, 1, 2),
    "nodes_featureids": (0, 2, 0, 0, 0, 1, 0, 0),
    "nodes_values": (0.5, -1.0, 0.0, 0.0, 0.0, 0.25, 0.0, 0.0),
    "nodes_truenodeids": (1, 3, 0, 0, 0, 1, 0, 0),
    "nodes_falsenodeids": (2, 4, 0, 0, 0, 2, 0, 0),
}
_LEAVES: Final = (
    ("treeids", (0, 0, 0, 1, 1)),
    ("nodeids", (2, 3, 4, 1, 2)),
    ("weights", (0.5, -0.25, 1.5, 0.75, -1.0)),
)


def _modes(first: str, second: str = "BRANCH_LEQ") -> tuple[str, ...]:
    return (first, second, "LEAF", "LEAF", "LEAF", first, "LEAF", "LEAF")


def _sample(prefix: str, x: Any, **more: Any) -> Sample:
    votes = {f"{prefix}_{name}": numbers for name, numbers in _LEAVES}
    return Sample({"x": x}, {**_TREES, "nodes_modes": _modes("BRANCH_LEQ"), **votes, **more})


ODD: Final = np.array(
    [[0.5, 0.25, -1.0], [np.nan, np.nan, np.nan], [np.inf, -np.inf, 0.0], [0.25, 0.5, np.nan]],
    np.float32,
)
"""Rows with numbers at, below and above the thresholds of the samples' trees, and none."""


class Classic(ListsOp, abstract=True):
    """Trees as lists of nodes, and of votes whose attributes begin with `prefix`."""

    prefix: ClassVar[str]

    def count(self) -> int:
        """The number of targets or classes."""
        raise NotImplementedError

    def forest(self, x: Any) -> Forest:
        """The trees, with numbers as wide as those of `x` compute in."""
        wide = np.float64 if x == np.float64 else np.float32
        cache: dict[Any, Forest] = self.__dict__.setdefault("_forests", {})
        if wide not in cache:
            cache[wide] = classic_forest(
                self.name, self.attributes(), self.prefix, self.count(), wide
            )
        return cache[wide]

    def base(self) -> Array:
        """What is added to the scores."""
        return picked(self.attributes(), "base_values")

    def check(self, x: Value) -> Forest:
        """The trees; TypeMismatchError or ShapeError unless they can run on `x`."""
        require_number(self.name, x)
        check_transform(self.name, self.attributes()["post_transform"])
        forest = self.forest(x.dtype.numpy)
        check_columns(self.name, forest, x)
        return forest


def check_columns(op: str, forest: Forest, x: Value) -> None:
    """ShapeError where `x` has fewer columns than the trees look at."""
    rows = rows_of(op, x)
    if rows is not None:
        at_most(forest.columns, rows[1], f"columns that {op} looks at")


class TreeEnsembleRegressor(Classic):
    """The sum (mean, least or largest) of what the leaves of all trees vote for each target, plus
    base values.
    """

    aggregate_function: str = "SUM"
    base_values: Floats = ()
    base_values_as_tensor: Any = None
    n_targets: int = 1
    nodes_falsenodeids: Ints = ()
    nodes_featureids: Ints = ()
    nodes_hitrates: Floats = ()
    nodes_hitrates_as_tensor: Any = None
    nodes_missing_value_tracks_true: Ints = ()
    nodes_modes: tuple[str, ...] = ()
    nodes_nodeids: Ints = ()
    nodes_treeids: Ints = ()
    nodes_truenodeids: Ints = ()
    nodes_values: Floats = ()
    nodes_values_as_tensor: Any = None
    post_transform: str = "NONE"
    target_ids: Ints = ()
    target_nodeids: Ints = ()
    target_treeids: Ints = ()
    target_weights: Floats = ()
    target_weights_as_tensor: Any = None

    prefix = "target"
    since = 3
    accuracy = SUMS
    __eq__ = same_operator
    __hash__ = operator_hash
    samples = (
        *(
            _sample("target", (9, 3), target_ids=(0,) * 5, aggregate_function=how, base_values=base)
            for how in AGGREGATES
            for base in ((), (0.5,))
        ),
        *(
            _sample("target", ODD, target_ids=(0,) * 5, nodes_modes=_modes(f"BRANCH_{m}"))
            for m in ("LT", "GTE", "GT", "EQ", "NEQ")
        ),
        _sample(
            "target",
            ODD,
            target_ids=(0,) * 5,
            nodes_modes=_modes("BRANCH_GT"),
            nodes_missing_value_tracks_true=(1,) * 8,
        ),
        _sample(
            "target",
            ODD,
            target_ids=(0,) * 5,
            nodes_missing_value_tracks_true=(1, 0, 0, 0, 0, 0, 0, 0),
        ),
        _sample(
            "target",
            (20, 4),
            target_ids=(0, 1, 2, 1, 0),
            n_targets=3,
            post_transform="SOFTMAX",
            base_values=(0.1, 0.2, 0.3),
        ),
        _sample(
            "target",
            np.array([[0, 1, 2], [1, 0, -1]], np.int64),
            target_ids=(0, 1, 1, 1, 0),
            n_targets=2,
        ),
        _sample(
            "target",
            np.array([[0, 1, 2], [0.5, 0, -1]], np.float64),
            target_ids=(0,) * 5,
            target_weights_as_tensor=np.array([0.1, 0.2, 0.3, 0.4, 0.5], np.float64),
            target_weights=(),
        ),
    )

    def count(self) -> int:
        return self.n_targets

    def infer(self, x: Value) -> Inferred:
        self.check(x)
        if self.aggregate_function not in AGGREGATES:
            raise TypeMismatchError(
                f"{self.name} knows {', '.join(AGGREGATES)}, not {self.aggregate_function!r}"
            )
        if len(self.base()) not in (0, 1, self.n_targets):
            raise TypeMismatchError(
                f"{self.name} has {len(self.base())} base values for {self.n_targets} targets"
            )
        return table(dtypes.float32, rows_of(self.name, x), self.n_targets)

    def eval(self, x: Array) -> Array:
        rows = as_rows(x)
        scores = self.forest(x.dtype).scores(rows, self.n_targets, self.aggregate_function)
        if len(self.base()):
            scores = scores + self.base().astype(scores.dtype)
        return transformed(self.post_transform, scores).astype(np.float32)


class TreeEnsembleClassifier(Classic):
    """Labels and scores: the sums of what the leaves of all trees vote for each class, plus base
    values.
    """

    base_values: Floats = ()
    base_values_as_tensor: Any = None
    class_ids: Ints = ()
    class_nodeids: Ints = ()
    class_treeids: Ints = ()
    class_weights: Floats = ()
    class_weights_as_tensor: Any = None
    classlabels_int64s: tuple[int, ...] = ()
    classlabels_strings: tuple[str, ...] = ()
    nodes_falsenodeids: Ints = ()
    nodes_featureids: Ints = ()
    nodes_hitrates: Floats = ()
    nodes_hitrates_as_tensor: Any = None
    nodes_missing_value_tracks_true: Ints = ()
    nodes_modes: tuple[str, ...] = ()
    nodes_nodeids: Ints = ()
    nodes_treeids: Ints = ()
    nodes_truenodeids: Ints = ()
    nodes_values: Floats = ()
    nodes_values_as_tensor: Any = None
    post_transform: str = "NONE"

    prefix = "class"
    since = 3
    accuracy = SUMS
    __eq__ = same_operator
    __hash__ = operator_hash
    samples = (
        *(
            _sample(
                "class",
                (9, 3),
                class_ids=(0, 1, 2, 1, 0),
                classlabels_int64s=(4, 7, 9),
                post_transform=how,
            )
            for how in TRANSFORMS[:4]
        ),
        _sample(
            "class",
            (9, 3),
            class_ids=(0, 1, 2, 1, 0),
            classlabels_int64s=(4, 7, 9),
            base_values=(0.5, -0.25, 1.0),
        ),
        *(
            _sample(
                "class",
                (9, 3),
                class_ids=(i,) * 5,
                classlabels_int64s=(4, 7),
                post_transform=how,
                class_weights=w,
            )
            for i in (0, 1)
            for how in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
            for w in ((0.5, -0.25, 1.5, 0.75, -1.0), (0.45, 0.25, 0.1, 0.2, 0.35))
        ),
        _sample(
            "class",
            (9, 3),
            class_ids=(0, 1, 1, 1, 0),
            classlabels_int64s=(4, 7),
            class_weights=(0.45, 0.25, 0.1, 0.2, 0.35),
        ),
        _sample("class", (9, 3), class_ids=(0, 1, 2, 1, 0), classlabels_strings=("a", "b", "c")),
    )

    def count(self) -> int:
        return len(self.labels())

    def labels(self) -> Array:
        """The class labels."""
        return labels_of(self.name, self.classlabels_int64s, self.classlabels_strings)

    @property
    def has_one_score(self) -> bool:
        """Whether all votes of two classes are for one of them: it says how much it is the second
        class.

        Where they are for the first in name, the scores of both are made of it; that is how boosted
        trees are written.
        """
        return self.count() == 2 and len(np.unique(self.class_ids)) == 1

    @property
    def scored(self) -> int:
        """The class that the first vote is for."""
        return int(np.asarray(self.class_ids)[0])

    @property
    def is_positive(self) -> bool:
        """Whether no vote is negative: then the only score is a probability."""
        return bool((picked(self.attributes(), "class_weights") >= 0).all())

    def infer(self, x: Value) -> Inferred:
        self.check(x)
        count, rows = self.count(), rows_of(self.name, x)
        if len(self.base()) not in (0, 1, count):
            raise TypeMismatchError(
                f"{self.name} has {len(self.base())} base values for {count} classes"
            )
        labels = TensorType(label_type(self.labels()), None if rows is None else rows[:1])
        return labels, table(dtypes.float32, rows, count)

    def eval(self, x: Array) -> tuple[Array, Array]:
        rows, labels = as_rows(x), self.labels()
        scores = self.forest(x.dtype).scores(rows, len(labels), "SUM")
        if len(self.base()):
            scores = scores + self.base().astype(scores.dtype)
        if self.has_one_score:
            only = scores[:, self.scored, None]
            places = (only[:, 0] > (0.5 if self.is_positive else 0)).astype(np.int64)
        else:
            places = scores.argmax(axis=1)
        if self.has_one_score and self.scored == 0:
            scores = self.of_two(only)
        else:
            scores = transformed(self.post_transform, scores)
        return labels[places], scores.astype(np.float32)

    def of_two(self, only: Array) -> Array:
        """The transformed scores of two classes from that of the second."""
        whole = self.post_transform == "PROBIT" or (
            self.post_transform == "NONE" and self.is_positive
        )
        return transformed(
            self.post_transform, np.concatenate([1 - only if whole else -only, only], axis=1)
        )
