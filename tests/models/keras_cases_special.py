"""Operations of `keras.ops` on special values and on short integers: `SPECIAL[name](keras)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.models.keras_cases import Case

SPECIAL: dict[str, Callable[[Any], Case]] = {}
_ROW = np.array(
    [np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0, -1.0, 0.5, -2.5, 3e9, -1e10, 88.0, -20.0, 1e-9],
    np.float32,
)
Y, X = (side.copy() for side in np.meshgrid(_ROW, _ROW))
_LIMITS = np.array([[-(2**31), 2**31 - 1, 0, 1, -1, 16777217, -7, 12]], np.int32)


def special(name: str, build: Callable[..., Any], *feeds: np.ndarray) -> None:
    """`build(ops, *inputs)` gives the result."""

    def make(keras: Any) -> Case:
        given = [keras.Input(feed.shape[1:], dtype=feed.dtype.name) for feed in feeds]
        return keras.Model(given, build(keras.ops, *given)), list(feeds)

    SPECIAL[name] = make


for name in (
    *("abs", "arcsinh", "arctan", "ceil", "elu", "erf", "exp", "expm1", "floor", "gelu"),
    *("hard_sigmoid", "hard_silu", "hard_tanh", "isinf", "isnan", "leaky_relu", "log", "log1p"),
    *("negative", "reciprocal", "relu", "relu6", "round", "rsqrt", "selu", "sigmoid", "sign"),
    *("sin", "softplus", "softsign", "sqrt", "square", "tanh", "silu", "isfinite", "log2", "log10"),
):
    special(name, lambda o, x, n=name: getattr(o, n)(x), X)
for name in (
    *("add", "divide", "equal", "floor_divide", "greater", "less_equal", "maximum", "minimum"),
    *("mod", "multiply", "not_equal", "power", "subtract", "arctan2"),
):
    special(name, lambda o, x, y, n=name: getattr(o, n)(x, y), X, Y)
for name in ("sum", "max", "min", "argmax", "argmin", "logsumexp", "mean", "softmax", "any", "all"):
    special(f"{name}-row", lambda o, x, n=name: getattr(o, n)(x, axis=1), X)
for dtype in ("int32", "int64"):
    special(f"cast-{dtype}", lambda o, x, d=dtype: o.cast(x, d), X)
for divisor in (3, -7):
    for name in ("floor_divide", "mod"):
        special(f"{name}-{divisor}", lambda o, x, n=name, d=divisor: getattr(o, n)(x, d), _LIMITS)
for dtype in ("int8", "uint8", "int16", "uint16"):
    info = np.iinfo(dtype)
    x = np.array([[info.max, info.max, info.min], [info.max, 3, 2]], dtype)
    for name in ("sum", "prod", "cumsum", "max"):
        special(f"{name}-{dtype}", lambda o, x, n=name: getattr(o, n)(x, axis=1), x)
    if info.bits == 8:  # TensorFlow 2.21 has zeros for products of 16 bits
        special(f"matmul-{dtype}", lambda o, x, y: o.matmul(x, o.transpose(y)), x, x)
        special(f"einsum-{dtype}", lambda o, x, y: o.einsum("ij,kj->ik", x, y), x, x)
for name in ("nansum", "nanprod"):
    for dtype in ("int32", "int8", "uint8", "bool"):
        x = np.array([[1, 0, 7, 3], [0, 0, 2, 120]]).astype(dtype)
        special(f"{name}-{dtype}", lambda o, x, n=name: getattr(o, n)(x, axis=1), x)
for name in ("nanmax", "nanmin"):
    x = np.array([[True, False], [True, True], [False, False]])
    special(f"{name}-bool", lambda o, x, n=name: getattr(o, n)(x, axis=1), x)
for name in ("relu", "relu6"):
    special(f"{name}-int32", lambda o, x, n=name: getattr(o, n)(x), _LIMITS)
special("erfc", lambda o, x: o.erfc(x), np.array([[-30, -1, 0.4, 0.5, 1, 3, 5, 9, 30]], np.float32))
_ORDERED = np.array([[3, -np.inf, 0.5, 3, np.inf, -2], [1, 1, 0, 0, 1, 2]], np.float32)
for axis in (1, -1):
    special(f"sort{axis}", lambda o, x, a=axis: o.sort(x, axis=a), _ORDERED)
    special(f"argsort{axis}", lambda o, x, a=axis: o.argsort(x, axis=a), _ORDERED)
special("sort-int", lambda o, x: o.sort(x, axis=-1), _LIMITS)
special("top_k", lambda o, x: o.top_k(x, 4)[0], _ORDERED)
special("top_k-places", lambda o, x: o.top_k(x, 4)[1], _ORDERED)
