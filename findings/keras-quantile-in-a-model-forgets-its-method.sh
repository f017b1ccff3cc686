#!/usr/bin/env bash
# Keras 3.15.1: keras.ops.quantile(..., method=...) on the input of a functional model always
# interpolates linearly. Nothing is said.
#
# On arrays all methods are computed. What a functional model records of the call has no method,
# so the same line gives 2.5 in the model for "lower" (2.0 on the array) and "higher" (3.0).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet keras==3.15.1 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.0
KERAS_BACKEND=jax "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import keras
import numpy as np

x = np.array([[1.0, 2.0, 3.0, 10.0]], np.float32)
given = keras.Input((4,))
print(f"Keras {keras.__version__}, the median of {x[0]}:")
for method, right in (("linear", 2.5), ("lower", 2.0), ("higher", 3.0)):
    eager = float(keras.ops.quantile(x, 0.5, method=method))
    model = keras.Model(given, keras.ops.quantile(given, 0.5, method=method))
    recorded = float(model(x))
    print(f"{method}: {eager} on the array, {recorded} in the model")
    assert (eager, recorded) == (right, 2.5)
PYTHON
