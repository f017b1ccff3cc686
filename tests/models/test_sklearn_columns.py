"""Columns with names, categories of pandas, and estimators that others are made of, beside their
libraries; no pandas is needed.
"""

import json
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import InfuseError, UnsupportedOperatorError
from infuse.ops.core.evaluate import evaluate

pytest.importorskip("sklearn", reason="fits the models")
pytest.importorskip("xgboost", reason="fits the models")
pytest.importorskip("lightgbm", reason="fits the models")

import lightgbm
import xgboost
from sklearn import (
    calibration,
    compose,
    decomposition,
    ensemble,
    impute,
    kernel_approximation,
    linear_model,
    model_selection,
    multioutput,
    preprocessing,
    svm,
)
from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

assert all((enable_halving_search_cv, enable_iterative_imputer)), "they make classes importable"
pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 4))
GAPS = np.where(RNG.random(X.shape) < 0.15, np.nan, X)
ASKED = np.concatenate([RNG.normal(size=(30, 4)), np.zeros((2, 4))])
HOLES = np.where(RNG.random(ASKED.shape) < 0.3, np.nan, ASKED)
LINE = X[:, 0] * X[:, 1] + X[:, 2]
TWO, NAMED = (LINE > 0).astype(int), np.where(LINE > 0, "up", "down")
TABLE = np.empty((150, 4), object)
TABLE[:, 0] = RNG.choice(["red", "green", "blue"], 150)
TABLE[:, 1:] = X[:, 1:]
NAMES = np.array(["colour", "size", "unused", "weight"], object)


def agrees(model: Any, rows: Any, tolerance: float = 1e-7, **inputs: Any) -> None:
    """All results are those of the library."""
    found = evaluate(infuse.load(model), inputs or {"x": rows})
    methods = {"label": "predict", "variable": "predict", "probabilities": "predict_proba",
               "scores": "decision_function", "transformed": "transform"}  # fmt: skip
    for name, result in found.items():
        expected = getattr(model, methods[name])(rows)
        expected = expected.toarray() if hasattr(expected, "toarray") else np.asarray(expected)
        assert result.shape == expected.shape, name
        if expected.dtype.kind in "OUS":
            assert result.tolist() == expected.tolist(), name
        else:
            np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


# -- columns with names ----------------------------------------------------------------------------


def columns(**options: Any) -> Any:
    """Texts and numbers, and a column that nobody is given."""
    encoder = preprocessing.OneHotEncoder(handle_unknown="ignore")
    return compose.ColumnTransformer(
        [("cat", encoder, [0]), ("num", preprocessing.StandardScaler(), [1, 3])], **options
    )


def named(model: Any) -> Any:
    """As if it had been fitted to a DataFrame."""
    for one in (model, *(step for _, step in getattr(model, "steps", ()))):
        if hasattr(one, "transformers_"):
            one.feature_names_in_ = NAMES
    return model


def feeds(rows: Any) -> dict[str, Any]:
    """The inputs of columns that are used."""
    return {"colour": rows[:, :1]} | {
        name: rows[:, [i]].astype(float) for i, name in ((1, "size"), (3, "weight"))
    }


def test_columns_that_nobody_uses_are_no_inputs() -> None:
    model = named(make_pipeline(columns(), linear_model.LogisticRegression()).fit(TABLE, NAMED))
    graph = infuse.load(model)
    assert {value.name for value in graph.inputs} == {"colour", "size", "weight"}
    rows = TABLE[:20].copy()
    rows[::3, 0] = "pink"
    agrees(model, rows, **feeds(rows))


def test_arrays_without_names_stay_one_input() -> None:
    model = compose.ColumnTransformer([("num", preprocessing.StandardScaler(), [1, 3])]).fit(X)
    (value,) = infuse.load(model).inputs
    assert (value.name, value.tensor.shape[1]) == ("x", 4)
    agrees(model, ASKED)


