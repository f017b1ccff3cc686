#!/usr/bin/env bash
# onnxmltools 1.16.0 writes LightGBM 4.7.0 and XGBoost 3.2.0 models as ONNX files that predict other
# numbers. Nothing is said.
#
# LightGBM with linear_tree=True, boosting_type="rf", objective="multiclassova", reg_sqrt=True or
# zero_as_missing=True; XGBoost with reg:logistic, or with two results: off by 0.4 to 4, where
# targets are about 1. Plain regression and classification are right. DART, linear boosters and
# rankers of XGBoost are refused.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxmltools==1.16.0 lightgbm==4.7.0 xgboost==3.2.0 \
  scikit-learn==1.9.1 onnxruntime==1.32.0 onnx==1.23.2 numpy==2.3.5
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import lightgbm
import numpy as np
import onnxmltools
import onnxruntime
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 4)).astype(np.float32)
zeros = np.where(np.abs(x) < 0.3, 0, x).astype(np.float32)
y = x[:, 0] + np.abs(x[:, 1]) + rng.normal(size=600) * 0.2
classes, share = np.digitize(y, [0, 1.5]), 1 / (1 + np.exp(-y))


def off(model: object, asked: np.ndarray) -> float:
    """The largest difference of the file's predictions from the library's."""
    library = type(model).__module__.split(".")[0]
    convert = getattr(onnxmltools, f"convert_{library}")
    file = convert(model, initial_types=[("x", FloatTensorType([None, 4]))])
    session = onnxruntime.InferenceSession(
        file.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    found = session.run(None, {"x": asked})[-1]
    if isinstance(found, list):
        found = np.array([[row[k] for k in sorted(row)] for row in found])
    is_classifier = hasattr(model, "predict_proba")
    right = model.predict_proba(asked) if is_classifier else model.predict(asked)
    return float(np.abs(np.reshape(found, right.shape) - right).max())


def light(kind: str = "LGBMRegressor", **options: object) -> object:
    return getattr(lightgbm, kind)(n_estimators=30, verbose=-1, random_state=0, **options)


def extreme(**options: object) -> object:
    return xgboost.XGBRegressor(n_estimators=30, random_state=0, **options)


bagged = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.7}
cases = {
    "LightGBM": (light().fit(x, y), x, False),
    "LightGBM, three classes": (light("LGBMClassifier").fit(x, classes), x, False),
    "LightGBM, linear_tree": (light(linear_tree=True).fit(x, y), x, True),
    "LightGBM, rf": (light(**bagged).fit(x, y), x, True),
    "LightGBM, multiclassova": (
        light("LGBMClassifier", objective="multiclassova").fit(x, classes),
        x,
        True,
    ),
    "LightGBM, reg_sqrt": (light(reg_sqrt=True).fit(x, np.abs(y)), x, True),
    "LightGBM, zero_as_missing": (light(zero_as_missing=True).fit(zeros, y), zeros, True),
    "XGBoost": (extreme().fit(x, y), x, False),
    "XGBoost, reg:logistic": (extreme(objective="reg:logistic").fit(x, share), x, True),
    "XGBoost, two results": (extreme().fit(x, np.stack([y, -y], axis=1)), x, True),
}
print(f"onnxmltools {onnxmltools.__version__}, largest difference from the library:")
for name, (model, asked, is_wrong) in cases.items():
    difference = off(model, asked)
    print(f"  {name}: {difference:.3g}")
    assert difference > 0.1 if is_wrong else difference < 1e-5
PYTHON
