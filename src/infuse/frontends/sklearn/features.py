"""Transformers of numbers: scaling, binning, projection, imputation, selection."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from infuse.frontends.sklearn.calls import TRANSFORM, reads, transform, unsupported
from infuse.frontends.sklearn.sparse import SELECTORS
from infuse.frontends.sklearn.texts import of_one_length
from infuse.tracing.semantics.special import ndtri
from infuse.tracing.tensors import Tensor, beside

_FUNCTIONS: Final = {
    "absolute": "Abs", "fabs": "Abs", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin",
    "cos": "Cos", "tan": "Tan", "tanh": "Tanh", "arctan": "Atan", "floor": "Floor", "ceil": "Ceil",
    "negative": "Neg", "sign": "Sign", "reciprocal": "Reciprocal", "rint": "Round",
    "sinh": "Sinh", "cosh": "Cosh", "arcsinh": "Asinh",
}  # fmt: skip


_MARGIN: Final = 1e-7
"""How near the ends a place among quantiles is one of them for a QuantileTransformer to normal
numbers.
"""


@reads(TRANSFORM, "StandardScaler")
def standard(model: Any, x: Tensor) -> Tensor:
    """(x - mean) / scale."""
    x = x - model.mean_ if model.with_mean else x
    return x / model.scale_ if model.with_std else x


@reads(TRANSFORM, "RobustScaler")
def robust(model: Any, x: Tensor) -> Tensor:
    """(x - median) / scale."""
    x = x - model.center_ if model.with_centering else x
    return x / model.scale_ if model.with_scaling else x


@reads(TRANSFORM, "MinMaxScaler")
def least_most(model: Any, x: Tensor) -> Tensor:
    """X · scale + least, within limits where asked for."""
    x = x * model.scale_ + model.min_
    return x.clip(*map(float, model.feature_range)) if model.clip else x


@reads(TRANSFORM, "MaxAbsScaler")
def largest(model: Any, x: Tensor) -> Tensor:
    """X / scale."""
    x = x / model.scale_
    return x.clip(-1.0, 1.0) if getattr(model, "clip", False) else x


reads(TRANSFORM, "Normalizer")(lambda model, x: of_one_length(x, model.norm))
reads(TRANSFORM, "Binarizer")(lambda model, x: (x > float(model.threshold)).floats())
reads(TRANSFORM, "TruncatedSVD")(lambda model, x: x @ np.ascontiguousarray(model.components_.T))
reads(TRANSFORM, *SELECTORS)(lambda model, x: x.columns(model.get_support()))


@reads(TRANSFORM, "PolynomialFeatures")
def polynomial(model: Any, x: Tensor) -> Tensor:
    """Products of powers of features."""
    columns: list[Tensor] = []
    for powers in model.powers_:
        factors = [x.column(i) for i, power in enumerate(powers) for _ in range(power)]
        result = factors[0] if factors else x.column(0) * 0.0 + 1.0
        for factor in factors[1:]:
            result = result * factor
        columns.append(result)
    return beside(*columns)


@reads(TRANSFORM, "KBinsDiscretizer")
def bins(model: Any, x: Tensor) -> Tensor:
    """The number of the bin of each feature, or a column for each bin."""
    columns = []
    for i, edges in enumerate(model.bin_edges_):
        inner = np.asarray(edges[1:-1], np.float64)
        above = x.column(i) >= inner.reshape(1, -1) if len(inner) else None
        place = above.floats().sum(keep=True) if above is not None else x.column(i) * 0.0
        if model.encode != "ordinal":
            place = place.equals(np.arange(len(inner) + 1.0).reshape(1, -1)).floats()
        columns.append(place)
    return beside(*columns)


@reads(TRANSFORM, "PowerTransformer")
def power(model: Any, x: Tensor) -> Tensor:
    """Box-Cox or Yeo-Johnson powers, standardized where asked for."""
    columns = []
    for i, exponent in enumerate(map(float, model.lambdas_)):
        column = x.column(i)
        if np.isnan(exponent):
            columns.append(column)
        elif model.method == "box-cox":
            columns.append(_box_cox(column.log(), exponent))
        else:
            logs = _log1p(column.abs())
            positive, negative = _box_cox(logs, exponent), -_box_cox(logs, 2 - exponent)
            columns.append((column >= 0).where(positive, negative))
    result = beside(*columns)
    return transform(model._scaler, result) if model.standardize else result


def _log1p(x: Tensor) -> Tensor:
    """The logarithm of 1 + x, exact for small numbers."""
    sum = x + 1.0
    rest = sum - 1.0
    exact = sum.equals(1.0)
    return exact.where(x, sum.log() * (x / exact.where(1.0, rest)))


def _expm1(x: Tensor) -> Tensor:
    """exp(x) - 1, exact for small numbers."""
    half = (x * 0.5).call("Tanh")
    # exp(x) - 1 = 2 t / (1 - t) with t = tanh(x / 2), which keeps small numbers.
    return (x.abs() < 1.0).where(half * 2.0 / (1.0 - half), x.exp() - 1.0)


def _box_cox(logs: Tensor, exponent: float) -> Tensor:
    return logs if abs(exponent) < 1e-300 else _expm1(logs * exponent) / exponent


@reads(TRANSFORM, "QuantileTransformer")
def quantiles(model: Any, x: Tensor) -> Tensor:
    """The place of a number among quantiles, between them on a line."""
    is_normal = model.output_distribution == "normal"
    columns = [
        _among(
            x.column(i),
            np.asarray(model.quantiles_[:, i]),
            np.asarray(model.references_),
            _MARGIN if is_normal else 0.0,
        )
        for i in range(x.width)
    ]
    result = beside(*columns)
    if not is_normal:
        return result
    least = _MARGIN - float(np.spacing(1))
    return Tensor(x.g, ndtri(x.g, result.clip(least, 1 - least).value))


def _among(x: Tensor, points: Any, references: Any, margin: float) -> Tensor:
    """The mean of both interpolations, from below and from above, which differ at equal points; 0
    and 1 within a margin of the ends.
    """
    up = _interpolated(x, points, references)
    down = _interpolated(-x, -points[::-1], -references[::-1])
    inner = (up - down) * 0.5
    low, high = float(points[0]), float(points[-1])
    is_top = x + margin > high if margin else x.equals(high)
    is_bottom = x - margin < low if margin else x.equals(low)
    return x.isnan().where(x, is_bottom.where(0.0, is_top.where(1.0, inner)))


def _interpolated(x: Tensor, points: Any, values: Any) -> Tensor:
    """NumPy's `interp` of a column."""
    place = (x >= points.reshape(1, -1)).integers().sum(axis=1) - 1
    inside = place.maximum(0).minimum(len(points) - 2)
    start, end = inside.take(points[:-1]).expand(), inside.take(values[:-1]).expand()
    widths = np.diff(points)
    slopes = np.divide(np.diff(values), widths, out=np.zeros_like(widths), where=widths != 0)
    line = inside.take(slopes).expand() * (x - start) + end
    low, high = x < float(points[0]), x >= float(points[-1])
    return low.where(float(values[0]), high.where(float(values[-1]), line))


