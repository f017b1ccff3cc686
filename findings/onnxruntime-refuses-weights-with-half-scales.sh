#!/usr/bin/env bash
# onnxruntime 1.32.0 (and 1.31.1): a valid model opens at level "basic", and is refused at the
# default level.
#
# DequantizeLinear (opset 23) turns blocks of unsigned bytes with scales of float16 into float32 by
# `output_dtype`, and a MatMul reads that. From level "extended" on, both become one MatMulNBits,
# which gets operands of two types, and the session ends with a type error of its own making:
#   basic: opens; extended, all: "Type parameter (T1) of Optype (MatMulNBits) bound to different types"
# With scales of float32 and no `output_dtype`, which stand for the same numbers, all levels open it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime==1.32.0 onnx==1.23.2 numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(0)
codes = rng.integers(0, 256, (64, 32), np.uint8)
scales = np.full((2, 32), 0.25, np.float16)
zeros = np.full((2, 32), 128, np.uint8)


def opens(level, dtype, **more):
    made = helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=0, block_size=32, **more)
    graph = helper.make_graph(
        [made, helper.make_node("MatMul", ["x", "d"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 32])],
        [
            numpy_helper.from_array(array, name)
            for name, array in (("w", codes), ("s", scales.astype(dtype)), ("z", zeros))
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options)
        return "opens"
    except Exception as error:
        assert "MatMulNBits" in str(error) and "bound to different types" in str(error), error
        return "refused"


levels = ("ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL")
half = [opens(level, np.float16, output_dtype=TensorProto.FLOAT) for level in levels]
single = [opens(level, np.float32) for level in levels]
print("onnxruntime", onnxruntime.__version__, "scales of float16:", half, "of float32:", single)
assert half == ["opens", "refused", "refused"]
assert single == ["opens"] * 3
PYTHON
