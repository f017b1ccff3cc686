"""Operators that only stand between ai.onnx.ml and kernels; no graph of a user has them."""

from __future__ import annotations

from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op
from infuse.ops.domains.forest import Forest
from infuse.ops.domains.ml import operator_hash, same_operator
from infuse.ops.domains.ml_svm import coupled

KERNELS = "infuse.kernels"
"""The domain of these operators."""


class _Inner(Op, abstract=True):
    domain: ClassVar[str] = KERNELS


class TreeScores(_Inner, abstract=True):
    """What the leaves of `forest` vote for each of `count` targets; a mean is left as a sum."""

    forest: Forest
    count: int
    aggregate: str
    name = "TreeScores"

    def infer(self, x: Value) -> Inferred:
        return TensorType(x.dtype, (x.shape[0], self.count))

    def eval(self, x: Array) -> Array:
        sums = self.aggregate == "AVERAGE"
        return self.forest.scores(x, self.count, "SUM" if sums else self.aggregate)


class SquareDistances(_Inner, abstract=True):
    """The squares of the distances of each row from each of `vectors` (a row for each)."""

    vectors: Any
    name = "SquareDistances"
    __eq__ = same_operator
    __hash__ = operator_hash

    def infer(self, x: Value) -> Inferred:
        vectors: Array = self.vectors
        return TensorType(x.dtype, (x.shape[0], len(vectors)))

    def eval(self, x: Array) -> Array:
        vectors: Array = self.vectors
        return np.asarray(((x[:, None] - vectors.astype(x.dtype)) ** 2).sum(2))


class CouplePairs(_Inner, abstract=True):
    """Probabilities of `count` classes from those of pairs."""

    count: int
    name = "CouplePairs"

    def infer(self, pairs: Value) -> Inferred:
        return TensorType(pairs.dtype, (pairs.shape[0], self.count))

    def eval(self, pairs: Array) -> Array:
        order = list(combinations(range(self.count), 2))
        rows = [coupled(self.count, order, row) for row in pairs]
        return np.stack(rows) if rows else pairs[:, : self.count]


class KnownElements(_Inner, abstract=True):
    """The integers themselves; an error where one is not listed (ascending)."""

    listed: tuple[int, ...]
    name = "KnownElements"

    def infer(self, x: Value) -> Inferred:
        return x.type

    def eval(self, x: Array) -> Array:
        return x
