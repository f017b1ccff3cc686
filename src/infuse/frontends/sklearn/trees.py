"""Trees and forests: thresholds are compared as scikit-learn does."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.frontends.sklearn.calls import (
    PREDICT,
    PROBABILITIES,
    SCORES,
    TRANSFORM,
    labels,
    of_two,
    reads,
    scores,
    transform,
    unsupported,
)
from infuse.ir.graph import Array
from infuse.tracing.semantics.forests import Forest, Tree, pieces_of_members
from infuse.tracing.tensors import Tensor

_LEAF = -1
_TREE_CLASSIFIERS = ("DecisionTreeClassifier", "ExtraTreeClassifier")
_TREE_REGRESSORS = ("DecisionTreeRegressor", "ExtraTreeRegressor")
_FOREST_CLASSIFIERS = ("RandomForestClassifier", "ExtraTreesClassifier")
_FOREST_REGRESSORS = ("RandomForestRegressor", "ExtraTreesRegressor")


def tree_of(tree: Any, values: Array, columns: Any = None) -> Tree:
    """A fitted `tree_` with these values at its leaves; `columns` are those that it was given."""
    feature = np.maximum(tree.feature, 0)
    left = np.where(tree.children_left < 0, _LEAF, tree.children_left).astype(np.int64)
    return Tree(
        left,
        tree.children_right.astype(np.int64),
        feature.astype(np.int64) if columns is None else np.asarray(columns)[feature],
        tree.threshold,
        _nan_left(tree),
        values,
        {},
    )


def _nan_left(tree: Any) -> Array:
    """Where NaN goes left."""
    flags = getattr(tree, "missing_go_to_left", None)
    if flags is None:
        return np.zeros(tree.node_count, bool)
    return np.asarray(flags).astype(bool)


def rounded(x: Tensor) -> Tensor:
    """Features as trees read them: rounded to float32, compared in float64."""
    return x.astype(dtypes.float32).floats()


def forest_sums(models: Any, x: Tensor, values: Any) -> Tensor:
    """The sums over trees of `values(tree)`, an array of a row for each node."""
    forest = Forest(x.width, dtypes.float64)
    width = 1
    for model in models:
        rows = values(model)
        width = rows.shape[1]
        forest.add(tree_of(model.tree_, rows[:, 0] if width == 1 else rows))
    if width == 1:
        return Tensor(x.g, forest.sums(x.g, rounded(x).value))
    return Tensor(x.g, forest.rows(x.g, rounded(x).value))


def _means(model: Any) -> Array:
    return np.asarray(model.tree_.value[:, :, 0])


def _chances(model: Any) -> Array:
    if model.tree_.n_outputs != 1:
        raise unsupported(model, "several outputs that are classes")
    counts = model.tree_.value[:, 0, : model.n_classes_]
    sums = counts.sum(axis=1, keepdims=True)
    return np.asarray(counts / np.where(sums == 0, 1, sums)) if _has_counts(model) else counts


def _has_counts(model: Any) -> bool:
    """Whether nodes have numbers of samples (before version 1.3), not shares."""
    return bool(abs(model.tree_.value[0, 0].sum() - 1) > 1e-6)


@reads(PREDICT, *_TREE_REGRESSORS)
def tree_regression(model: Any, x: Tensor) -> Tensor:
    """The mean of the leaf."""
    result = forest_sums([model], x, _means)
    return result.vector() if result.width == 1 else result


reads(PROBABILITIES, *_TREE_CLASSIFIERS)(lambda model, x: forest_sums([model], x, _chances))
reads(PREDICT, "GradientBoostingRegressor")(lambda model, x: _boosted(model, x).vector())
reads(PREDICT, "IsolationForest")(lambda model, x: 1 - 2 * (scores(model, x) < 0).integers())


@reads(PREDICT, *_FOREST_REGRESSORS)
def forest_regression(model: Any, x: Tensor) -> Tensor:
    """The mean over trees."""
    result = forest_sums(model.estimators_, x, _means) / float(len(model.estimators_))
    return result.vector() if result.width == 1 else result


@reads(PROBABILITIES, *_FOREST_CLASSIFIERS)
def forest_probabilities(model: Any, x: Tensor) -> Tensor:
    """The mean over trees."""
    return forest_sums(model.estimators_, x, _chances) / float(len(model.estimators_))


# -- boosted trees ---------------------------------------------------------------------------------


@reads(SCORES, "GradientBoostingClassifier")
def boosted_scores(model: Any, x: Tensor) -> Tensor:
    """Raw scores: one of two classes, else one for each."""
    result = _boosted(model, x)
    return result.vector() if result.width == 1 else result


def _boosted(model: Any, x: Tensor) -> Tensor:
    stages = model.estimators_
    groups = stages.shape[1]
    forest = Forest(x.width, dtypes.float64)
    start = _start(model, groups)
    for group in range(groups):
        forest.constant(float(start[group]), group)
    for stage in stages:
        for group, regressor in enumerate(stage):
            votes = regressor.tree_.value[:, 0, 0] * model.learning_rate
            forest.add(tree_of(regressor.tree_, votes), group)
    return Tensor(x.g, forest.sums(x.g, rounded(x).value, groups))


def _start(model: Any, groups: int) -> Array:
    """What stages are added to, which is the same for all rows."""
    if isinstance(model.init_, str) and model.init_ == "zero":
        return np.zeros(groups)
    name = type(model.init_).__name__
    if name not in ("DummyClassifier", "DummyRegressor"):
        raise unsupported(model, f"init={name}", "leave init out, or set it to 'zero'")
    # No row is looked at: the estimator predicts a constant.
    row = np.zeros((1, model.n_features_in_), np.float32)
    value: Array = np.asarray(model._raw_predict_init(row))[0]
    return value


@reads(PREDICT, "GradientBoostingClassifier")
def boosted_classes(model: Any, x: Tensor) -> Tensor:
    """Of two classes the second where the score is not negative."""
    result = _boosted(model, x)
    two = result.width == 1
    return labels(model, (result.vector() >= 0).integers() if two else result.argmax())


@reads(PROBABILITIES, "GradientBoostingClassifier")
def boosted_probabilities(model: Any, x: Tensor) -> Tensor:
    """By the loss: logistic functions, or softmax."""
    result = _boosted(model, x)
    if result.width > 1:
        return result.softmax()
    return of_two((result * 2.0 if model.loss == "exponential" else result).sigmoid())


# -- boosted trees of histograms -------------------------------------------------------------------


def _histogram(model: Any, x: Tensor) -> Tensor:
    """Raw scores: [batch, groups]."""
    if model._preprocessor is not None:
        x = transform(model._preprocessor, x)
    listed, map_of = model._bin_mapper.make_known_categories_bitsets()
    categorical: set[int] = set()
    groups = model.n_trees_per_iteration_
    forest = Forest(x.width, dtypes.float64)
    for group in range(groups):
        forest.constant(float(np.ravel(model._baseline_prediction)[group]), group)
    for stage in model._predictors:
        for group, predictor in enumerate(stage):
            tree = _histogram_tree(predictor, listed, map_of)
            categorical.update(int(tree.feature[node]) for node in tree.pieces)
            forest.add(tree, group)
    if categorical:
        # What is negative is missing, and fractions do not count.
        mask = x.constant(np.isin(np.arange(x.width), list(categorical)), dtypes.bool_)
        x = mask.where((x < 0).where(np.nan, x.call("Floor")), x)
    return Tensor(x.g, forest.sums(x.g, x.value, groups))


def _histogram_tree(predictor: Any, listed: Any, map_of: Any) -> Tree:
    nodes = predictor.nodes
    is_leaf, nan_left = nodes["is_leaf"].astype(bool), nodes["missing_go_to_left"].astype(bool)
    left = np.where(is_leaf, _LEAF, nodes["left"].astype(np.int64))
    pieces = {}
    for node in np.flatnonzero(nodes["is_categorical"].astype(bool) & ~is_leaf).tolist():
        chosen = _members(predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]])
        feature = int(nodes["feature_idx"][node])
        missing = bool(nan_left[node])
        # Categories that are not known go where missing ones do.
        others = _members(listed[map_of[feature]]) - chosen
        members = others if missing else chosen
        pieces[node] = pieces_of_members(sorted(members), not missing, missing)
    return Tree(
        left,
        nodes["right"].astype(np.int64),
        np.where(is_leaf, 0, nodes["feature_idx"]).astype(np.int64),
        nodes["num_threshold"],
        nan_left,
        nodes["value"],
        pieces,
    )


def _members(words: Any) -> set[int]:
    bits = np.unpackbits(np.asarray(words, "<u4").view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())


@reads(PREDICT, "HistGradientBoostingRegressor")
def histogram_regression(model: Any, x: Tensor) -> Tensor:
    """The raw scores through the inverse of the loss's link."""
    result = _histogram(model, x).vector()
    return result.exp() if model.loss in ("poisson", "gamma") else result