@pytest.mark.parametrize("kind", ["search", "votes", "stack", "calibrated", "target", "threshold"])
def test_texts_are_told_within_other_estimators(kind: str) -> None:
    def part() -> Any:
        return make_pipeline(columns(), linear_model.LogisticRegression())

    search = {"logisticregression__C": [0.1, 1.0]}
    model = {
        "search": lambda: model_selection.GridSearchCV(part(), search, cv=2),
        "votes": lambda: ensemble.VotingClassifier([("a", part()), ("b", part())], voting="soft"),
        "stack": lambda: ensemble.StackingClassifier([("a", part()), ("b", part())], cv=2),
        "calibrated": lambda: calibration.CalibratedClassifierCV(part(), cv=2),
        "target": lambda: compose.TransformedTargetRegressor(
            make_pipeline(columns(), linear_model.Ridge()), func=np.exp, inverse_func=np.log
        ),
        "threshold": lambda: model_selection.TunedThresholdClassifierCV(part(), cv=2),
    }[kind]()
    model.fit(TABLE, LINE if kind == "target" else TWO)
    rows = TABLE[:20]
    graph = infuse.load(model)
    assert [(v.name, str(v.dtype)) for v in graph.inputs] == [
        ("x0", "string"), ("x1", "float64"), ("x3", "float64")
    ]  # fmt: skip
    inputs = {
        value.name: rows[:, [int(value.name[1:])]].astype(value.dtype.numpy)
        for value in graph.inputs
    }
    agrees(model, rows, **inputs)


# -- categories of pandas --------------------------------------------------------------------------


def codes() -> Any:
    """Numbers of colours beside a number, with one missing in places."""
    places = np.searchsorted(["blue", "green", "red"], TABLE[:, 0].astype(str)).astype(float)
    places[::9] = np.nan
    return np.stack([places, X[:, 1]], axis=1)


def as_texts(table: Any) -> dict[str, Any]:
    """The same with names in place of numbers."""
    names = np.array(["blue", "green", "red", None], object)
    listed = names[np.nan_to_num(table[:, 0], nan=3).astype(int)]
    listed[18] = np.nan
    return {"x0": listed.reshape(-1, 1), "x1": table[:, 1:]}


def test_categories_of_lightgbm_are_texts() -> None:
    table = codes()
    model = lightgbm.LGBMClassifier(n_estimators=8, min_child_samples=3, verbose=-1)
    model.fit(table, NAMED, categorical_feature=[0])
    expected = model.predict_proba(table)
    # What a DataFrame with a column of categories leaves.
    model.booster_.pandas_categorical = [["blue", "green", "red"]]
    found = evaluate(infuse.load(model), as_texts(table))
    np.testing.assert_allclose(found["probabilities"], expected, rtol=1e-12)
    inputs = as_texts(table)
    inputs["x0"][:] = "a colour that was not there"
    missing = np.c_[np.full(len(table), np.nan), table[:, 1]]
    model.booster_.pandas_categorical = None
    expected = model.predict_proba(missing)
    model.booster_.pandas_categorical = [["blue", "green", "red"]]
    found = evaluate(infuse.load(model), inputs)
    np.testing.assert_allclose(found["probabilities"], expected, rtol=1e-12)


def test_ordered_categories_of_lightgbm_are_refused() -> None:
    model = lightgbm.LGBMRegressor(n_estimators=2, verbose=-1).fit(codes(), LINE)
    model.booster_.pandas_categorical = [["blue", "green", "red"]]
    with pytest.raises(UnsupportedOperatorError, match="ordered categories") as caught:
        infuse.load(model)
    assert "OrdinalEncoder" in str(caught.value.hint)


def test_categories_of_xgboost_are_texts() -> None:
    table = codes()
    model = xgboost.XGBClassifier(
        n_estimators=8, enable_categorical=True, feature_types=["c", "q"], max_cat_to_onehot=1
    ).fit(table, TWO)
    expected = model.predict_proba(table)
    document = json.loads(bytes(model.get_booster().save_raw("json")))
    words = "blue", "green", "red"
    document["learner"]["gradient_booster"]["model"]["cats"] = {
        "enc": [
            {"offsets": [0, 4, 9, 12], "values": list("".join(words).encode())},
            {"offsets": [], "values": []},
        ],
        "feature_segments": [0, 3, 3],
        "sorted_idx": [0, 1, 2],
    }
    model.load_model(bytearray(json.dumps(document).encode()))
    found = evaluate(infuse.load(model), as_texts(table))
    np.testing.assert_allclose(found["probabilities"], expected, rtol=1e-5)
    inputs = as_texts(table)
    inputs["x0"][3] = "pink"
    with pytest.raises(InfuseError):
        evaluate(infuse.load(model), inputs)


