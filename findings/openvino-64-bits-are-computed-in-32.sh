#!/usr/bin/env bash
# OpenVINO 2026.4.1 on CPUs computes int64 in 32 bits and float64 in float32, and gives the results
# back as int64 and float64: 3000000000 + 3000000000 is 1705032704, Equal(2³² + 5, 5) is true,
# (1 + 10⁻¹²) - 1 is 0, and exp(700) is 3.4e38, which is no infinity either. Nothing is said.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet openvino==2026.4.1 onnx==1.23.2 numpy==2.3.5
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import openvino
from onnx import TensorProto, helper

TYPES = {"int64": TensorProto.INT64, "float64": TensorProto.DOUBLE, "bool": TensorProto.BOOL}


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
whole, real = (lambda x: np.array([x], np.int64)), (lambda x: np.array([x], np.float64))
for kind, operands, right, found in (
    ("Add", (whole(3_000_000_000),) * 2, 6_000_000_000, 1_705_032_704),
    ("Neg", (whole(-(2**33)),), 2**33, 0),
    ("Equal", (whole(2**32 + 5), whole(5)), False, True),
    ("Sub", (real(1 + 1e-12), real(1)), 1.000088900582341e-12, 0.0),
    ("Exp", (real(700),), 1.0142320547350045e304, float(np.finfo(np.float32).max)),
):
    result = run(kind, *operands, to="bool" if kind == "Equal" else "")
    given = [x.item() for x in operands]
    print(f"{kind} of {given}: {result.item()} ({result.dtype}), right is {right}")
    assert result.item() == found
PYTHON
