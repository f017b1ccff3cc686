#!/usr/bin/env bash
# OpenVINO 2026.4.1 on CPUs: int32 numbers are compared, divided and reduced in float32, so
# Equal(16777217, 16777216) is true, and ReduceMax of 16777217 is 16777216. Nothing is said.
#
# Add, Sub, Mul, Max, Min, Abs, TopK and Gather of the same numbers are exact; Equal, Greater, Div,
# Mod, Relu, ReduceMax, ReduceSum and MatMul lose what is beyond 24 bits. Models that look up
# tokens, hashes or time stamps by Equal find others' rows. The type of the result is right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet openvino==2026.4.1 onnx==1.23.2 numpy==2.3.5
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import openvino
from onnx import TensorProto, helper

TYPES = {"int32": TensorProto.INT32, "bool": TensorProto.BOOL}


def run(kind: str, *operands: np.ndarray, to: str = "", **attributes: object) -> np.ndarray:
    """The result of one ONNX operator."""
    names = [f"x{i}" for i in range(len(operands))]
    node = helper.make_node(kind, names, ["y"], **attributes)
    given = [
        helper.make_tensor_value_info(n, TYPES[str(x.dtype)], list(x.shape))
        for n, x in zip(names, operands)
    ]
    made = helper.make_tensor_value_info("y", TYPES[to or str(operands[0].dtype)], None)
    graph = helper.make_graph([node], "g", given, [made])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU")
    return compiled(list(operands))[0]


print(f"OpenVINO {openvino.__version__}")
a, b = np.array([16777217], np.int32), np.array([16777216], np.int32)
one, two = np.array([1], np.int32), np.array([2], np.int32)
for kind, operands, right, found in (
    ("Add", (a, one), 16777218, 16777218),
    ("Max", (a, b), 16777217, 16777217),
    ("Equal", (a, b), False, True),
    ("Greater", (a, b), True, False),
    ("Div", (a, one), 16777217, 16777216),
    ("Mod", (a, two), 1, 0),
    ("Relu", (a,), 16777217, 16777216),
    ("ReduceMax", (a,), 16777217, 16777216),
    ("MatMul", (a, one), 16777217, 16777216),
):
    result = run(kind, *operands, to="bool" if kind in ("Equal", "Greater") else "").item()
    print(f"{kind} of {[x.item() for x in operands]}: {result}, right is {right}")
    assert result == found
PYTHON
