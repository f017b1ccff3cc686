#!/usr/bin/env bash
# ONNX Runtime 1.32.0 on CPUs: com.microsoft DynamicTimeWarping takes a diagonal step only where the
# sum behind it is less than both others. So the path through a square of equal costs, zeros or
# negative ones, is no diagonal: it has 2n - 1 steps, down the first column and along the last row.
#
# Its text says that a path has max(M, N) steps at least, from (0, 0) on. Where no sum is a number
# it has fewer, and begins elsewhere: a row of the table, and no error. Alignments of a model that
# has no opinion, or whose attention is NaN, so look like alignments.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime==1.32.0 onnx==1.23.2 numpy==2.3.5
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import onnxruntime
from onnx import TensorProto, helper

node = helper.make_node("DynamicTimeWarping", ["costs"], ["path"], domain="com.microsoft")
given = [helper.make_tensor_value_info("costs", TensorProto.FLOAT, None)]
made = [helper.make_tensor_value_info("path", TensorProto.INT32, None)]
imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
graph = helper.make_graph([node], "g", given, made)
model = helper.make_model(graph, opset_imports=imports, ir_version=8)
session = onnxruntime.InferenceSession(
    model.SerializeToString(), providers=["CPUExecutionProvider"]
)
print(f"ONNX Runtime {onnxruntime.__version__}, steps (row, column) of the path through 3 x 3 costs:")
paths = {}
for number in (0.0, -1.0, 1.0, np.nan):
    costs = np.full((3, 3), number, np.float32)
    paths[str(number)] = list(zip(*session.run(None, {"costs": costs})[0].tolist()))
    print(f"  all {number}: {paths[str(number)]}")
corner = [(0, 0), (1, 0), (2, 0), (2, 1), (2, 2)]
assert paths["0.0"] == paths["-1.0"] == corner
assert paths["1.0"] == [(0, 0), (1, 1), (2, 2)]
assert paths["nan"] == [(2, 0), (2, 1), (2, 2)]
PYTHON
