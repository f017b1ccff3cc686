#!/usr/bin/env bash
# TensorFlow 2.21.0: tf.raw_ops.Round of int32 or int64 gives zeros, in eager mode and in graphs.
#
# The operator declares integers among its types. tf.round gives the integers themselves, since it
# does not call the operator for them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tensorflow==2.21.0 numpy==2.4.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import tensorflow as tf

print(f"TensorFlow {tf.__version__}")
for dtype in ("int32", "int64", "float32"):
    x = tf.constant([5, -7, 100], dtype)
    operator, function = tf.raw_ops.Round(x=x).numpy(), tf.round(x).numpy()
    print(f"{dtype}: raw_ops.Round {operator}, tf.round {function}")
    assert (function == [5, -7, 100]).all()
    assert (operator == ([5, -7, 100] if dtype == "float32" else [0, 0, 0])).all()
PYTHON
