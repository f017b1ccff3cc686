"""Leaves of boosted trees that are more than a number, beside the libraries that made them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.ops.core.evaluate import evaluate

lightgbm = pytest.importorskip("lightgbm", reason="fits the models")
xgboost = pytest.importorskip("xgboost", reason="fits the models")

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5))
X[RNG.random(X.shape) < 0.1] = np.nan
X[:, 4] = RNG.integers(0, 6, 400)
Y = np.nan_to_num(X[:, 0] * X[:, 1]) + np.nan_to_num(X[:, 2]) + (X[:, 4] % 3 == 1)
ODD = np.repeat([0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, 1e300], 5).reshape(-1, 5)
ODD = np.concatenate([ODD, [[0, 0, np.inf, 0, 1], [np.nan, 1, 1, 1, 2], [1, 1, 1, np.nan, 0]]])
BAG = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}
LINEAR: dict[str, tuple[dict[str, Any], Any, list[int]]] = {
    "numbers": ({}, Y, []),
    "two classes": ({"objective": "binary"}, Y > 0, []),
    "three classes": (
        {"objective": "multiclass", "num_class": 3},
        np.digitize(Y, [-0.3, 0.4]),
        [],
    ),
    "categories": ({}, Y, [4]),
    "a constant": ({}, Y * 0 + 3, []),
    "a forest": (BAG, Y, []),
    "dart": ({"boosting": "dart"}, Y, []),
    "few leaves": ({"min_data_in_leaf": 150, "linear_lambda": 10}, Y, []),
}


def _linear(name: str) -> Any:
    options, y, categories = LINEAR[name]
    data = lightgbm.Dataset(X, y.astype(float), categorical_feature=categories)
    options = {"linear_tree": True, "verbose": -1, "num_threads": 1, "num_leaves": 8, **options}
    return lightgbm.train(options, data, 7)


@pytest.mark.parametrize("name", LINEAR)
def test_linear_leaves_of_lightgbm(name: str, tmp_path: Path) -> None:
    model = _linear(name)
    assert "is_linear=1" in model.model_to_string()
    model.save_model(tmp_path / "model.txt")
    for graph in (infuse.load(model), infuse.load(tmp_path / "model.txt")):
        for x in (X, ODD, X[:1], X[:0]):
            found = evaluate(graph, {"x": x})["prediction"]
            if len(x):
                np.testing.assert_allclose(found, model.predict(x), rtol=1e-12, atol=1e-13)
            assert found.shape[0] == len(x)


@pytest.mark.parametrize("name", ["categories", "three classes"])
def test_linear_leaves_are_compiled(name: str) -> None:
    model = _linear(name)
    with infuse.compile(infuse.load(model)) as compiled:
        assert not compiled.host_steps
        for x in (X, ODD, X[:1]):
            found = compiled.run({"x": x})["prediction"]
            np.testing.assert_allclose(found, model.predict(x), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("leaf_const=", "leaf_const=1 ", "constants"),
        ("leaf_coeff=", "leaf_coeff=1 ", "coefficients"),
        ("leaf_features=2", "leaf_features=9", "not among 5"),
        ("leaf_coeff=", "leaf_coeff=nan ", "coefficients"),
        ("num_features=1", "num_features=-1", "features"),
        ("leaf_const=", "leaf_constant=", "leaf_const"),
    ],
)
def test_damaged_linear_leaves_are_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    text = _linear("numbers").model_to_string()
    place = text.index(old, text.index("Tree=1"))
    path = tmp_path / "model.txt"
    path.write_text(text[:place] + text[place:].replace(old, new, 1))
    with pytest.raises(ModelFileError, match=words):
        infuse.load(path)


TARGETS = np.stack([Y, np.nan_to_num(X[:, 3]) ** 2, -Y], axis=1)
THREE = np.digitize(Y, [-0.3, 0.4])
ROWS: dict[str, tuple[dict[str, Any], Any]] = {
    "numbers": ({}, TARGETS),
    "labels": ({"objective": "binary:logistic"}, TARGETS > 0),
    "three classes": ({"objective": "multi:softprob", "num_class": 3}, THREE),
    "quantiles": ({"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.5]}, Y),
    "one leaf": ({"gamma": 1e9}, TARGETS),
    "a forest": ({"num_parallel_tree": 3, "subsample": 0.5}, TARGETS),
}


def _rows(name: str) -> Any:
    options, y = ROWS[name]
    kind = {"multi_strategy": "multi_output_tree", "tree_method": "hist", "max_depth": 3}
    return xgboost.train({**kind, **options}, xgboost.DMatrix(X, y), 5)


@pytest.mark.parametrize("name", ROWS)
def test_leaves_of_xgboost_that_are_rows(name: str) -> None:
    model = _rows(name)
    finite = ODD[~(np.abs(ODD) > 1e38).any(axis=1)]
    for form in ("json", "ubj"):
        graph = infuse.load(bytes(model.save_raw(form)))
        for x in (X, finite, X[:1]):
            expected = model.predict(xgboost.DMatrix(x))
            found = evaluate(graph, {"x": x})["prediction"]
            assert found.shape == expected.shape
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=0, atol=3e-7)


def test_estimators_whose_leaves_are_rows_are_compiled() -> None:
    model = xgboost.XGBClassifier(n_estimators=4, multi_strategy="multi_output_tree").fit(X, THREE)
    with infuse.compile(infuse.load(model)) as compiled:
        found = compiled.run({"x": X})
    np.testing.assert_array_equal(found["label"], model.predict(X))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=3e-7)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.pop("leaf_weights"), "versions before 3.2"),
        (lambda t: t["leaf_weights"].pop(), "numbers of leaves for 3"),
        (lambda t: t["right_children"].__setitem__(-1, 99), "no row"),
        (lambda t: t["right_children"].__setitem__(-1, -1), "no row"),
        (lambda t: t["tree_param"].__setitem__("size_leaf_vector", "2"), "2 numbers for 3"),
        (lambda t: t["tree_param"].__setitem__("size_leaf_vector", "1"), "another kind"),
        (lambda t: t["leaf_weights"].__setitem__(0, float("nan")), "finite"),
    ],
)
def test_damaged_rows_are_refused(change: Any, words: str) -> None:
    document = json.loads(_rows("numbers").save_raw("json"))
    change(document["learner"]["gradient_booster"]["model"]["trees"][1])
    with pytest.raises((ModelFileError, UnsupportedOperatorError), match=words):
        infuse.load(json.dumps(document).encode())
