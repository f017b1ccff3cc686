"""Models that LightGBM saves as text (versions 3 and 4 of its format)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.documents import HINT, numbers
from infuse.frontends.malformed import wellformed
from infuse.frontends.trees.linear_leaves import LinearLeaves, is_linear
from infuse.ir.graph import Array, Graph, Value
from infuse.tracing.importer import Importer
from infuse.tracing.semantics.forests import Forest, Pieces, Tree, pieces_of_members
from infuse.tracing.semantics.scores import sigmoid, signed_square, squeezed

ZERO: Final = float(np.float32(1e-35))
"""Numbers up to this one, of either sign, are zero to LightGBM."""
_BELOW_ZERO: Final = float(np.nextafter(-ZERO, -np.inf))
_CATEGORIES: Final = "pandas_categorical:"
_NONE, _ZERO, _NAN = 0, 1, 2
"""What counts as missing at a split."""
Parameters = Mapping[str, str]
Transform = Callable[[Importer, Value, Parameters], Value]


def _same(g: Importer, x: Value, parameters: Parameters) -> Value:
    return x


def _regression(g: Importer, x: Value, parameters: Parameters) -> Value:
    return signed_square(g, x) if "sqrt" in parameters else x


def _exp(g: Importer, x: Value, parameters: Parameters) -> Value:
    return g("Exp", x)


def _scaled(g: Importer, x: Value, parameters: Parameters) -> Value:
    scale = float(parameters.get("sigmoid", "1"))
    return sigmoid(g, x if scale == 1 else g("Mul", x, scale))


def _logistic(g: Importer, x: Value, parameters: Parameters) -> Value:
    return sigmoid(g, x)


def _softmax(g: Importer, x: Value, parameters: Parameters) -> Value:
    return g("Softmax", x, axis=1)


def _softplus(g: Importer, x: Value, parameters: Parameters) -> Value:
    return g("Softplus", x)


_OBJECTIVES: Final[Mapping[str, Transform]] = {
    **dict.fromkeys(
        ["", "custom", "none", "lambdarank", "rank_xendcg", "fair", "huber", "mape", "quantile"],
        _same,
    ),
    **dict.fromkeys(["regression", "regression_l1", "regression_l2", "l1", "l2"], _regression),
    **dict.fromkeys(["poisson", "gamma", "tweedie"], _exp),
    **dict.fromkeys(["binary", "multiclassova"], _scaled),
    "multiclass": _softmax,
    "cross_entropy": _logistic,
    "cross_entropy_lambda": _softplus,
}


def load(data: bytes | memoryview, where: str) -> Graph:
    """The graph of a model: float64 input `x` [batch, features]; output `prediction`, as
    `Booster.predict` gives it.
    """
    with wellformed(where, "the LightGBM model", HINT):
        model = read(data)
        g = Importer("lightgbm")
        x = g.input("x", dtypes.float64, ["batch", model.columns])
        g.output("prediction", model.predict(g, x))
        return g.graph


def read(data: bytes | memoryview) -> Booster:
    """The model of a text."""
    try:
        lines = bytes(data).decode().splitlines()
    except UnicodeDecodeError as error:
        raise ModelFileError(f"the text is not UTF-8: {error}") from error
    if "end of trees" not in (line.strip() for line in lines):
        raise ModelFileError(
            "the text has no end of trees", hint="the file was cut off; fetch or save it again"
        )
    blocks: list[dict[str, str]] = [{}]
    for line in map(str.strip, lines):
        if line == "end of trees":
            break
        name, equals, content = line.partition("=")
        if name == "Tree" and equals:
            blocks.append({})
        elif name:
            if name in blocks[-1]:
                raise ModelFileError(f"{name} is there twice in one block")
            blocks[-1][name] = content
    return Booster(blocks[0], blocks[1:])


def pandas_categories(text: str) -> list[list[Any]]:
    """The categories of the columns of pandas that a model was fitted to, in their order."""
    line = next((v for v in reversed(text.splitlines()) if v.startswith(_CATEGORIES)), "")
    return json.loads(line.removeprefix(_CATEGORIES) or "null") or []


class Booster:
    """One model: its scores and predictions."""

    def __init__(self, header: Mapping[str, str], trees: list[dict[str, str]]) -> None:
        self.columns = _count(header, "max_feature_idx", 0) + 1
        self.groups = _count(header, "num_tree_per_iteration", 1)
        words = header.get("objective", "").split()
        self.objective = words[0] if words else ""
        self.parameters = {name: value for name, _, value in (w.partition(":") for w in words[1:])}
        if self.objective not in _OBJECTIVES:
            raise UnsupportedOperatorError(
                f"objective {self.objective!r} of LightGBM is not known",
                hint="take its line out of the file to predict raw scores",
            )
        self.is_mean = "average_output" in header
        if len(trees) % self.groups:
            raise ModelFileError(f"{len(trees)} trees are not a multiple of {self.groups}")
        self._trees = trees

    def predict(self, g: Importer, x: Value) -> Value:
        """What `Booster.predict` gives."""
        scores = self.scores(g, x)
        result = _OBJECTIVES[self.objective](g, scores, self.parameters)
        return squeezed(g, result) if self.groups == 1 else result

    def scores(self, g: Importer, x: Value) -> Value:
        """The sums of votes: [batch, groups]."""
        forest = Forest(self.columns, dtypes.float64)
        categorical: set[int] = set()
        linear = LinearLeaves(self.columns) if any(map(is_linear, self._trees)) else None
        for number, block in enumerate(self._trees):
            with wellformed(f"tree {number}", "it", HINT):
                tree = _tree(block, categorical)
                forest.add(tree, number % self.groups, "nodes")
                if linear is not None:
                    linear.add(block, tree.values[tree.left < 0])
        if not self._trees:
            for group in range(self.groups):
                forest.constant(0.0, group)
        rounds, whole = len(self._trees) // self.groups, _whole(g, x, categorical)
        if linear is None:
            total = forest.sums(g, whole, self.groups)
        else:
            votes = linear.votes(g, x, forest.reached(g, whole))
            votes = g("Reshape", votes, g.ints(-1, rounds, self.groups))
            total = g("ReduceSum", votes, g.ints(1), keepdims=0)
        return g("Div", total, float(rounds)) if self.is_mean else total


def _whole(g: Importer, x: Value, columns: set[int]) -> Value:
    """Numbers of categories without their fractions, as C casts them."""
    if not columns:
        return x
    size = x.shape[1]
    assert isinstance(size, int)
    mask = g.constant(np.isin(np.arange(size), list(columns)))
    cut = g("Mul", g("Sign", x), g("Floor", g("Abs", x)))
    return g("Where", mask, cut, x)


def _tree(block: Mapping[str, str], categorical: set[int]) -> Tree:
    leaves = _count(block, "num_leaves", 1)
    values = numbers(block["leaf_value"], np.float64, "leaf_value")
    if len(values) != leaves:
        raise ModelFileError(f"{len(values)} values for {leaves} leaves")
    inner = leaves - 1
    if not inner:
        none = np.full(1, -1)
        return Tree(none, none, none, np.zeros(1), np.zeros(1, bool), values, {})
    left, right, feature, kind = (
        numbers(block[name], np.int64, name)
        for name in ("left_child", "right_child", "split_feature", "decision_type")
    )
    threshold = numbers(block["threshold"], np.float64, "threshold")
    for name, entries in zip(
        ("left_child", "right_child", "split_feature", "decision_type", "threshold"),
        (left, right, feature, kind, threshold),
    ):
        if len(entries) != inner:
            raise ModelFileError(f"{name} has {len(entries)} numbers for {inner} branches")
    for ends in (left, right):
        if ((ends >= inner) | (~ends >= leaves)).any():
            raise ModelFileError("a branch leads to what is not there")
    # Leaf ~i comes behind all branches.
    left, right = (np.where(ends < 0, ~ends + inner, ends) for ends in (left, right))
    by_category = (kind & 1) != 0
    threshold, nan_left, pieces = _numeric(np.where(by_category, 0, threshold), kind)
    pieces = {node: piece for node, piece in pieces.items() if not by_category[node]}
    if by_category.any():
        categorical.update(feature[by_category].tolist())
        pieces |= _by_category(block, by_category)
    padding = [(0, leaves)]
    return Tree(
        np.pad(left, padding, constant_values=-1),
        np.pad(right, padding, constant_values=-1),
        np.pad(feature, padding),
        np.pad(threshold, padding),
        np.pad(nan_left, padding),
        np.pad(values, [(inner, 0)]),
        pieces,
    )


def _numeric(threshold: Array, kind: Array) -> tuple[Array, Array, dict[int, Pieces]]:
    """Thresholds, where NaN goes, and splits of several intervals, of splits by number."""
    default_left, missing = (kind & 2) != 0, (kind >> 2) & 3
    if (missing > _NAN).any():
        raise ModelFileError(f"decision_type {kind[missing > _NAN][0]} has no meaning")
    # What is as good as zero is read as zero.
    limits = np.where((threshold >= 0) & (threshold < ZERO), ZERO, threshold)
    limits = np.where((threshold < 0) & (threshold >= -ZERO), _BELOW_ZERO, limits)
    # Where NaN is not missing, or zero is, it is read as zero.
    zero_left = np.where(missing == _ZERO, default_left, threshold >= 0)
    nan_left = np.where(missing == _NAN, default_left, zero_left)
    pieces = {}
    for node in np.flatnonzero((missing == _ZERO) & (default_left != (threshold >= 0))).tolist():
        limit, zero = float(limits[node]), bool(default_left[node])
        # Zero goes the other way than its neighbours beyond the threshold do.
        bounds, left = (
            ((_BELOW_ZERO, ZERO, limit), (True, False, True, False))
            if not zero
            else ((limit, _BELOW_ZERO, ZERO), (True, False, True, False))
        )
        pieces[node] = Pieces(bounds, left, zero)
    return limits, nan_left, pieces


def _by_category(block: Mapping[str, str], by_category: Array) -> dict[int, Pieces]:
    """Splits by categories: those of a set go left, all others (and NaN) right."""
    boundaries = numbers(block["cat_boundaries"], np.int64, "cat_boundaries")
    words = numbers(block["cat_threshold"], np.int64, "cat_threshold").astype(np.uint32)
    sets = numbers(block["threshold"], np.float64, "threshold")
    result = {}
    for node in np.flatnonzero(by_category).tolist():
        number = int(sets[node])
        if not 0 <= number < len(boundaries) - 1:
            raise ModelFileError(f"branch {node} has no set of categories {number}")
        first, last = int(boundaries[number]), int(boundaries[number + 1])
        if not 0 <= first <= last <= len(words):
            raise ModelFileError(f"the categories of branch {node} are not there")
        bits = np.unpackbits(words[first:last].astype("<u4").view(np.uint8), bitorder="little")
        result[node] = pieces_of_members(np.flatnonzero(bits).tolist(), True, False)
    return result


def _count(header: Mapping[str, Any], name: str, least: int) -> int:
    number = int(header[name])
    if not least <= number < 1 << 31:
        raise ModelFileError(f"{name} is {number}")
    return number