# -- estimators ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"add_indicator": True, "initial_strategy": "median"},
        {"min_value": -0.5, "max_value": [0.5, 1.0, 2.0, 0.1], "max_iter": 3},
        {"estimator": ensemble.RandomForestRegressor(3, random_state=0), "max_iter": 2},
        {"n_nearest_features": 2, "imputation_order": "random", "random_state": 0},
        {"skip_complete": True, "keep_empty_features": True},
    ],
    ids=str,
)
def test_numbers_are_imputed_by_turns(options: dict[str, Any]) -> None:
    table = np.c_[GAPS[:, :2], X[:, 2], GAPS[:, 3]]
    asked = np.c_[
        HOLES[:, :2], ASKED[:, 2] if "skip_complete" in options else HOLES[:, 2], HOLES[:, 3]
    ]
    if options.get("keep_empty_features"):
        table, asked = (np.c_[t, np.full(len(t), np.nan)] for t in (table, asked))
    model = impute.IterativeImputer(**{"random_state": 0, **options}).fit(table)
    agrees(model, asked)
    agrees(model, np.full((2, asked.shape[1]), np.nan))
    agrees(model, asked[:1])


def test_numbers_that_are_drawn_are_refused() -> None:
    model = impute.IterativeImputer(sample_posterior=True, max_iter=2).fit(GAPS)
    with pytest.raises(UnsupportedOperatorError, match="sample_posterior"):
        infuse.load(model)


def test_normal_quantiles() -> None:
    model = preprocessing.QuantileTransformer(n_quantiles=40, output_distribution="normal").fit(X)
    edges = np.stack([X.min(axis=0), X.max(axis=0), np.median(X, axis=0), X.max(axis=0) - 1e-8])
    agrees(model, np.concatenate([ASKED, HOLES, edges, ASKED * 1e3, np.full((1, 4), np.nan)]), 1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly", "sigmoid", "linear", "cosine"])
def test_maps_of_kernels(kernel: str) -> None:
    options = {"kernel": kernel, "gamma": 0.3} if kernel not in ("linear", "cosine") else {}
    nystroem = kernel_approximation.Nystroem(n_components=9, random_state=0, **options)
    agrees(nystroem.fit(X), ASKED, 1e-6)
    if kernel != "laplacian":
        model = decomposition.KernelPCA(3, **(options or {"kernel": kernel}))
        agrees(model.fit(X), ASKED, 1e-6)


def test_sampled_kernels() -> None:
    agrees(kernel_approximation.RBFSampler(n_components=20, random_state=0).fit(X), ASKED, 1e-9)


@pytest.mark.parametrize("order", [None, [2, 0, 1]])
@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_chains_of_classifiers(order: Any, method: str) -> None:
    labels = (X[:, :3] + X[:, 1:] > 0).astype(int)
    logistic = linear_model.LogisticRegression()
    model = multioutput.ClassifierChain(logistic, order=order, chain_method=method)
    agrees(model.fit(X, labels), ASKED)


@pytest.mark.parametrize("label", [None, "up", "down"])
@pytest.mark.parametrize("inner", [linear_model.LogisticRegression(), svm.LinearSVC()])
def test_thresholds_of_decisions(label: Any, inner: Any) -> None:
    y = TWO if label is None else NAMED
    for threshold in ("auto", 0.3):
        model = model_selection.FixedThresholdClassifier(
            inner, threshold=threshold, pos_label=label
        )
        agrees(model.fit(X, y), ASKED)


def test_searches_by_halves() -> None:
    search = model_selection.HalvingGridSearchCV(linear_model.Ridge(), {"alpha": [1, 9]}, cv=2)
    agrees(search.fit(X, LINE), ASKED)


# -- matrices of terms -----------------------------------------------------------------------------


def test_products_of_terms_are_sums_of_their_rows() -> None:
    texts = np.array(["red green", "blue", "", "green green red blue"] * 9, object)
    model = make_pipeline(TfidfVectorizer(), linear_model.LogisticRegression())
    graph = infuse.load(model.fit(texts, np.arange(36) % 3))
    kinds = {node.op.name for node in graph.nodes}
    assert "FindTerms" in kinds
    assert not kinds & {"MatMul", "Gemm", "CountTerms"}
    agrees(model, np.array(["red red", "unknown", "", "blue " * 200], object))
