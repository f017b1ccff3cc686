"""Pipelines and what joins columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from infuse.frontends.sklearn.calls import (
    PREDICT,
    PROBABILITIES,
    SCORES,
    TRANSFORM,
    call,
    reads,
    transform,
    unsupported,
)
from infuse.frontends.sklearn.mixed import joined
from infuse.tracing.tensors import Tensor


def last_step(model: Any) -> Any:
    """The estimator that a pipeline ends with, or the estimator itself."""
    while type(model).__name__ == "Pipeline":
        model = model.steps[-1][1]
    return model


def passes(step: Any) -> bool:
    """Whether a step leaves its features as they are."""
    return step is None or (isinstance(step, str) and step == "passthrough")


def _pipeline(method: str) -> Any:
    def run(model: Any, x: Tensor) -> Tensor:
        for _, step in model.steps[:-1]:
            x = x if passes(step) else transform(step, x)
        last = model.steps[-1][1]
        return x if passes(last) else call(method, last, x)

    return run


for _method in (PREDICT, PROBABILITIES, SCORES, TRANSFORM):
    reads(_method, "Pipeline")(_pipeline(_method))


@reads(TRANSFORM, "FeatureUnion")
def union(model: Any, x: Tensor) -> Tensor:
    """The results of all transformers, side by side."""
    weights = model.transformer_weights or {}
    parts, are_sparse = [], False
    for name, one in model.transformer_list:
        if isinstance(one, str) and one == "drop":
            continue
        part = x if passes(one) else transform(one, x)
        are_sparse = are_sparse or part.sparse
        parts.append(part * float(weights[name]) if name in weights else part)
    result = joined(parts)
    return result.marked(True) if are_sparse else result


def branches(model: Any) -> Iterator[tuple[Any, list[int], str]]:
    """The transformers of a ColumnTransformer that are in use, and their columns' places."""
    names = list(getattr(model, "feature_names_in_", ()))
    count = model.n_features_in_
    for name, one, columns in model.transformers_:
        if isinstance(one, str) and one == "drop":
            continue
        if callable(columns):
            raise unsupported(model, f"columns of {name!r} that a function chooses")
        listed = np.asarray(columns) if not isinstance(columns, slice) else columns
        if isinstance(listed, slice):
            if any(isinstance(end, str) for end in (listed.start, listed.stop)):
                first = 0 if listed.start is None else names.index(listed.start)
                last = count - 1 if listed.stop is None else names.index(listed.stop)
                places = np.arange(first, last + 1)
            else:
                places = np.arange(count)[listed]
        else:
            listed = listed.reshape(-1)
            if listed.dtype == bool:
                places = np.flatnonzero(listed)
            elif listed.dtype.kind in "OUS":
                places = np.array([names.index(column) for column in listed], np.int64)
            else:
                places = listed.astype(np.int64) % count
        if len(places):
            yield one, places.tolist(), name


@reads(TRANSFORM, "ColumnTransformer")
def by_column(model: Any, x: Tensor) -> Tensor:
    """The results of transformers of some columns each, side by side."""
    weights = model.transformer_weights or {}
    parts = []
    for one, places, name in branches(model):
        part = x.columns(places)
        part = part if passes(one) else transform(one, part)
        parts.append(part * float(weights[name]) if name in weights else part)
    return joined(parts)
