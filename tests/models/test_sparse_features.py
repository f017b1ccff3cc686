"""Boosted trees behind transformers that give sparse matrices: what is not stored there is missing
for XGBoost, and zero for LightGBM.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.ops.core.evaluate import evaluate

pytest.importorskip("xgboost", reason="fits the models")
pytest.importorskip("lightgbm", reason="fits the models")

import lightgbm
import xgboost
from sklearn import compose, decomposition, feature_selection, impute, preprocessing
from sklearn.ensemble import StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline, make_union

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(0)
X = RNG.integers(0, 4, (300, 4)).astype(float)
ASKED = np.concatenate([RNG.integers(0, 4, (60, 4)) * 1.0, -np.zeros((1, 4)), np.full((1, 4), 9.0)])
Y = ((X[:, 0] == 1) ^ (X[:, 1] > 1) ^ (RNG.random(300) < 0.1)).astype(int)


def one_hot(**options: Any) -> Any:
    return preprocessing.OneHotEncoder(handle_unknown="ignore", **options)


def columns(*others: Any, **options: Any) -> Any:
    return compose.make_column_transformer((one_hot(), [0, 1]), *others, **options)


STEPS: dict[str, Callable[[], list[Any]]] = {
    "one hot": lambda: [one_hot()],
    "one hot, dense": lambda: [one_hot(sparse_output=False)],
    "bins": lambda: [preprocessing.KBinsDiscretizer(3)],
    "bins, dense": lambda: [preprocessing.KBinsDiscretizer(3, encode="onehot-dense")],
    "scaled": lambda: [one_hot(), preprocessing.StandardScaler(with_mean=False)],
    "largest": lambda: [one_hot(), preprocessing.MaxAbsScaler()],
    "norms": lambda: [one_hot(), preprocessing.Normalizer()],
    "chosen": lambda: [one_hot(), feature_selection.SelectKBest(k=6)],
    "binary": lambda: [one_hot(), preprocessing.Binarizer()],
    "filled": lambda: [one_hot(), impute.SimpleImputer()],
    "products": lambda: [one_hot(), preprocessing.PolynomialFeatures(2, include_bias=False)],
    "projected": lambda: [one_hot(), decomposition.TruncatedSVD(5)],
    "columns": lambda: [columns(("passthrough", [2, 3]), sparse_threshold=1.0)],
    "columns, dense": lambda: [columns(("passthrough", [2, 3]), sparse_threshold=0.0)],
    "union": lambda: [make_union(one_hot(), preprocessing.MinMaxScaler())],
    "union, dense": lambda: [make_union(preprocessing.MaxAbsScaler(), "passthrough")],
    "nested": lambda: [make_pipeline(one_hot(), "passthrough"), "passthrough"],
}


def agrees(model: Any) -> None:
    """Probabilities of rows whose zeros decide."""
    found = evaluate(infuse.load(model), {"x": ASKED})["probabilities"]
    np.testing.assert_allclose(found, model.predict_proba(ASKED), rtol=0, atol=3e-7)


@pytest.mark.parametrize("steps", STEPS)
def test_what_is_not_stored_is_missing_for_xgboost(steps: str) -> None:
    boosted = xgboost.XGBClassifier(n_estimators=5, n_jobs=1)
    agrees(make_pipeline(*STEPS[steps](), boosted).fit(X, Y))


@pytest.mark.parametrize("steps", ["one hot", "columns"])
def test_what_is_not_stored_beside_a_number_that_is_missing(steps: str) -> None:
    boosted = xgboost.XGBClassifier(n_estimators=5, n_jobs=1, missing=1.0)
    agrees(make_pipeline(*STEPS[steps](), boosted).fit(X, Y))


def test_what_is_not_stored_is_zero_for_lightgbm() -> None:
    boosted = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1)
    agrees(make_pipeline(one_hot(), boosted).fit(X, Y))


def test_zeros_of_what_a_stack_passes_on() -> None:
    stack = StackingClassifier(
        [("one", LogisticRegression())],
        xgboost.XGBClassifier(n_estimators=5, n_jobs=1),
        passthrough=True,
    )
    agrees(make_pipeline(one_hot(), stack).fit(X, Y))
