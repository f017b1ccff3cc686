#!/usr/bin/env bash
# onnxruntime 1.32.0: the optimization level decides whether a MatMul by weights of 4 or 8 bits
# rounds its *activations*, too.
#
# A float32 model reads its weights through DequantizeLinear with `block_size`; nothing in it
# quantizes an activation. At level "basic" the product is that of float32. From "extended" on
# (the default) both nodes become MatMulNBits with an accuracy level of 4, which multiplies integers:
# the activations of each block are rounded to 8 bits, and results move by about half a percent of
# the largest one. The session option `session.qdq_matmulnbits_accuracy_level` = 0 takes that back.
# (OpenVINO 2026.4 does the like by default, with `DYNAMIC_QUANTIZATION_GROUP_SIZE`.)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime==1.32.0 onnx==1.23.2 numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(0)
codes = rng.integers(0, 256, (256, 128), np.uint8)
scales = rng.uniform(0.001, 0.01, (8, 128)).astype(np.float32)
zeros = np.full((8, 128), 128, np.uint8)
weights = (codes.astype(np.float64) - 128) * np.repeat(scales, 32, axis=0)
graph = helper.make_graph(
    [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=0, block_size=32),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ],
    "g",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 256])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 128])],
    [numpy_helper.from_array(a, n) for n, a in (("w", codes), ("s", scales), ("z", zeros))],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
x = rng.standard_normal((8, 256)).astype(np.float32)
exact = x.astype(np.float64) @ weights


def error(level, accuracy=None):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    if accuracy is not None:
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", accuracy)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    (found,) = session.run(None, {"x": x})
    return float(np.abs(found - exact).max() / np.abs(exact).max())


basic, default, plain = error("ORT_ENABLE_BASIC"), error("ORT_ENABLE_ALL"), error("ORT_ENABLE_ALL", "0")
print(f"onnxruntime {onnxruntime.__version__}: errors relative to the largest result:")
print(f"basic {basic:.1e}, default {default:.1e}, default with accuracy level 0 {plain:.1e}")
assert basic < 1e-6 and plain < 1e-6
assert 1e-3 < default < 3e-2
PYTHON
