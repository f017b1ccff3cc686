#!/usr/bin/env bash
# ONNX Runtime 1.32.0 and onnx.reference of onnx 1.23.2 (x86-64): GroupNormalization of float32
# takes the variance as the mean of squares less the square of the mean. A group whose mean is 1000
# of its standard deviations is off by tenths; at 5000 results are NaN, where the difference is
# below zero, or off by hundreds, where it is zero and epsilon alone divides. Nothing is said.
#
# Neither has code of its own for the operator: both expand it into the function that the standard
# gives as its body (opset 18 and 21), which is written so. InstanceNormalization and
# LayerNormalization of the same numbers, which ONNX Runtime has kernels for, subtract the mean
# first and are right to 1e-3, so the usual way around (Reshape, InstanceNormalization, Reshape:
# what PyTorch's older exporter writes) is the one that holds. Air pressure in Pascal, temperatures
# in Kelvin, depth and raw sensors are such data.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime==1.32.0 onnx==1.23.2 numpy==2.3.5
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

EPSILON = 1e-5
GROUPS, SIZE = 4, 768
Array = np.ndarray


def model(kind: str, opset: int, **attributes: int) -> onnx.ModelProto:
    """Of (1, groups, size): each group is one channel."""
    node = helper.make_node(kind, ["x", "scale", "bias"], ["y"], epsilon=EPSILON, **attributes)
    shapes = {"x": [1, GROUPS, SIZE], "scale": [GROUPS], "bias": [GROUPS]}
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, shapes["x"])
    graph = helper.make_graph([node], "g", given, [made])
    result = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10
    )
    onnx.checker.check_model(result, full_check=True)
    return result


def run(kind: str, opset: int, x: Array, **attributes: int) -> tuple[Array, Array]:
    made = model(kind, opset, **attributes)
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feeds = {"x": x, "scale": np.ones(GROUPS, np.float32), "bias": np.zeros(GROUPS, np.float32)}
    return session.run(None, feeds)[0], ReferenceEvaluator(made).run(None, feeds)[0]


def right(x: Array) -> Array:
    x = x.astype(np.float64)
    return (x - x.mean(2, keepdims=True)) / np.sqrt(x.var(2, keepdims=True) + EPSILON)


print(f"ONNX Runtime {onnxruntime.__version__}, onnx {onnx.__version__}")
noise = np.random.default_rng(0).standard_normal((1, GROUPS, SIZE))
errors = {}
for mean in (0, 100, 1000, 5000):
    x = (mean + noise).astype(np.float32)
    group = run("GroupNormalization", 21, x, num_groups=GROUPS)
    instance = run("InstanceNormalization", 21, x)
    errors[mean] = [float(np.abs(y - right(x)).max()) for y in (*group, *instance)]
    text = "GroupNormalization off by {:.2g}, the reference by {:.2g}; InstanceNormalization {:.2g}"
    print(f"mean {mean}, deviation 1:", text.format(*errors[mean]))
assert max(errors[0]) < 1e-5
assert min(errors[1000][:2]) > 0.05
assert not any(error < 1 for error in errors[5000][:2])  # NaN, or far off
assert all(each[2] < 2e-3 for each in errors.values())
pressure = (101_325 + 20 * noise).astype(np.float32)
found, _ = run("GroupNormalization", 21, pressure, num_groups=GROUPS)
error = float(np.abs(found - right(pressure)).max())
print(f"air pressure of 101325 ± 20 Pa: off by {error:.2g}")
assert not error < 0.5
PYTHON
