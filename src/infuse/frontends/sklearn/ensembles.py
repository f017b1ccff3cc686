"""Estimators made of estimators."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.frontends.sklearn.calls import (
    PREDICT,
    PROBABILITIES,
    SCORES,
    TRANSFORM,
    call,
    labels,
    normalized,
    of_two,
    predict,
    probabilities,
    reads,
    scores,
    unsupported,
)
from infuse.frontends.sklearn.kernels import one_against_one
from infuse.tracing.tensors import Tensor, beside, total


def places(model: Any, x: Tensor) -> Tensor:
    """The place of the predicted class among the estimator's own."""
    count = len(model.classes_)
    if "classes_" not in vars(model):
        return _places_of_labels(predict(model, x), model.classes_)
    numbered = copy.copy(model)
    numbered.classes_ = np.arange(count)
    return predict(numbered, x)


def _places_of_labels(labels: Tensor, classes: Any) -> Tensor:
    kind = labels.dtype
    listed = np.asarray(classes)
    listed = listed.astype(object) if kind == dtypes.string else listed
    return labels.expand().equals(labels.constant(listed.reshape(1, -1), kind)).floats().argmax()


# -- votes -----------------------------------------------------------------------------------------


def _weights(model: Any) -> list[float]:
    weights = model._weights_not_none
    return [1.0] * len(model.estimators_) if weights is None else [float(w) for w in weights]


@reads(PROBABILITIES, "VotingClassifier")
def soft_votes(model: Any, x: Tensor) -> Tensor:
    """The weighted mean of probabilities."""
    weights = _weights(model)
    parts = [probabilities(one, x) * w for one, w in zip(model.estimators_, weights)]
    return total(parts) / sum(weights)


@reads(PREDICT, "VotingClassifier")
def votes(model: Any, x: Tensor) -> Tensor:
    """The class of the largest mean, or with the most votes."""
    if model.voting == "soft":
        return labels(model, probabilities(model, x).argmax())
    eye = np.eye(len(model.classes_))
    chosen = [predict(one, x).take(eye) * w for one, w in zip(model.estimators_, _weights(model))]
    return labels(model, total(chosen).argmax())


@reads(PREDICT, "VotingRegressor")
def mean_of_regressors(model: Any, x: Tensor) -> Tensor:
    """The weighted mean."""
    weights = _weights(model)
    return total([predict(m, x) * w for m, w in zip(model.estimators_, weights)]) / sum(weights)


# -- stacks ----------------------------------------------------------------------------------------


def _stacked(model: Any, x: Tensor) -> Tensor:
    """What the final estimator is given."""
    parts = []
    methods = [m for m in model.stack_method_ if m != "drop"]
    two = len(getattr(model, "classes_", ())) == 2
    for one, method in zip(model.estimators_, methods, strict=True):
        part = call(method, one, x)
        if part.rank == 2 and method == PROBABILITIES and two:
            part = part.column(1)
        parts.append(part.floats())
    return beside(*parts, x).marked(x.sparse) if model.passthrough else beside(*parts)


def _stack(method: str) -> Any:
    return lambda model, x: call(method, model.final_estimator_, _stacked(model, x))


reads(PREDICT, "StackingRegressor")(_stack(PREDICT))
reads(PROBABILITIES, "StackingClassifier")(_stack(PROBABILITIES))
reads(SCORES, "StackingClassifier")(_stack(SCORES))


@reads(PREDICT, "StackingClassifier")
def stacked_classes(model: Any, x: Tensor) -> Tensor:
    """The class that the final estimator predicts."""
    return labels(model, places(model.final_estimator_, _stacked(model, x)))


reads(TRANSFORM, "StackingClassifier", "StackingRegressor")(_stacked)


# -- bags ------------------------------------------------------------------------------------------


def _members(model: Any, x: Tensor) -> Any:
    for one, columns in zip(model.estimators_, model.estimators_features_):
        yield one, x.columns(columns)