@reads(SCORES, "HistGradientBoostingClassifier")
def histogram_scores(model: Any, x: Tensor) -> Tensor:
    """Raw scores: one of two classes, else one for each."""
    result = _histogram(model, x)
    return result.vector() if result.width == 1 else result


@reads(PROBABILITIES, "HistGradientBoostingClassifier")
def histogram_probabilities(model: Any, x: Tensor) -> Tensor:
    """Logistic functions, or softmax."""
    result = scores(model, x)
    return of_two(result.sigmoid()) if result.rank == 1 else result.softmax()


# -- isolation -------------------------------------------------------------------------------------


def path_length(counts: Array) -> Array:
    """The mean length of a search in a tree of so many samples."""
    n = np.maximum(np.asarray(counts, np.float64), 3)
    long = 2 * (np.log(n - 1) + np.euler_gamma) - 2 * (n - 1) / n
    return np.where(np.asarray(counts) <= 1, 0.0, np.where(np.asarray(counts) == 2, 1.0, long))


@reads(SCORES, "IsolationForest")
def isolation(model: Any, x: Tensor) -> Tensor:
    """How much longer the ways to the leaves are than the offset says."""
    forest = Forest(x.width, dtypes.float64)
    for i, (one, columns) in enumerate(zip(model.estimators_, model.estimators_features_)):
        tree = one.tree_
        lengths = model._decision_path_lengths[i] + model._average_path_length_per_tree[i] - 1.0
        forest.add(tree_of(tree, np.asarray(lengths, np.float64), columns))
    depths = Tensor(x.g, forest.sums(x.g, rounded(x).value)).vector()
    most = len(model.estimators_) * float(path_length(np.array([model._max_samples]))[0])
    share = depths / most if most else depths * 0.0 + 1.0
    return -(2.0 ** (-share)) - float(model.offset_)


@reads(TRANSFORM, "RandomTreesEmbedding")
def embedding(model: Any, x: Tensor) -> Tensor:
    """A column for each leaf of each tree: 1 where a row reaches it."""
    raise unsupported(model, "its sparse result", "use the leaves of a forest that is supported")
