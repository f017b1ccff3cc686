"""Functions of JAX on special values, beside JAX: `python -m benchmarks.jax_values [--only abs]`.

NaN, zeros of both signs, infinities, the limits of integers and all pairs of these, axes of no and
of one element. The same values of TensorFlow, Keras and Paddle, which are not among what tests
install, are recorded by `python -m tests.models.make_tensorflow special`, `make_keras special` and
`make_paddle pir special`; scaled integers of LiteRT run in `python -m benchmarks.tflite_bytes`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import infuse
from infuse.errors import InfuseError
from infuse.ops.core.evaluate import evaluate

ROW = np.array(
    [np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0, -1.0, 0.5, -2.5, 3e9, -1e10, 88.0, -20.0, 1e-9],
    np.float32,
)
Y, X = (side.copy() for side in np.meshgrid(ROW, ROW))
UNARY = [
    "abs",
    "arcsinh",
    "arctan",
    "arccosh",
    "cbrt",
    "ceil",
    "cos",
    "cosh",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log1p",
    "log2",
    "negative",
    "reciprocal",
    "rint",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
    "nan_to_num",
    "degrees",
]
ACTIVATIONS = [
    "relu",
    "relu6",
    "sigmoid",
    "softplus",
    "silu",
    "gelu",
    "elu",
    "leaky_relu",
    "selu",
    "hard_tanh",
    "log_sigmoid",
    "softmax",
    "log_softmax",
    "soft_sign",
    "hard_sigmoid",
    "celu",
    "mish",
]
BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "power",
    "equal",
    "not_equal",
    "less",
    "greater_equal",
    "floor_divide",
    "remainder",
    "fmod",
    "arctan2",
    "hypot",
    "copysign",
    "logaddexp",
    "heaviside",
]
REDUCED = [
    "sum",
    "max",
    "min",
    "mean",
    "prod",
    "argmax",
    "argmin",
    "cumsum",
    "any",
    "all",
    "nanmax",
    "nansum",
    "median",
    "sort",
    "argsort",
    "cumprod",
    "ptp",
]
WHOLE = [
    "add",
    "subtract",
    "multiply",
    "maximum",
    "minimum",
    "floor_divide",
    "remainder",
    "fmod",
    "bitwise_and",
    "left_shift",
    "right_shift",
    "divide",
    "equal",
    "less",
]
Case = tuple[str, Callable[..., Any], tuple[np.ndarray, ...]]


def cases() -> Iterator[Case]:
    """Names, functions and what they are called with."""
    for name in UNARY:
        yield name, getattr(jnp, name), (X,)
    for name in ACTIVATIONS:
        yield name, getattr(jax.nn, name), (X,)
    for name in BINARY:
        yield name, getattr(jnp, name), (X, Y)
    for name in REDUCED:
        for axis in (0, 1):
            yield f"{name}-{axis}", _along(getattr(jnp, name), axis), (X,)
        yield f"{name}-one", _along(getattr(jnp, name), 1), (X[:, 1:2].copy(),)
    for name in ("sum", "prod", "any", "all"):
        yield f"{name}-empty", _along(getattr(jnp, name), 1), (np.zeros((3, 0), np.float32),)
    for axis in (0, 1):
        yield f"logsumexp-{axis}", _along(jax.nn.logsumexp, axis), (X,)
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "bool", "float16"):
        yield f"cast-{dtype}", _cast(dtype), (X,)
    bounds = np.array([-1.0, 0.0, 0.5], np.float32)
    yield "searchsorted", lambda x: jnp.searchsorted(bounds, x), (ROW,)
    yield "clip", lambda x: jnp.clip(x, -1, 1), (X,)
    yield "where", lambda x, y: jnp.where(x > y, x, y), (X, Y)
    yield "top_k", lambda x: jax.lax.top_k(x, 5), (X,)
    yield from _integers()


def _integers() -> Iterator[Case]:
    for dtype in ("int8", "uint8", "int16", "int32", "uint32"):
        info = np.iinfo(dtype)
        signed = [-1, -2, -7, -100] if info.min else []
        row = np.array([info.min, info.max, info.max - 1, 0, 1, 2, 7, 100, *signed], dtype)
        a, b = (side.copy() for side in np.meshgrid(row, row))
        for name in WHOLE:
            yield f"{name}-{dtype}", getattr(jnp, name), (a, b)
        for name in (
            "abs",
            "sign",
            "negative",
            "square",
            "sum",
            "prod",
            "cumsum",
            "argmax",
            "mean",
        ):
            yield f"{name}-{dtype}", getattr(jnp, name), (row,)


def _along(function: Callable[..., Any], axis: int) -> Callable[[Any], Any]:
    return lambda x: function(x, axis=axis)


def _cast(dtype: str) -> Callable[[Any], Any]:
    return lambda x: x.astype(dtype)


def difference(function: Callable[..., Any], args: tuple[np.ndarray, ...]) -> str:
    """What Infuse answers otherwise than JAX; nothing where all is the same."""
    expected = [np.asarray(value) for value in jax.tree.leaves(function(*map(jnp.asarray, args)))]
    try:
        graph = infuse.from_jax(function, args)
        made = evaluate(graph, dict(zip((v.name for v in graph.inputs), args)))
    except InfuseError as error:
        return f"refused: {str(error)[:150]}"
    for ours, right in zip(made.values(), expected, strict=True):
        if (ours.dtype, ours.shape) != (right.dtype, right.shape):
            return f"{ours.dtype}{ours.shape}, and not {right.dtype}{right.shape}"
        close = ours == right
        if right.dtype.kind == "f":
            close = np.isclose(ours, right, rtol=1e-5, atol=3e-9, equal_nan=True)
        if not close.all():
            place = np.argwhere(~close)[0]
            at = tuple(int(i) for i in place)
            given = [float(x[at]) for x in args if x.shape == right.shape]
            return f"{np.sum(~close)} differ: of {given} {ours[at]}, and not {right[at]}"
    return ""


def main() -> None:
    """Print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names, with commas")
    only = set(filter(None, parser.parse_args().only.split(",")))
    count = wrong = 0
    for name, function, args in cases():
        if only and name.partition("-")[0] not in only:
            continue
        why, count = difference(function, args), count + 1
        wrong += bool(why)
        if why:
            print(f"{name:24} {why}")
    print(f"{count} calls, {count - wrong} as JAX")


if __name__ == "__main__":
    main()
