"""Fitted estimators of scikit-learn, loaded without ONNX, beside scikit-learn's results."""

import warnings
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import InfuseError, InputError, UnsupportedOperatorError
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate

pytest.importorskip("sklearn", reason="fits the models")


from sklearn import (
    compose,
    decomposition,
    ensemble,
    feature_extraction,
    linear_model,
    pipeline,
    preprocessing,
    svm,
)

from tests.models.sklearn_cases import CASES, TEXTS, THREE, TWO, X, thresholds

pytestmark = pytest.mark.filterwarnings("ignore")


def asked(model: Any, x: Any) -> Any:
    """Rows of the training data, others, and rows with thresholds of trees hit exactly."""
    if x.dtype == object:
        return x
    rows = [x, x[:20] * 1.5 if "CategoricalNB" not in str(model) else x[:20]]
    limits = [(f, t) for f, t in thresholds(model) if abs(t) < 1e30]
    for feature, limit in limits[:60]:
        for number in (limit, np.nextafter(limit, -np.inf), np.nextafter(limit, np.inf)):
            row = x[:1].copy()
            row[0, max(feature, 0)] = number
            rows.append(row)
            rounded = row.copy()
            rounded[0, max(feature, 0)] = np.float32(number)
            rows.append(rounded)
    return np.concatenate(rows)


def outputs(graph: Graph, x: Any) -> dict[str, Any]:
    return evaluate(graph, {graph.inputs[0].name: x})


def expected(model: Any, name: str, x: Any) -> Any:
    method = {
        "probabilities": "predict_proba",
        "scores": "decision_function",
        "transformed": "transform",
    }.get(name, "predict")
    if name.startswith("probabilities_"):
        return model.predict_proba(x)[int(name.partition("_")[2])]
    return np.asarray(getattr(model, method)(x))


@pytest.mark.parametrize("name", CASES)
def test_estimator_agrees(name: str) -> None:
    case = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = case.fitted()
        x = asked(model, case.x) if "Encoder" not in name else case.x
        found = outputs(infuse.load(model), x)
        assert found
        for output, value in found.items():
            other = expected(model, output, x)
            assert value.shape == other.shape, output
            if output == "label":
                assert value.dtype.kind == other.dtype.kind or other.dtype.kind in "UO"
                assert (value == other).all()
            else:
                scale = np.nanmax(np.abs(other), initial=1e-30)
                np.testing.assert_allclose(value, other, rtol=1e-9, atol=1e-11 * scale)


def test_columns_of_texts_and_numbers_are_inputs_of_their_own() -> None:
    table = np.concatenate([X[:, :2].astype(object), TEXTS], axis=1)
    model = pipeline.make_pipeline(
        compose.make_column_transformer(
            (preprocessing.OneHotEncoder(sparse_output=False), [2, 3]),
            (preprocessing.StandardScaler(), [0, 1]),
        ),
        linear_model.LogisticRegression(),
    ).fit(table, TWO)
    graph = infuse.load(model)
    assert [value.name for value in graph.inputs] == ["x0", "x1", "x2", "x3"]
    kinds = (np.float64, np.float64, object, object)
    feeds = {f"x{i}": table[:, i : i + 1].astype(kind) for i, kind in enumerate(kinds)}
    found = evaluate(graph, feeds)
    assert (found["label"] == model.predict(table)).all()
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(table), rtol=1e-9)


@pytest.mark.parametrize("kind", [preprocessing.LabelEncoder, preprocessing.LabelBinarizer])
def test_labels(kind: Any) -> None:
    for y in (TWO, THREE, TEXTS[:, 0]):
        model = kind().fit(y)
        graph = infuse.load(model)
        feed = y if y.dtype == object else y.astype(np.float64)
        (found,) = evaluate(graph, {"y": feed}).values()
        assert (found == model.transform(y)).all()


def test_a_category_that_is_not_known_fails_as_in_the_library() -> None:
    model = preprocessing.OneHotEncoder(sparse_output=False).fit(X[:, 4:])
    with pytest.raises(ValueError, match="unknown"):
        model.transform([[7.0]])
    with pytest.raises(InfuseError):
        evaluate(infuse.load(model), {"x": np.array([[7.0]])})


REFUSED = {
    "not fitted": (linear_model.Ridge, InputError),
    "NMF.transform": (lambda: decomposition.NMF(2).fit(np.abs(X)), UnsupportedOperatorError),
    "func=_products": (
        lambda: pipeline.make_pipeline(
            preprocessing.FunctionTransformer(_products), preprocessing.StandardScaler()
        ).fit(X),
        UnsupportedOperatorError,
    ),
    "init=LinearRegression": (
        lambda: ensemble.GradientBoostingRegressor(
            n_estimators=2, init=linear_model.LinearRegression()
        ).fit(X, X[:, 0]),
        UnsupportedOperatorError,
    ),
}


def _products(x: Any, other: Any = None) -> Any:
    return x if other is None else x @ other.T


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_not_supported_is_named(words: str) -> None:
    make, kind = REFUSED[words]
    model = make()
    with pytest.raises(kind, match=words):
        infuse.load(model)


@pytest.mark.parametrize("count", [2, 7])
def test_probabilities_of_machines_far_away_and_of_no_rows(count: int) -> None:
    line = X[:, 0] * X[:, 1]
    y = np.digitize(line, np.quantile(line, np.arange(1, count) / count))
    model = svm.SVC(kernel="linear", probability=True, random_state=0).fit(X, y)
    graph = infuse.load(model)
    for x in (X[:1], X * 1e3, np.zeros((2, 5))):
        found = evaluate(graph, {"x": x})["probabilities"]
        np.testing.assert_allclose(found, model.predict_proba(x), rtol=1e-9, atol=1e-12)
    assert evaluate(graph, {"x": X[:0]})["probabilities"].shape == (0, count)


NATIVE = (
    "RandomForestClassifier(n_est",
    "HistGradientBoosting",
    "LogisticRegression(",
    "SVC(",
    "SVC(prob",
)


@pytest.mark.parametrize("start", NATIVE)
def test_native_code_agrees(start: str) -> None:
    case = next(case for name, case in CASES.items() if name.startswith(start))
    model = case.fitted()
    graph = infuse.load(model)
    session = infuse.compile(graph)
    x = asked(model, case.x)
    missing = np.where(np.arange(x.shape[1]) == 1, np.nan, x)
    takes_nan = "Forest" in start or "Hist" in start
    for rows in (x, x[:1], *([missing, np.concatenate([x, missing])] if takes_nan else [])):
        found = session.run({"x": rows})
        values = found.values() if isinstance(found, dict) else found
        for one, other in zip(values, evaluate(graph, {"x": rows}).values(), strict=True):
            if one.dtype.kind == "f":
                np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)
            else:
                assert (one == other).all()


def test_pipelines_of_texts_are_not_called_unfitted() -> None:
    texts, labels = ["good day", "bad night", "good night", "bad day"], [1, 0, 1, 0]
    steps = (feature_extraction.text.TfidfVectorizer(), linear_model.LogisticRegression())
    model = pipeline.make_pipeline(*steps).fit(texts, labels)
    rest = infuse.load(model[1:])
    features = model[0].transform(texts).toarray()
    assert (evaluate(rest, {"x": features})["label"] == model.predict(texts)).all()
    with pytest.raises(InputError, match="Pipeline is not fitted"):
        infuse.load(pipeline.make_pipeline(linear_model.LogisticRegression()))
