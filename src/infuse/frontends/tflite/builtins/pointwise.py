"""Operators that compute every element by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.tflite.calls import Call, activation, builtin
from infuse.ir.graph import Value
from infuse.tracing.semantics import arithmetic

_UNARY: Final = {
    "ABS": "Abs", "CEIL": "Ceil", "COS": "Cos", "ELU": "Elu", "FLOOR": "Floor",
    "HARD_SWISH": "HardSwish", "NEG": "Neg", "RELU": "Relu",
    "ROUND": "Round", "SIGN": "Sign", "SIN": "Sin",
}  # fmt: skip
_LIMITED: Final = {"RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1), "RELU_0_TO_1": (0, 1)}
_ARITHMETIC: Final = {"ADD": "Add", "SUB": "Sub", "MUL": "Mul", "DIV": "Div"}


def _unary(kind: str) -> Callable[[Call], Value]:
    return lambda call: call.g(kind, call.real(0))


def _limited(low: float, high: float) -> Callable[[Call], Value]:
    def build(call: Call) -> Value:
        x = call.real(0)
        return call.g("Clip", x, call.g.number(low, x.dtype), call.g.number(high, x.dtype))

    return build


def _arithmetic(kind: str) -> Callable[[Call], Value]:
    return lambda call: call.activated(call.g(kind, call.real(0), call.real(1)))


def _extreme(kind: str, better: str) -> Callable[[Call], Value]:
    """The first operand where it is better, else the second, also where the first is NaN."""

    def build(call: Call) -> Value:
        x, y = call.moved(0, 1)
        if x.dtype.is_float:
            return call.g("Where", call.g(better, x, y), x, y)
        return call.g(kind, x, y)

    return build


for _name, _kind in _UNARY.items():
    builtin(_name)(_unary(_kind))
for _name, (_low, _high) in _LIMITED.items():
    builtin(_name)(_limited(_low, _high))
for _name, _kind in _ARITHMETIC.items():
    builtin(_name)(_arithmetic(_kind))
builtin("MAXIMUM")(_extreme("Max", "Greater"))
builtin("MINIMUM")(_extreme("Min", "Less"))


@builtin("LOGICAL_AND")
def logical_and(call: Call) -> Value:
    """Whether both hold."""
    return call.g("And", call.raw(0), call.raw(1))


@builtin("LOGICAL_OR")
def logical_or(call: Call) -> Value:
    """Whether one holds."""
    return call.g("Or", call.raw(0), call.raw(1))


@builtin("LOGICAL_NOT")
def logical_not(call: Call) -> Value:
    """Whether it does not hold."""
    return call.g("Not", call.raw(0))


@builtin("SQUARE")
def square(call: Call) -> Value:
    """X · x."""
    x = call.real(0)
    return call.g("Mul", x, x)


@builtin("SQUARED_DIFFERENCE")
def squared_difference(call: Call) -> Value:
    """The square of the difference."""
    difference = call.g("Sub", call.real(0), call.real(1))
    return call.g("Mul", difference, difference)


@builtin("ADD_N")
def add_n(call: Call) -> Value:
    """The sum of all operands, which have one shape."""
    first, *others = call.reals()
    for other in others:
        first = call.g("Add", first, other)
    return first


@builtin("POW")
def power(call: Call) -> Value:
    """X to the power y."""
    return call.g("Pow", call.real(0), call.real(1))


@builtin("FLOOR_DIV")
def floor_div(call: Call) -> Value:
    """The quotient, rounded down."""
    g, x, y = call.g, call.real(0), call.real(1)
    if x.dtype.is_float:
        return g("Floor", g("Div", x, y))
    return arithmetic.floor_quotient(g, x, y)


@builtin("FLOOR_MOD")
def floor_mod(call: Call) -> Value:
    """The rest of the quotient that is rounded down: it has the sign of y."""
    return arithmetic.floor_mod(call.g, call.real(0), call.real(1))


@builtin("ATAN2")
def atan2(call: Call) -> Value:
    """The angle of the point (x, y); operand 0 is y."""
    return arithmetic.atan2(call.g, call.real(0), call.real(1))


@builtin("BITWISE_XOR")
def bitwise_xor(call: Call) -> Value:
    """The bits in which two integers differ."""
    return call.g("BitwiseXor", call.raw(0), call.raw(1))


@builtin("RIGHT_SHIFT")
def right_shift(call: Call) -> Value:
    """Integers without their last bits, the sign kept; one bit is left at least."""
    return arithmetic.shifted_within(call.g, call.raw(0), call.raw(1), "RIGHT")


@builtin("PRELU")
def prelu(call: Call) -> Value:
    """X, and alpha · x where x is negative; an alpha for each element of the last axes."""
    x, alpha = call.real(0), call.real(1)
    return call.g("PRelu", x, alpha)


@builtin("ZEROS_LIKE")
def zeros_like(call: Call) -> Value:
    """Zeros of the shape and type of the operand."""
    x = call.raw(0)
    zero = call.g.constant(np.zeros((), x.dtype.numpy))
    return call.g("Expand", zero, call.g("Shape", x))


# -- types -----------------------------------------------------------------------------------------


@builtin("CAST")
def cast(call: Call) -> Value:
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


@builtin("BITCAST")
def bitcast(call: Call) -> Value:
    """The same bytes as elements of another type."""
    x, to = call.raw(0), call.dtype
    if x.dtype.bits != to.bits:
        raise call.unsupported(f"a bitcast from {x.dtype} to {to}, of another size,")
    return call.g("BitCast", x, to=to)


@builtin("DEQUANTIZE")
def dequantize(call: Call) -> Value:
    """Scaled integers or short floats as float32."""
    x = call.real(0)
    if not x.dtype.is_float:
        raise ModelFileError(f"the {x.dtype} that it dequantizes have no scale")
    return call.g.cast(x, dtypes.float32)


@builtin("DENSIFY")
def densify(call: Call) -> Value:
    """A sparse constant, which is made dense where it is read."""
    return call.raw(0)


@builtin("FAKE_QUANT")
def fake_quant(call: Call) -> Value:
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
def softmax(call: Call) -> Value:
    """Exponentials of beta · x along the last axis, scaled to the sum one."""
    x, beta = call.real(0), float(call.option("beta", 0.0))
    return call.g("Softmax", x if beta == 1 else call.g("Mul", x, beta), axis=-1)


@builtin("LOG_SOFTMAX")
def log_softmax(call: Call) -> Value:
    """The logarithm of the softmax along the last axis."""
    return call.g("LogSoftmax", call.real(0), axis=-1)


@builtin("L2_NORMALIZATION")
def l2_normalization(call: Call) -> Value:
    """X over its length along the last axis, which is taken for 1e-6 at least."""
    g, x = call.g, call.real(0)
    length = g("ReduceL2", x, g.ints(-1), keepdims=1)
    kind = call.option("activation")
    return activation(g, kind, g("Div", x, g("Max", length, 1e-6)))


@builtin("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(call: Call) -> Value:
    """X over a power of the squares of its neighbours along the last axis."""
    size = 2 * int(call.option("radius")) + 1
    if size < 1:
        raise ModelFileError(f"it has the radius {(size - 1) // 2}")
    alpha = float(call.option("alpha", 0.0)) * size
    beta, bias = float(call.option("beta", 0.0)), float(call.option("bias", 0.0))
    y = call.g("LRN", call.real(0, 0, 3, 1, 2), size=size, alpha=alpha, beta=beta, bias=bias)
    return call.g.permute(y, 0, 2, 3, 1)


@builtin("BUCKETIZE")
def bucketize(call: Call) -> Value:
    """How many boundaries, which ascend, are not above each element: all for NaN."""
    g, x = call.g, call.raw(0)
    boundaries = call.option("boundaries", None)
    if boundaries is None or not boundaries.size:
        return g("Mul", g.cast(x, dtypes.int32), 0)
    columns = g("Unsqueeze", g.cast(x, dtypes.float32), g.ints(-1))
    reached = g("Not", g("Less", columns, g.constant(boundaries)))
    return g("ReduceSum", g.cast(reached, dtypes.int32), g.ints(-1), keepdims=0)
