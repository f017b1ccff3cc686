#!/usr/bin/env bash
# OpenVINO 2026.4.1 on CPUs: sums of bytes saturate where ONNX, NumPy and ONNX Runtime wrap around,
# and uint32 is taken for signed: 200 + 200 of uint8 is 255 (144), 3 - 5 is 0 (254), 100 + 100 of
# int8 is 127 (-56); 3000000000 / 2 of uint32 is 3647483648, and 3000000000 > 2 is false. Products
# of int16 and sums of uint32 wrap around. Nothing is said.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet openvino==2026.4.1 onnx==1.23.2 numpy==2.3.5
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import openvino
from onnx import TensorProto, helper

TYPES = {
    "uint8": TensorProto.UINT8,
    "int8": TensorProto.INT8,
    "int16": TensorProto.INT16,
    "uint32": TensorProto.UINT32,
    "bool": TensorProto.BOOL,
}


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
for kind, dtype, numbers, right, found in (
    ("Add", np.uint8, (200, 200), 144, 255),
    ("Sub", np.uint8, (3, 5), 254, 0),
    ("Add", np.int8, (100, 100), -56, 127),
    ("Mul", np.int16, (300, 300), 24464, 24464),
    ("Add", np.uint32, (3_000_000_000, 3_000_000_000), 1_705_032_704, 1_705_032_704),
    ("Div", np.uint32, (3_000_000_000, 2), 1_500_000_000, 3_647_483_648),
    ("Greater", np.uint32, (3_000_000_000, 2), True, False),
):
    operands = [np.array([n], dtype) for n in numbers]
    result = run(kind, *operands, to="bool" if kind == "Greater" else "").item()
    print(f"{kind} of {numbers} in {np.dtype(dtype)}: {result}, right is {right}")
    assert result == found
PYTHON
