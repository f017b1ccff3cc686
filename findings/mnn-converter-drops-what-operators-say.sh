#!/usr/bin/env bash
# MNN 3.6.1: mnnconvert takes ONNX files and leaves out what some operators say; the converted model
# runs and gives other numbers. Nothing is said.
#
# Mod with fmod = 1 has the sign of the divisor, ArgMax with select_last_index = 1 names the first,
# ScatterElements with reduction = "add" stores or drops, Resize to the nearest rounds down whatever
# nearest_mode says, Round rounds halves away from zero, Shrink loses negative numbers, Einsum
# "ii->i" gives the whole matrix, and exponentials end at 6e37: the log-sum of (100, 100) is 87.7.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet MNN==3.6.1 onnx==1.23.2 numpy==2.3.5
cd "$folder"
PATH="$folder/venv/bin:$PATH" venv/bin/python -W ignore - <<'PYTHON'
import subprocess

import MNN
import MNN.expr as expr
import MNN.nn as nn
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

KINDS = {np.dtype("float32"): expr.float, np.dtype("int32"): expr.int}


def floats(*numbers: float, shape: tuple[int, ...] = (-1,)) -> np.ndarray:
    return np.array(numbers, np.float32).reshape(shape)


def both(node: onnx.NodeProto, feeds: dict, **constants: np.ndarray) -> tuple[list, list]:
    """What onnx.reference gives, and MNN."""
    given = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), list(x.shape))
        for n, x in feeds.items()
    ]
    to = TensorProto.INT64 if node.op_type == "ArgMax" else TensorProto.FLOAT
    made = helper.make_tensor_value_info("y", to, None)
    kept = [numpy_helper.from_array(x, n) for n, x in constants.items()]
    graph = helper.make_graph([node], "g", given, [made], kept)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
    onnx.save(model, "m.onnx")
    files = ["--modelFile", "m.onnx", "--MNNModel", "m.mnn", "--bizCode", "x"]
    subprocess.run(["mnnconvert", "-f", "ONNX", *files], check=True, capture_output=True)
    net = nn.load_module_from_file("m.mnn", list(feeds), ["y"])
    values = [
        expr.const(x.flatten().tolist(), list(x.shape), expr.NCHW, KINDS[x.dtype])
        for x in feeds.values()
    ]
    result = net.forward(values)
    result = result[0] if isinstance(result, (list, tuple)) else result
    right = ReferenceEvaluator(model).run(None, feeds)[0]
    found = np.array(expr.convert(result, expr.NCHW).read())
    return right.flatten().tolist(), found.flatten().tolist()


make = helper.make_node
CASES = {
    "Mod, fmod = 1": (
        make("Mod", ["a", "b"], ["y"], fmod=1),
        {"a": floats(-7, 7), "b": floats(3, -3)},
        {},
    ),
    "ArgMax, select_last_index = 1": (
        make("ArgMax", ["a"], ["y"], axis=1, keepdims=0, select_last_index=1),
        {"a": floats(1, 3, 3, 2, shape=(1, 4))},
        {},
    ),
    'ScatterElements, reduction = "add"': (
        make("ScatterElements", ["a", "i", "u"], ["y"], axis=0, reduction="add"),
        {"a": floats(1, 2, 3), "u": floats(10, 20, 40)},
        {"i": np.array([0, 0, 2], np.int64)},
    ),
    "Resize, nearest_mode = ceil": (
        make("Resize", ["a", "", "s"], ["y"], mode="nearest", nearest_mode="ceil"),
        {"a": floats(1, 2, 3, 4, shape=(1, 1, 1, 4))},
        {"s": floats(1, 1, 1, 0.5)},
    ),
    "Round": (make("Round", ["a"], ["y"]), {"a": floats(0.5, 2.5, -2.5)}, {}),
    "Shrink": (make("Shrink", ["a"], ["y"], lambd=0.5, bias=0.2), {"a": floats(-1, 0.3, 2)}, {}),
    "Einsum, ii->i": (
        make("Einsum", ["a"], ["y"], equation="ii->i"),
        {"a": floats(0, 1, 2, 3, shape=(2, 2))},
        {},
    ),
    "ReduceLogSumExp": (
        make("ReduceLogSumExp", ["a"], ["y"], axes=[0], keepdims=0),
        {"a": floats(100, 100)},
        {},
    ),
    "Mod of positive numbers": (
        make("Mod", ["a", "b"], ["y"], fmod=1),
        {"a": floats(7, 5.5), "b": floats(3, 2)},
        {},
    ),
}
print(f"MNN {MNN.version()}")
for name, (node, feeds, constants) in CASES.items():
    right, found = both(node, feeds, **constants)
    print(f"{name}: {found}, right is {right}")
    assert (found == right) is (name == "Mod of positive numbers")
PYTHON
