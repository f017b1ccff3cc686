"""Models of Keras 2, with functions of TensorFlow, for `make_keras.py`: `LEGACY[name](keras)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tests.models.keras_cases_models  # noqa: F401  adds its cases
from tests.models.keras_cases import CASES, Case, floats, whole

LEGACY: dict[str, Callable[[Any], Case]] = {}
CHOSEN = (
    *("Dense-3d-relu", "BatchNormalization", "LayerNormalization", "Normalization-adapted"),
    *("Conv2D-same-2", "SeparableConv2D-same", "DepthwiseConv2D-same-2", "Conv2DTranspose-out"),
    *("LSTM-state", "GRU-all", "GRU-before", "SimpleRNN-last", "Bidirectional-LSTM-concat"),
    *("LSTM-initial", "Bidirectional-initial", "RNN-stacked", "ConvLSTM2D", "TimeDistributed"),
    *("MultiHeadAttention-scores", "Attention-scale", "AdditiveAttention", "LSTM-hard"),
    *("Activation-hard_sigmoid", "UnitNormalization", "GroupNormalization", "mask-bidirectional"),
    *("mask-LSTM-all", "mask-Add", "mask-Concatenate", "mask-Masking", "mask-transformer"),
    *("model-sequential", "model-siamese", "model-nested", "model-twice", "Embedding"),
)
"""Cases of Keras 3 that Keras 2 has too."""
LEGACY |= {name: CASES[name] for name in CHOSEN}


def _functions(name: str, build: Callable[..., Any], *feeds: np.ndarray) -> None:
    """`build(tensorflow, *inputs)` gives the result."""

    def make(keras: Any) -> Case:
        import tensorflow as tf

        arrays = list(feeds) or [floats((3, 4))]
        inputs = [
            keras.Input(feed.shape[1:], dtype=feed.dtype.name, name=f"x{number}")
            for number, feed in enumerate(arrays)
        ]
        return keras.Model(inputs, build(tf, *inputs)), arrays

    LEGACY[f"tf-{name}"] = make


PAIR = floats((3, 4)), floats((3, 4)) + 3
for _name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "greater", "equal"):
    _functions(_name, lambda tf, a, b, n=_name: getattr(tf.math, n)(a, b), *PAIR)
_functions("python", lambda tf, a, b: (1 - a) * 2 + b / a - (-b) ** 2, *PAIR)
_functions("shared", lambda tf, a, b: tf.nn.relu(a + b) + tf.nn.softmax(a) - tf.nn.gelu(b), *PAIR)
_functions("leaky", lambda tf, a: tf.nn.leaky_relu(a, alpha=0.1) + tf.nn.relu6(a) + tf.nn.silu(a))
_functions("mean", lambda tf, a: tf.reduce_mean(a, axis=-1, keepdims=True))
_functions("sum", lambda tf, a: tf.math.reduce_sum(a, axis=[1, 2]))
_functions("max", lambda tf, a: tf.reduce_max(a, 1))
_functions("reshape", lambda tf, a: tf.reshape(a, (-1, 12)))
_functions("transpose", lambda tf, a: tf.transpose(a, perm=[0, 2, 1]))
_functions("expand", lambda tf, a: tf.squeeze(tf.expand_dims(a, 1), axis=1))
_functions("concat", lambda tf, a, b: tf.concat([a, b], axis=-1), *PAIR)
_functions("stack", lambda tf, a, b: tf.stack([a, b], axis=1), *PAIR)
_functions("cast", lambda tf, a: tf.cast(a > 0, tf.float32))
_functions("matmul", lambda tf, a, b: tf.matmul(a, b, transpose_b=True), *PAIR)
_functions("clip", lambda tf, a: tf.clip_by_value(a, -1.0, 1.0))
_functions("where", lambda tf, a, b: tf.where(a > 0, a, b), *PAIR)
_functions("tile", lambda tf, a: tf.tile(a, [1, 2, 1]))
_functions("gather", lambda tf, a: tf.gather(a, [2, 0], axis=1))
_functions("one_hot", lambda tf, a: tf.one_hot(a, 5), whole((3,)))
_functions("item", lambda tf, a: a[:, 1:, ::2])
_functions("item-last", lambda tf, a: a[:, -1])
_functions("item-new", lambda tf, a: a[:, None, 1:])
_functions("exp", lambda tf, a: tf.exp(a) + tf.sqrt(tf.abs(a)) + tf.square(a) + tf.sigmoid(a))
