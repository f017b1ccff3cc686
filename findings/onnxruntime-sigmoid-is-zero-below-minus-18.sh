#!/usr/bin/env bash
# ONNX Runtime 1.32.0 on x86-64: Sigmoid of float32 below -18 is 0, where e⁻¹⁸ is 1.5e-8 and float32
# goes down to 1e-38; and between -18 and -12 it is no monotone function: a step of 1.5e-8 up and
# down. Nothing is said.
#
# The quotient of polynomials that MLAS takes is right to an absolute 6e-8, and to no digit where
# the result is small: Sigmoid(-16) is half of what it should be. Log(Sigmoid(x)) of a confident
# classifier is -infinity, and thresholds below 1e-6 (rare events, focal losses) do not hold.
# Softplus and Exp of the same numbers are right, as is Sigmoid of float64.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime==1.32.0 onnx==1.23.2 numpy==2.3.5
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import onnxruntime
from onnx import TensorProto, helper


def sigmoid(x: np.ndarray, to: int) -> np.ndarray:
    node = helper.make_node("Sigmoid", ["x"], ["y"])
    given, made = (helper.make_tensor_value_info(n, to, [None]) for n in "xy")
    graph = helper.make_graph([node], "g", [given], [made])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": x})[0]


print(f"ONNX Runtime {onnxruntime.__version__}")
x = np.linspace(-20, -10, 41)
right = 1 / (1 + np.exp(-x))
y = sigmoid(x.astype(np.float32), TensorProto.FLOAT)
for at in (-19.0, -18.0, -16.0, -14.0, -12.0, -10.0):
    place = int(np.argmin(np.abs(x - at)))
    print(f"Sigmoid({at:g}) = {y[place]:.3g}, right is {right[place]:.3g}")
falls = int((np.diff(y) < 0).sum())
print(f"of {len(x) - 1} steps upwards, {falls} go down")
assert (y[x < -18.1] == 0).all() and falls > 0
assert (np.abs(y - right)[(x > -18) & (x < -15)] > 0.2 * right[(x > -18) & (x < -15)]).any()
assert np.abs(y - right).max() < 1e-6
doubles = sigmoid(x, TensorProto.DOUBLE)
assert np.abs(doubles - right).max() < 1e-15 and (doubles > 0).all()
PYTHON
