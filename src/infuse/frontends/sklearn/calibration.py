"""Calibrated classifiers, and the lines between thresholds that they are calibrated by."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

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
from infuse.tracing.tensors import Tensor, beside, total


@reads(PROBABILITIES, "CalibratedClassifierCV")
def calibrated(model: Any, x: Tensor) -> Tensor:
    """The mean over calibrated classifiers."""
    parts = [_calibrated(one, x) for one in model.calibrated_classifiers_]
    return total(parts) / float(len(parts))


def _calibrated(model: Any, x: Tensor) -> Tensor:
    two = len(model.classes) == 2
    if hasattr(model.estimator, SCORES):
        answers = scores(model.estimator, x)
    else:
        answers = probabilities(model.estimator, x)
        answers = answers.column(1) if two else answers
    if model.method not in ("sigmoid", "isotonic"):
        raise unsupported(model, f"method={model.method!r}")
    if not two and not np.array_equal(model.estimator.classes_, model.classes):
        raise unsupported(model, "classes that its estimator has not seen")
    answers = answers.expand() if answers.rank == 1 else answers
    parts = []
    for i, calibrator in enumerate(model.calibrators):
        column = answers.column(i)
        if model.method == "sigmoid":
            parts.append((-(column * float(calibrator.a_) + float(calibrator.b_))).sigmoid())
        else:
            parts.append(isotonic(calibrator, column))
    if two:
        return of_two(parts[0])
    return normalized(beside(*parts), 1 / len(parts))


@reads(PREDICT, "CalibratedClassifierCV")
def calibrated_classes(model: Any, x: Tensor) -> Tensor:
    """The class of the largest probability."""
    return labels(model, probabilities(model, x).argmax())


def isotonic(model: Any, column: Tensor) -> Tensor:
    """A line between the nearest thresholds of a column of numbers."""
    points, values = (np.asarray(v, np.float64) for v in (model.X_thresholds_, model.y_thresholds_))
    if len(points) == 1:
        return column * 0.0 + float(values[0])
    clipped = column.clip(float(points[0]), float(points[-1]))
    place = (clipped > points[1:-1].reshape(1, -1)).integers().sum(axis=1)
    start, end = place.take(points[:-1]).expand(), place.take(values[:-1]).expand()
    widths = np.diff(points)
    slopes = np.divide(np.diff(values), widths, out=np.zeros_like(widths), where=widths != 0)
    line = place.take(slopes).expand() * (clipped - start) + end
    if model.out_of_bounds == "nan":
        outside = (column < float(points[0])) | (column > float(points[-1]))
        return outside.where(np.nan, line)
    if model.out_of_bounds == "raise":
        raise unsupported(model, "out_of_bounds='raise'", "fit it with out_of_bounds='clip'")
    return line


reads(PREDICT, "IsotonicRegression")(lambda model, x: isotonic(model, x).vector())
reads(TRANSFORM, "IsotonicRegression")(lambda model, x: isotonic(model, x).vector())


_SEARCHES: Final = (
    "GridSearchCV",
    "RandomizedSearchCV",
    "HalvingGridSearchCV",
    "HalvingRandomSearchCV",
)
_THRESHOLDS: Final = ("TunedThresholdClassifierCV", "FixedThresholdClassifier")


@reads(PREDICT, *_THRESHOLDS)
def by_threshold(model: Any, x: Tensor) -> Tensor:
    """The class of two that a score, as large as a threshold or not, decides for."""
    inner = _of_threshold(model)
    asked = model._get_response_method()
    methods = [asked] if isinstance(asked, str) else asked
    method = next(m for m in methods if hasattr(inner, m))
    is_tuned = hasattr(model, "best_threshold_")
    label = model._curve_scorer._get_pos_label() if is_tuned else model.pos_label
    place = 1 if label is None else int(np.flatnonzero(model.classes_ == label)[0])
    score = call(method, inner, x)
    if method == PROBABILITIES:
        score = score.column(place).vector()
    elif place == 0:
        score = -score
    threshold = model.best_threshold_ if is_tuned else model.threshold
    if isinstance(threshold, str):
        threshold = 0.5 if method == PROBABILITIES else 0.0
    chosen = (score >= float(threshold)).integers()
    return labels(model, chosen if place == 1 else 1 - chosen)


def _of_threshold(model: Any) -> Any:
    return getattr(model, "estimator_", model.estimator)


reads(PROBABILITIES, *_THRESHOLDS)(lambda model, x: probabilities(_of_threshold(model), x))
reads(SCORES, *_THRESHOLDS)(lambda model, x: scores(_of_threshold(model), x))


@reads(PREDICT, *_SEARCHES)
def best_predict(model: Any, x: Tensor) -> Tensor:
    """What the best estimator predicts."""
    return predict(model.best_estimator_, x)


@reads(PROBABILITIES, *_SEARCHES)
def best_probabilities(model: Any, x: Tensor) -> Tensor:
    """The best estimator's."""
    return probabilities(model.best_estimator_, x)


@reads(SCORES, *_SEARCHES)
def best_scores(model: Any, x: Tensor) -> Tensor:
    """The best estimator's."""
    return scores(model.best_estimator_, x)
