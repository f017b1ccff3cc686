#!/usr/bin/env bash
# onnxruntime 1.32.0 (x86-64), default options: DequantizeLinear of a computed int8 tensor without a
# zero point, which the standard takes for 0 of int8, followed by an operator that only moves
# numbers (Reshape, Transpose, Squeeze, Unsqueeze, Slice, MaxPool). Negative ones come out as 0.
#
# From the basic level on, scales are moved behind such operators, by a pair of QuantizeLinear and
# DequantizeLinear that has no zero point either; a QuantizeLinear without one makes uint8. Nothing
# is said. Symmetric int8 is where a zero point is left out. Right are: optimizations disabled, a
# zero point of 0 that is stated, uint8, constants (folded before), and Flatten, Gather, Pad and
# Split, which are not among those operators.
#
# All that up to opset 20. From opset 21 on it is the other way around: without a zero point results
# are right, and with a zero point of int8 the session is refused ("output_dtype INT8 does not match
# y_zero_point type UINT8"), so that neither spelling does for all opsets.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime==1.32.0 onnx==1.23.2 numpy==2.3.5
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

SCALE = np.float32(0.25)
X = np.arange(-8, 8, dtype=np.float32).reshape(1, 1, 4, 4) * SCALE
CONSTANTS = {
    "scale": np.array(SCALE),
    "zero": np.array(0, np.int8),
    "one": np.array(1, np.float32),
    "rows": np.array([4, 4], np.int64),
    "axis": np.array([0], np.int64),
    "begins": np.zeros(4, np.int64),
    "ends": np.array([1, 1, 3, 3], np.int64),
}
MOVES = {
    "Reshape": (["rows"], {}),
    "Transpose": ([], {"perm": [0, 1, 3, 2]}),
    "Squeeze": (["axis"], {}),
    "Unsqueeze": (["axis"], {}),
    "Slice": (["begins", "ends"], {}),
    "MaxPool": ([], {"kernel_shape": [2, 2]}),
    "Flatten": ([], {}),
}


def model(kind: str, states_zero: bool, opset: int = 19) -> onnx.ModelProto:
    """Numbers in 8 bits, scaled, moved, and one added."""
    more, attributes = MOVES[kind]
    zero = ["zero"] if states_zero else []
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "scale", *zero], ["scaled"]),
        helper.make_node(kind, ["scaled", *more], ["moved"], **attributes),
        helper.make_node("Add", ["moved", "one"], ["y"]),
    ]
    rank = {"Reshape": 2, "Flatten": 2, "Squeeze": 3, "Unsqueeze": 5}.get(kind, 4)
    used = {name for node in nodes for name in node.input}
    result = helper.make_model(
        helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("q", TensorProto.INT8, X.shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank)],
            [numpy_helper.from_array(a, n) for n, a in CONSTANTS.items() if n in used],
        ),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=10,
    )
    onnx.checker.check_model(result)
    return result


def run(made: onnx.ModelProto, feeds: dict[str, np.ndarray], level: str) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)[0]


print(f"ONNX Runtime {onnxruntime.__version__}")
feeds = {"q": (X / SCALE).astype(np.int8)}
for kind in MOVES:
    spelled, short = model(kind, True), model(kind, False)
    right = ReferenceEvaluator(spelled).run(None, feeds)[0]
    assert np.array_equal(ReferenceEvaluator(short).run(None, feeds)[0], right)
    results = {
        "default": run(short, feeds, "ORT_ENABLE_ALL"),
        "basic": run(short, feeds, "ORT_ENABLE_BASIC"),
        "disabled": run(short, feeds, "ORT_DISABLE_ALL"),
        "zero point stated": run(spelled, feeds, "ORT_ENABLE_ALL"),
    }
    least = {name: float(result.min()) for name, result in results.items()}
    print(f"{kind}: the least result is {right.min()};", least)
    clipped = right if kind == "Flatten" else np.maximum(right, 1)
    for name, expected in zip(results, (clipped, clipped, right, right)):
        assert np.array_equal(results[name], expected)
assert run(model("Transpose", False, 21), feeds, "ORT_ENABLE_ALL").min() == -1
try:
    run(model("Transpose", True, 21), feeds, "ORT_ENABLE_ALL")
except onnxruntime.capi.onnxruntime_pybind11_state.Fail as error:
    print("opset 21 with a zero point:", str(error)[-66:])
else:
    raise AssertionError("it opens")
PYTHON
