"""Leaves of LightGBM that are linear models of some features."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from infuse.errors import ModelFileError
from infuse.frontends.documents import numbers
from infuse.ir.graph import Array, Value
from infuse.tracing.importer import Importer


def is_linear(block: Mapping[str, str]) -> bool:
    """Whether the leaves of a tree are linear models."""
    return block.get("is_linear", "0").strip() == "1"


class LinearLeaves:
    """The leaves of all trees, in their order: a constant, features and their coefficients; and a
    value that counts where one of these features is NaN.
    """

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._constants: list[Array] = []
        self._values: list[Array] = []
        self._features: list[Array] = []
        self._coefficients: list[Array] = []

    def add(self, block: Mapping[str, str], values: Array) -> None:
        """The leaves of the next tree, whose votes are `values` where they are no linear models."""
        count = len(values)
        constants, sizes = values, np.zeros(count, np.int64)
        features, coefficients = np.zeros(0, np.int64), np.zeros(0)
        if is_linear(block):
            constants = numbers(block["leaf_const"], np.float64, "leaf_const")
            sizes = numbers(block["num_features"], np.int64, "num_features")
            features = numbers(block["leaf_features"], np.int64, "leaf_features")
            coefficients = numbers(block["leaf_coeff"], np.float64, "leaf_coeff")
        if not len(constants) == len(sizes) == count or (sizes < 0).any():
            raise ModelFileError(
                f"{len(constants)} constants and features of {len(sizes)} leaves for {count} leaves"
            )
        if not len(features) == len(coefficients) == sizes.sum():
            raise ModelFileError(
                f"{len(features)} features and {len(coefficients)} coefficients of leaves in place "
                f"of {sizes.sum()}"
            )
        if features.size and (features.min() < 0 or features.max() >= self._columns):
            raise ModelFileError(f"a leaf has a feature that is not among {self._columns}")
        if not all(np.isfinite(v).all() for v in (constants, coefficients, values)):
            raise ModelFileError("a number of a leaf is not finite")
        ends = np.cumsum(sizes)[:-1]
        self._constants.append(constants)
        self._values.append(values)
        self._features += np.split(features, ends)
        self._coefficients += np.split(coefficients, ends)

    def votes(self, g: Importer, x: Value, reached: Value) -> Value:
        """What the leaves that are reached, [rows, trees], give: [rows, trees]."""
        constants = np.concatenate(self._constants)
        most = max(map(len, self._features))
        result = g("Gather", g.constant(constants), reached)
        if not most:
            return result
        # A leaf with fewer features has others at a column of zeros.
        features = np.full((len(constants), most), self._columns)
        coefficients = np.zeros((len(constants), most))
        for row, (chosen, weights) in enumerate(zip(self._features, self._coefficients)):
            features[row, : len(chosen)], coefficients[row, : len(chosen)] = chosen, weights
        padded = g("Pad", x, g.ints(0, 0, 0, 1))
        lost = None
        for k in range(most):
            places = g("Gather", g.constant(features[:, k]), reached)
            numbers_of = g("GatherElements", padded, places, axis=1)
            factors = g("Gather", g.constant(coefficients[:, k]), reached)
            result = g("Add", result, g("Mul", factors, numbers_of))
            missing = g("IsNaN", numbers_of)
            lost = missing if lost is None else g("Or", lost, missing)
        plain = g("Gather", g.constant(np.concatenate(self._values)), reached)
        return g("Where", lost, plain, result)
