"""How estimators become nodes: the table by class name and method, and what calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from infuse.errors import InputError, UnsupportedOperatorError
from infuse.frontends.sklearn.sparse import gives_sparse
from infuse.tracing.tensors import Tensor, beside

Handler = Callable[[Any, Tensor], Tensor]
PREDICT, PROBABILITIES, SCORES, TRANSFORM = (
    "predict",
    "predict_proba",
    "decision_function",
    "transform",
)
LIBRARIES: Final = ("sklearn", "xgboost", "lightgbm", "catboost")
"""Those whose estimators are read; classes of others may share their names."""
TABLE: Final[dict[tuple[str, str], Handler]] = {}
"""By class name and method."""
BY_SCORES: Final = {
    "AdaBoostClassifier",
    "HistGradientBoostingClassifier",
    "LinearDiscriminantAnalysis",
    "QuadraticDiscriminantAnalysis",
}
"""Classifiers, those of linear models added, whose labels are those of the largest score, not of
the largest probability.
"""


def reads(method: str, *names: str) -> Callable[[Handler], Handler]:
    """Register what computes a method of these classes from a fitted estimator and a tensor."""

    def register(handler: Handler) -> Handler:
        for name in names:
            assert (name, method) not in TABLE, f"{name}.{method} has two entries"
            TABLE[name, method] = handler
        return handler

    return register


def _handler(model: Any, method: str) -> Handler | None:
    """What computes a method of an estimator; none of a class of the user's own."""
    kind = type(model)
    is_read = kind.__module__.partition(".")[0] in LIBRARIES
    return TABLE.get((kind.__name__, method)) if is_read else None


def has(model: Any, method: str) -> bool:
    """Whether a method of an estimator can be computed, and the estimator itself has it."""
    return _handler(model, method) is not None and hasattr(model, method)


def call(method: str, model: Any, x: Tensor) -> Tensor:
    """The result of a method; UnsupportedOperatorError names an estimator without an entry."""
    name = type(model).__name__
    with x.g.scope(name):
        handler = _handler(model, method)
        if handler is not None:
            result = _fitted(handler, model, x.features())
            is_sparse = method == TRANSFORM and gives_sparse(model, x.sparse, result.sparse)
            return result.marked(is_sparse)
        if method == PREDICT and has(model, SCORES) and name in BY_SCORES:
            scores = call(SCORES, model, x)
            return labels(model, (scores > 0).integers() if scores.rank == 1 else scores.argmax())
        if method == PREDICT and _handler(model, PROBABILITIES) is not None:
            return labels(model, call(PROBABILITIES, model, x).argmax())
        library = type(model).__module__.partition(".")[0]
        raise UnsupportedOperatorError(
            f"{library}'s {name}.{method} is not supported",
            hint="of a Pipeline load the steps before it or behind it, "
            "`infuse.load(pipeline[:i])`, and run this one with its library; or report the "
            "estimator",
        )


def _fitted(handler: Handler, model: Any, x: Tensor) -> Tensor:
    try:
        return handler(model, x)
    except AttributeError as error:
        if getattr(error, "obj", None) is not model:
            raise
        raise InputError(
            f"{type(model).__name__} has no {error.name}",
            hint="fit the estimator before loading it",
        ) from error


def predict(model: Any, x: Tensor) -> Tensor:
    """What `predict` gives."""
    return call(PREDICT, model, x)


def probabilities(model: Any, x: Tensor) -> Tensor:
    """What `predict_proba` gives."""
    return call(PROBABILITIES, model, x)


def scores(model: Any, x: Tensor) -> Tensor:
    """What `decision_function` gives."""
    return call(SCORES, model, x)


def transform(model: Any, x: Tensor) -> Tensor:
    """What `transform` gives."""
    return call(TRANSFORM, model, x)


def labels(model: Any, places: Tensor) -> Tensor:
    """The labels of classes at these places."""
    classes = np.asarray(model.classes_)
    if isinstance(model.classes_, list) or classes.ndim != 1:
        raise unsupported(model, "several outputs that are classes")
    return places.take(classes)


def of_two(second: Tensor) -> Tensor:
    """Probabilities of two classes from those of the second."""
    column = second if second.rank == 2 else second.expand()
    return beside(1.0 - column, column)


def normalized(x: Tensor, otherwise: float) -> Tensor:
    """Rows that sum to one; where all elements are zero, each is `otherwise`."""
    sums = x.sum(keep=True)
    empty = sums.equals(0.0)
    return empty.where(otherwise, x / empty.where(1.0, sums))


def unsupported(model: Any, what: str, hint: str = "") -> UnsupportedOperatorError:
    """The error for an option of an estimator that has no translation."""
    return UnsupportedOperatorError(
        f"{type(model).__name__} with {what} is not supported", hint=hint or None
    )
