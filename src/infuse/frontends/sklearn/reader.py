"""Fitted estimators of scikit-learn and of boosted trees as graphs, by their attributes; no library
is imported here.
"""

from __future__ import annotations

from typing import Any

from infuse.errors import InputError, UnsupportedOperatorError
from infuse.frontends.sklearn.calls import PREDICT, PROBABILITIES, SCORES, TRANSFORM, call
from infuse.frontends.sklearn.compose import last_step
from infuse.frontends.sklearn.inputs import inputs, takes_documents
from infuse.frontends.sklearn.sparse import SELECTORS
from infuse.ir.graph import Graph
from infuse.tracing.importer import Importer

_OF_OBJECTS = {
    **dict.fromkeys(("DictVectorizer", "FeatureHasher"), "dictionaries"),
}
"""Transformers of what is no array, and has no number of features."""
_METHODS_OF_CLUSTERS = ("KMeans", "MiniBatchKMeans", "BisectingKMeans")


def load(model: Any) -> Graph:
    """The graph of a fitted estimator, transformer or pipeline, computed as its library does.

    Input `x` is float64 [batch, features] (strings where all features are categories in text,
    strings [batch] where a vectorizer of texts comes first, one input for each column where some
    are texts, None or NaN in place of missing ones; `y` [batch] of a LabelEncoder or
    LabelBinarizer). Outputs: classifiers have `label` and `probabilities` (`scores` where there are
    none), regressors `variable`, transformers `transformed`.
    """
    name = type(model).__name__
    g = Importer(name)
    x = inputs(g, model, _count(model))
    last = last_step(model)
    if not hasattr(model, PREDICT) or type(last).__name__ in SELECTORS:
        if not hasattr(model, TRANSFORM):
            raise InputError(f"{name} neither predicts nor transforms")
        g.output("transformed", call(TRANSFORM, model, x).value)
        return g.graph
    result = call(PREDICT, model, x)
    if type(last).__name__ in _METHODS_OF_CLUSTERS:
        g.output("label", result.value)
        if last is model:
            g.output("transformed", call(TRANSFORM, model, x).value)
        return g.graph
    # Regressors of CatBoost have a list of no classes.
    is_classifier = len(getattr(model, "classes_", ())) > 0 or hasattr(model, SCORES)
    g.output("label" if is_classifier else "variable", result.value)
    if type(last).__name__ == "MultiOutputClassifier":
        for i, one in enumerate(last.estimators_ if last is model else ()):
            if hasattr(one, PROBABILITIES):
                g.output(f"probabilities_{i}", call(PROBABILITIES, one, x).value)
    elif hasattr(model, PROBABILITIES):
        g.output("probabilities", call(PROBABILITIES, model, x).value)
    elif hasattr(model, SCORES):
        g.output("scores", call(SCORES, model, x).value)
    return g.graph


def _count(model: Any) -> int:
    """The number of features."""
    name = type(model).__name__
    if name in ("LabelEncoder", "LabelBinarizer", "IsotonicRegression") or takes_documents(model):
        return 1
    count = getattr(model, "n_features_in_", None)
    if count is None and name == "FunctionTransformer":
        raise InputError(
            f"{name} does not know how many features it has", hint="put it into a Pipeline"
        )
    if count is None:
        first = _first_step(model)
        kind = type(first).__name__
        if kind in _OF_OBJECTS:
            raise UnsupportedOperatorError(
                f"{kind}, which takes {_OF_OBJECTS[kind]}, is not supported",
                hint="load what follows it, which takes the features that it makes (of a Pipeline "
                "`infuse.load(pipeline[1:])`), or export all of it to ONNX with skl2onnx",
            )
        raise InputError(f"{name} is not fitted", hint="call its fit method first")
    return int(count)


def _first_step(model: Any) -> Any:
    """What is given the features: of a pipeline its first step, and the first step of that."""
    while getattr(model, "steps", None):
        steps = [step for _, step in model.steps if step not in (None, "passthrough")]
        if not steps:
            break
        model = steps[0]
    return model
