"""Live estimators of XGBoost, LightGBM and CatBoost: what they save is read as their files are."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.frontends.sklearn.calls import (
    PREDICT,
    PROBABILITIES,
    labels,
    of_two,
    reads,
    unsupported,
)
from infuse.frontends.sklearn.recoding import recoded
from infuse.frontends.trees import catboost, lightgbm, xgboost
from infuse.ir.graph import Graph
from infuse.tracing.tensors import Tensor

_XGBOOST_REGRESSORS: Final = ("XGBRegressor", "XGBRFRegressor", "XGBRanker")
_XGBOOST_CLASSIFIERS: Final = ("XGBClassifier", "XGBRFClassifier")
_CHOSEN: Final = "multi:softmax"
"""The objective of XGBoost whose predictions are classes and no probabilities."""
_CATBOOST_REGRESSORS: Final = ("CatBoostRegressor", "CatBoostRanker", "CatBoost")


def booster_graph(booster: Any) -> Graph:
    """The graph of a `Booster` of XGBoost or LightGBM, with what its `predict` gives."""
    name = type(booster).__name__
    if type(booster).__module__.startswith("xgboost"):
        return xgboost.load(bytes(booster.save_raw("ubj")), name)
    return lightgbm.load(booster.model_to_string().encode(), name)


def _check_objective(model: Any) -> None:
    if callable(model.objective):
        raise unsupported(
            model,
            "an objective that is a function",
            "load its booster, whose predictions are raw scores, and write what follows yourself",
        )


# -- XGBoost ---------------------------------------------------------------------------------------


def _xgboost(model: Any, x: Tensor, *, margins: bool = False) -> Tensor:
    """What the booster predicts, or its sums of votes, of the rounds that early stopping chose."""
    _check_objective(model)
    booster = model.get_booster()
    best = booster.attr("best_iteration")
    if best is not None and model.booster != "gblinear":
        booster = booster[: int(best) + 1]
    content = xgboost.read(bytes(booster.save_raw("ubj")))
    x = recoded(model, x)
    if x.sparse:
        x = x.equals(0.0).where(np.nan, x)
    missing = model.missing
    if missing is not None and not np.isnan(missing):
        x = x.equals(float(missing)).where(np.nan, x)
    made = content.margins if margins else content.predict
    return Tensor(x.g, made(x.g, x.value))


reads(PREDICT, *_XGBOOST_REGRESSORS)(_xgboost)
reads(PREDICT, *_CATBOOST_REGRESSORS)(lambda model, x: _catboost(model, x)["variable"])
reads(PREDICT, "CatBoostClassifier")(lambda model, x: _catboost(model, x)["label"])


@reads(PROBABILITIES, *_XGBOOST_CLASSIFIERS)
def xgboost_probabilities(model: Any, x: Tensor) -> Tensor:
    """Of both classes where there are two; of every label where a row may have several."""
    if model.objective == _CHOSEN:
        return _xgboost(model, x, margins=True).call("Softmax", axis=1)
    result = _xgboost(model, x)
    return of_two(result) if result.rank == 1 else result


@reads(PREDICT, *_XGBOOST_CLASSIFIERS)
def xgboost_classes(model: Any, x: Tensor) -> Tensor:
    """The likeliest class; of two, the second one if its probability is above one half. Where a
    row may have several labels, and of two classes with a probability each, one for each of them.
    """
    result = _xgboost(model, x)
    if result.rank == 1 and model.objective == _CHOSEN:
        return result.astype(dtypes.int32)
    if result.rank == 2 and model.n_classes_ == 2:
        return (result > 0.5).astype(dtypes.float64)
    return labels(model, (result > 0.5).integers() if result.rank == 1 else result.argmax())


# -- LightGBM --------------------------------------------------------------------------------------


def _lightgbm(model: Any, x: Tensor) -> Tensor:
    """What the booster predicts; its text ends with the round that early stopping chose."""
    _check_objective(model)
    content = lightgbm.read(model.booster_.model_to_string().encode())
    return Tensor(x.g, content.predict(x.g, recoded(model, x).floats().value))


@reads(PROBABILITIES, "LGBMClassifier")
def lightgbm_probabilities(model: Any, x: Tensor) -> Tensor:
    """Of both classes where there are two."""
    result = _lightgbm(model, x)
    return of_two(result) if result.rank == 1 else result


# -- CatBoost --------------------------------------------------------------------------------------


def _catboost(model: Any, x: Tensor) -> dict[str, Tensor]:
    for what, places in (
        ("texts", model.get_text_feature_indices()),
        ("embeddings", model.get_embedding_feature_indices()),
    ):
        if places:
            raise unsupported(
                model,
                f"features that are {what} ({', '.join(model.feature_names_[i] for i in places)})",
                "make numbers of them before, in a Pipeline: texts by a ColumnTransformer with a "
                "TfidfVectorizer, embeddings as columns of their own",
            )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        content = catboost.read(path.read_bytes())
    if not content.texts:
        outputs = content.outputs(x.g, x.floats().value, {})
    else:
        texts = {place: x.column(place) for place in content.texts}
        if any(one.dtype != dtypes.string for one in texts.values()):
            raise unsupported(
                model,
                "categories that a step before it makes numbers of",
                "load the CatBoost model itself, or encode its categories before training",
            )
        table = x.columns(content.numbers).floats().value if content.numbers else None
        outputs = content.outputs(x.g, table, {i: one.value for i, one in texts.items()})
    return {name: Tensor(x.g, value) for name, value in outputs.items()}


@reads(PROBABILITIES, "CatBoostClassifier")
def catboost_probabilities(model: Any, x: Tensor) -> Tensor:
    """Of all classes."""
    return _catboost(model, x)["probabilities"].astype(dtypes.float64)


reads(PREDICT, "LGBMRegressor", "LGBMRanker")(_lightgbm)
