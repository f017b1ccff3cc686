"""Naive Bayes, discriminant analysis, mixtures and clusters."""

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
)
from infuse.frontends.sklearn.kernels import apart
from infuse.tracing.tensors import Tensor, beside, total

_BAYES = ("GaussianNB", "MultinomialNB", "ComplementNB", "BernoulliNB", "CategoricalNB")


# -- naive Bayes -----------------------------------------------------------------------------------


def _joint(model: Any, x: Tensor) -> Tensor:
    """The logarithm of the likelihood of a row and each class."""
    name = type(model).__name__
    if name == "GaussianNB":
        constants = np.log(model.class_prior_) - 0.5 * np.log(2 * np.pi * model.var_).sum(axis=1)
        difference = x.expand(1) - model.theta_[None]
        value: Tensor = (difference * difference / model.var_[None]).sum(axis=2) * -0.5 + constants
        return value
    if name == "CategoricalNB":
        parts = [
            x.columns([i]).vector().integers().take(np.ascontiguousarray(table.T))
            for i, table in enumerate(model.feature_log_prob_)
        ]
        other: Tensor = total(parts) + model.class_log_prior_
        return other
    table = model.feature_log_prob_
    if name == "BernoulliNB":
        if model.binarize is not None:
            x = (x > float(model.binarize)).floats()
        absent = np.log(1 - np.exp(table))
        other1: Tensor = x @ (table - absent).T + (model.class_log_prior_ + absent.sum(axis=1))
        return other1
    result = x @ np.ascontiguousarray(table.T)
    if name == "MultinomialNB" or len(model.classes_) == 1:
        result = result + model.class_log_prior_
    return result


reads(PREDICT, *_BAYES)(lambda model, x: labels(model, _joint(model, x).argmax()))
reads(PREDICT, "GaussianMixture")(lambda model, x: _mixture(model, x).argmax())


@reads(PROBABILITIES, *_BAYES)
def bayes_probabilities(model: Any, x: Tensor) -> Tensor:
    """Normalized likelihoods."""
    joint = _joint(model, x)
    return (joint - joint.logsumexp()).exp()


# -- discriminant analysis -------------------------------------------------------------------------


@reads(SCORES, "LinearDiscriminantAnalysis")
def discriminant_scores(model: Any, x: Tensor) -> Tensor:
    """A score for each class, or one of two."""
    result = x @ np.ascontiguousarray(model.coef_.T) + model.intercept_
    value: Tensor = result.vector() if result.width == 1 else result
    return value


@reads(PROBABILITIES, "LinearDiscriminantAnalysis")
def discriminant_probabilities(model: Any, x: Tensor) -> Tensor:
    """Logistic function of two classes, softmax of more."""
    result = scores(model, x)
    return of_two(result.sigmoid()) if result.rank == 1 else result.softmax()


@reads(TRANSFORM, "LinearDiscriminantAnalysis")
def discriminants(model: Any, x: Tensor) -> Tensor:
    """Projections."""
    centered = x - model.xbar_ if model.solver == "svd" else x
    return centered @ np.ascontiguousarray(model.scalings_[:, : model._max_components])


def _quadratic(model: Any, x: Tensor) -> Tensor:
    parts = []
    for rotation, scaling, mean in zip(model.rotations_, model.scalings_, model.means_):
        projected = (x - mean) @ (rotation * scaling**-0.5)
        parts.append((projected * projected).sum(keep=True))
    constants = np.array([np.log(scaling).sum() for scaling in model.scalings_])
    value: Tensor = (beside(*parts) + constants) * -0.5 + np.log(model.priors_)
    return value


@reads(SCORES, "QuadraticDiscriminantAnalysis")
def quadratic_scores(model: Any, x: Tensor) -> Tensor:
    """A score for each class, or one of two."""
    result = _quadratic(model, x)
    if len(model.classes_) != 2:
        return result
    return (result.column(1) - result.column(0)).vector()


@reads(PROBABILITIES, "QuadraticDiscriminantAnalysis")
def quadratic_probabilities(model: Any, x: Tensor) -> Tensor:
    """Softmax of the scores of all classes."""
    return _quadratic(model, x).softmax()


# -- mixtures and clusters -------------------------------------------------------------------------


def _mixture(model: Any, x: Tensor) -> Tensor:
    """The logarithm of the weighted density of each component."""
    kind, means, roots = model.covariance_type, model.means_, model.precisions_cholesky_
    if kind in ("full", "tied"):
        parts = []
        for k, mean in enumerate(means):
            root = roots[k] if kind == "full" else roots
            y = x @ root - mean @ root
            parts.append((y * y).sum(keep=True))
        squares = beside(*parts)
        diagonal = np.log(np.diagonal(roots, axis1=-2, axis2=-1)).sum(axis=-1)
    else:
        scale = roots if kind == "diag" else np.repeat(roots[:, None], means.shape[1], axis=1)
        y = (x.expand(1) - means[None]) * scale[None]
        squares = (y * y).sum(axis=2)
        diagonal = np.log(scale).sum(axis=1)
    constant = means.shape[1] * np.log(2 * np.pi)
    value: Tensor = (squares + constant) * -0.5 + (diagonal + np.log(model.weights_))
    return value


@reads(PROBABILITIES, "GaussianMixture")
def mixture_probabilities(model: Any, x: Tensor) -> Tensor:
    """The share of each component."""
    joint = _mixture(model, x)
    return (joint - joint.logsumexp()).exp()


@reads(PREDICT, "KMeans", "MiniBatchKMeans")
def cluster(model: Any, x: Tensor) -> Tensor:
    """The nearest center."""
    return apart(x, model.cluster_centers_).argmin().astype(dtypes.int32)


@reads(TRANSFORM, "KMeans", "MiniBatchKMeans", "BisectingKMeans")
def center_distances(model: Any, x: Tensor) -> Tensor:
    """The distance of each center."""
    return apart(x, model.cluster_centers_).sqrt()


@reads(PREDICT, "BisectingKMeans")
def bisected(model: Any, x: Tensor) -> Tensor:
    """The leaf of the tree of clusters, by the nearer of two centers at each branch."""

    def leaf(node: Any) -> Tensor:
        if node.left is None:
            return x.constant([int(node.label)], dtypes.int32)
        centers = np.stack([node.left.center, node.right.center])
        if getattr(model, "_X_mean", None) is not None:
            centers = centers + model._X_mean
        near = apart(x, centers).argmin().astype(dtypes.int32)
        return near.equals(0).where(leaf(node.left), leaf(node.right))

    return leaf(model._bisecting_tree)
