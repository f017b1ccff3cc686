"""Operations of `keras.ops` in models, for `make_keras.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.models.keras_cases import case, floats, whole

X, POSITIVE = floats((3, 4)), np.abs(floats((3, 4))) + 0.1


def ops(name: str, build: Callable[..., Any], *feeds: np.ndarray) -> None:
    """`build(ops, *inputs)` gives the result."""
    case(f"ops-{name}", list(feeds) or [X], lambda k, *xs: build(k.ops, *xs))


for name in (
    "exp",
    "sin",
    "cos",
    "tanh",
    "sinh",
    "cosh",
    "erf",
    "sigmoid",
    "softplus",
    "softsign",
    "selu",
    "relu",
    "relu6",
    "silu",
    "gelu",
    "elu",
    "celu",
    "leaky_relu",
    "hard_sigmoid",
    "hard_silu",
    "abs",
    "negative",
    "sign",
    "floor",
    "ceil",
    "round",
    "square",
    "expm1",
    "softmax",
    "log_softmax",
    "mean",
    "sum",
    "max",
    "min",
    "var",
    "std",
    "prod",
    "logsumexp",
    "arctan",
    "normalize",
    "ravel",
    "isnan",
    "ones_like",
    "zeros_like",
    "log_sigmoid",
    "arcsinh",
    "hard_tanh",
):
    ops(name, lambda o, x, n=name: getattr(o, n)(x))
for name in ("log", "sqrt", "rsqrt", "log1p", "reciprocal"):
    ops(name, lambda o, x, n=name: getattr(o, n)(x), POSITIVE)
for name in (
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "floor_divide",
    "mod",
    "equal",
    "not_equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
):
    ops(name, lambda o, x, y, n=name: getattr(o, n)(x, y), X, floats((1, 4)) + 3)
    ops(f"{name}-int", lambda o, x, y, n=name: getattr(o, n)(x, y), whole((4,)), whole((4,)) + 1)
    ops(f"{name}-mixed", lambda o, x, y, n=name: getattr(o, n)(x, y), whole((4,)), floats((4,)) + 3)
    ops(f"{name}-number", lambda o, x, n=name: getattr(o, n)(x, 2))
ops("power", lambda o, x: o.power(x, 3.0), POSITIVE)
ops("matmul", lambda o, x, y: o.matmul(x, y), X, floats((4, 5)))
ops("einsum", lambda o, x, y: o.einsum("bij,bjk->bik", x, y), X, floats((4, 5)))
for name in ("mean", "sum", "max", "min", "var", "any", "all", "argmax", "argmin"):
    ops(f"{name}-axis", lambda o, x, n=name: getattr(o, n)(x, axis=-1))
    ops(f"{name}-keep", lambda o, x, n=name: getattr(o, n)(x, axis=1, keepdims=True))
ops("mean-int", lambda o, x: o.mean(x, axis=1), whole((4,)))
ops("sum-int", lambda o, x: o.sum(x, axis=1), whole((4,)))
ops("mean-axes", lambda o, x: o.mean(x, axis=(1, 2), keepdims=True))
ops("cumsum", lambda o, x: o.cumsum(x, axis=-1))
ops("clip", lambda o, x: o.clip(x, -1, 1))
ops("where", lambda o, x, y: o.where(x > 0, x, y), X, X + 1)
ops("where-number", lambda o, x: o.where(x > 0, x, 0.0))
ops("logical", lambda o, x: o.logical_not(o.logical_and(x > 0, o.logical_or(x < 1, x > 1.5))))
ops("cast", lambda o, x: o.cast(x, "int32"))
ops("cast-bool", lambda o, x: o.cast(x > 0, "float32"))
ops("reshape", lambda o, x: o.reshape(x, (-1, 2, 6)))
ops("reshape-flat", lambda o, x: o.reshape(x, (-1, 12)))
ops("transpose", lambda o, x: o.transpose(x, (0, 2, 1)))
ops("transpose-all", lambda o, x: o.transpose(x))
ops("swapaxes", lambda o, x: o.swapaxes(x, -1, 1))
ops("moveaxis", lambda o, x: o.moveaxis(x, -1, 1))
ops("expand_dims", lambda o, x: o.expand_dims(x, 1))
ops("expand_dims-back", lambda o, x: o.expand_dims(x, -1))
ops("squeeze", lambda o, x: o.squeeze(o.expand_dims(x, 1), 1))
ops("concatenate", lambda o, x, y: o.concatenate([x, y], axis=-1), X, X)
ops("stack", lambda o, x, y: o.stack([x, y], axis=1), X, X)
ops("split", lambda o, x: o.split(x, 2, axis=-1))
ops("split-at", lambda o, x: o.split(x, [1, 3], axis=-1))
ops("unstack", lambda o, x: o.unstack(x, axis=1))
ops("tile", lambda o, x: o.tile(x, (1, 2, 3)))
ops("repeat", lambda o, x: o.repeat(x, 2, axis=1))
ops("flip", lambda o, x: o.flip(x, axis=1))
ops("take", lambda o, x: o.take(x, [2, 0], axis=1))
ops("take_along", lambda o, x, i: o.take_along_axis(x, i, axis=1), X, whole((2, 4), 3))
ops("one_hot", lambda o, x: o.one_hot(x, 5), whole((3,)))
ops("tril", lambda o, x: o.tril(x, k=1))
ops("triu", lambda o, x: o.triu(x))
ops("pad", lambda o, x: o.pad(x, ((0, 0), (1, 2), (0, 1))))
ops("pad-reflect", lambda o, x: o.pad(x, ((0, 0), (1, 2), (0, 1)), mode="reflect"))
for tag, key in {
    "slice": np.s_[:, 1:, ::2],
    "last": np.s_[:, -1],
    "first": np.s_[:, 0, :],
    "dots": np.s_[..., -2:],
    "new": np.s_[:, None, :, 1],
    "back": np.s_[:, ::-1],
}.items():
    ops(f"item-{tag}", lambda o, x, key=key: x[key])
ops("python", lambda o, x: (1 - x) / 2 + x * x - 3.5 + (-x) ** 2)
