"""The inputs of estimators: which of their features are texts, numbers, or used by nobody."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from infuse import dtypes
from infuse.dtypes import DType
from infuse.frontends.sklearn.compose import branches, last_step, passes
from infuse.frontends.sklearn.encoders import is_text
from infuse.frontends.sklearn.imputation import texts_of
from infuse.frontends.sklearn.mixed import Mixed
from infuse.frontends.sklearn.recoding import are_texts, categories_of
from infuse.frontends.sklearn.texts import VECTORIZERS
from infuse.tracing.tensors import Tensor

Kinds = list[DType | None]
_LISTS: Final = (
    "VotingClassifier",
    "VotingRegressor",
    "StackingClassifier",
    "StackingRegressor",
    "MultiOutputClassifier",
    "MultiOutputRegressor",
    "OneVsRestClassifier",
    "OneVsOneClassifier",
)
_LABELS: Final = ("LabelEncoder", "LabelBinarizer")


def members(model: Any) -> list[Any]:
    """The estimators to which one that is made of others gives its own features."""
    kind = type(model).__name__
    if kind in _LISTS:
        return list(model.estimators_)
    if kind == "CalibratedClassifierCV":
        return [one.estimator for one in model.calibrated_classifiers_]
    for name in ("best_estimator_", "regressor_", "estimator_"):
        if hasattr(model, name) and getattr(model, name) is not None:
            return [getattr(model, name)]
    return []


def takes_documents(model: Any) -> bool:
    """Whether an estimator is given a list of texts, and no table."""
    name = type(model).__name__
    if name in VECTORIZERS:
        return True
    if name == "Pipeline":
        return takes_documents(first_step(model))
    if name == "FeatureUnion":
        return any(takes_documents(one) for _, one in model.transformer_list)
    return not hasattr(model, "n_features_in_") and any(map(takes_documents, members(model)))


def first_step(model: Any) -> Any:
    """The first step of a pipeline that changes its features; None where there is none."""
    return next((step for _, step in model.steps if not passes(step)), None)


def kinds(model: Any, count: int) -> Kinds:
    """The element type of each feature: texts where they are compared with texts, else numbers, and
    None for columns that no transformer is given.
    """
    if takes_documents(model):
        return [dtypes.string] * count
    name = type(model).__name__
    if name == "Pipeline":
        return kinds(first_step(model), count)
    if name == "FeatureUnion":
        listed = [one for _, one in model.transformer_list if one != "drop"]
        return _merged([kinds(one, count) for one in listed], count)
    if name == "ColumnTransformer":
        return _merged(_by_column(model, count), count)
    if getattr(model, "_preprocessor", None) is not None:
        return kinds(model._preprocessor, count)
    if inner := members(model):
        parts = [kinds(one, count) for one in inner]
        if getattr(model, "passthrough", False):
            parts.append([dtypes.float64] * count)
        return _merged(parts, count)
    texts = _texts(model, count)
    return [dtypes.string if is_of_texts else dtypes.float64 for is_of_texts in texts]


def _texts(model: Any, count: int) -> list[bool]:
    """Which of the features of one estimator are texts, by what it was fitted to."""
    name = type(model).__name__
    if name in ("OneHotEncoder", "OrdinalEncoder", "TargetEncoder"):
        return [is_text(categories) for categories in model.categories_]
    if name in _LABELS:
        return [is_text(model.classes_)]
    if name == "SimpleImputer":
        return texts_of(model)
    if name == "MissingIndicator":
        return [model.missing_values is None or isinstance(model.missing_values, str)] * count
    if name.startswith("CatBoost"):
        texts = set(model.get_cat_feature_indices())
        return [place in texts for place in range(count)]
    if name.startswith(("XGB", "LGBM")):
        return are_texts(categories_of(model), count)
    return [False] * count


def _by_column(model: Any, count: int) -> Iterable[Kinds]:
    for one, places, _ in branches(model):
        result: Kinds = [None] * count
        for place, kind in zip(places, kinds(one, len(places))):
            result[place] = kind
        yield result


def _merged(parts: Iterable[Kinds], count: int) -> Kinds:
    result: Kinds = [None] * count
    for part in parts:
        for place, kind in enumerate(part):
            if kind is not None and result[place] != dtypes.string:
                result[place] = kind
    return result


def inputs(g: Any, model: Any, count: int) -> Tensor:
    """The inputs of a model: `x` [batch, features], [batch] where it takes documents, or one for
    each column that is used (after the names of features, else `x0`, `x1` …) where some are texts
    and others numbers, or where columns with names are used by nobody.
    """
    if takes_documents(model):
        return Tensor(g, g.input("x", dtypes.string, ["batch"]))
    listed = kinds(model, count)
    names = _names(model)
    used = {kind for kind in listed if kind is not None}
    if type(last_step(model)).__name__ in _LABELS:
        return Tensor(g, g.input("y", listed[0], ["batch"])).expand()
    if len(used) == 1 and (names is None or None not in listed):
        return Tensor(g, g.input("x", used.pop(), ["batch", count]))
    columns = zip(names or [f"x{i}" for i in range(count)], listed, strict=True)
    return Mixed(
        [None if k is None else Tensor(g, g.input(n, k, ["batch", 1])) for n, k in columns]
    )


def _names(model: Any) -> list[str] | None:
    """The names of features, where they have any."""
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return list(map(str, names))
    for one in members(model):
        if (names := _names(one)) is not None:
            return names
    if type(model).__name__.startswith("CatBoost"):
        # Features without names have their numbers there.
        return [f"x{i}" if n == str(i) else n for i, n in enumerate(model.feature_names_)]
    return None
