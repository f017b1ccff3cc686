"""Operators that compute every element by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.tflite.calls import LiteCall, activation, builtin
from infuse.ir.graph import Value
from infuse.tracing.semantics import arithmetic

_LIMITED: Final = {"RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1), "RELU_0_TO_1": (0, 1)}
_ARITHMETIC: Final = {"ADD": "Add", "SUB": "Sub", "MUL": "Mul", "DIV": "Div"}


def _limited(low: float, high: float) -> Callable[[LiteCall], Value]:
    def build(call: LiteCall) -> Value:
        x = call.real(0)
        return call.g("Clip", x, call.g.number(low, x.dtype), call.g.number(high, x.dtype))

    return build


def _arithmetic(kind: str) -> Callable[[LiteCall], Value]:
    return lambda call: call.activated(call.g(kind, call.real(0), call.real(1)))


def _extreme(kind: str, better: str) -> Callable[[LiteCall], Value]:
    """The first operand where it is better, else the second, also where the first is NaN."""

    def build(call: LiteCall) -> Value:
        x, y = call.moved(0, 1)
        if x.dtype.is_float:
            return call.g("Where", call.g(better, x, y), x, y)
        return call.g(kind, x, y)

    return build


for _name, (_low, _high) in _LIMITED.items():
    builtin(_name)(_limited(_low, _high))
for _name, _kind in _ARITHMETIC.items():
    builtin(_name)(_arithmetic(_kind))
builtin("HARD_SWISH")(lambda call: call.g("HardSwish", call.real(0)))
builtin("DENSIFY")(lambda call: call.raw(0))
builtin("MAXIMUM")(_extreme("Max", "Greater"))
builtin("MINIMUM")(_extreme("Min", "Less"))


# -- types -----------------------------------------------------------------------------------------


@builtin("CAST")
def cast(call: LiteCall) -> Value:
    """Elements in another type; a float is cut off toward zero, and within the integers of the
    type. Of complex numbers, the real parts count.
    """
    g, to = call.g, call.dtype
    if call.is_complex(0):
        if to == dtypes.complex64:
            return call.parts(0)
        x = g("Gather", call.parts(0), g.constant(0), axis=-1)
    else:
        x = call.raw(0)
    if to == dtypes.complex64:
        return g.pad(g("Unsqueeze", g.cast(x, dtypes.float32), g.ints(-1)), x.rank, 0, 1)
    if x.dtype.is_float and to.is_integer:
        return arithmetic.saturated(g, x, to)
    return g.cast(x, to)


@builtin("DEQUANTIZE")
def dequantize(call: LiteCall) -> Value:
    """Scaled integers or short floats as float32."""
    x = call.real(0)
    if not x.dtype.is_float:
        raise ModelFileError(f"the {x.dtype} that it dequantizes have no scale")
    return call.g.cast(x, dtypes.float32)


@builtin("FAKE_QUANT")
def fake_quant(call: LiteCall) -> Value:
    """Real numbers rounded to those that some number of bits has between two limits; NaN to the
    lowest.
    """
    g, x = call.g, call.real(0)
    low, high = float(call.option("min", 0.0)), float(call.option("max", 0.0))
    bits = int(call.option("num_bits", 8))
    if call.option("narrow_range", False):
        raise call.unsupported("a narrow range")
    if not 2 <= bits <= 16 or not low <= 0 <= high or low == high:
        raise ModelFileError(f"it has {bits} bits between {low} and {high}")
    most = (1 << bits) - 1
    scale = np.float32((high - low) / most)
    zero = float(np.clip(np.rint(-low / scale), 0, most))
    bottom, top = np.float32(-zero * scale), np.float32((most - zero) * scale)
    limited = g("Where", g("Greater", x, bottom), g("Min", x, g.constant(top)), g.constant(bottom))
    shifted = g("Add", g("Mul", g("Sub", limited, bottom), np.float32(1) / scale), 0.5)
    return g("Add", g("Mul", g("Floor", shifted), scale), bottom)


@builtin("SOFTMAX")
def softmax(call: LiteCall) -> Value:
    """Exponentials of beta · x along the last axis, scaled to the sum one."""
    x, beta = call.real(0), float(call.option("beta", 0.0))
    return call.g("Softmax", x if beta == 1 else call.g("Mul", x, beta), axis=-1)


@builtin("L2_NORMALIZATION")
def l2_normalization(call: LiteCall) -> Value:
    """X over its length along the last axis, which is taken for 1e-6 at least."""
    g, x = call.g, call.real(0)
    length = g("ReduceL2", x, g.ints(-1), keepdims=1)
    kind = call.option("activation")
    return activation(g, kind, g("Div", x, g("Max", length, 1e-6)))


@builtin("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(call: LiteCall) -> Value:
    """X over a power of the squares of its neighbours along the last axis."""
    size = 2 * int(call.option("radius")) + 1
    if size < 1:
        raise ModelFileError(f"it has the radius {(size - 1) // 2}")
    alpha = float(call.option("alpha", 0.0)) * size
    beta, bias = float(call.option("beta", 0.0)), float(call.option("bias", 0.0))
    y = call.g("LRN", call.real(0, 0, 3, 1, 2), size=size, alpha=alpha, beta=beta, bias=bias)
    return call.g.permute(y, 0, 2, 3, 1)
