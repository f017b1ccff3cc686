"""Small models of TensorFlow and Keras for `make_tensorflow.py`: functions of tensors, and networks
with what they are called with. Needs tensorflow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.models.tensorflow_cases import Case, floats

FLOWS: dict[str, Case] = {}
X, TEXT = floats(2, 5, 3), np.array([[1, 4, 2, 0], [3, 3, 0, 0]], np.int32)


def flow(function: Callable[..., Any]) -> Callable[..., Any]:
    feeds = {"i": np.int32(4), "x": floats(3, 4)}
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    FLOWS[function.__name__] = function, [np.asarray(feeds[name]) for name in names]
    return function


@flow
def while_sum(i: Any, x: Any) -> Any:
    return tf.while_loop(lambda n, y: n < i, lambda n, y: (n + 1, y * 0.9 + x), (0, x))


@flow
def while_growing(x: Any) -> Any:
    return tf.while_loop(
        lambda n, y: n < 3,
        lambda n, y: (n + 1, tf.concat([y, x], 0)),
        (0, x),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 4])),
    )[1]


@flow
def while_nested(x: Any) -> Any:
    def inner(y: Any) -> Any:
        return tf.while_loop(lambda m, z: m < 2, lambda m, z: (m + 1, z + x), (0, y))[1]

    return tf.while_loop(lambda n, y: n < 3, lambda n, y: (n + 1, inner(y) * 0.5), (0, x))[1]


@flow
def while_by_value(x: Any) -> Any:
    return tf.while_loop(lambda y: tf.reduce_sum(tf.abs(y)) > 0.1, lambda y: (y / 2,), (x,))


@flow
def cond(i: Any, x: Any) -> Any:
    return tf.cond(i > 3, lambda: (x + 1, x * 2), lambda: (x - 1, x))


@flow
def cond_other(i: Any, x: Any) -> Any:
    return tf.cond(i > 4, lambda: x + 1, lambda: tf.zeros_like(x) - tf.reduce_max(x))


@flow
def cond_nested(i: Any, x: Any) -> Any:
    inner = lambda: tf.cond(i > 3, lambda: x * 3, lambda: x)  # noqa: E731
    return tf.cond(i > 1, inner, lambda: -x) + tf.cond(i < 0, lambda: x, lambda: x * x)


@flow
def cond_in_while(x: Any) -> Any:
    def body(n: Any, y: Any) -> Any:
        return n + 1, tf.cond(n % 2 == 0, lambda: y + x, lambda: y * 0.5)

    return tf.while_loop(lambda n, y: n < 5, body, (0, x))[1]


@flow
def while_in_cond(i: Any, x: Any) -> Any:
    def loop() -> Any:
        return tf.while_loop(lambda n, y: n < i, lambda n, y: (n + 1, y + x), (0, x))[1]

    return tf.cond(tf.reduce_sum(x) > -100, loop, lambda: x)


@flow
def switch_case(i: Any, x: Any) -> Any:
    return tf.switch_case(i - 3, [lambda: x, lambda: x + 1, lambda: x * 2])


@flow
def tensor_array(x: Any) -> Any:
    array = tf.TensorArray(tf.float32, 3)
    body = lambda n, a: (n + 1, a.write(n, x[n] * tf.cast(n, tf.float32)))  # noqa: E731
    return tf.while_loop(lambda n, a: n < 3, body, (0, array))[1].stack()


@flow
def tensor_array_read(x: Any) -> Any:
    array = tf.TensorArray(tf.float32, 3).unstack(x)
    body = lambda n, y: (n + 1, y + array.read(2 - n) * (y + 1))  # noqa: E731
    return tf.while_loop(lambda n, y: n < 3, body, (0, x[0]))[1]


@flow
def tensor_array_growing(i: Any, x: Any) -> Any:
    array = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[4])
    body = lambda n, a: (n + 1, a.write(n, x[n % 3] + 1))  # noqa: E731
    return tf.while_loop(lambda n, a: n < i, body, (0, array))[1].stack()


@flow
def map_fn(x: Any) -> Any:
    return tf.map_fn(lambda row: tf.cumsum(row) * tf.reduce_sum(row), x)


@flow
def scan(x: Any) -> Any:
    return tf.scan(lambda state, row: state * 0.5 + row, x, initializer=tf.zeros(4))


@flow
def foldl(x: Any) -> Any:
    return tf.foldl(lambda state, row: state * row + 1, x)


# -- networks --------------------------------------------------------------------------------------


def networks() -> dict[str, tuple[Any, list[np.ndarray]]]:
    """Small networks by name, made anew."""
    keras, layers = tf.keras, tf.keras.layers
    keras.utils.set_random_seed(3)

    def sequence(*parts: Any, text: bool = False) -> tuple[Any, list[np.ndarray]]:
        first = layers.Input((4,) if text else (5, 3), dtype="int32" if text else "float32")
        return keras.Sequential([first, *parts]), [TEXT if text else X]

    x = layers.Input((5, 3))
    attention = layers.MultiHeadAttention(2, 4)(x, x)
    causal = layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)
    states = layers.LSTM(4, return_sequences=True, return_state=True)(x)
    image = layers.Input((8, 8, 3))
    small = layers.Conv2D(4, 3, padding="same")(image)
    small = layers.BatchNormalization()(layers.DepthwiseConv2D(3, strides=2)(small))
    small = layers.Conv2DTranspose(3, 3, strides=2)(layers.ReLU(6.0)(small))
    return {
        "lstm": sequence(layers.LSTM(4)),
        "lstm_sequences": sequence(layers.LSTM(4, return_sequences=True)),
        "lstm_backwards": sequence(layers.LSTM(4, go_backwards=True)),
        "lstm_states": (keras.Model(x, states), [X]),
        "lstm_stacked": sequence(layers.LSTM(4, return_sequences=True), layers.LSTM(2)),
        "lstm_masked": sequence(layers.Embedding(6, 3, mask_zero=True), layers.LSTM(4), text=True),
        "gru": sequence(layers.GRU(4)),
        "gru_sequences": sequence(layers.GRU(4, return_sequences=True, reset_after=False)),
        "gru_masked": sequence(layers.Embedding(6, 3, mask_zero=True), layers.GRU(4), text=True),
        "simple_rnn": sequence(layers.SimpleRNN(4, return_sequences=True)),
        "bidirectional": sequence(layers.Bidirectional(layers.LSTM(3, return_sequences=True))),
        "bidirectional_gru": sequence(layers.Bidirectional(layers.GRU(3), merge_mode="sum")),
        "rnn_cells": sequence(layers.RNN([layers.LSTMCell(3), layers.GRUCell(2)])),
        "unrolled": sequence(layers.LSTM(4, unroll=True)),
        "attention": (keras.Model(x, layers.LayerNormalization()(attention)), [X]),
        "causal_attention": (keras.Model(x, causal), [X]),
        "additive_attention": (keras.Model(x, layers.AdditiveAttention()([x, x])), [X]),
        "convolutional_lstm": (
            keras.Sequential([layers.Input((3, 6, 6, 2)), layers.ConvLSTM2D(3, 3)]),
            [floats(2, 3, 6, 6, 2)],
        ),
        "time_distributed": sequence(layers.TimeDistributed(layers.Dense(2)), layers.Flatten()),
        "images": (keras.Model(image, small), [floats(2, 8, 8, 3)]),
        "group_normalization": (
            keras.Sequential([layers.Input((4, 4, 6)), layers.GroupNormalization(3)]),
            [floats(2, 4, 4, 6)],
        ),
    }
