"""Live estimators of XGBoost, LightGBM and CatBoost, alone and in pipelines, beside their own
predictions.
"""

import warnings
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import UnsupportedOperatorError
from infuse.ops.core.evaluate import evaluate

pytest.importorskip("xgboost", reason="fits the models")
pytest.importorskip("lightgbm", reason="fits the models")

import lightgbm
import xgboost
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 6))
X[RNG.random(X.shape) < 0.1] = np.nan
Y = np.nan_to_num(X[:, 0] * X[:, 1])
TWO, NAMED, THREE = (Y > 0).astype(int), np.where(Y > 0, "up", "down"), np.digitize(Y, [-0.3, 0.4])
LABELS = (np.nan_to_num(X[:, :3]) > 0).astype(int)
MARKED = np.where(np.isnan(X), -999.0, X)


def _early(model: Any, **options: Any) -> Any:
    return model.fit(X[:300], THREE[:300], eval_set=[(X[300:], THREE[300:])], **options)


def _boosted(kind: Any, **options: Any) -> Any:
    quiet = {"verbose": -1} if kind.__module__.startswith("lightgbm") else {}
    return kind(n_estimators=10, n_jobs=1, **quiet, **options)


MODELS = {
    "xgboost regressor": lambda: _boosted(xgboost.XGBRegressor).fit(X, Y),
    "xgboost missing": lambda: _boosted(xgboost.XGBRegressor, missing=-999.0).fit(MARKED, Y),
    "xgboost two classes": lambda: _boosted(xgboost.XGBClassifier).fit(X, TWO),
    "xgboost three classes": lambda: _boosted(xgboost.XGBClassifier).fit(X, THREE),
    "xgboost forest": lambda: _boosted(xgboost.XGBRFClassifier).fit(X, THREE),
    "xgboost linear": lambda: _boosted(xgboost.XGBRegressor, booster="gblinear").fit(X, Y),
    "xgboost stopped early": lambda: _early(
        xgboost.XGBClassifier(
            n_estimators=60, early_stopping_rounds=3, learning_rate=0.6, n_jobs=1
        ),
        verbose=False,
    ),
    "xgboost chosen of two": lambda: _boosted(
        xgboost.XGBClassifier, objective="multi:softmax", num_class=2
    ).fit(X, TWO),
    "xgboost chosen of three": lambda: _boosted(
        xgboost.XGBClassifier, objective="multi:softmax"
    ).fit(X, THREE),
    "xgboost chosen by a forest": lambda: _boosted(
        xgboost.XGBRFClassifier, objective="multi:softmax"
    ).fit(X, THREE),
    "xgboost chosen, linear": lambda: _boosted(
        xgboost.XGBClassifier, objective="multi:softmax", booster="gblinear"
    ).fit(X, THREE),
    "xgboost probabilities of two": lambda: _boosted(
        xgboost.XGBClassifier, objective="multi:softprob", num_class=2
    ).fit(X, TWO),
    "xgboost several labels": lambda: _boosted(xgboost.XGBClassifier).fit(X, LABELS),
    "xgboost two labels": lambda: _boosted(xgboost.XGBClassifier).fit(X, LABELS[:, :2]),
    "lightgbm regressor": lambda: _boosted(lightgbm.LGBMRegressor).fit(X, Y),
    "lightgbm names": lambda: _boosted(lightgbm.LGBMClassifier).fit(X, NAMED),
    "lightgbm three classes": lambda: _boosted(lightgbm.LGBMClassifier).fit(X, THREE + 5),
    "lightgbm stopped early": lambda: _early(
        lightgbm.LGBMClassifier(n_estimators=60, learning_rate=0.6, verbose=-1, n_jobs=1),
        callbacks=[lightgbm.early_stopping(3, verbose=False)],
    ),
    "xgboost pipeline": lambda: make_pipeline(
        StandardScaler(), _boosted(xgboost.XGBClassifier)
    ).fit(X, THREE),
    "lightgbm pipeline": lambda: make_pipeline(
        StandardScaler(), _boosted(lightgbm.LGBMClassifier)
    ).fit(X, NAMED),
    "pipeline of chosen": lambda: make_pipeline(
        StandardScaler(), _boosted(xgboost.XGBClassifier, objective="multi:softmax")
    ).fit(X, THREE),
    "votes of chosen": lambda: _voters("hard"),
    "mean of chosen": lambda: _voters("soft"),
    "stack": lambda: StackingClassifier(
        [
            ("one", _boosted(xgboost.XGBClassifier)),
            ("other", _boosted(lightgbm.LGBMClassifier)),
        ],
        LogisticRegression(),
    ).fit(X, TWO),
}


