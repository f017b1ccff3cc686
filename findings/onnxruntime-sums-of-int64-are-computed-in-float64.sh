#!/usr/bin/env bash
# ONNX Runtime 1.32.0 on CPUs: ReduceSum, ReduceProd, ReduceMean and ReduceL1 of int64 are computed in
# float64, so that even the sum of one number is another number beyond 2⁵³: a time stamp in
# nanoseconds comes back up to 128 of them off, and a row that is picked by a product with 0 and 1,
# and a sum, is another identifier. Nothing is said, and the type of the result is right.
#
# Pow of int64 goes the same way. Guesses that miss: Add, Mul, CumSum, MatMul, Einsum and ReduceMax of
# the same numbers are exact. And a sum that does not fit saturates, in int32 as well (2³¹ - 1 + 5 is
# 2³¹ - 1), where Add, NumPy, PyTorch and onnx.reference wrap around.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime==1.32.0 onnx==1.23.2 numpy==2.3.5
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

STAMP = 1_764_500_000_123_456_789
"""A time in nanoseconds, as pandas and file systems have it."""


def both(
    kind: str, *operands: np.ndarray, rank: int = 1, **attributes: object
) -> tuple[np.ndarray, np.ndarray]:
    """What ONNX Runtime gives, and onnx.reference."""
    names = [f"x{number}" for number in range(len(operands))]
    code = helper.np_dtype_to_tensor_dtype(operands[0].dtype)
    graph = helper.make_graph(
        [helper.make_node(kind, names, ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info(n, code, x.shape) for n, x in zip(names, operands)],
        [helper.make_tensor_value_info("y", code, [None] * rank)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model)
    feeds = dict(zip(names, operands))
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)[0], ReferenceEvaluator(model).run(None, feeds)[0]


print("ONNX Runtime", onnxruntime.__version__)
one = np.array([STAMP])
for kind in ("ReduceSum", "ReduceProd", "ReduceMean", "ReduceL1", "ReduceMax"):
    found, _ = both(kind, one, rank=0, keepdims=0)
    print(f"{kind} of the one number {STAMP}: {found}")
    assert (int(found) == STAMP) == (kind == "ReduceMax")
    assert int(found) in (STAMP, int(float(STAMP)))

table = np.array([[STAMP, 7], [8, STAMP + 1]])
picked, right = both("ReduceSum", table * np.eye(2, dtype=np.int64), np.array([1]), keepdims=0)
print("the diagonal by a mask and ReduceSum:", picked, "in place of", right)
assert np.array_equal(right, [STAMP, STAMP + 1])
assert picked[0] == picked[1] != STAMP
found, right = both("MatMul", table, np.array([[1], [0]]), rank=2)
assert np.array_equal(found, right)

found, _ = both("Pow", np.array([3]), np.array([39]))
print("3 to the power of 39:", int(found[0]), "in place of", 3**39)
assert int(found[0]) == int(float(3) ** 39) != 3**39

found, right = both("ReduceSum", np.array([2**31 - 1, 5], np.int32), rank=0, keepdims=0)
print("2³¹ - 1 + 5 in int32:", int(found), "in place of", int(right))
assert int(found) == 2**31 - 1
assert int(right) == 4 - 2**31
PYTHON
