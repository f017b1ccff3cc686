"""Pipelines and what joins columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.frontends.sklearn.calls import (
    PREDICT,
    PROBABILITIES,
    SCORES,
    TRANSFORM,
    call,
    reads,
    transform,
    unsupported,
)
from infuse.frontends.sklearn.encoders import is_text
from infuse.frontends.sklearn.imputation import texts_of
from infuse.frontends.sklearn.mixed import Mixed, joined
from infuse.frontends.sklearn.texts import VECTORIZERS
from infuse.tracing.tensors import Tensor


def last_step(model: Any) -> Any:
    """The estimator that a pipeline ends with, or the estimator itself."""
    while type(model).__name__ == "Pipeline":
        model = model.steps[-1][1]
    return model


def _passes(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step == "passthrough")


def _pipeline(method: str) -> Any:
    def run(model: Any, x: Tensor) -> Tensor:
        for _, step in model.steps[:-1]:
            x = x if _passes(step) else transform(step, x)
        last = model.steps[-1][1]
        return x if _passes(last) else call(method, last, x)

    return run


for _method in (PREDICT, PROBABILITIES, SCORES, TRANSFORM):
    reads(_method, "Pipeline")(_pipeline(_method))


@reads(TRANSFORM, "FeatureUnion")
def union(model: Any, x: Tensor) -> Tensor:
    """The results of all transformers, side by side."""
    weights = model.transformer_weights or {}
    parts, are_sparse = [], False
    for name, one in model.transformer_list:
        if isinstance(one, str) and one == "drop":
            continue
        part = x if _passes(one) else transform(one, x)
        are_sparse = are_sparse or part.sparse
        parts.append(part * float(weights[name]) if name in weights else part)
    result = joined(parts)
    return result.marked(True) if are_sparse else result


def _branches(model: Any) -> Iterator[tuple[Any, list[int], str]]:
    """The transformers of a ColumnTransformer that are in use, and their columns' places."""
    names = list(getattr(model, "feature_names_in_", ()))
    count = model.n_features_in_
    for name, one, columns in model.transformers_:
        if isinstance(one, str) and one == "drop":
            continue
        if callable(columns):
            raise unsupported(model, f"columns of {name!r} that a function chooses")
        listed = np.asarray(columns) if not isinstance(columns, slice) else columns
        if isinstance(listed, slice):
            if any(isinstance(end, str) for end in (listed.start, listed.stop)):
                first = 0 if listed.start is None else names.index(listed.start)
                last = count - 1 if listed.stop is None else names.index(listed.stop)
                places = np.arange(first, last + 1)
            else:
                places = np.arange(count)[listed]
        else:
            listed = listed.reshape(-1)
            if listed.dtype == bool:
                places = np.flatnonzero(listed)
            elif listed.dtype.kind in "OUS":
                places = np.array([names.index(column) for column in listed], np.int64)
            else:
                places = listed.astype(np.int64) % count
        if len(places):
            yield one, places.tolist(), name


@reads(TRANSFORM, "ColumnTransformer")
def by_column(model: Any, x: Tensor) -> Tensor:
    """The results of transformers of some columns each, side by side."""
    weights = model.transformer_weights or {}
    parts = []
    for one, places, name in _branches(model):
        part = x.columns(places)
        part = part if _passes(one) else transform(one, part)
        parts.append(part * float(weights[name]) if name in weights else part)
    return joined(parts)


def takes_documents(model: Any) -> bool:
    """Whether an estimator is given a list of texts, and no table."""
    name = type(model).__name__
    if name in VECTORIZERS:
        return True
    if name == "Pipeline":
        return takes_documents(next((s for _, s in model.steps if not _passes(s)), None))
    if name == "FeatureUnion":
        return any(takes_documents(one) for _, one in model.transformer_list)
    if hasattr(model, "n_features_in_"):
        return False
    if hasattr(model, "best_estimator_"):
        return takes_documents(model.best_estimator_)
    return any(takes_documents(one) for one in getattr(model, "estimators_", ()))


def text_columns(model: Any, count: int) -> list[bool]:
    """Which of the features of an estimator are texts, by the categories it was fitted to."""
    if takes_documents(model):
        return [True] * count
    name = type(model).__name__
    if name in ("OneHotEncoder", "OrdinalEncoder", "TargetEncoder"):
        return [is_text(categories) for categories in model.categories_]
    if name in ("LabelEncoder", "LabelBinarizer"):
        return [is_text(model.classes_)]
    if name == "SimpleImputer":
        return texts_of(model)
    if name == "MissingIndicator":
        return [model.missing_values is None or isinstance(model.missing_values, str)] * count
    if name.startswith("CatBoost"):
        texts = set(model.get_cat_feature_indices())
        return [place in texts for place in range(count)]
    if name == "Pipeline":
        first = next((step for _, step in model.steps if not _passes(step)), None)
        return text_columns(first, count)
    if name == "FeatureUnion":
        parts = [text_columns(one, count) for _, one in model.transformer_list if not _passes(one)]
        return [any(entries) for entries in zip(*parts)] or [False] * count
    result = [False] * count
    if name == "ColumnTransformer":
        for one, places, _ in _branches(model):
            if _passes(one):
                continue
            for place, is_texts in zip(places, text_columns(one, len(places))):
                result[place] = result[place] or is_texts
    elif getattr(model, "_preprocessor", None) is not None:
        return text_columns(model._preprocessor, count)
    return result


def inputs(g: Any, model: Any, count: int) -> Tensor:
    """The inputs of a model: `x` [batch, features], [batch] where it takes documents, or one for
    each column (after the names of features, else `x0`, `x1` …) where some are texts and others
    numbers.
    """
    if takes_documents(model):
        return Tensor(g, g.input("x", dtypes.string, ["batch"]))
    texts = text_columns(model, count)
    kinds = [dtypes.string if is_texts else dtypes.float64 for is_texts in texts]
    if type(last_step(model)).__name__ in ("LabelEncoder", "LabelBinarizer"):
        return Tensor(g, g.input("y", kinds[0], ["batch"])).expand()
    if len(set(kinds)) == 1:
        return Tensor(g, g.input("x", kinds[0], ["batch", count]))
    names = getattr(model, "feature_names_in_", None)
    if names is None and type(model).__name__.startswith("CatBoost"):
        # Features without names have their numbers there.
        names = [f"x{i}" if n == str(i) else n for i, n in enumerate(model.feature_names_)]
    listed = [f"x{i}" for i in range(count)] if names is None else list(map(str, names))
    return Mixed([Tensor(g, g.input(n, k, ["batch", 1])) for n, k in zip(listed, kinds)])
