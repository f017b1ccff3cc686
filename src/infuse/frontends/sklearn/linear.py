"""Linear models and neural networks."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.frontends.sklearn.calls import (
    BY_SCORES,
    PREDICT,
    PROBABILITIES,
    SCORES,
    labels,
    normalized,
    of_two,
    predict as predicted,
    reads,
    scores,
    unsupported,
)
from infuse.tracing.calls import words
from infuse.tracing.tensors import Tensor, dense

_REGRESSORS = words("""LinearRegression Ridge RidgeCV Lasso LassoCV LassoLars LassoLarsCV
    LassoLarsIC ElasticNet ElasticNetCV Lars LarsCV BayesianRidge ARDRegression
    HuberRegressor TheilSenRegressor SGDRegressor PassiveAggressiveRegressor LinearSVR
    QuantileRegressor OrthogonalMatchingPursuit OrthogonalMatchingPursuitCV MultiTaskLasso
    MultiTaskLassoCV MultiTaskElasticNet MultiTaskElasticNetCV""")
_CLASSIFIERS = (
    "LogisticRegression", "LogisticRegressionCV", "SGDClassifier", "Perceptron",
    "PassiveAggressiveClassifier", "LinearSVC", "RidgeClassifier", "RidgeClassifierCV",
)  # fmt: skip
_LOGARITHMIC = ("PoissonRegressor", "GammaRegressor")
BY_SCORES.update(_CLASSIFIERS)


def linear(model: Any, x: Tensor) -> Tensor:
    """X · coef_ᵀ + intercept_, as a vector where the coefficients are one."""
    coefficients = dense(model.coef_)
    matrix = coefficients.reshape(1, -1) if coefficients.ndim == 1 else coefficients
    result = x @ matrix.T
    if np.any(model.intercept_):
        result = result + np.asarray(model.intercept_, np.float64).reshape(1, -1)
    value: Tensor = result.vector() if coefficients.ndim == 1 else result
    return value


reads(PREDICT, *_REGRESSORS)(linear)
reads(PREDICT, *_LOGARITHMIC)(lambda model, x: linear(model, x).exp())
reads(PREDICT, "RANSACRegressor")(lambda model, x: predicted(model.estimator_, x))


@reads(PREDICT, "TweedieRegressor")
def tweedie(model: Any, x: Tensor) -> Tensor:
    """The link depends on the power."""
    link = model.link if model.link != "auto" else "identity" if model.power <= 0 else "log"
    return linear(model, x).exp() if link == "log" else linear(model, x)


@reads(SCORES, *_CLASSIFIERS)
def linear_scores(model: Any, x: Tensor) -> Tensor:
    """A score for each class, or one of two."""
    result = linear(model, x)
    return result.vector() if result.rank == 2 and result.width == 1 else result


def of_scores(model: Any, result: Tensor) -> Tensor:
    """One-versus-rest probabilities: logistic functions, which are normalized."""
    chances = result.sigmoid()
    return of_two(chances) if chances.rank == 1 else normalized(chances, 1 / chances.width)


@reads(PROBABILITIES, "LogisticRegression", "LogisticRegressionCV")
def logistic(model: Any, x: Tensor) -> Tensor:
    """Logistic functions of two classes, softmax of more."""
    result = scores(model, x)
    if result.rank == 1 or getattr(model, "multi_class", "auto") == "ovr":
        return of_scores(model, result)
    if getattr(model, "solver", "") == "liblinear":
        return of_scores(model, result)
    return result.softmax()


@reads(PROBABILITIES, "SGDClassifier")
def descent(model: Any, x: Tensor) -> Tensor:
    """The loss says what scores mean."""
    result = scores(model, x)
    if model.loss == "log_loss":
        return of_scores(model, result)
    if model.loss != "modified_huber":
        raise unsupported(model, f"loss={model.loss!r} and probabilities")
    chances = (result.clip(-1.0, 1.0) + 1.0) / 2.0
    return of_two(chances) if result.rank == 1 else normalized(chances, 1 / chances.width)


_ACTIVATIONS = {
    "identity": lambda x: x,
    "logistic": Tensor.sigmoid,
    "tanh": lambda x: x.call("Tanh"),
    "relu": lambda x: x.call("Relu"),
    "softmax": Tensor.softmax,
    "exp": Tensor.exp,
}


def _network(model: Any, x: Tensor) -> Tensor:
    last = len(model.coefs_) - 1
    for i, (weights, bias) in enumerate(zip(model.coefs_, model.intercepts_)):
        name = model.out_activation_ if i == last else model.activation
        if name not in _ACTIVATIONS:
            raise unsupported(model, f"activation {name!r}")
        x = _ACTIVATIONS[name](x @ weights + bias)
    return x


@reads(PREDICT, "MLPRegressor")
def network(model: Any, x: Tensor) -> Tensor:
    """A multilayer perceptron."""
    result = _network(model, x)
    return result.vector() if result.width == 1 else result


@reads(PROBABILITIES, "MLPClassifier")
def network_probabilities(model: Any, x: Tensor) -> Tensor:
    """The last layer's values; of one, those of the second class."""
    result = _network(model, x)
    return of_two(result) if result.width == 1 else result


@reads(PREDICT, "MLPClassifier")
def network_classes(model: Any, x: Tensor) -> Tensor:
    """The largest, or whether the only one is above a half."""
    result = _network(model, x)
    if model.out_activation_ == "logistic" and result.width > 1:
        return (result > 0.5).integers()
    return labels(
        model, (result.vector() > 0.5).integers() if result.width == 1 else result.argmax()
    )