# -- projections -----------------------------------------------------------------------------------


@reads(TRANSFORM, "PCA", "IncrementalPCA")
def components(model: Any, x: Tensor) -> Tensor:
    """(x - mean) · components, divided by their deviations where asked for."""
    result = (x - model.mean_) @ np.ascontiguousarray(model.components_.T)
    if not model.whiten:
        value: Tensor = result
        return value
    deviation = np.sqrt(model.explained_variance_)
    other: Tensor = result / np.maximum(deviation, np.finfo(deviation.dtype).eps)
    return other


@reads(TRANSFORM, "FactorAnalysis")
def factors(model: Any, x: Tensor) -> Tensor:
    """The posterior mean of the factors."""
    loadings = model.components_
    weighted = loadings / model.noise_variance_
    covariance = np.linalg.inv(np.eye(len(loadings)) + weighted @ loadings.T)
    value: Tensor = (x - model.mean_) @ (weighted.T @ covariance)
    return value


@reads(TRANSFORM, "FastICA")
def independent(model: Any, x: Tensor) -> Tensor:
    """(x - mean) · components."""
    centered = x - model.mean_ if model.whiten else x
    return centered @ np.ascontiguousarray(model.components_.T)


@reads(TRANSFORM, "GaussianRandomProjection", "SparseRandomProjection")
def projected(model: Any, x: Tensor) -> Tensor:
    """X · components."""
    matrix = model.components_
    dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    return x @ np.ascontiguousarray(dense.T)


# -- choice of columns, functions -----------------------------------------------------------------


@reads(TRANSFORM, "FunctionTransformer")
def function(model: Any, x: Tensor) -> Tensor:
    """A function of NumPy that is known."""
    if model.func is None:
        return x
    name = getattr(model.func, "__name__", str(model.func))
    if getattr(model, "kw_args", None):
        raise unsupported(model, f"kw_args={model.kw_args}")
    if name == "check_array" or getattr(getattr(model.func, "func", None), "__name__", "") == (
        "check_array"
    ):
        return x
    if isinstance(model.func, np.ufunc):
        if name == "log1p":
            return _log1p(x)
        if name == "expm1":
            return _expm1(x)
        if name == "square":
            return x * x
        if name in _FUNCTIONS:
            return x.call(_FUNCTIONS[name])
    raise unsupported(
        model, f"func={name}", f"use one of NumPy's {', '.join(sorted(_FUNCTIONS))}, log1p, expm1"
    )
