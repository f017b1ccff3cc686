"""Support vector machines (ai.onnx.ml)."""

from __future__ import annotations

from typing import Final

import numpy as np

from infuse import dtypes
from infuse.errors import TypeMismatchError
from infuse.immutable import Immutable
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Sample
from infuse.ops.core.samples import cases
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
from infuse.ops.domains.ml_linear import coefficients_of

KERNELS: Final = ("LINEAR", "POLY", "RBF", "SIGMOID")
_VECTORS = (0.5, -1.0, 0.25, 1.5, 0.125, -0.75, 0.3, 0.8)
_WEIGHTS = (0.7, -0.4, 0.9, -1.1)


class Kernel(Immutable):
    """The function that compares a row with a support vector."""

    kind: str
    gamma: float
    offset: float
    degree: float

    @classmethod
    def of(cls, op: str, kind: str, parameters: tuple[float, ...]) -> Kernel:
        """The kernel with ONNX's three parameters; TypeMismatchError where they are none."""
        check_transform(op, kind, KERNELS)
        if len(parameters) not in (0, 3):
            raise TypeMismatchError(
                f"{op} takes gamma, coef0 and degree, found {len(parameters)} kernel parameters"
            )
        return cls(kind, *(parameters or (0.0, 0.0, 0.0)))

    def __call__(self, rows: Array, vectors: Array) -> Array:
        """The value for each row and each vector."""
        gamma, offset = rows.dtype.type(self.gamma), rows.dtype.type(self.offset)
        if self.kind == "RBF":
            apart = rows[:, None, :] - vectors[None]
            near: Array = np.exp(-gamma * (apart * apart).sum(axis=2))
            return near
        products: Array = rows @ vectors.T
        if self.kind == "LINEAR":
            return products
        scaled = products * gamma + offset
        result: Array = (
            np.tanh(scaled) if self.kind == "SIGMOID" else scaled ** rows.dtype.type(self.degree)
        )
        return result


class SVMRegressor(MlOp):
    """The sum of kernel values with coefficients, plus rho; of a one-class machine 1 where that is
    positive, else -1.

    Without support vectors the coefficients are those of a linear function.
    """

    coefficients: tuple[float, ...] = ()
    kernel_params: tuple[float, ...] = ()
    kernel_type: str = "LINEAR"
    n_supports: int = 0
    one_class: int = 0
    post_transform: str = "NONE"
    rho: tuple[float, ...] = ()
    support_vectors: tuple[float, ...] = ()
    accuracy = SCORES
    samples = (
        cases(
            x=[(5, 2), np.array([[1, 2]], np.float64), np.array([[3, 1]], np.int32)],
            coefficients=[_WEIGHTS],
            support_vectors=[_VECTORS],
            n_supports=[4],
            rho=[(0.25,)],
            kernel_params=[(0.5, 0.25, 2.0)],
            kernel_type=KERNELS,
        ),
        cases(
            x=[(5, 4)],
            coefficients=[_WEIGHTS],
            rho=[(0.25,)],
            one_class=[0, 1],
            kernel_params=[(0.0,) * 3],
        ),
    )

    def infer(self, x: Value) -> Inferred:
        require_number(self.name, x)
        check_transform(self.name, self.post_transform)
        self.kernel()
        if len(self.rho) < 1 or (self.n_supports and len(self.coefficients) != self.n_supports):
            raise TypeMismatchError(
                f"{self.name} has {len(self.rho)} rho, {len(self.coefficients)} coefficients"
            )
        return table(dtypes.float32, rows_of(self.name, x, self.vectors().shape[1]), 1)

    def kernel(self) -> Kernel:
        """The kernel; linear without support vectors."""
        kind = self.kernel_type if self.n_supports else "LINEAR"
        return Kernel.of(self.name, kind, self.kernel_params)

    def vectors(self) -> Array:
        """The support vectors, or the only one: the coefficients of a linear function."""
        if not self.n_supports:
            return coefficients_of(self.name, self.coefficients, 1)
        return coefficients_of(self.name, self.support_vectors, self.n_supports)

    def weights(self) -> Array:
        """What the kernel values are multiplied by."""
        return np.array(self.coefficients if self.n_supports else (1.0,), np.float32)

    def eval(self, x: Array) -> Array:
        rows = as_rows(x)
        values = self.kernel()(rows, self.vectors().astype(rows.dtype))
        sums: Array = (values @ self.weights().astype(rows.dtype) + rows.dtype.type(self.rho[0]))[
            :, None
        ]
        if self.one_class:
            signs: Array = np.where(sums > 0, np.float32(1), np.float32(-1))
            return signs
        return transformed(self.post_transform, sums).astype(np.float32)


