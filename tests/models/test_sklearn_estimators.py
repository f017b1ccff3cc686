"""Fitted estimators of scikit-learn, loaded without ONNX: every result beside scikit-learn's own."""

import warnings
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate

pytest.importorskip("sklearn", reason="fits the models")


from tests.models.sklearn_cases import CASES, thresholds

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
