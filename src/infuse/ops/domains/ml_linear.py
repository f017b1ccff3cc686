"""Linear models (ai.onnx.ml)."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.errors import TypeMismatchError
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Sample
from infuse.ops.core.samples import Ints, cases
from infuse.ops.domains.ml import (
    SCORES,
    TRANSFORMS,
    MlOp,
    as_rows,
    check_transform,
    label_type,
    labels_of,
    require_number,
    rows_of,
    table,
    transformed,
)

_SIX = (0.5, -1.0, 0.25, 1.5, 0.125, -0.75)


def coefficients_of(op: str, numbers: tuple[float, ...], count: int) -> Array:
    """Coefficients as a matrix with a row for each of `count` scores."""
    if count < 1 or len(numbers) % count or not numbers:
        raise TypeMismatchError(f"{op} has {len(numbers)} coefficients for {count} scores")
    return np.array(numbers, dtype=np.float32).reshape(count, -1)


class LinearRegressor(MlOp):
    """x · coefficients + intercepts, a column for each target."""

    coefficients: tuple[float, ...] = ()
    intercepts: tuple[float, ...] = ()
    targets: int = 1
    post_transform: str = "NONE"
    accuracy = SCORES
    samples = (
        cases(
            x=[(4, 3), Ints((2, 3)), np.array([[1, 2, 3]], np.float64)],
            coefficients=[_SIX],
            intercepts=[(0.5, -0.5), ()],
            targets=[2],
        ),
        cases(x=[(5, 6)], coefficients=[_SIX], intercepts=[(0.5,)], targets=[1]),
        cases(
            x=[(4, 3)],
            coefficients=[_SIX],
            intercepts=[(0.1, 0.2)],
            targets=[2],
            post_transform=TRANSFORMS[1:4],
        ),
    )

    def weights(self) -> tuple[Array, Array]:
        """Coefficients [targets, columns] and intercepts [targets]."""
        weights = coefficients_of(self.name, self.coefficients, self.targets)
        if len(self.intercepts) not in (0, self.targets):
            raise TypeMismatchError(
                f"{self.name} has {len(self.intercepts)} intercepts for {self.targets} targets"
            )
        return weights, np.array(self.intercepts or (0.0,) * self.targets, np.float32)

    def infer(self, x: Value) -> Inferred:
        require_number(self.name, x)
        check_transform(self.name, self.post_transform)
        return table(
            dtypes.float32, rows_of(self.name, x, self.weights()[0].shape[1]), self.targets
        )

    def eval(self, x: Array) -> Array:
        rows = as_rows(x)
        weights, offsets = (w.astype(rows.dtype) for w in self.weights())
        return transformed(self.post_transform, rows @ weights.T + offsets).astype(np.float32)


class LinearClassifier(MlOp):
    """Labels and scores x · coefficients + intercepts; one score for two labels says how much it is
    the second.
    """

    coefficients: tuple[float, ...] = ()
    intercepts: tuple[float, ...] = ()
    classlabels_ints: tuple[int, ...] = ()
    classlabels_strings: tuple[str, ...] = ()
    multi_class: int = 0
    post_transform: str = "NONE"
    accuracy = SCORES
    samples = (
        cases(
            x=[(4, 3), Ints((2, 3))],
            coefficients=[_SIX],
            intercepts=[(0.5, -0.5)],
            classlabels_ints=[(4, 9)],
            post_transform=TRANSFORMS[:4],
        ),
        cases(
            x=[(5, 2)],
            coefficients=[_SIX],
            intercepts=[(0.5, 0.1, 0.2)],
            classlabels_ints=[(0, 1, 2)],
            post_transform=TRANSFORMS[:4],
        ),
        cases(
            x=[(7, 6), np.array([[1, 2, 3, 4, 5, 6]], np.float64)],
            coefficients=[_SIX],
            intercepts=[(0.5,)],
            classlabels_ints=[(3, 5)],
            post_transform=TRANSFORMS[:4],
        ),
        Sample(
            {"x": (4, 3)},
            {"coefficients": _SIX, "intercepts": (0.5, -0.5), "classlabels_strings": ("no", "yes")},
        ),
    )

    def labels(self) -> Array:
        """The class labels; 0 and 1 where none are given."""
        if not self.classlabels_ints and not self.classlabels_strings:
            return np.arange(max(2, self.count()), dtype=np.int64)
        return labels_of(self.name, self.classlabels_ints, self.classlabels_strings)

    def count(self) -> int:
        """The number of scores that are computed."""
        return len(self.intercepts) or max(
            len(self.classlabels_ints), len(self.classlabels_strings), 1
        )

    def weights(self) -> tuple[Array, Array]:
        """Coefficients [scores, columns] and intercepts [scores]."""
        count = self.count()
        return coefficients_of(self.name, self.coefficients, count), np.array(
            self.intercepts or (0.0,) * count, np.float32
        )

    def infer(self, x: Value) -> Inferred:
        require_number(self.name, x)
        check_transform(self.name, self.post_transform)
        labels, count = self.labels(), self.count()
        if count > 1 and len(labels) != count:
            raise TypeMismatchError(f"{self.name} has {count} scores and {len(labels)} labels")
        rows = rows_of(self.name, x, self.weights()[0].shape[1])
        scores = table(dtypes.float32, rows, 2 if count == 1 and len(labels) == 2 else count)
        return TensorType(label_type(labels), None if rows is None else rows[:1]), scores

    def eval(self, x: Array) -> tuple[Array, Array]:
        rows, labels = as_rows(x), self.labels()
        weights, offsets = (w.astype(rows.dtype) for w in self.weights())
        scores = rows @ weights.T + offsets
        if scores.shape[1] > 1:
            places = scores.argmax(axis=1)
        else:
            places = (scores[:, 0] > 0).astype(np.int64)
            labels = labels if len(labels) == 2 else np.array([0, 1])
            scores = with_first(scores, self.post_transform) if len(self.labels()) == 2 else scores
        return labels[places], transformed(self.post_transform, scores).astype(np.float32)


def with_first(scores: Array, transform: str) -> Array:
    """The only score as that of the second class, beside that of the first."""
    first = 1 - scores if transform in ("NONE", "PROBIT") else -scores
    return np.concatenate([first, scores], axis=1)
