#!/usr/bin/env bash
# onnx 1.23.2, onnx.version_converter: three operators get the new opset's number and stay as they
# were, though their meaning changed, so that a valid model computes other numbers. Nothing is said,
# the checker passes the result, and shapes are the same.
#
# * Resize 10 → 11: samples at x / scale, since opset 11 at the centres of pixels unless
#   coordinate_transformation_mode is "asymmetric", which is not added (nor nearest_mode "floor").
#   Factors of 2 with "nearest" are equal by luck, so that tests of those pass.
# * Upsample 9 → 11 (linear): becomes such a Resize, off by a quarter of a pixel.
# * Hardmax 12 → 13: one 1 for all axes from `axis` on becomes one for each row of `axis` alone, and
#   the default of `axis` moves from 1 to -1.
#
# Softmax and LogSoftmax, which changed in the same way in the same opset, are converted rightly.
# ONNX Runtime 1.32.0 is the witness for both models; onnx.reference agrees on what is converted.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime==1.32.0 onnx==1.23.2 numpy==2.3.5
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, version_converter
from onnx.reference import ReferenceEvaluator

X = np.random.default_rng(0).standard_normal((1, 2, 3, 4)).astype(np.float32)


def model(
    kind: str, opset: int, scales: list[float] | None, **attributes: object
) -> onnx.ModelProto:
    inputs = ["x"] if scales is None else ["x", "scales"]
    constants = []
    if scales is not None:
        constants = [numpy_helper.from_array(np.array(scales, np.float32), "scales")]
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)],
        constants,
    )
    result = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(result, full_check=True)
    return result


def run(made: onnx.ModelProto) -> np.ndarray:
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": X})[0]


CASES = {
    "Resize linear × 1.5": (model("Resize", 10, [1, 1, 1.5, 1.5], mode="linear"), 11, True),
    "Resize nearest × 1.7": (model("Resize", 10, [1, 1, 1.7, 1.7], mode="nearest"), 11, True),
    "Resize nearest × 2": (model("Resize", 10, [1, 1, 2, 2], mode="nearest"), 11, False),
    "Upsample linear × 2": (model("Upsample", 9, [1, 1, 2, 2], mode="linear"), 11, True),
    "Hardmax": (model("Hardmax", 12, None), 13, True),
    "Softmax": (model("Softmax", 12, None), 13, False),
    "LogSoftmax": (model("LogSoftmax", 12, None), 13, False),
}
print(f"onnx {onnx.__version__}, ONNX Runtime {onnxruntime.__version__}")
for name, (old, opset, differs) in CASES.items():
    new = version_converter.convert_version(old, opset)
    onnx.checker.check_model(new, full_check=True)
    before, after = run(old), run(new)
    reference = ReferenceEvaluator(new).run(None, {"x": X})[0]
    error = float(np.abs(before - after).max())
    print(f"{name}, opset {old.opset_import[0].version} → {opset}: differs by {error:.2g}")
    assert before.shape == after.shape
    assert np.allclose(after, reference, atol=1e-5), "the witnesses disagree on what is converted"
    assert (error > 0.1) == differs
    assert differs or error < 1e-6
PYTHON
