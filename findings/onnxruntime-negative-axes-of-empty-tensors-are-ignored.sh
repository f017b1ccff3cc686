#!/usr/bin/env bash
# ONNX Runtime 1.31.1 on x86-64: a reduction of a tensor without elements ignores axes that count
# from the end. ReduceMax of [0, 4] over axis -1 has the shape [0, 4], over axis 1 it has [0, 1];
# keepdims is ignored as well. ReduceSum of [3, 0] over axis -1 has the shape [3, 0] and not three
# zeros, so that rows are lost. ArgMax and ArgMin do the same. The run succeeds; a line of the log
# says that shapes differ from those that were inferred.
#
# 1.32.0 reduces them, so that the two releases answer with different shapes.
#
# Batches of size 0 are usual behind filters of detections, and exporters write axis -1. The text of
# ONNX takes both spellings for one meaning, and onnx.reference gives the same for both.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/reduce.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator


def model(kind: str, rank: int, axis: int, keepdims: int) -> onnx.ModelProto:
    options, operands, constants, to = {"keepdims": keepdims}, ["x"], [], TensorProto.FLOAT
    if kind.startswith("Arg"):
        options["axis"], to = axis, TensorProto.INT64
    else:
        operands.append("axes")
        constants.append(numpy_helper.from_array(np.array([axis]), "axes"))
    node = helper.make_node(kind, operands, ["y"], **options)
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None] * rank)
    made = helper.make_tensor_value_info("y", to, None)
    graph = helper.make_graph([node], "g", [given], [made], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def shapes(kind: str, shape: tuple[int, ...], axis: int, keepdims: int) -> tuple[tuple[int, ...], ...]:
    made, x = model(kind, len(shape), axis, keepdims), np.zeros(shape, np.float32)
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), quiet, providers=["CPUExecutionProvider"]
    )
    witness = ReferenceEvaluator(made).run(None, {"x": x})[0]
    return session.run(None, {"x": x})[0].shape, witness.shape


ignored = onnxruntime.__version__ == "1.31.1"
print(f"ONNX Runtime {onnxruntime.__version__}")
for kind in ("ReduceSum", "ReduceMax", "ReduceMean", "ReduceL2", "ArgMax", "ArgMin"):
    for shape, axis in (((0, 4), 1), ((3, 0, 5), 2)):
        for keepdims in (1, 0):
            counted, named = axis - len(shape), axis
            found, right = shapes(kind, shape, counted, keepdims)
            other, same = shapes(kind, shape, named, keepdims)
            print(f"{kind} of {shape}, keepdims {keepdims}: axis {counted} {found}, axis {named} {other}")
            assert found == (shape if ignored else right) and other == right == same != shape
found, right = shapes("ReduceSum", (3, 0), -1, 1)
other, _ = shapes("ReduceSum", (3, 0), 1, 1)
print(f"ReduceSum of (3, 0): axis -1 {found}, axis 1 {other}, right is {right}")
assert found == ((3, 0) if ignored else right) and other == right == (3, 1)
PYTHON
for version in 1.31.1 1.32.0; do
  python3 -m venv "$folder/$version"
  "$folder/$version/bin/pip" install --quiet "onnxruntime==$version" onnx==1.23.2 numpy==2.3.5
  "$folder/$version/bin/python" -W ignore "$folder/reduce.py"
done