class SVMClassifier(MlOp):
    """Labels and scores: those of all pairs of classes, probabilities where `prob_a` is given.

    Each pair votes for a class. Without support vectors each class has a linear function.
    """

    classlabels_ints: tuple[int, ...] = ()
    classlabels_strings: tuple[str, ...] = ()
    coefficients: tuple[float, ...] = ()
    kernel_params: tuple[float, ...] = ()
    kernel_type: str = "LINEAR"
    post_transform: str = "NONE"
    prob_a: tuple[float, ...] = ()
    prob_b: tuple[float, ...] = ()
    rho: tuple[float, ...] = ()
    support_vectors: tuple[float, ...] = ()
    vectors_per_class: tuple[int, ...] = ()
    accuracy = SCORES
    samples = (
        cases(
            x=[(6, 2), np.array([[1, 2]], np.float64)],
            coefficients=[(*_WEIGHTS, 0.3, -0.2, 0.6, 0.1)],
            support_vectors=[_VECTORS],
            vectors_per_class=[(2, 1, 1)],
            rho=[(0.25, -0.1, 0.05)],
            classlabels_ints=[(4, 7, 9)],
            kernel_params=[(0.5, 0.25, 2.0)],
            kernel_type=KERNELS,
        ),
        cases(
            x=[(6, 2)],
            coefficients=[_WEIGHTS, (0.7, 0.4, 0.9, 1.1)],
            support_vectors=[_VECTORS],
            vectors_per_class=[(2, 2)],
            rho=[(0.25,), (-1.5,)],
            classlabels_ints=[(4, 7)],
            kernel_params=[(0.5, 0.25, 2.0)],
            kernel_type=["RBF"],
            post_transform=TRANSFORMS[:3],
        ),
        cases(
            x=[(6, 2)],
            coefficients=[(*_WEIGHTS, 0.3, -0.2, 0.6, 0.1)],
            support_vectors=[_VECTORS],
            vectors_per_class=[(2, 1, 1)],
            rho=[(0.25, -0.1, 0.05)],
            classlabels_ints=[(4, 7, 9)],
            kernel_params=[(0.5, 0.25, 2.0)],
            kernel_type=["RBF"],
            prob_a=[(-1.0, -2.0, -1.5)],
            prob_b=[(0.1, -0.1, 0.2)],
        ),
        cases(
            x=[(6, 4)],
            coefficients=[(*_WEIGHTS, 0.3, -0.2, 0.6, 0.1)],
            rho=[(0.25,)],
            classlabels_ints=[(4, 7)],
            kernel_params=[(0.0,) * 3],
            post_transform=["NONE", "SOFTMAX"],
        ),
        Sample(
            {"x": (6, 2)},
            {
                "coefficients": _WEIGHTS,
                "support_vectors": _VECTORS,
                "vectors_per_class": (2, 2),
                "rho": (0.25,),
                "kernel_params": (0.0,) * 3,
                "prob_a": (-1.0,),
                "prob_b": (0.1,),
                "classlabels_strings": ("no", "yes"),
            },
        ),
    )

    def labels(self) -> Array:
        """The class labels."""
        return labels_of(self.name, self.classlabels_ints, self.classlabels_strings)

    @property
    def supports(self) -> int:
        """The number of support vectors."""
        return sum(self.vectors_per_class)

    def kernel(self) -> Kernel:
        """The kernel; linear without support vectors."""
        return Kernel.of(
            self.name, self.kernel_type if self.supports else "LINEAR", self.kernel_params
        )

    def vectors(self) -> Array:
        """The support vectors, or the coefficients of a linear function for each class."""
        if not self.supports:
            return coefficients_of(self.name, self.coefficients, len(self.labels()))
        return coefficients_of(self.name, self.support_vectors, self.supports)

    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of classes in the order of their scores."""
        count = len(self.labels())
        return [(i, j) for i in range(count) for j in range(i + 1, count)]

    def pair_weights(self) -> Array:
        """A column for each pair of classes, by which the kernel values are multiplied."""
        rows = coefficients_of(self.name, self.coefficients, len(self.labels()) - 1)
        ends = np.cumsum((0, *self.vectors_per_class))
        result = np.zeros((self.supports, len(self.pairs())), np.float32)
        for column, (i, j) in enumerate(self.pairs()):
            result[ends[i] : ends[i + 1], column] = rows[j - 1, ends[i] : ends[i + 1]]
            result[ends[j] : ends[j + 1], column] = rows[i, ends[j] : ends[j + 1]]
        return result

    def infer(self, x: Value) -> Inferred:
        require_number(self.name, x)
        check_transform(self.name, self.post_transform)
        labels, count = self.labels(), self.columns()
        rows = rows_of(self.name, x, self.vectors().shape[1])
        if self.supports and (len(self.vectors_per_class) != len(labels) or len(labels) < 2):
            raise TypeMismatchError(
                f"{self.name} has vectors of {len(self.vectors_per_class)} classes, {len(labels)} "
                "labels"
            )
        if len(self.rho) < (len(self.pairs()) if self.supports else 1) or len(self.prob_a) != len(
            self.prob_b
        ):
            raise TypeMismatchError(
                f"{self.name} has {len(self.rho)} rho, {len(self.prob_a)} and {len(self.prob_b)} "
                "prob"
            )
        self.kernel()
        return TensorType(label_type(labels), None if rows is None else rows[:1]), table(
            dtypes.float32, rows, count
        )

    def columns(self) -> int:
        """The number of scores."""
        labels = len(self.labels())
        if not self.supports or (self.prob_a and self.supports):
            return labels
        return 2 if labels == 2 else len(self.pairs())

    def eval(self, x: Array) -> tuple[Array, Array]:
        rows, labels = as_rows(x), self.labels()
        values = self.kernel()(rows, self.vectors().astype(rows.dtype))
        rho = np.array(self.rho, np.float32).astype(rows.dtype)
        if not self.supports:
            scores = values + rho[0]
            places = scores.argmax(axis=1)
        else:
            scores = values @ self.pair_weights().astype(rows.dtype) + rho[: len(self.pairs())]
            votes = np.zeros((len(rows), len(labels)), np.int64)
            for column, (i, j) in enumerate(self.pairs()):
                votes[np.arange(len(rows)), np.where(scores[:, column] > 0, i, j)] += 1
            places = votes.argmax(axis=1)
            if self.prob_a:
                scores = self.probabilities(scores)
        scores = self.finished(scores)
        return labels[places], scores.astype(np.float32)

    def finished(self, scores: Array) -> Array:
        """Scores after the transform; of two classes with one score, that of the first beside
        it.
        """
        if scores.shape[1] == 1:
            first = 1 - scores if self.post_transform == "PROBIT" else -scores
            scores = np.concatenate([first, scores], axis=1)
        return transformed(self.post_transform, scores)

    def probabilities(self, scores: Array) -> Array:
        """Probabilities of classes from those of pairs, by libsvm's iteration."""
        slope, shift = (
            np.array(v, np.float32).astype(scores.dtype) for v in (self.prob_a, self.prob_b)
        )
        powers = scores * slope + shift
        logistic = 1 / (1 + np.exp(-np.abs(powers)))
        first = np.where(powers < 0, logistic, 1 - logistic)
        limited = np.clip(
            first, scores.dtype.type(1e-7), scores.dtype.type(1) - scores.dtype.type(1e-7)
        )
        count = len(self.labels())
        return (
            np.stack([coupled(count, self.pairs(), row) for row in limited])
            if len(limited)
            else scores[:, :count]
        )


def coupled(count: int, pairs: list[tuple[int, int]], pairwise: Array) -> Array:
    """The probabilities of `count` classes that fit best to those of pairs."""
    wide = pairwise.astype(np.float64)
    r = np.zeros((count, count))
    for (i, j), p in zip(pairs, wide):
        r[i, j], r[j, i] = p, 1 - p
    q = -r.T * r
    for t in range(count):
        q[t, t] = (r[:, t] ** 2).sum()
    result = np.full(count, 1 / count)
    for _ in range(max(100, count)):
        slope = q @ result
        total = result @ slope
        if np.abs(slope - total).max() < 0.005 / count:
            break
        for t in range(count):
            step = (total - slope[t]) / q[t, t]
            result[t] += step
            total = (total + step * (step * q[t, t] + 2 * slope[t])) / (1 + step) ** 2
            slope = (slope + step * q[t]) / (1 + step)
            result /= 1 + step
    return result.astype(pairwise.dtype)
