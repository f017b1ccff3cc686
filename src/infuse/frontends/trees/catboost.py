"""Models that CatBoost saves as JSON: trees of numbers and categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.documents import HINT, json_object, numbers
from infuse.frontends.malformed import wellformed
from infuse.frontends.trees.categories import Categories, Numbers
from infuse.ir.graph import Graph, Value
from infuse.tracing.calls import words
from infuse.tracing.importer import Importer
from infuse.tracing.semantics.forests import Forest, Tree, plain_tree
from infuse.tracing.semantics.scores import beside, best, labels, sigmoid, squeezed

_DEEPEST: Final = 16
"""Levels of a tree: what CatBoost trains at most."""
_TWO_CLASSES: Final = ("Logloss", "CrossEntropy")
_CLASSES: Final = ("MultiClass", "MultiClassOneVsAll")
_EXPONENTIAL: Final = ("Poisson", "Tweedie")
_PLAIN: Final = frozenset(
    words("""RMSE MAE Quantile MAPE LogLinQuantile Huber Expectile Lq LogCosh MultiRMSE
        MultiQuantile YetiRank PairLogit QueryRMSE PairLogitPairwise YetiRankPairwise
        QuerySoftMax LambdaMart""")
)


def load(data: bytes | memoryview, where: str) -> Graph:
    """The graph of a model: float64 input `x` [batch, features], rounded to float32 as CatBoost
    does; outputs `label` and `probabilities` of a classifier, else `variable`, as the class that
    fits the loss (`CatBoostClassifier`, `CatBoostRegressor`) predicts them.

    Categories are texts (that of an integer are its digits): `x` holds strings where there is
    nothing else; where there are numbers, too, each feature has an input [batch, 1] of its name, or
    `x0`, `x1` ….
    """
    with wellformed(where, "the CatBoost model", HINT):
        model = read(data)
        if model.has_fractions:
            raise UnsupportedOperatorError(
                "tables with sums of targets that are no whole numbers are not supported in a "
                "file, of which CatBoost itself reads but the whole part",
                hint="load the estimator, or train with ctr types other than "
                "BinarizedTargetMeanValue",
            )
        g = Importer("catboost")
        for name, value in model.outputs(g, *model.inputs(g)).items():
            g.output(name, value)
        return g.graph


def read(data: bytes | memoryview) -> Model:
    """The model of a document."""
    return Model(json_object(data, "the CatBoost model"))


class Model:
    """One model: its raw values and predictions."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        features = document["features_info"]
        for kind in ("text_features", "embedding_features"):
            if features.get(kind):
                raise UnsupportedOperatorError(
                    f"the model has {kind.replace('_', ' ')}, which are not supported",
                    hint="encode them as numbers before training",
                )
        listed = features.get("float_features") or []
        texts = features.get("categorical_features") or []
        flat = {int(f["feature_index"]): int(f["flat_feature_index"]) for f in listed}
        self._nan = {int(f["feature_index"]): f["nan_value_treatment"] for f in listed}
        unknown = set(self._nan.values()) - {"AsIs", "AsFalse", "AsTrue"}
        if unknown:
            raise ModelFileError(f"float features of kinds {sorted(map(str, unknown))}")
        named = {int(f["flat_feature_index"]): f.get("feature_id", "") for f in (*listed, *texts)}
        if len(named) != len(listed) + len(texts) or not named or min(named) < 0:
            raise ModelFileError("features that have no places of their own")
        self.columns = max(named) + 1
        self.texts = sorted(int(f["flat_feature_index"]) for f in texts)
        """The places of categories among all features."""
        self.numbers = [i for i in range(self.columns) if i not in self.texts]
        """The places of numbers."""
        self._names = [named.get(i) or f"x{i}" for i in range(self.columns)]
        self._places = {feature: self.numbers.index(place) for feature, place in flat.items()}
        self._categories = Categories(document, len(self.numbers))
        self.has_fractions = self._categories.has_fractions
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

    def inputs(self, g: Importer) -> tuple[Value | None, dict[int, Value]]:
        """Inputs of the graph: numbers, and the texts of each category by its place."""
        if not self.texts:
            return g.input("x", dtypes.float64, ["batch", self.columns]), {}
        if not self.numbers:
            x = g.input("x", dtypes.string, ["batch", self.columns])
            return None, {i: g("Gather", x, g.constant([i]), axis=1) for i in self.texts}
        if len(set(self._names)) != len(self._names):
            raise ModelFileError("features that share a name")
        given = [
            g.input(name, dtypes.string if i in self.texts else dtypes.float64, ["batch", 1])
            for i, name in enumerate(self._names)
        ]
        table = g("Concat", *(given[i] for i in self.numbers), axis=1)
        return table, {i: given[i] for i in self.texts}

    def outputs(self, g: Importer, x: Value | None, texts: Mapping[int, Value]) -> dict[str, Value]:
        """What the model predicts, by name, from a table of its numbers and the texts of each
        category, [batch, 1], by its place.
        """
        raw, loss = self.raw(g, x, texts), self.loss
        count = int(raw.shape[1]) if isinstance(raw.shape[1], int) else 0
        if loss in _TWO_CLASSES:
            second = sigmoid(g, raw)
            places = g("Cast", squeezed(g, g("Greater", raw, 0.0)), to=dtypes.int64)
            return {
                "label": labels(g, places, self._labels(2)),
                "probabilities": beside(g, second),
            }
        if loss in _CLASSES:
            chances = sigmoid(g, raw) if loss != "MultiClass" else g("Softmax", raw, axis=1)
            return {"label": labels(g, best(g, raw), self._labels(count)), "probabilities": chances}
        if loss in _EXPONENTIAL:
            raw = g("Exp", raw)
        elif loss not in _PLAIN:
            raise UnsupportedOperatorError(f"loss {loss!r} of CatBoost is not known")
        return {"variable": squeezed(g, raw) if count == 1 else raw}

    def _labels(self, count: int) -> list[Any]:
        """The labels of classes."""
        names = self._classes or list(range(count))
        if len(names) != count or not (
            all(isinstance(n, str) for n in names) or all(isinstance(n, int) for n in names)
        ):
            raise ModelFileError(f"{count} classes with the names {names[:20]}")
        return list(names)

    def raw(self, g: Importer, x: Value | None, texts: Mapping[int, Value]) -> Value:
        """Raw values: [batch, targets]."""
        targets = len(self._bias)
        forest = Forest(len(self.numbers) + self._categories.columns, dtypes.float64)
        for number, tree in enumerate(self._trees):
            forest.add(self._tree(tree, targets), 0, f"tree {number}")
        if not self._trees:
            raise ModelFileError("the model has no trees")
        rounded = self._features(g, x, texts)
        sums = forest.sums(g, rounded) if targets == 1 else forest.rows(g, rounded)
        scaled = sums if self._scale == 1 else g("Mul", sums, self._scale)
        return g("Add", scaled, g.constant(self._bias)) if self._bias.any() else scaled

    def _features(self, g: Importer, x: Value | None, texts: Mapping[int, Value]) -> Value:
        """What trees are given: numbers in float32, and what categories are made of."""
        rounded = None if x is None else g.cast(g.cast(x, dtypes.float32), dtypes.float64)
        above = frozenset(f for f, treatment in self._nan.items() if treatment == "AsTrue")
        made = self._categories.values(g, texts, Numbers(rounded, self._places, above))
        parts = made if rounded is None else [rounded, *made]
        if not parts:
            raise ModelFileError("no feature is used")
        return parts[0] if len(parts) == 1 else g("Concat", *parts, axis=1)

    def _split(self, split: Mapping[str, Any]) -> tuple[int, float, bool]:
        """The column of a split, the border up to which numbers go left, and whether NaN does."""
        if split.get("split_type", "FloatFeature") != "FloatFeature":
            return *self._categories.split(split), False
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
