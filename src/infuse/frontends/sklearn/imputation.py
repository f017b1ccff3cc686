"""What takes the place of missing numbers and texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.frontends.sklearn.calls import TRANSFORM, predict, reads, transform, unsupported
from infuse.frontends.sklearn.encoders import is_missing
from infuse.frontends.sklearn.mixed import Mixed, joined
from infuse.ir.graph import Array
from infuse.tracing.tensors import Tensor, beside


def missing(model: Any, x: Tensor) -> Tensor:
    """Where something is missing."""
    if isinstance(x, Mixed):
        return beside(*(missing(model, x.column(i)) for i in range(x.width)))
    value = model.missing_values
    is_nan = isinstance(value, float) and value != value
    if x.dtype == dtypes.string:
        if value is None or is_nan:
            return x.missing_text("nan" if is_nan else "none")
        if isinstance(value, str):
            return x.equals(x.constant(np.array(value, object), dtypes.string))
    elif not isinstance(value, (int, float, np.number)):
        raise unsupported(model, f"missing_values={value!r}", "fit it with NaN for missing numbers")
    else:
        return x.isnan() if is_nan else x.equals(float(value))
    raise unsupported(model, f"missing_values={value!r} among texts", "fit it with None or NaN")


def texts_of(model: Any) -> list[bool]:
    """Which of the features of a SimpleImputer are texts, by what it puts into them."""
    listed = list(model.statistics_)
    are_texts = np.asarray(getattr(model, "_fit_dtype", np.float64)).dtype.kind in "OUS"
    others = are_texts and all(isinstance(v, str) or is_missing(v) for v in listed)
    return [isinstance(v, str) or (others and is_missing(v)) for v in listed]


@reads(TRANSFORM, "SimpleImputer")
def imputed(model: Any, x: Tensor) -> Tensor:
    """Statistics in place of what is missing."""
    statistics = np.asarray(model.statistics_)
    absent = np.array([is_missing(v) for v in statistics], bool)
    kept = np.arange(len(statistics)) if model.keep_empty_features else np.flatnonzero(~absent)
    if isinstance(x, Mixed):
        result = joined([_filled(model, x.column(i), statistics[i : i + 1]) for i in kept.tolist()])
    else:
        result = _filled(model, x, statistics).columns(kept)
    return result if model.indicator_ is None else joined([result, _indicated(model.indicator_, x)])


def _filled(model: Any, x: Tensor, statistics: Array) -> Tensor:
    """Statistics, one for each column, in place of what is missing."""
    is_text = x.dtype == dtypes.string
    if not is_text and any(isinstance(v, str) for v in statistics):
        raise unsupported(model, "texts in place of numbers", "fit it with a number as fill_value")
    empty: Any = "" if is_text else 0.0
    row = [empty if is_missing(v) else v for v in statistics]
    if is_text and not all(isinstance(v, str) for v in row):
        raise unsupported(model, "numbers in place of texts", "fit it with a text as fill_value")
    values = x.constant(np.array([row], object if is_text else np.float64), x.dtype)
    return missing(model, x).where(values, x)


def _indicated(model: Any, x: Tensor) -> Tensor:
    return missing(model, x).columns(model.features_).floats()


@reads(TRANSFORM, "MissingIndicator")
def indicated(model: Any, x: Tensor) -> Tensor:
    """What is missing, of the columns in which something was."""
    result = missing(model, x)
    return result.columns(model.features_) if model.features == "missing-only" else result


@reads(TRANSFORM, "KNNImputer")
def imputed_by_neighbours(model: Any, x: Tensor) -> Tensor:
    """The (weighted) mean of the nearest rows that have the number, by the distance over the
    columns that both have; the mean of the column where no row is at any distance.
    """
    if model.metric != "nan_euclidean" or model.weights not in ("uniform", "distance"):
        raise unsupported(model, f"metric={model.metric!r}, weights={model.weights!r}")
    absent = missing(model, x)
    rows, present = np.asarray(model._fit_X, np.float64), ~np.asarray(model._mask_fit_X, bool)
    distances = _nan_euclidean(x, absent, np.where(present, rows, 0.0), present)
    columns = []
    for i, valid in enumerate(model._valid_mask):
        if valid:
            donors = np.flatnonzero(present[:, i])
            found = _mean_of_nearest(model, distances.columns(donors), rows[donors, i])
            columns.append(absent.column(i).where(found, x.column(i)))
        elif model.keep_empty_features:
            columns.append(x.column(i).isnan().where(0.0, x.column(i) * 0.0))
    result = beside(*columns)
    return result if model.indicator_ is None else beside(result, _indicated(model.indicator_, x))


def _nan_euclidean(x: Tensor, absent: Tensor, rows: Array, present: Array) -> Tensor:
    """Distances from each of some rows over the columns that both have, scaled up to all columns;
    infinite where they share none.
    """
    has = (~absent).floats()
    difference = absent.where(0.0, x).expand(1) - rows[None]
    squares = (difference * difference * has.expand(1) * present[None].astype(np.float64)).sum(2)
    shared = has @ np.ascontiguousarray(present.T.astype(np.float64))
    none = shared.equals(0.0)
    return none.where(np.inf, (squares / none.where(1.0, shared) * float(rows.shape[1])).sqrt())


def _mean_of_nearest(model: Any, distances: Tensor, values: Array) -> Tensor:
    """The (weighted) mean of the values of the nearest: [batch, 1]."""
    g, count = distances.g, min(int(model.n_neighbors), len(values))
    outputs = g.several(2, "TopK", distances.value, g.ints(count), axis=1, largest=0, sorted=1)
    least, places = (Tensor(g, value) for value in outputs)
    apart = least.equals(np.inf)
    if model.weights == "uniform":
        weights = apart.where(0.0, least * 0.0 + 1.0)
    else:
        # Where a neighbour is the row itself, only such neighbours count.
        same = least.equals(0.0)
        hit = same.floats().max(keep=True) > 0
        weights = hit.where(same.floats(), 1.0 / same.where(1.0, least))
    sums = weights.sum(keep=True)
    none = sums.equals(0.0)
    mean = (weights * places.take(values)).sum(keep=True) / none.where(1.0, sums)
    return none.where(float(values.mean()), mean)


@reads(TRANSFORM, "IterativeImputer")
def imputed_by_turns(model: Any, x: Tensor) -> Tensor:
    """Numbers from regressions by turns, each of a column from others; of rows in which nothing is
    there, where a batch has no other ones, the statistics that the turns begin with.
    """
    if model.sample_posterior:
        raise unsupported(
            model,
            "sample_posterior=True, which draws numbers",
            "fit it with sample_posterior=False",
        )
    absent, first = missing(model, x), transform(model.initial_imputer_, x)
    empty = np.asarray(model._is_empty_feature, bool)
    kept = np.arange(len(empty)) if model.keep_empty_features else np.flatnonzero(~empty)
    turned = absent.columns(kept)
    if model.keep_empty_features and empty.any():
        turned = turned & turned.constant(~empty[None], dtypes.bool_)
    columns = [first.column(i) for i in range(first.width)]
    low, high = np.asarray(model._min_value), np.asarray(model._max_value)
    for place, others, one in model.imputation_sequence_:
        number = predict(one, beside(*(columns[int(i)] for i in others))).floats()
        number = number.expand() if number.rank == 1 else number
        # The limits are those of NumPy's clip, infinite where there are none.
        number = number.maximum(float(low[place])).minimum(float(high[place]))
        columns[place] = turned.column(place).where(number, columns[place])
    is_empty = turned.floats().min(keep=True).min(axis=0, keep=True) > 0
    result = is_empty.where(first, beside(*columns))
    return result if model.indicator_ is None else beside(result, _indicated(model.indicator_, x))
