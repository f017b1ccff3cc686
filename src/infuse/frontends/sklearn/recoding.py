"""Categories of pandas that XGBoost and LightGBM number themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from infuse.frontends.sklearn.calls import unsupported
from infuse.frontends.sklearn.encoders import is_text, places
from infuse.frontends.trees import lightgbm, xgboost
from infuse.tracing.tensors import Tensor, beside


def categories_of(model: Any) -> dict[int, Any]:
    """The categories, texts or numbers, of each feature that was a category of pandas."""
    name = type(model).__name__
    if name.startswith("XGB"):
        booster = model.get_booster()
        if "c" not in (booster.feature_types or ()):
            return {}
        return xgboost.read(bytes(booster.save_raw("ubj"))).categories
    if name.startswith("LGBM"):
        return _of_lightgbm(model)
    return {}


def _of_lightgbm(model: Any) -> dict[int, Any]:
    listed = lightgbm.pandas_categories(model.booster_.model_to_string(num_iteration=1))
    if not listed:
        return {}
    columns = model.booster_.params.get("categorical_column") or []
    if len(columns) != len(listed):
        raise unsupported(
            model,
            "ordered categories of pandas, or categories that are no columns of pandas beside them",
            "make numbers of them before, with an OrdinalEncoder in a pipeline",
        )
    return dict(zip(sorted(columns), listed))


def recoded(model: Any, x: Tensor) -> Tensor:
    """Features with the numbers of their categories. A missing one is NaN; one that is not known is
    NaN to LightGBM, and to XGBoost an error.
    """
    categories = categories_of(model)
    if not categories:
        return x
    is_lenient = type(model).__name__.startswith("LGBM")
    columns = [
        _numbers(model, x.column(i), categories[i], is_lenient) if i in categories else x.column(i)
        for i in range(x.width)
    ]
    return beside(*(column.floats() for column in columns))


def _numbers(model: Any, column: Tensor, categories: Any, is_lenient: bool) -> Tensor:
    missing = [None, np.nan] if is_text(categories) else [np.nan]
    listed = np.array([*categories, *missing], object)
    absent = np.full(len(missing) + is_lenient, np.nan)
    table = np.concatenate([np.arange(len(categories), dtype=np.float64), absent])
    return places(model, column, listed).take(table).expand()


def are_texts(categories: Mapping[int, Any], count: int) -> list[bool]:
    """Which of so many features are categories in text."""
    return [place in categories and is_text(categories[place]) for place in range(count)]
