"""Estimators written to ONNX: ONNX Runtime opens them at all levels, and agrees."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.ops.core.evaluate import evaluate

ort = pytest.importorskip("onnxruntime")
sklearn = pytest.importorskip("sklearn", reason="fits the models")

from sklearn.impute import KNNImputer, SimpleImputer  # noqa: E402
from sklearn.preprocessing import OneHotEncoder, SplineTransformer, TargetEncoder  # noqa: E402
from sklearn.svm import SVC  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.arange(60) % 3
GAPS = np.where(np.arange(180).reshape(60, 3) % 7 == 0, np.nan, X)
TEXTS = np.array([["a", None], ["b", "x"], [None, "y"], ["a", np.nan]], object).repeat(15, 0)


def _lightgbm() -> Any:
    lightgbm = pytest.importorskip("lightgbm")
    options = {
        "linear_tree": True,
        "verbose": -1,
        "num_threads": 1,
        "num_leaves": 4,
        "min_data_in_leaf": 5,
    }
    return lightgbm.train(options, lightgbm.Dataset(GAPS, X[:, 1]), 4)


def _xgboost() -> Any:
    xgboost = pytest.importorskip("xgboost")
    options = {"multi_strategy": "multi_output_tree", "tree_method": "hist"}
    return xgboost.train(options, xgboost.DMatrix(GAPS, X[:, :2]), 4)


MODELS: dict[str, tuple[Callable[[], Any], Any]] = {
    "columns of texts": (lambda: OneHotEncoder().fit(TEXTS), TEXTS),
    "texts in place of missing ones": (
        lambda: SimpleImputer(missing_values=None, strategy="most_frequent").fit(TEXTS[:45]),
        TEXTS[:45],
    ),
    "means of a target": (lambda: TargetEncoder().fit(TEXTS, Y), TEXTS),
    "nearest rows": (lambda: KNNImputer(weights="distance").fit(GAPS), GAPS),
    "splines": (lambda: SplineTransformer(extrapolation="linear").fit(X), X),
    "splines of a period": (lambda: SplineTransformer(extrapolation="periodic").fit(X), X),
    "splines within limits": (lambda: SplineTransformer(extrapolation="error").fit(X), X),
    "probabilities of a machine": (lambda: SVC(probability=True, random_state=0).fit(X, Y), X),
    "linear leaves": (_lightgbm, GAPS),
    "leaves that are rows": (_xgboost, GAPS),
}


@pytest.mark.parametrize("name", MODELS)
def test_onnx_runtime_opens_what_is_written(name: str, tmp_path: Path) -> None:
    make, x = MODELS[name]
    graph = infuse.load(make())
    infuse.save(graph, tmp_path / "m.onnx")
    expected = evaluate(graph, {"x": x})
    for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"):
        options = ort.SessionOptions()
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
        session = ort.InferenceSession(str(tmp_path / "m.onnx"), options)
        found = dict(zip(expected, session.run(list(expected), {"x": x}), strict=True))
        for output, value in expected.items():
            if value.dtype.kind == "f":
                np.testing.assert_allclose(found[output], value, rtol=1e-6, atol=1e-9)
            else:
                assert (found[output] == value).all()
