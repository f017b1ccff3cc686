#!/usr/bin/env bash
# onnxruntime 1.32.0 (x86-64), onnxruntime.quantization.quantize_static: Gemm computes
# alpha · A · B + beta · C, its quantized form does not. beta goes into the scale of quantized C,
# but C is divided by that scale as well, and the attribute is set to 1. What comes out:
#
# * QOperator (QGemm): alpha · (A · B + C / beta): a beta of 3 is a third, and alpha scales C.
# * QDQ, the default, run without optimizations: alpha · A · B + C: beta is gone. With those of
#   ONNX Runtime, which are on by default, the same file is A · B + C / beta where alpha is 1, since
#   it is fused to QGemm, and stays alpha · A · B + C where it is not.
#
# Nothing is said, and the error is as large as the results, which looks like a bad calibration.
# quantize_dynamic is right. PyTorch's addmm and linear models of scikit-learn export such factors.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime==1.32.0 onnx==1.23.2 numpy==2.3.5
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import logging

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    quantize_dynamic,
    quantize_static,
)

logging.disable(logging.WARNING)
ROWS, DEPTH, COLUMNS = 5, 8, 6
rng = np.random.default_rng(0)
B, C = rng.standard_normal((DEPTH, COLUMNS)), rng.standard_normal(COLUMNS)
DATA = rng.standard_normal((16, ROWS, DEPTH)).astype(np.float32)


class Reader(CalibrationDataReader):
    def __init__(self) -> None:
        self.rows = iter(DATA)

    def get_next(self) -> dict[str, np.ndarray] | None:
        row = next(self.rows, None)
        return None if row is None else {"a": row}


def run(path: str, level: str = "ORT_ENABLE_ALL") -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(path, options, providers).run(None, {"a": DATA[0]})[0]


def gemm(alpha: float, beta: float) -> np.ndarray:
    return alpha * DATA[0].astype(np.float64) @ B + beta * C


def save(alpha: float, beta: float) -> None:
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["a", "b", "c"], ["y"], alpha=alpha, beta=beta)],
        "g",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, [ROWS, DEPTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [ROWS, COLUMNS])],
        [numpy_helper.from_array(v.astype(np.float32), n) for n, v in {"b": B, "c": C}.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, "float.onnx")


def error(found: np.ndarray, right: np.ndarray) -> float:
    return float(np.abs(found - right).max() / np.abs(right).max())


print(f"ONNX Runtime {onnxruntime.__version__}")
for alpha, beta in ((1.0, 1.0), (1.0, 3.0), (0.5, 1.0), (0.5, 3.0)):
    save(alpha, beta)
    right = gemm(alpha, beta)
    assert error(run("float.onnx"), right) < 1e-5
    quantize_dynamic("float.onnx", "dynamic.onnx")
    assert error(run("dynamic.onnx"), right) < 0.03
    quantize_static("float.onnx", "qdq.onnx", Reader(), quant_format=QuantFormat.QDQ)
    quantize_static("float.onnx", "qoperator.onnx", Reader(), quant_format=QuantFormat.QOperator)
    plain, inverse = gemm(alpha, 1.0), gemm(alpha, alpha / beta)
    results = {
        "QOperator": (run("qoperator.onnx"), inverse),
        "QDQ": (run("qdq.onnx"), inverse if alpha == 1 else plain),
        "QDQ, not optimized": (run("qdq.onnx", "ORT_DISABLE_ALL"), plain),
    }
    for name, (result, formula) in results.items():
        wrong = error(result, right)
        is_wrong = error(formula, right) > 0.01
        print(
            f"alpha {alpha}, beta {beta}, {name}: off by {wrong:.0%} of the largest result, from "
            f"the formula above by {error(result, formula):.0%}"
        )
        assert error(result, formula) < 0.04
        assert (wrong > 0.1) == is_wrong
PYTHON
