"""Operators of TensorFlow on special values for `make_tensorflow.py`: `SPECIAL[name]` is a function
of tensors and what it is called with. It needs tensorflow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

RAW = tf.raw_ops
SPECIAL: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {}
_ROW = np.array(
    [np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0, -1.0, 0.5, -2.5, 3e9, -1e10, 88.0, -20.0, 1e-9],
    np.float32,
)
X, Y = (side.copy() for side in np.meshgrid(_ROW, _ROW))
EMPTY = np.zeros((3, 0), np.float32)


def special(op: str, names: str, *feeds: np.ndarray, tag: str = "", **options: Any) -> None:
    """One operator, whose operands have these names; `options` are the others."""

    def call(*tensors: Any) -> Any:
        return getattr(RAW, op)(**dict(zip(names.split(), tensors)), **options)

    SPECIAL[f"{op}-{tag}" if tag else op] = call, list(feeds)


for op in (
    *("Abs", "Asinh", "Atan", "Ceil", "Erf", "Exp", "Expm1", "Floor", "IsFinite", "IsInf", "IsNan"),
    *("Log", "Log1p", "Neg", "Reciprocal", "Rint", "Round", "Rsqrt", "Sigmoid", "Sign", "Sin"),
    *("Sqrt", "Square", "Tanh", "Erfc", "Acosh", "Cosh"),
):
    special(op, "x", X)
for op in ("Elu", "LeakyRelu", "Relu", "Relu6", "Selu", "Softplus", "Softsign"):
    special(op, "features", X)
for op in (
    *("AddV2", "Div", "DivNoNan", "Equal", "FloorDiv", "FloorMod", "Greater", "GreaterEqual"),
    *("Less", "LessEqual", "Maximum", "Minimum", "Mul", "MulNoNan", "NotEqual", "Pow", "RealDiv"),
    *("SquaredDifference", "Sub", "TruncateDiv", "Xdivy", "Xlogy", "Xlog1py"),
):
    special(op, "x y", X, Y)
special("Atan2", "y x", Y, X)
special("Bucketize", "input", X, boundaries=[-1.0, 0.0, 1.5])
special("ClipByValue", "t clip_value_min clip_value_max", X, np.float32(-0.5), np.float32(1))
# Casts to shorter integers are not here: what is out of range depends on its place in a vector.
for to in (tf.int32, tf.int64, tf.bool, tf.float16):
    special("Cast", "x", X, tag=to.name, DstT=to)
for op in ("Max", "Min", "Mean", "Sum", "Prod"):
    for axis in (0, 1):
        special(op, "input", X, tag=str(axis), axis=axis)
    special(op, "input", EMPTY, tag="empty", axis=1)
    special(op, "input", X[:, :1].copy(), tag="one", axis=1)
_RANKED = np.stack([np.roll(_ROW, i) for i in range(5)])
_RANKED[4, 2:] = np.nan
_RANKED[3, 1:] = [-np.inf if place % 2 else np.nan for place in range(13)]
for op in ("ArgMax", "ArgMin"):
    for axis in (0, 1):
        special(op, "input", _RANKED, tag=str(axis), dimension=axis)
special("SoftmaxCrossEntropyWithLogits", "features labels", X[:, 5:6].copy(), X[:1, 5:9].copy())
special("Cumsum", "x", X, axis=1)
special("Softmax", "logits", X)
special("LogSoftmax", "logits", Y)
for dtype in ("int8", "int16", "int32", "int64", "uint8"):
    info = np.iinfo(dtype)
    row = np.array([info.min, info.max, info.max - 1, 0, 1, 2, 7, 100, 5, 3], dtype)
    row = np.append(row, np.array([] if info.min == 0 else [-1, -2, -7, -100], dtype))
    a, b = (side.reshape(-1) for side in np.meshgrid(row, row))
    kept = (b != 0) & ~((a == info.min) & (b.astype(np.int64) == -1))
    for op in ("FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod"):
        if (op, dtype) in {("TruncateMod", name) for name in ("int8", "uint8", "int16")}:
            continue
        if op == "FloorMod" and dtype == "uint8":
            continue
        special(op, "x y", a[kept], b[kept], tag=dtype)
    for op in ("Maximum", "Minimum", "Mul", "Sub"):
        special(op, "x y", a, b, tag=dtype)
    for op in ("LeftShift", "RightShift"):
        special(op, "x y", a, b, tag=dtype)
    special("Abs" if dtype != "uint8" else "Square", "x", row, tag=dtype)
    special("Sum", "input", row, tag=dtype, axis=0)
