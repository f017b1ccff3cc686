#!/usr/bin/env bash
# Keras 3.15.1: model.quantize("int8") of a model with TimeDistributed(Dense) makes its predictions
# some 240 times as large: 885 where it predicted 3.7. Nothing is said.
#
# The layer inside is quantized, but TimeDistributed goes by the way that multiplies its integers
# without their scales. The same Dense by itself, which gives the same numbers before, keeps them
# within 1 %. "int4" fares alike (53); a saved file predicts as the model in memory.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet keras==3.15.1 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.0
KERAS_BACKEND=jax "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import keras
import numpy as np

x = np.random.default_rng(0).normal(size=(2, 6, 16)).astype(np.float32)
print(f"Keras {keras.__version__}, largest prediction before and after quantization:")
for mode in ("int8", "int4"):
    for wrapped in (False, True):
        keras.utils.clear_session()
        keras.utils.set_random_seed(0)
        given, dense = keras.Input((6, 16)), keras.layers.Dense(5)
        layer = keras.layers.TimeDistributed(dense) if wrapped else dense
        model = keras.Model(given, layer(given))
        before = np.abs(np.asarray(model(x))).max()
        model.quantize(mode)
        after = np.abs(np.asarray(model(x))).max()
        print(f"{mode} {type(layer).__name__}: {before:.3g}, {after:.3g}")
        assert after > 8 * before if wrapped else after < 1.5 * before
PYTHON
