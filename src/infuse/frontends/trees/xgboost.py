"""Models that XGBoost saves: JSON and UBJSON documents of versions 1.0 to 3.x."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.documents import HINT, json_object, numbers
from infuse.frontends.malformed import wellformed
from infuse.frontends.trees import ubjson
from infuse.ir.graph import Array, Graph, Value
from infuse.tracing.calls import words
from infuse.tracing.importer import Importer
from infuse.tracing.semantics.forests import (
    LESS,
    Forest,
    Pieces,
    Tree,
    pieces_of_members,
    plain_tree,
)
from infuse.tracing.semantics.scores import best, sigmoid, squeezed

Transform = Callable[[Importer, Value], Value]
F = np.float32


def _hinge(g: Importer, x: Value) -> Value:
    return g("Cast", g("Greater", x, 0.0), to=dtypes.float32)


def _softmax(g: Importer, x: Value) -> Value:
    return g("Softmax", x, axis=1)


def _class(g: Importer, x: Value) -> Value:
    return g("Cast", best(g, x), to=dtypes.float32)


def _exp(g: Importer, x: Value) -> Value:
    return g("Exp", x)


def _same(g: Importer, x: Value) -> Value:
    return x


def _logit(p: Array) -> Array:
    result: Array = -np.log(F(1) / p - F(1))
    return result


def _plain(p: Array) -> Array:
    return p


_OBJECTIVES: Final[Mapping[str, tuple[Transform, Callable[[Array], Array]]]] = {
    **dict.fromkeys(
        words("""reg:squarederror reg:linear reg:squaredlogerror reg:pseudohubererror
            reg:absoluteerror reg:quantileerror reg:expectileerror binary:logitraw
            rank:pairwise rank:ndcg rank:map"""),
        (_same, _plain),
    ),
    **dict.fromkeys(["reg:logistic", "binary:logistic"], (sigmoid, _logit)),
    "binary:hinge": (_hinge, _plain),
    "multi:softprob": (_softmax, _plain),
    "multi:softmax": (_class, _plain),
    **dict.fromkeys(
        [
            "count:poisson",
            "reg:gamma",
            "reg:tweedie",
            "survival:cox",
            "survival:aft",
        ],
        (_exp, np.log),
    ),
}
"""By objective: what predictions are made of margins, and what margin `base_score` is."""


def load(data: bytes | memoryview, where: str) -> Graph:
    """The graph of a model: float64 input `x` [batch, features], rounded to float32 as XGBoost
    does (NaN is a missing value); output `prediction`, as `Booster.predict` gives it.
    """
    with wellformed(where, "the XGBoost model", HINT):
        model = read(data)
        g = Importer("xgboost")
        x = g.input("x", dtypes.float64, ["batch", model.columns])
        g.output("prediction", model.predict(g, x))
        return g.graph


def is_binary(head: bytes | memoryview) -> bool:
    """Whether a document that begins so is UBJSON, not JSON."""
    return bytes(head[:1]) == b"{" and bytes(head[1:2]) in (b"i", b"U", b"I", b"l", b"L", b"#")


def read(data: bytes | memoryview) -> Booster:
    """The model of a document in either form."""
    document = ubjson.loads(data) if is_binary(data) else json_object(data, "the XGBoost model")
    if not isinstance(document, dict) or not isinstance(document.get("learner"), dict):
        raise ModelFileError("the document has no learner")
    return Booster(document["learner"], document.get("version", [2]))


class Booster:
    """One model: its margins and predictions."""

    def __init__(self, learner: Mapping[str, Any], version: Sequence[int]) -> None:
        parameters = learner["learner_model_param"]
        self.columns = _count(parameters["num_feature"], "num_feature", least=1)
        classes = _count(parameters.get("num_class", 0), "num_class")
        targets = _count(parameters.get("num_target", 1), "num_target")
        self.groups = max(classes, targets, 1)
        self.objective = str(learner["objective"]["name"])
        if self.objective not in _OBJECTIVES:
            raise UnsupportedOperatorError(
                f"objective {self.objective!r} of XGBoost is not known",
                hint="predict margins: set the objective of the saved model to reg:squarederror",
            )
        if self.objective == "binary:logitraw" and int(version[0]) < 2:
            raise UnsupportedOperatorError(
                "versions 1.x of XGBoost differ in what base_score means to binary:logitraw",
                hint="load the model with XGBoost 2 or later, and save it again",
            )
        self._transform, to_margin = _OBJECTIVES[self.objective]
        self.base = self._base(parameters.get("base_score", "5E-1"), to_margin)
        self._booster = learner["gradient_booster"]

    @property
    def categories(self) -> dict[int, list[Any]]:
        """The categories, texts or numbers, that a feature's numbers stand for, by its place; empty
        where a model before 3.1 does not say.
        """
        model = self._booster.get("gbtree", self._booster).get("model", {})
        with wellformed("cats", "the list of categories", HINT):
            encodings = model.get("cats", {}).get("enc", [])
            listed = {place: _category_names(one) for place, one in enumerate(encodings)}
        return {place: names for place, names in listed.items() if names}

    def _base(self, text: Any, to_margin: Callable[[Array], Array]) -> Array:
        """The margin of each group before any tree."""
        content = json.loads(text) if isinstance(text, str) else text
        scores = numbers(content if isinstance(content, list) else [content], F, "base_score")
        if len(scores) not in (1, self.groups):
            raise ModelFileError(f"base_score has {len(scores)} numbers for {self.groups} groups")
        with np.errstate(all="ignore"):
            margins = to_margin(scores)
        if not np.isfinite(margins).all():
            raise ModelFileError(f"base_score {text!r} has no margin for {self.objective}")
        return np.broadcast_to(margins, (self.groups,)).astype(F)

    def predict(self, g: Importer, x: Value) -> Value:
        """What `Booster.predict` gives."""
        result = self._transform(g, self.margins(g, x))
        return squeezed(g, result) if result.rank == 2 and self.groups == 1 else result

    def margins(self, g: Importer, x: Value) -> Value:
        """The sums of votes and `base_score`: [batch, groups] in float32."""
        rounded = g.cast(x, dtypes.float32)
        name, content = str(self._booster["name"]), self._booster
        if name == "gblinear":
            return self._linear(g, rounded, content["model"])
        if name == "dart":
            return self._trees(g, rounded, content["gbtree"]["model"], content["weight_drop"])
        if name == "gbtree":
            return self._trees(g, rounded, content["model"], None)
        raise UnsupportedOperatorError(f"booster {name!r} of XGBoost is not known")

    def _linear(self, g: Importer, x: Value, model: Mapping[str, Any]) -> Value:
        weights = numbers(model["weights"], F, "weights")
        if len(weights) != (self.columns + 1) * self.groups:
            raise ModelFileError(
                f"{len(weights)} weights for {self.columns} features and {self.groups} groups"
            )
        matrix = weights.reshape(-1, self.groups)
        present = g("Where", g("IsNaN", x), g.number(0, x.dtype), x)
        product = g("MatMul", present, g.constant(matrix[:-1]))
        # XGBoost adds the first group's base score to all.
        return g("Add", product, g.constant(matrix[-1] + self.base[0]))

    def _trees(self, g: Importer, x: Value, model: Mapping[str, Any], drop: Any) -> Value:
        trees = model["trees"]
        groups = numbers(model["tree_info"], np.int64, "tree_info")
        drops = np.ones(len(trees), F) if drop is None else numbers(drop, F, "weight_drop")
        if not len(trees) == len(groups) == len(drops):
            raise ModelFileError(
                f"{len(trees)} trees, groups for {len(groups)} and weights for {len(drops)}"
            )
        if groups.size and (groups.min() < 0 or groups.max() >= self.groups):
            raise ModelFileError(f"tree_info has groups that are not among {self.groups}")
        forest = Forest(self.columns, dtypes.float32, LESS)
        categorical: set[int] = set()
        has_rows = bool(trees) and _leaf_size(trees[0]) > 1
        if has_rows:
            forest.add(plain_tree([-1], [-1], [0], [0.0], self.base[None]))
        for group, base in enumerate(() if has_rows else self.base):
            forest.constant(float(base), group)
        for number, content in enumerate(trees):
            if (_leaf_size(content) > 1) is not has_rows:
                raise ModelFileError(f"tree {number} has leaves of another kind than the first")
            tree = _tree(content, drops[number], self.groups)
            categorical.update(int(tree.feature[node]) for node in tree.pieces)
            forest.add(tree, int(groups[number]), f"tree {number}")
        whole = _whole(g, x, categorical)
        return forest.rows(g, whole) if has_rows else forest.sums(g, whole, self.groups)


def _category_names(encoding: Mapping[str, Any]) -> list[Any]:
    """The categories of one feature: texts joined as UTF-8, or integers."""
    if "offsets" not in encoding:
        return [int(value) for value in encoding.get("values", [])]
    joined = bytes(int(value) & 0xFF for value in encoding["values"])
    ends = [int(end) for end in encoding["offsets"]]
    return [joined[a:b].decode() for a, b in pairwise(ends)]


def _whole(g: Importer, x: Value, columns: set[int]) -> Value:
    """Numbers of categories without their fractions."""
    if not columns:
        return x
    marks = np.isin(np.arange(max(columns) + 1), list(columns))
    size = x.shape[1]
    assert isinstance(size, int)
    mask = g.constant(np.pad(marks, (0, size - len(marks))))
    return g("Where", mask, g("Floor", x), x)


def _leaf_size(content: Mapping[str, Any]) -> int:
    """How many numbers the leaves of a tree have."""
    return _count(content["tree_param"].get("size_leaf_vector", 1), "size_leaf_vector")


def _tree(content: Mapping[str, Any], weight: Any, groups: int) -> Tree:
    left, right, feature = (
        numbers(content[name], np.int64, name)
        for name in ("left_children", "right_children", "split_indices")
    )
    condition = numbers(content["split_conditions"], F, "split_conditions")
    nan_left = numbers(content["default_left"], np.int64, "default_left") != 0
    is_row = _leaf_size(content) > 1
    return Tree(
        left,
        right,
        feature,
        condition,
        nan_left,
        (_rows(content, left, right, groups) if is_row else condition) * weight,
        _categories(content, nan_left),
    )


def _rows(content: Mapping[str, Any], left: Array, right: Array, groups: int) -> Array:
    """The row of votes of each node; a leaf has the number of its row in place of a right end."""
    if "leaf_weights" not in content:
        raise UnsupportedOperatorError(
            "trees whose leaves are vectors are not supported as versions before 3.2 write them",
            hint="load the model with XGBoost 3.2 or later, and save it again",
        )
    if _leaf_size(content) != groups:
        raise ModelFileError(f"leaves of {_leaf_size(content)} numbers for {groups} groups")
    weights = numbers(content["leaf_weights"], F, "leaf_weights")
    is_leaf = left < 0
    if len(weights) % groups or len(left) != len(right):
        raise ModelFileError(f"{len(weights)} numbers of leaves for {groups} groups")
    places = np.where(is_leaf, right, 0)
    if (places < 0).any() or (places >= max(len(weights) // groups, 1)).any() or not len(weights):
        raise ModelFileError("a leaf has no row of numbers")
    rows: Array = np.where(is_leaf[:, None], weights.reshape(-1, groups)[places], F(0))
    return rows


def _categories(content: Mapping[str, Any], nan_left: Array) -> dict[int, Pieces]:
    """Splits by categories: those of a list go right, all others left."""
    nodes, starts, sizes, members = (
        numbers(content.get(name, []), np.int64, name)
        for name in ("categories_nodes", "categories_segments", "categories_sizes", "categories")
    )
    if not len(nodes) == len(starts) == len(sizes):
        raise ModelFileError("its lists of categories are of different lengths")
    kinds = numbers(content.get("split_type", []), np.int64, "split_type")
    if not set(np.flatnonzero(kinds).tolist()) <= set(nodes.tolist()):
        raise ModelFileError("a split by categories has none")
    result = {}
    for node, start, size in zip(nodes.tolist(), starts.tolist(), sizes.tolist()):
        if not (start >= 0 and size >= 0 and start + size <= len(members)) or not (
            0 <= node < len(nan_left)
        ):
            raise ModelFileError(f"the categories of node {node} are not there")
        listed = members[start : start + size].tolist()
        if listed and min(listed) < 0:
            raise ModelFileError(f"node {node} has a negative category")
        result[node] = pieces_of_members(listed, False, bool(nan_left[node]))
    return result


def _count(content: Any, name: str, least: int = 0) -> int:
    number = int(content)
    if not least <= number < 1 << 31:
        raise ModelFileError(f"{name} is {content}")
    return number