def _voters(voting: str) -> Any:
    """Estimators whose probabilities are float32 and float64."""
    chosen = _boosted(xgboost.XGBClassifier, objective="multi:softmax")
    members = [("one", chosen), ("other", _boosted(lightgbm.LGBMClassifier))]
    return VotingClassifier(members, voting=voting).fit(X, THREE)


def _rows(name: str) -> Any:
    return MARKED if name == "xgboost missing" else X


@pytest.mark.parametrize("name", MODELS)
def test_estimators_predict_as_their_libraries(name: str) -> None:
    model = MODELS[name]()
    outputs = evaluate(infuse.load(model), {"x": _rows(name)})
    labeled = {"label", "probabilities"} if hasattr(model, "predict_proba") else {"label"}
    assert set(outputs) == (labeled if hasattr(model, "classes_") else {"variable"})
    for output, result in outputs.items():
        if output == "label":
            expected = model.predict(_rows(name))
            np.testing.assert_array_equal(result, expected)
            assert result.dtype == expected.dtype or expected.dtype.kind == "U"
            continue
        is_class = output == "probabilities"
        expected = (model.predict_proba if is_class else model.predict)(_rows(name))
        assert result.shape == expected.shape
        # XGBoost adds up in float32: one unit in the last place after the sigmoid.
        np.testing.assert_allclose(result, expected, rtol=0, atol=3e-7)


def test_early_stopping_leaves_rounds_out() -> None:
    model = MODELS["xgboost stopped early"]()
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()


@pytest.mark.parametrize("name", ["xgboost three classes", "lightgbm names"])
def test_boosters_are_read(name: str) -> None:
    model = MODELS[name]()
    is_xgboost = name.startswith("xgboost")
    booster = model.get_booster() if is_xgboost else model.booster_
    expected = booster.predict(xgboost.DMatrix(X) if is_xgboost else X)
    outputs = evaluate(infuse.load(booster), {"x": X})
    np.testing.assert_allclose(outputs["prediction"], expected, rtol=0, atol=3e-7)


def test_compiled_stacks_choose_the_same_classes() -> None:
    model = MODELS["stack"]()
    with infuse.compile(infuse.optimize(infuse.load(model))) as compiled:
        np.testing.assert_array_equal(compiled.run({"x": X})["label"], model.predict(X))


def test_objectives_that_are_functions_are_refused() -> None:
    def squares(labels: Any, scores: Any) -> Any:
        return scores - labels, np.ones_like(scores)

    model = _boosted(lightgbm.LGBMRegressor, objective=squares).fit(X, Y)
    with pytest.raises(UnsupportedOperatorError, match="an objective that is a function"):
        infuse.load(model)


def test_classes_of_other_modules_are_none_of_these() -> None:
    class XGBClassifier(xgboost.XGBClassifier):
        pass

    model = XGBClassifier(n_estimators=2).fit(X, TWO)
    with pytest.raises(infuse.InfuseError, match="XGBClassifier"):
        infuse.load(model)


def test_catboost_predicts_the_same() -> None:
    pytest.importorskip("catboost", reason="100 MB, which make test does not install")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import catboost
    quiet = {"iterations": 10, "verbose": 0, "allow_writing_files": False}
    models = (
        catboost.CatBoostRegressor(**quiet).fit(X, Y),
        catboost.CatBoostClassifier(**quiet).fit(X, NAMED),
        make_pipeline(StandardScaler(), catboost.CatBoostClassifier(**quiet)).fit(X, THREE),
        catboost.CatBoostClassifier(grow_policy="Depthwise", **quiet).fit(X, THREE),
        catboost.CatBoostRegressor(grow_policy="Lossguide", nan_mode="Max", **quiet).fit(X, Y),
    )
    for model in models:
        outputs = evaluate(infuse.load(model), {"x": X})
        for output, result in outputs.items():
            is_class = output == "probabilities"
            expected = (model.predict_proba if is_class else model.predict)(X)
            if output == "label":
                np.testing.assert_array_equal(result, np.ravel(expected))
            else:
                np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)
