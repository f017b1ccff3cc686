"""Models of XGBoost, LightGBM and CatBoost beside what their libraries predicted
(make_tree_models.py).
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.ops.core.evaluate import evaluate

FOLDER = Path(__file__).parent / "data" / "trees"
EXPECTED = np.load(FOLDER / "expected.npz")
NAMES = [name for name in EXPECTED.files if name != "x"]
EXACT = ("xgboost-squared", "xgboost-softmax", "xgboost-hinge", "xgboost-dart", "xgboost-quantiles")
"""Sums of float32 votes in the same order, and no function after them."""


def compare(name: str, found: dict[str, Any]) -> None:
    expected = EXPECTED[name]
    value = found.get("probabilities", next(iter(found.values())))
    assert value.shape == expected.shape
    if name.startswith(EXACT):
        assert (value == expected).all()
    elif name.startswith("xgboost"):
        # Exponentials and products in float32, as XGBoost computes them.
        np.testing.assert_allclose(value, expected, rtol=3e-6, atol=1e-37)
    else:
        np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-15)
    if "label" in found:
        names = np.array(["no", "yes"]) if "two" in name else np.arange(3)
        assert (found["label"] == names[expected.argmax(axis=1)]).all()


@pytest.mark.parametrize("name", NAMES)
def test_predictions_are_the_librarys(name: str) -> None:
    compare(name, evaluate(infuse.load(FOLDER / name), {"x": EXPECTED["x"]}))


@pytest.mark.parametrize(
    "name", ["xgboost-logistic.ubj", "lightgbm-zero.txt", "catboost-rmse.json"]
)
def test_native_code_agrees(name: str) -> None:
    graph = infuse.load(FOLDER / name)
    session = infuse.compile(graph)
    x = EXPECTED["x"]
    for rows in (x, x[:1], x[~np.isnan(x).any(axis=1)]):
        found = session.run({"x": rows})
        other = list(evaluate(graph, {"x": rows}).values())
        values = list(found.values()) if isinstance(found, dict) else found
        for one, two in zip(values, other, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-6 if one.dtype == np.float32 else 1e-14)


def test_formats_are_told_by_their_content(tmp_path: Path) -> None:
    for name in ("xgboost-softprob.ubj", "lightgbm-binary.txt", "catboost-two.json"):
        content = (FOLDER / name).read_bytes()
        assert infuse.load(content).name == name.partition("-")[0]
        path = tmp_path / "model"
        path.write_bytes(content)
        assert infuse.load(path).name == name.partition("-")[0]
