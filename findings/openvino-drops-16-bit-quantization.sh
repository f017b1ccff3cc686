#!/usr/bin/env bash
# openvino 2026.4.1: QuantizeLinear and DequantizeLinear of 16 bits do nothing, not even limit.
#
# Between the two, numbers lie in [(0 - zero point) * scale, (65535 - zero point) * scale]: what is
# outside is cut off. Quantizers of 8 bits do that on the CPU; a pair of uint16 is taken out of the
# network as if it were a matter of rounding alone. So a network whose ReLU was merged into the
# quantizer behind it (zero point 0, as tools for quantization do) computes without its ReLU, with
# no warning. (onnxruntime 1.32.0 limits at both widths.)
# And where such a pair is all between an input and an output, compile_model raises RuntimeError
# ("FQ stripping failed").
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet openvino==2026.4.1 onnxruntime==1.32.0 onnx==1.23.2 numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnxruntime
import openvino
from onnx import TensorProto, helper, numpy_helper

x = np.array([[-1, -0.5, 0, 0.25, 1, 2]], np.float32)


def model(kind, product=True):
    """x quantized in [0, 1], times the identity."""
    scale = np.float32(1 / np.iinfo(kind).max)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d" if product else "y"]),
    ]
    if product:
        nodes.append(helper.make_node("MatMul", ["d", "w"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6])],
        [
            numpy_helper.from_array(array, name)
            for name, array in (
                ("scale", np.array(scale)),
                ("zero", np.array(0, kind)),
                ("w", np.eye(6, dtype=np.float32)),
            )
        ],
    )
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


core = openvino.Core()


def found(kind):
    data = model(kind)
    hint = {"INFERENCE_PRECISION_HINT": "f32"}
    ours = core.compile_model(core.read_model(data, b""), "CPU", hint)([x])[0]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    (theirs,) = onnxruntime.InferenceSession(data, options).run(None, {"x": x})
    print(f"{kind}: openvino {ours.ravel()}, onnxruntime {theirs.ravel()}")
    return ours, theirs


print(f"openvino {openvino.__version__}, x = {x.ravel()}")
for kind, limits in (("uint8", True), ("uint16", False)):
    ours, theirs = found(kind)
    np.testing.assert_allclose(theirs, np.clip(x, 0, 1), atol=1 / 255)
    np.testing.assert_allclose(ours, np.clip(x, 0, 1) if limits else x, atol=1 / 255)
try:
    core.compile_model(core.read_model(model("uint16", product=False), b""), "CPU")
except RuntimeError as error:
    assert "FQ stripping failed" in str(error)
    print("uint16 between input and output: FQ stripping failed")
else:
    raise AssertionError("a pair of uint16 between an input and an output compiles")
PYTHON
