"""Support vectors, nearest neighbours and Gaussian processes: what compares rows with others."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from infuse.frontends.sklearn.calls import (
    PREDICT,
    PROBABILITIES,
    SCORES,
    labels,
    reads,
    scores,
    unsupported,
)
from infuse.tracing.tensors import Tensor, dense

MACHINES = ("SVC", "NuSVC")


def apart(x: Tensor, rows: Any, power: float = 2.0) -> Tensor:
    """Sums of powers of the differences from each of some rows: [batch, rows].

    Squares of what is sparse are computed from products, as scikit-learn does: a vectorizer has too
    many features for differences of each from each.
    """
    others = dense(rows)
    if power == 2 and x.sparse and hasattr(rows, "toarray"):
        squares = (x * x).sum(keep=True) + (others * others).sum(axis=1)[None]
        products: Tensor = squares - 2.0 * (x @ np.ascontiguousarray(others.T))
        return products.maximum(0.0)
    difference = x.expand(1) - others[None]
    powers = difference * difference if power == 2 else difference.abs()
    return (powers if power in (1, 2) else powers**power).sum(axis=2)


# -- support vectors -------------------------------------------------------------------------------


def _kernel(model: Any, x: Tensor) -> Tensor:
    """The kernel of each row with each support vector."""
    vectors, gamma, kind = model.support_vectors_, float(model._gamma), model.kernel
    if kind == "rbf":
        return (apart(x, vectors) * -gamma).exp()
    if kind not in ("linear", "poly", "sigmoid"):
        raise unsupported(model, f"kernel={kind!r}")
    products = x @ np.ascontiguousarray(dense(vectors).T)
    if kind == "linear":
        return products
    scaled = products * gamma + float(model.coef0)
    return scaled.call("Tanh") if kind == "sigmoid" else scaled ** float(model.degree)


@reads(PREDICT, "SVR", "NuSVR")
def machine_regression(model: Any, x: Tensor) -> Tensor:
    """The weighted sum of kernels."""
    kernel = _kernel(model, x)
    value: Tensor = (kernel @ dense(model.dual_coef_).T + model.intercept_).vector()
    return value


reads(SCORES, "OneClassSVM")(machine_regression)
reads(PREDICT, "OneClassSVM")(lambda model, x: 2 * (scores(model, x) > 0).integers() - 1)
reads(PROBABILITIES, "NearestCentroid")(lambda model, x: _centroids(model, x).softmax())


def pair_scores(model: Any, x: Tensor) -> Tensor:
    """The score of each pair of classes, positive for the first: [batch, pairs]."""
    count, kernel = len(model.classes_), _kernel(model, x)
    coefficients = dense(model._dual_coef_)
    ends = np.cumsum([0, *model._n_support])
    weights = []
    for i, j in combinations(range(count), 2):
        column = np.zeros(coefficients.shape[1])
        column[ends[i] : ends[i + 1]] = coefficients[j - 1, ends[i] : ends[i + 1]]
        column[ends[j] : ends[j + 1]] = coefficients[i, ends[j] : ends[j + 1]]
        weights.append(column)
    return kernel @ np.stack(weights, axis=1) + np.asarray(model._intercept_)


def _votes(pairs: Tensor, count: int, second: Tensor) -> Tensor:
    """How many pairs each class wins; `second` are those that the second class wins."""
    wins, losses = second.floats(), (~second).floats()
    matrices = np.zeros((2, pairs.width, count))
    for k, (i, j) in enumerate(combinations(range(count), 2)):
        matrices[0, k, j] = matrices[1, k, i] = 1
    value: Tensor = wins @ matrices[0] + losses @ matrices[1]
    return value


def one_against_one(confidences: Tensor, count: int, second: Tensor) -> Tensor:
    """Votes, and confidences of classes, which break ties."""
    signs = np.zeros((confidences.width, count))
    for k, (i, j) in enumerate(combinations(range(count), 2)):
        signs[k, i], signs[k, j] = -1, 1
    sums = confidences @ signs
    return _votes(confidences, count, second) + sums / (3.0 * (sums.abs() + 1.0))


@reads(SCORES, *MACHINES)
def machine_scores(model: Any, x: Tensor) -> Tensor:
    """A score of two classes, or one for each class or pair."""
    pairs, count = pair_scores(model, x), len(model.classes_)
    if count == 2:
        return -pairs.vector()
    if model.decision_function_shape == "ovo":
        return pairs
    return one_against_one(-pairs, count, pairs < 0)


@reads(PREDICT, *MACHINES)
def machine_classes(model: Any, x: Tensor) -> Tensor:
    """The class that wins most pairs."""
    count = len(model.classes_)
    if model.break_ties and count > 2:
        return labels(model, scores(model, x).argmax())
    pairs = pair_scores(model, x)
    return labels(model, _votes(pairs, count, pairs <= 0).argmax())


# -- nearest neighbours ----------------------------------------------------------------------------


def _nearest(model: Any, x: Tensor) -> tuple[Tensor, Tensor | None]:
    """The places of the nearest rows, and their weights where they are not all the same."""
    metric = model.metric
    power = {"minkowski": float(model.p), "euclidean": 2.0, "l2": 2.0}.get(metric, 1.0)
    if metric not in ("minkowski", "euclidean", "manhattan", "l1", "l2", "cityblock"):
        raise unsupported(model, f"metric={metric!r}", "use euclidean or manhattan distances")
    if (model.metric_params or {}).keys() - {"p"} or np.isinf(power):
        raise unsupported(model, f"metric_params={model.metric_params}")
    if power != 2 and not getattr(model._fit_X, "has_sorted_indices", True):
        raise unsupported(
            model,
            f"metric={metric!r} and sparse samples in no order, between which scikit-learn finds "
            "other distances",
            "call _fit_X.sort_indices() on the estimator, which mends it there too",
        )
    distances = apart(x, model._fit_X, power)
    g, count = x.g, int(model.n_neighbors)
    least, places = g.several(
        2, "TopK", distances.value, g.ints(count), axis=1, largest=0, sorted=1
    )
    if model.weights == "uniform":
        return Tensor(g, places), None
    if model.weights != "distance":
        raise unsupported(model, "weights of a function of its own")
    near = Tensor(g, least)
    near = near if power == 1 else near.sqrt() if power == 2 else near ** (1 / power)
    # Where a neighbour is the row itself, only such neighbours count.
    same = near.equals(0.0)
    hit = same.floats().max(keep=True) > 0
    return Tensor(g, places), hit.where(same.floats(), 1.0 / same.where(1.0, near))


@reads(PREDICT, "KNeighborsRegressor")
def neighbour_regression(model: Any, x: Tensor) -> Tensor:
    """The (weighted) mean of the neighbours."""
    places, weights = _nearest(model, x)
    values = places.take(np.asarray(model._y, np.float64))
    if weights is None:
        return values.mean(axis=1)
    shares = weights if values.rank == 2 else weights.expand(2)
    sums = weights.sum(keep=values.rank == 3)
    return (values * shares).sum(axis=1) / sums


@reads(PROBABILITIES, "KNeighborsClassifier")
def neighbour_probabilities(model: Any, x: Tensor) -> Tensor:
    """The (weighted) share of each class among the neighbours."""
    if model.outputs_2d_:
        raise unsupported(model, "several outputs that are classes")
    places, weights = _nearest(model, x)
    votes = places.take(np.eye(len(model.classes_))[model._y])
    sums = votes.sum(axis=1) if weights is None else (votes * weights.expand(2)).sum(axis=1)
    return sums / sums.sum(keep=True)


def _centroids(model: Any, x: Tensor) -> Tensor:
    """A score for each class: how near its mean is, and how frequent it is."""
    if model.metric not in ("euclidean", "manhattan"):
        raise unsupported(model, f"metric={model.metric!r}")
    spread = np.asarray(model.within_class_std_dev_, np.float64)
    spread = np.where(spread == 0, 1.0, spread)
    power = 2.0 if model.metric == "euclidean" else 1.0
    distances = apart(x / spread, model.centroids_ / spread, power)
    squares = distances if power == 2 else distances * distances
    return -squares + 2.0 * np.log(np.asarray(model.class_prior_, np.float64))


@reads(PREDICT, "NearestCentroid")
def centroid(model: Any, x: Tensor) -> Tensor:
    """The class of the nearest mean, or of the largest score where classes are not alike."""
    prior = np.asarray(model.class_prior_)
    if np.isclose(prior, 1 / len(prior)).all():
        power = 2.0 if model.metric == "euclidean" else 1.0
        if model.metric not in ("euclidean", "manhattan"):
            raise unsupported(model, f"metric={model.metric!r}")
        return labels(model, apart(x, model.centroids_, power).argmin())
    return labels(model, _centroids(model, x).argmax())


# -- Gaussian processes ----------------------------------------------------------------------------


def _covariance(model: Any, kernel: Any, x: Tensor, rows: Any) -> Tensor:
    """A kernel of scikit-learn between the rows of `x` and others."""
    name = type(kernel).__name__
    if name in ("Sum", "Product"):
        one, other = (_covariance(model, k, x, rows) for k in (kernel.k1, kernel.k2))
        return one + other if name == "Sum" else one * other
    if name == "Exponentiation":
        return _covariance(model, kernel.kernel, x, rows) ** float(kernel.exponent)
    if name == "DotProduct":
        return x @ np.ascontiguousarray(rows.T) + float(kernel.sigma_0) ** 2
    if name in ("ConstantKernel", "WhiteKernel"):
        constant = float(kernel.constant_value) if name == "ConstantKernel" else 0.0
        return (x @ np.zeros((rows.shape[1], len(rows)))) + constant
    if name not in ("RBF", "Matern", "RationalQuadratic", "ExpSineSquared"):
        raise unsupported(model, f"kernel {name}")
    if name == "ExpSineSquared":
        distance = apart(x, rows).sqrt() * (np.pi / kernel.periodicity)
        sine = distance.call("Sin") / float(kernel.length_scale)
        value: Tensor = (sine * sine * -2.0).exp()
        return value
    scale = np.asarray(kernel.length_scale, np.float64)
    if name == "RationalQuadratic":
        base = apart(x, rows) / (2.0 * kernel.alpha * float(scale) ** 2) + 1.0
        power1: Tensor = base ** -float(kernel.alpha)
        return power1
    square = apart(x / scale.reshape(1, -1), rows / scale)
    if name == "RBF" or np.isinf(kernel.nu):
        return (square * -0.5).exp()
    distance = square.sqrt()
    if kernel.nu not in (0.5, 1.5, 2.5):
        raise unsupported(model, f"kernel Matern(nu={kernel.nu})")
    k = distance * float(np.sqrt(2 * kernel.nu))
    factor = {0.5: None, 1.5: k + 1.0, 2.5: k + 1.0 + k * k / 3.0}[kernel.nu]
    return (-k).exp() if factor is None else factor * (-k).exp()


@reads(PREDICT, "GaussianProcessRegressor")
def process(model: Any, x: Tensor) -> Tensor:
    """The mean of the process."""
    means = _covariance(model, model.kernel_, x, model.X_train_) @ np.asarray(model.alpha_).reshape(
        len(model.X_train_), -1
    )
    result = means * np.asarray(model._y_train_std).reshape(1, -1)
    result = result + np.asarray(model._y_train_mean).reshape(1, -1)
    return result.vector() if result.width == 1 else result