@reads(PROBABILITIES, "BaggingClassifier")
def bag_probabilities(model: Any, x: Tensor) -> Tensor:
    """The mean of probabilities; of votes, where estimators have none."""
    parts = []
    for one, columns in _members(model, x):
        table = np.eye(model.n_classes_)[np.asarray(one.classes_, np.int64)]
        if not hasattr(one, PROBABILITIES):
            parts.append(places(one, columns).take(table))
            continue
        part = probabilities(one, columns)
        parts.append(part if len(table) == model.n_classes_ else part @ table)
    return total(parts) / float(len(parts))


@reads(PREDICT, "BaggingClassifier")
def bag_classes(model: Any, x: Tensor) -> Tensor:
    """The class of the largest mean."""
    return labels(model, probabilities(model, x).argmax())


@reads(PREDICT, "BaggingRegressor")
def bag_regression(model: Any, x: Tensor) -> Tensor:
    """The mean."""
    return total([predict(m, columns) for m, columns in _members(model, x)]) / float(
        len(model.estimators_)
    )


# -- boosting of any estimator ---------------------------------------------------------------------


@reads(SCORES, "AdaBoostClassifier")
def adaptive_scores(model: Any, x: Tensor) -> Tensor:
    """Weighted votes: a score of two classes, or one for each."""
    count = int(model.n_classes_)
    if count == 1:
        raise unsupported(model, "a single class")
    listed = {c: i for i, c in enumerate(np.asarray(model.classes_).tolist())}
    parts = []
    for one, weight in zip(model.estimators_, model.estimator_weights_):
        table = np.full((len(one.classes_), count), -1 / (count - 1) * weight)
        for i, name in enumerate(np.asarray(one.classes_).tolist()):
            table[i, listed[name]] = weight
        parts.append(places(one, x).take(table))
    result = total(parts) / float(model.estimator_weights_[: len(parts)].sum())
    if count > 2:
        return result
    return (result.column(1) - result.column(0)).vector()


@reads(PROBABILITIES, "AdaBoostClassifier")
def adaptive_probabilities(model: Any, x: Tensor) -> Tensor:
    """Softmax of the scores."""
    result = scores(model, x)
    if result.rank == 1:
        return beside(-result, result).__truediv__(2.0).softmax()
    return (result / float(model.n_classes_ - 1)).softmax()


@reads(PREDICT, "AdaBoostRegressor")
def adaptive_regression(model: Any, x: Tensor) -> Tensor:
    """The weighted median."""
    values = beside(*(predict(one, x) for one in model.estimators_))
    g, count = x.g, len(model.estimators_)
    weights = np.asarray(model.estimator_weights_, np.float64)[:count]
    ranked, order = g.several(2, "TopK", values.value, g.ints(count), axis=1, largest=0, sorted=1)
    sums = Tensor(g, order).take(weights).call("CumSum", g.ints(1))
    enough = sums >= sums.column(count - 1) * 0.5
    return Tensor(
        g, g("GatherElements", ranked, enough.floats().argmax().expand().value, axis=1)
    ).vector()


# -- several outputs and several classes -----------------------------------------------------------


@reads(PREDICT, "MultiOutputRegressor", "MultiOutputClassifier")
def outputs(model: Any, x: Tensor) -> Tensor:
    """A column for each output."""
    return beside(*(predict(one, x) for one in model.estimators_))


@reads(PREDICT, "RegressorChain")
def chained(model: Any, x: Tensor) -> Tensor:
    """Each output is a feature of the next."""
    parts: list[Tensor] = []
    for one in model.estimators_:
        parts.append(predict(one, beside(x, *parts)))
    order = [list(model.order_).index(i) for i in range(len(parts))]
    return beside(*(parts[i] for i in order))


def _classifier_chain(method: str) -> Callable[[Any, Tensor], Tensor]:
    def run(model: Any, x: Tensor) -> Tensor:
        """A column for each label; what one says is a feature of the next."""
        features, parts = [x], []
        for one in model.estimators_:
            given = beside(*features)
            features.append(_response(one, given, model.chain_method_).floats())
            parts.append(_response(one, given, method).floats())
        order = [list(model.order_).index(i) for i in range(len(parts))]
        return beside(*(parts[i] for i in order))

    return run


def _response(model: Any, x: Tensor, method: str) -> Tensor:
    """The label, score or probability of the second of two classes."""
    result = call(method, model, x)
    if len(model.classes_) != 2:
        raise unsupported(model, "labels of other than two classes in a chain")
    return result.column(1) if method == PROBABILITIES else result


