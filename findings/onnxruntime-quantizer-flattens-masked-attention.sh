#!/usr/bin/env bash
# onnxruntime 1.32.0 (x86-64), onnxruntime.quantization.quantize_static with its defaults (QDQ, all
# operators that it has a form for): Add of an attention mask, then Softmax. The sum with the mask
# gets one scale for mask and scores alike, so that all scores become one number: attention is
# uniform over what is not masked, whatever it was.
#
# Guesses that miss: a mask of -10000 does so as well as -1e9 or the least float32; Percentile,
# Entropy and Distribution, which are there to leave outliers out, change nothing, since 3 of 8
# masked numbers are no outliers; and -inf, which MinMax takes without a word, makes the scale
# infinite and all probabilities 0 (their sum, too), not NaN. Add and Softmax have to be left out by
# nodes_to_exclude or op_types_to_quantize.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime==1.32.0 onnx==1.23.2 numpy==2.3.5
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import contextlib
import io
import logging

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, quantize_static

logging.disable(logging.WARNING)
KEYS, OPEN = 8, 5
SCORES = (3 * np.random.default_rng(0).standard_normal((16, 1, KEYS))).astype(np.float32)


class Reader(CalibrationDataReader):
    def __init__(self) -> None:
        self.rows = iter(SCORES)

    def get_next(self) -> dict[str, np.ndarray] | None:
        row = next(self.rows, None)
        return None if row is None else {"scores": row}


def save(number: float) -> None:
    mask = np.where(np.arange(KEYS) < OPEN, 0, number).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["scores", "mask"], ["masked"], name="add"),
            helper.make_node("Softmax", ["masked"], ["weights"], name="softmax"),
        ],
        "g",
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, KEYS])],
        [helper.make_tensor_value_info("weights", TensorProto.FLOAT, [1, KEYS])],
        [numpy_helper.from_array(mask, "mask")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, "float.onnx")


def run(path: str) -> np.ndarray:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {"scores": SCORES[0]})[0][0]


def quantized(method: str, **options: object) -> np.ndarray:
    with contextlib.redirect_stdout(io.StringIO()):
        way = getattr(CalibrationMethod, method)
        quantize_static("float.onnx", "int8.onnx", Reader(), calibrate_method=way, **options)
    return run("int8.onnx")


print(f"ONNX Runtime {onnxruntime.__version__}")
for number in (-1e4, -1e9):
    save(number)
    right = run("float.onnx")
    print(f"mask {number:g}, float32:", right.round(3))
    assert right.max() > 0.6
    for method in ("MinMax", "Percentile", "Entropy", "Distribution"):
        weights = quantized(method)
        print(f"  {method}:", weights.round(3))
        assert np.allclose(weights[:OPEN], 1 / OPEN, atol=0.005) and not weights[OPEN:].any()
    assert np.allclose(quantized("MinMax", nodes_to_exclude=["add", "softmax"]), right)
save(-np.inf)
weights = quantized("MinMax")
print("mask -inf, float32:", run("float.onnx").round(3), " MinMax:", weights)
assert run("float.onnx").max() > 0.6 and not weights.any()
PYTHON
