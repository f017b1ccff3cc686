"""Operations of `keras.ops` that are put together of others, on special values:
`FUNCTIONS[name](keras)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.models.keras_cases import Case, floats

FUNCTIONS: dict[str, Callable[[Any], Case]] = {}
_ROW = np.array([np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0, -1.5, 2.5, -20.0, 60.0], np.float32)
X, Y = (side.copy() for side in np.meshgrid(_ROW, _ROW))
RANKED = np.stack([np.roll(_ROW, i) for i in range(6)])
RANKED[4, 1:] = np.nan
RANKED[3] = np.nan
RANKED[5] = [-np.inf, np.nan] * 5
NUMBERS = np.array([[3, -1.5, 0.5, 9, 2], [1, 1, -np.inf, 0, 4], [5, np.inf, 2, 7, -3]], np.float32)
WHOLE = np.array([[0, 1, -1, 127, -128, 5], [7, 40, 3, -6, 2, 9]], np.int32)


def functions(name: str, build: Callable[..., Any], *feeds: np.ndarray) -> None:
    """`build(ops, *inputs)` gives the results."""

    def make(keras: Any) -> Case:
        given = [keras.Input(batch_shape=(None, *f.shape[1:]), dtype=f.dtype.name) for f in feeds]
        return keras.Model(given, build(keras.ops, *given)), list(feeds)

    FUNCTIONS[name] = make


for name in ("argmax", "argmin", "nanargmax", "nanargmin", "nanmax", "nanmin", "nanmedian",
             "nanvar", "nanstd", "median", "nancumsum"):  # fmt: skip
    functions(name, lambda o, x, n=name: getattr(o, n)(x, axis=1), RANKED)
    functions(f"{name}-down", lambda o, x, n=name: getattr(o, n)(x, axis=0), RANKED.T.copy())
    functions(f"{name}-numbers", lambda o, x, n=name: getattr(o, n)(x, axis=-1), NUMBERS)
for name in ("argmax", "nanargmin", "nanmax", "median", "nanvar"):
    functions(f"{name}-kept", lambda o, x, n=name: getattr(o, n)(x, keepdims=True), NUMBERS)
for method in ("linear", "lower", "higher", "nearest", "midpoint"):
    functions(
        f"quantile-{method}",  # a model of Keras 3.15 forgets the method here
        lambda o, x, m=method: o.quantile(x, [0.0, 0.3, 1.0], axis=1, method=m), NUMBERS,
    )  # fmt: skip
    functions(
        f"percentile-{method}", lambda o, x, m=method: o.percentile(x, [30.0, 90.0], 1, m), NUMBERS
    )
functions("quantile-kept", lambda o, x: o.quantile(x, 0.25, axis=0, keepdims=True), NUMBERS)
functions("percentile", lambda o, x: o.percentile(x, [10, 60], axis=1), NUMBERS)
functions("nanquantile", lambda o, x: o.nanquantile(x, 0.9, axis=1), RANKED)
functions("nanpercentile", lambda o, x: o.nanpercentile(x, 35, axis=1), RANKED)
for name in ("cbrt", "sinc", "signbit", "i0", "erfinv", "angle", "conj", "real", "imag", "isreal"):
    functions(name, lambda o, x, n=name: getattr(o, n)(x), X)
functions("erfinv-inside", lambda o, x: o.erfinv(x), np.linspace(-1, 1, 21, dtype=np.float32)[None])
for name in ("heaviside", "logaddexp2", "fmod", "isclose", "nextafter"):
    functions(name, lambda o, x, y, n=name: getattr(o, n)(x, y), X, Y)
functions("fmod-int", lambda o, x, y: o.fmod(x, y), WHOLE, WHOLE[:, ::-1] | 1)
functions("isclose-nan", lambda o, x, y: o.isclose(x, y, equal_nan=True), X, Y)
functions(
    "ldexp", lambda o, x, y: o.ldexp(x, y), NUMBERS, np.array([[3, -2, 200, 0, 1]] * 3, np.int32)
)
functions("allclose", lambda o, x: [o.allclose(x, x), o.allclose(x, x + 1e-7)], NUMBERS)
for name in ("left_shift", "right_shift"):
    for dtype in ("int32", "uint8"):
        functions(
            f"{name}-{dtype}", lambda o, x, y, n=name: getattr(o, n)(x, y), WHOLE.astype(dtype),
            np.abs(WHOLE[:, ::-1]).astype(dtype),
        )  # fmt: skip
functions("digitize", lambda o, x: o.digitize(x, np.array([-1.0, 0.0, 2.5], np.float32)), X)
functions("isin", lambda o, x, y: o.isin(x, y), X, np.roll(_ROW, 3) * 2)
functions("isin-not", lambda o, x, y: o.isin(x, y, invert=True), X, np.roll(_ROW, 3) * 2)
functions("trapezoid", lambda o, x: o.trapezoid(x, dx=0.5, axis=0), NUMBERS)
functions("trapezoid-rows", lambda o, x: o.trapezoid(x, axis=-1), WHOLE)
functions("corrcoef", lambda o, x: o.corrcoef(x), np.abs(WHOLE) % 11)
for side in ("left", "right"):
    functions(
        f"searchsorted-{side}", lambda o, b, x, s=side: o.searchsorted(b, x, side=s),
        np.array([-30, -1.5, 0, 0, 2.5, 2.5, 3, 3, 60, 70], np.float32), _ROW,
    )  # fmt: skip


def _rows_in_four_bits(blocks: int) -> Callable[[Any], Case]:
    def make(keras: Any) -> Case:
        x = keras.Input((3,), dtype="int32")
        model = keras.Model(x, keras.layers.Embedding(6, 7)(x))
        model.layers[1].embeddings.assign(floats((6, 7))[0])
        quantizers = keras.quantizers
        plan = quantizers.Int4QuantizationConfig(
            weight_quantizer=None, activation_quantizer=None, block_size=blocks
        )
        model.quantize("int4", config=plan)
        return model, [np.array([[0, 5, 2], [4, 4, 1]], np.int32)]

    return make


FUNCTIONS["Embedding-int4"] = _rows_in_four_bits(-1)
FUNCTIONS["Embedding-int4-blocks"] = _rows_in_four_bits(4)
