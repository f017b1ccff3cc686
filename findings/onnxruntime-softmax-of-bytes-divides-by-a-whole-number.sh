#!/usr/bin/env bash
# onnxruntime 1.32.0: QLinearSoftmax does not divide by the output's scale. It multiplies the
# probabilities by the *whole part* of the scale's reciprocal.
#
# With a scale of 1/256 (what quantizers write) nothing differs. With any scale whose reciprocal is
# not a whole number all bytes come out too small, by up to one step in a third of them: of 5,000
# rows with a scale of 0.011, 90 in place of 90.9 is what a probability of one becomes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime==1.32.0 onnx==1.23.2 numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

X_SCALE = np.float32(0.05)
x = np.random.default_rng(0).integers(0, 256, (5000, 3)).astype(np.uint8)
powers = np.exp((x.astype(np.float64) - 128) * np.float64(X_SCALE))
probabilities = powers / powers.sum(axis=1, keepdims=True)


def found(scale):
    numbers = {
        "xs": X_SCALE,
        "xz": np.uint8(128),
        "ys": np.float32(scale),
        "yz": np.uint8(0),
    }
    node = helper.make_node(
        "QLinearSoftmax", ["x", *numbers], ["y"], domain="com.microsoft", axis=1, opset=13
    )
    ends = [helper.make_tensor_value_info(n, TensorProto.UINT8, ["n", 3]) for n in "xy"]
    kept = [numpy_helper.from_array(np.array(v), n) for n, v in numbers.items()]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], kept)
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {"x": x})[0].astype(int)


def expected(factor):
    return np.clip(np.rint(probabilities * factor), 0, 255).astype(int)


print(f"onnxruntime {onnxruntime.__version__}, bytes of QLinearSoftmax that differ from")
for scale in (1 / 256, 0.0045, 0.006, 0.011):
    exact = 1 / np.float64(np.float32(scale))
    made = found(scale)
    by_scale = float((made != expected(exact)).mean())
    by_whole = float((made != expected(np.floor(exact))).mean())
    print(f"scale {scale:.5f}: p / scale {by_scale:.1%}; p * floor(1 / scale) {by_whole:.1%}")
    assert by_whole == 0
    assert (by_scale == 0) == (exact == np.floor(exact))
PYTHON
