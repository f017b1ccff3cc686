"""Models that CatBoost saves as JSON: trees of float features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.documents import HINT, json_object, numbers
from infuse.frontends.importer import Importer
from infuse.frontends.malformed import wellformed
from infuse.frontends.trees.forests import Forest, Tree, plain_tree
from infuse.frontends.trees.scores import beside, best, labels, sigmoid, squeezed
from infuse.ir.graph import Graph, Value

_DEEPEST: Final = 16
"""Levels of a tree: what CatBoost trains at most."""
_TWO_CLASSES: Final = ("Logloss", "CrossEntropy")
_CLASSES: Final = ("MultiClass", "MultiClassOneVsAll")
_EXPONENTIAL: Final = ("Poisson", "Tweedie")
_PLAIN: Final = frozenset(
    [
        *("RMSE", "MAE", "Quantile", "MAPE", "LogLinQuantile", "Huber", "Expectile", "Lq"),
        *("LogCosh", "MultiRMSE", "MultiQuantile", "YetiRank", "PairLogit", "QueryRMSE"),
        *("PairLogitPairwise", "YetiRankPairwise", "QuerySoftMax", "LambdaMart"),
    ]
)


def load(data: bytes | memoryview, where: str) -> Graph:
    """The graph of a model: float64 input `x` [batch, features], rounded to float32 as CatBoost
    does; outputs `label` and `probabilities` of a classifier, else `variable`, as the class that
    fits the loss (`CatBoostClassifier`, `CatBoostRegressor`) predicts them.
    """
    with wellformed(where, "the CatBoost model", HINT):
        model = read(data)
        g = Importer("catboost")
        x = g.input("x", dtypes.float64, ["batch", model.columns])
        for name, value in model.outputs(g, x).items():
            g.output(name, value)
        return g.graph


def read(data: bytes | memoryview) -> Model:
    """The model of a document."""
    return Model(json_object(data, "the CatBoost model"))


class Model:
    """One model: its raw values and predictions."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        features = document["features_info"]
        for kind in ("categorical_features", "text_features", "embedding_features", "ctrs"):
            if features.get(kind):
                raise UnsupportedOperatorError(
                    f"the model has {kind.replace('_', ' ')}, which are not supported",
                    hint="encode them as numbers before training",
                )
        listed = features["float_features"]
        self._places = {int(f["feature_index"]): int(f["flat_feature_index"]) for f in listed}
        self._nan = {int(f["feature_index"]): f["nan_value_treatment"] for f in listed}
        unknown = set(self._nan.values()) - {"AsIs", "AsFalse", "AsTrue"}
        if unknown or not listed or min(self._places.values()) < 0:
            raise ModelFileError(f"float features of kinds {sorted(map(str, unknown))}")
        self.columns = max(self._places.values()) + 1
        scale, bias = document.get("scale_and_bias", [1, [0]])
        self._scale = float(scale)
        self._bias = numbers(bias if isinstance(bias, list) else [bias], np.float64, "bias")
        is_symmetric = "oblivious_trees" in document
        self._tree = self._symmetric if is_symmetric else self._grown
        self._trees: Sequence[Mapping[str, Any]] = document[
            "oblivious_trees" if is_symmetric else "trees"
        ]
        info = document.get("model_info", {})
        loss = info.get("params", {}).get("loss_function", {}).get("type", "RMSE")
        self.loss = str(loss).partition(":")[0]
        self._classes = info.get("class_params", {}).get("class_names", [])

    def outputs(self, g: Importer, x: Value) -> dict[str, Value]:
        """What the model predicts, by name."""
        raw, loss = self.raw(g, x), self.loss
        count = int(raw.shape[1]) if isinstance(raw.shape[1], int) else 0
        if loss in _TWO_CLASSES:
            second = sigmoid(g, raw)
            places = g("Cast", squeezed(g, g("Greater", raw, 0.0)), to=dtypes.int64)
            return {
                "label": labels(g, places, self._names(2)),
                "probabilities": beside(g, second),
            }
        if loss in _CLASSES:
            chances = sigmoid(g, raw) if loss != "MultiClass" else g("Softmax", raw, axis=1)
            return {"label": labels(g, best(g, raw), self._names(count)), "probabilities": chances}
        if loss in _EXPONENTIAL:
            raw = g("Exp", raw)
        elif loss not in _PLAIN:
            raise UnsupportedOperatorError(f"loss {loss!r} of CatBoost is not known")
        return {"variable": squeezed(g, raw) if count == 1 else raw}

    def _names(self, count: int) -> list[Any]:
        """The labels of classes."""
        names = self._classes or list(range(count))
        if len(names) != count or not (
            all(isinstance(n, str) for n in names) or all(isinstance(n, int) for n in names)
        ):
            raise ModelFileError(f"{count} classes with the names {names[:20]}")
        return list(names)

    def raw(self, g: Importer, x: Value) -> Value:
        """Raw values: [batch, targets]."""
        rounded = g.cast(g.cast(x, dtypes.float32), dtypes.float64)
        targets = len(self._bias)
        forest = Forest(self.columns, dtypes.float64)
        for number, tree in enumerate(self._trees):
            forest.add(self._tree(tree, targets), 0, f"tree {number}")
        if not self._trees:
            raise ModelFileError("the model has no trees")
        sums = forest.sums(g, rounded) if targets == 1 else forest.rows(g, rounded)
        scaled = sums if self._scale == 1 else g("Mul", sums, self._scale)
        return g("Add", scaled, g.constant(self._bias)) if self._bias.any() else scaled

    def _split(self, split: Mapping[str, Any]) -> tuple[int, float, bool]:
        """The column of a split, the border up to which numbers go left, and whether NaN does."""
        if split.get("split_type", "FloatFeature") != "FloatFeature":
            raise UnsupportedOperatorError(
                f"splits of type {split['split_type']!r} are not supported"
            )
        index = int(split["float_feature_index"])
        border = float(np.float32(split["border"]))
        return self._places[index], border, self._nan[index] != "AsTrue"

    def _grown(self, tree: Mapping[str, Any], targets: int) -> Tree:
        """A tree of branches that have a test each (grow_policy Depthwise or Lossguide)."""
        leaf, no_split, no_row = (-1, -1), (0, 0.0, False), np.zeros(targets)
        ends, splits, rows = [leaf], [no_split], [no_row]
        pending = [(0, tree)]
        while pending:
            number, node = pending.pop()
            if "split" in node:
                splits[number] = self._split(node["split"])
                ends[number] = below = len(ends), len(ends) + 1
                pending += zip(below, (node["left"], node["right"]))
                ends += [leaf] * 2
                splits += [no_split] * 2
                rows += [no_row] * 2
                continue
            value = node["value"]
            rows[number] = numbers(value if isinstance(value, list) else [value], float, "value")
            if len(rows[number]) != targets:
                raise ModelFileError(f"{len(rows[number])} values of a leaf for {targets} targets")
        left, right = zip(*ends)
        features, borders, nan = zip(*splits)
        table = np.stack(rows)
        values = table[:, 0] if targets == 1 else table
        return plain_tree(left, right, features, borders, values, nan)

    def _symmetric(self, tree: Mapping[str, Any], targets: int) -> Tree:
        """A tree of one test a level, the last test first, as a full tree of branches."""
        splits = list(tree["splits"] or [])
        depth = len(splits)
        values = numbers(tree["leaf_values"], np.float64, "leaf_values")
        if depth > _DEEPEST or len(values) != targets << depth:
            raise ModelFileError(
                f"a tree of {depth} levels and {targets} targets has {len(values)} leaf values"
            )
        found = [self._split(split) for split in reversed(splits)]
        features, borders, nan = zip(*found) if found else ((), (), ())
        inner, leaves = (1 << depth) - 1, 1 << depth
        level = np.log2(np.arange(1, inner + 1)).astype(np.int64)
        nodes = np.arange(inner)
        rows = values.reshape(leaves, targets)
        rows = np.concatenate([np.zeros((inner, targets)), rows])
        padding = [(0, leaves)]

        def by_level(entries: Sequence[Any], dtype: Any) -> Any:
            return np.pad(np.array(entries, dtype)[level], padding)

        # A number above the border goes right: the bit of its level is set.
        return Tree(
            np.pad(2 * nodes + 1, padding, constant_values=-1),
            np.pad(2 * nodes + 2, padding, constant_values=-1),
            by_level(features, np.int64),
            by_level(borders, np.float64),
            by_level(nan, bool),
            rows[:, 0] if targets == 1 else rows,
            {},
        )
