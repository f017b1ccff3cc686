"""More operations of `keras.ops`, special values included: `NUMERIC[name](keras)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.models.keras_cases import Case, floats

NUMERIC: dict[str, Callable[[Any], Case]] = {}
_ROW = np.array([np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0, -1.5, 2.5, -20.0, 60.0], np.float32)
Y, X = (side.copy() for side in np.meshgrid(_ROW, _ROW))
WHOLE = np.array([[0, 1, -1, 127, -128, 5], [7, 0, 3, -6, 2, 9]], np.int32)
IMAGE, ROWS = floats((7, 6, 4)), floats((3, 4))
PAIRS = floats((3, 3)) + 3 * np.eye(3, dtype=np.float32)
POSITIVE = PAIRS @ PAIRS.transpose(0, 2, 1)


def numeric(name: str, build: Callable[..., Any], *feeds: np.ndarray) -> None:
    """`build(ops, *inputs)` gives the results."""

    def make(keras: Any) -> Case:
        given = [keras.Input(batch_shape=(None, *f.shape[1:]), dtype=f.dtype.name) for f in feeds]
        return keras.Model(given, build(keras.ops, *given)), list(feeds)

    NUMERIC[name] = make


for name in ("deg2rad", "rad2deg", "exp2", "trunc", "isposinf", "isneginf", "nan_to_num"):
    numeric(name, lambda o, x, n=name: getattr(o, n)(x), X)
for name in ("hypot", "logaddexp", "fmax", "fmin", "divide_no_nan"):
    numeric(name, lambda o, x, y, n=name: getattr(o, n)(x, y), X, Y)
    numeric(
        f"{name}-int", lambda o, x, y, n=name: getattr(o, n)(x, y), WHOLE, WHOLE[:, ::-1].copy()
    )
for name in ("nansum", "nanprod", "nanmean", "median"):
    numeric(f"{name}-row", lambda o, x, n=name: getattr(o, n)(x, axis=1), X)
    numeric(f"{name}-kept", lambda o, x, n=name: getattr(o, n)(x, axis=-1, keepdims=True), ROWS)
for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    numeric(name, lambda o, x, y, n=name: getattr(o, n)(x, y), WHOLE, WHOLE[:, ::-1].copy())
numeric("bitwise_not", lambda o, x: o.bitwise_not(x), WHOLE)
numeric("nan_to_num-numbers", lambda o, x: o.nan_to_num(x, 7.0, 8.0, -9.0), X)
numeric("select", lambda o, x, y: o.select([x > 1, x < 0], [x, y], 5.0), X, Y)
numeric("saturate_cast", lambda o, x: o.saturate_cast(x, "int8"), X[1:] * 100)
numeric("ptp", lambda o, x: o.ptp(x, axis=1), WHOLE)
numeric("count_nonzero", lambda o, x: o.count_nonzero(x, axis=1), X)
numeric("average", lambda o, x: o.average(x, axis=1), ROWS)
numeric("average-int", lambda o, x: o.average(x, axis=1), WHOLE)
numeric("average-shares", lambda o, x, w: o.average(x, axis=-1, weights=w), ROWS, np.abs(ROWS))
numeric("moments", lambda o, x: list(o.moments(x, axes=[1])), ROWS)
numeric("moments-kept", lambda o, x: list(o.moments(x, axes=[1, 2], keepdims=True)), ROWS)
numeric("cumprod", lambda o, x: o.cumprod(x, axis=1), ROWS)
numeric("diff", lambda o, x: o.diff(x, n=2, axis=1), WHOLE)
numeric("dot", lambda o, x, y: o.dot(x, y[0]), ROWS, floats((4, 5)))
numeric("outer", lambda o, x, y: o.outer(x, y), ROWS[0], ROWS[1])
numeric("vdot", lambda o, x, y: o.vdot(x, y), ROWS, ROWS)
numeric("tensordot", lambda o, x, y: o.tensordot(x, y, axes=[[1, 2], [1, 2]]), ROWS, ROWS)
for name in ("hstack", "vstack", "dstack"):
    numeric(name, lambda o, x, y, n=name: getattr(o, n)([x, y]), ROWS, ROWS)
numeric("roll", lambda o, x: o.roll(x, 2, axis=1), ROWS)
for name in ("average_pool", "max_pool"):
    for padding in ("valid", "same"):
        numeric(
            f"{name}-{padding}",
            lambda o, x, n=name, p=padding: getattr(o, n)(x, 2, strides=(2, 3), padding=p), IMAGE,
        )  # fmt: skip
    numeric(f"{name}-1d", lambda o, x, n=name: getattr(o, n)(x, 2), ROWS)
    numeric(f"adaptive_{name}", lambda o, x, n=name: getattr(o, f"adaptive_{n}")(x, (3, 2)), IMAGE)
for kind, size in (("bilinear", (9, 4)), ("nearest", (9, 4)), ("bicubic", (14, 12))):
    # TensorFlow reads cubic weights from a table of 1,024 places, which these sizes hit.
    numeric(
        f"resize-{kind}", lambda o, x, k=kind, s=size: o.image.resize(x, s, interpolation=k), IMAGE
    )
numeric("depth_to_space", lambda o, x: o.depth_to_space(x, 2), IMAGE)
numeric("space_to_depth", lambda o, x: o.space_to_depth(x[:, :6], 2), IMAGE)
_IDS = np.array([2, 0, 2, 1, -1, 0], np.int32)
for name in ("segment_sum", "segment_max", "segment_min", "segment_prod"):
    for dtype in ("float32", "int32"):
        rows = (np.concatenate([ROWS[0], ROWS[1]]) * 5).astype(dtype)
        numeric(
            f"{name}-{dtype}", lambda o, x, i, n=name: getattr(o, n)(x, i, num_segments=5),
            rows, _IDS,
        )  # fmt: skip
for name in ("det", "inv", "slogdet"):
    numeric(name, lambda o, x, n=name: getattr(o, n)(x), PAIRS)
for name in ("logdet", "cholesky"):
    numeric(name, lambda o, x, n=name: getattr(o, n)(x), POSITIVE)
numeric("solve", lambda o, x, y: o.solve(x, y), PAIRS, floats((3, 2)))


def _in_four_bits(blocks: int | None, steps: bool) -> Callable[[Any], Case]:
    def make(keras: Any) -> Case:
        x = keras.Input((6,))
        model = keras.Model(x, keras.layers.Dense(5, activation="relu")(x))
        model.layers[1].kernel.assign(floats((6, 5))[0])
        quantizers = keras.quantizers
        rounding = quantizers.AbsMaxQuantizer(axis=-1) if steps else None
        plan = quantizers.Int4QuantizationConfig(
            weight_quantizer=None, activation_quantizer=rounding, block_size=blocks
        )
        model.quantize("int4", config=plan)
        return model, [floats((6,))]

    return make


NUMERIC["Dense-int4"] = _in_four_bits(-1, False)
NUMERIC["Dense-int4-steps"] = _in_four_bits(-1, True)
NUMERIC["Dense-int4-blocks"] = _in_four_bits(4, False)