for _method in (PREDICT, PROBABILITIES, SCORES):
    reads(_method, "ClassifierChain")(_classifier_chain(_method))


@reads(PREDICT, "TransformedTargetRegressor")
def of_transformed(model: Any, x: Tensor) -> Tensor:
    """The inverse of a known function of the prediction."""
    inner = predict(model.regressor_, x)
    inverse: dict[str, Callable[[Tensor], Tensor]] = {
        "expm1": lambda t: t.exp() - 1.0,
        "exp": Tensor.exp,
        "log": Tensor.log,
        "sqrt": Tensor.sqrt,
        "square": lambda t: t * t,
    }
    if model.transformer is None and model.inverse_func is None:
        return inner
    name = getattr(model.inverse_func, "__name__", "")
    if isinstance(model.inverse_func, np.ufunc) and name in inverse:
        value: Tensor = inverse[name](inner)
        return value
    kind = type(model.transformer_).__name__
    if model.transformer is not None and kind == "StandardScaler":
        scaler = model.transformer_
        inner = inner * scaler.scale_ if scaler.with_std else inner
        return inner + scaler.mean_ if scaler.with_mean else inner
    raise unsupported(model, f"transformer {kind} or inverse_func {name!r}")


def _binary(model: Any, x: Tensor) -> Tensor:
    """The confidence in the second class of an estimator of two."""
    if type(model).__name__ == "_ConstantPredictor":
        return x.column(0).vector() * 0.0 + float(model.y_[0])
    if hasattr(model, SCORES):
        return scores(model, x)
    if hasattr(model, PROBABILITIES):
        return probabilities(model, x).column(1).vector()
    return predict(model, x)


def _threshold(model: Any) -> float:
    return 0.0 if hasattr(model, SCORES) or not hasattr(model, "classes_") else 0.5


@reads(PREDICT, "OneVsRestClassifier")
def one_of_all(model: Any, x: Tensor) -> Tensor:
    """The class whose estimator is surest."""
    if model.multilabel_:
        columns = [
            (_binary(one, x) > _threshold(model.estimators_[0])).integers()
            for one in model.estimators_
        ]
        return beside(*columns)
    if len(model.estimators_) == 1:
        only = model.estimators_[0]
        return labels(model, (_binary(only, x) > _threshold(only)).integers())
    return labels(model, beside(*(_binary(one, x) for one in model.estimators_)).argmax())


@reads(PROBABILITIES, "OneVsRestClassifier")
def rest_probabilities(model: Any, x: Tensor) -> Tensor:
    """Normalized probabilities of the second classes."""
    parts = []
    for one in model.estimators_:
        if type(one).__name__ == "_ConstantPredictor":
            parts.append(_binary(one, x).expand())
        else:
            parts.append(probabilities(one, x).column(1))
    if len(parts) == 1:
        return of_two(parts[0])
    result = beside(*parts)
    return result if model.multilabel_ else normalized(result, 0.0)


@reads(SCORES, "OneVsRestClassifier")
def rest_scores(model: Any, x: Tensor) -> Tensor:
    """The scores of all estimators."""
    if len(model.estimators_) == 1:
        return scores(model.estimators_[0], x)
    return beside(*(_binary(one, x) for one in model.estimators_))


@reads(SCORES, "OneVsOneClassifier")
def pair_scores(model: Any, x: Tensor) -> Tensor:
    """Votes of pairs, and confidences that break ties."""
    if model.pairwise_indices_ is not None:
        raise unsupported(model, "a kernel that is computed beforehand")
    confidences = beside(*(_binary(one, x) for one in model.estimators_))
    second = beside(*(places(one, x) for one in model.estimators_)).equals(1)
    result = one_against_one(confidences, len(model.classes_), second)
    return result.column(1).vector() if len(model.classes_) == 2 else result


@reads(PREDICT, "OneVsOneClassifier")
def pair_classes(model: Any, x: Tensor) -> Tensor:
    """The class of the largest score."""
    result = scores(model, x)
    if result.rank == 1:
        return labels(model, (result > _threshold(model.estimators_[0])).integers())
    return labels(model, result.argmax())
