"""Features from kernels with the rows that an estimator was fitted to."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.frontends.sklearn.calls import PREDICT, TRANSFORM, reads, unsupported
from infuse.frontends.sklearn.kernels import apart
from infuse.tracing.tensors import Tensor, dense


def pairwise(model: Any, x: Tensor, rows: Any, gamma: Any, degree: Any, coef0: Any) -> Tensor:
    """The kernel of scikit-learn's `pairwise_kernels` between the rows of `x` and others."""
    kernel = model.kernel
    gamma = 1.0 / rows.shape[1] if gamma is None else float(gamma)
    if kernel in ("rbf", "laplacian"):
        distances: Tensor = apart(x, rows, 2.0 if kernel == "rbf" else 1.0) * -gamma
        return distances.exp()
    if kernel not in ("linear", "poly", "polynomial", "sigmoid", "cosine"):
        hint = "use rbf, laplacian, linear, poly, sigmoid or cosine"
        raise unsupported(model, f"kernel={kernel!r}", hint)
    others = dense(rows)
    if kernel == "cosine":
        norms = (x * x).sum(keep=True).sqrt()
        x = x / norms.equals(0.0).where(1.0, norms)
        lengths = np.sqrt((others * others).sum(axis=1, keepdims=True))
        others = others / np.where(lengths == 0, 1.0, lengths)
    products: Tensor = x @ np.ascontiguousarray(others.T)
    if kernel in ("linear", "cosine"):
        return products
    scaled: Tensor = products * gamma + float(1 if coef0 is None else coef0)
    if kernel == "sigmoid":
        return scaled.call("Tanh")
    powers: Tensor = scaled ** float(3 if degree is None else degree)
    return powers


@reads(PREDICT, "KernelRidge")
def ridge(model: Any, x: Tensor) -> Tensor:
    """The weighted sum of kernels."""
    rows, dual = model.X_fit_, np.asarray(model.dual_coef_)
    values = pairwise(model, x, rows, model.gamma, model.degree, model.coef0)
    result = values @ dual.reshape(rows.shape[0], -1)
    return result.vector() if dual.ndim == 1 else result


@reads(TRANSFORM, "Nystroem")
def approximated(model: Any, x: Tensor) -> Tensor:
    """Kernels with some of the rows, normalized."""
    given = model.kernel_params or {}
    options = [given.get(k, getattr(model, k)) for k in ("gamma", "degree", "coef0")]
    values = pairwise(model, x, model.components_, *options)
    result: Tensor = values @ np.ascontiguousarray(np.asarray(model.normalization_).T)
    return result


@reads(TRANSFORM, "RBFSampler")
def sampled(model: Any, x: Tensor) -> Tensor:
    """Cosines of random projections."""
    projection = x @ np.asarray(model.random_weights_) + np.asarray(model.random_offset_)
    result: Tensor = projection.call("Cos") * float(np.sqrt(2.0 / model.n_components))
    return result


@reads(TRANSFORM, "KernelPCA")
def kernel_components(model: Any, x: Tensor) -> Tensor:
    """Centred kernels on the components, each by its eigenvalue."""
    values = pairwise(model, x, model.X_fit_, model.gamma_, model.degree, model.coef0)
    centerer = model._centerer
    means = values.sum(keep=True) / float(len(centerer.K_fit_rows_))
    centred = values - np.asarray(centerer.K_fit_rows_)[None] - means + float(centerer.K_fit_all_)
    eigenvalues = np.asarray(model.eigenvalues_)
    scale = np.sqrt(np.where(eigenvalues == 0, 1.0, eigenvalues))
    scaled = np.where(eigenvalues == 0, 0.0, model.eigenvectors_ / scale)
    result: Tensor = centred @ np.ascontiguousarray(scaled)
    return result
