"""Functions of scaled integers whose last unit depends on how LiteRT rounds: as its delegate does
where that takes them, and else as its kernels do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.frontends.tflite.calls import BYTES, LiteCall, builtin, parameters
from infuse.frontends.tflite.model import Quantization
from infuse.ir.graph import Array, Value
from infuse.tracing.semantics import rounded_tables as tables
from infuse.tracing.semantics.fixed_point import factor, looked_up, scaled

_COMPARED: Final = {
    "EQUAL": "Equal", "LESS": "Less", "GREATER": "Greater", "LESS_EQUAL": "LessOrEqual",
    "GREATER_EQUAL": "GreaterOrEqual",
}  # fmt: skip
_SHORT: Final = (dtypes.int16,)
_Table = Callable[[float, int, float, int], Array | None]
"""Makes the results of all numbers of int16 from the scales and zero points of operand and result;
None where LiteRT has no table.
"""
_STEEP: Final = 2.0**7
"""Above which, and below whose inverse, the delegate takes no slope."""


def scales(call: LiteCall, types: Sequence[DType] = BYTES) -> tuple[float, int, float, int] | None:
    """Scale and zero point of an operand of one of these types and of the result, which has the
    same; None where they are not that.
    """
    given = call.steps(0, types)
    if given is None:
        return None
    result, dtype = call.result(), call.raw(0).dtype
    other = result.quantization if result.quantized and result.dtype == dtype else None
    if other is None or not other.single:
        return None
    (scale, zero), (step, shift) = (parameters(q, dtype) for q in (given, other))
    return float(scale), int(zero), float(step), int(shift)


def _stored(call: LiteCall, zero: int) -> tuple[Array, np.iinfo[np.integer]]:
    """All elements of the operand's type in order, less the zero point, and its limits."""
    info = np.iinfo(call.raw(0).dtype.numpy)
    return np.arange(info.min, info.max + 1) - zero, info


def _tabled(call: LiteCall, table: _Table) -> Value | None:
    """A function of int16 by its table, which scales and zero points make; None of other types."""
    known = scales(call, _SHORT)
    found = None if known is None else table(*known)
    return None if found is None else looked_up(call.g, call.raw(0), found)


def _lined(function: Callable[[Array], Array]) -> _Table:
    return lambda *known: tables.between(function, *known)


def _symmetric(table: Callable[[float], Array | None]) -> _Table:
    """A table that there is without zero points, and for a result in steps of 2⁻¹⁵."""
    return lambda scale, zero, step, shift: (
        table(scale) if (zero, step, shift) == (0, 2.0**-15, 0) else None
    )


def _logarithm(scale: float, zero: int, step: float, shift: int) -> Array:
    """Of what is not positive, the least number."""
    least = np.float32(step) * np.float32(np.iinfo(np.int16).min - shift)
    return tables.between(tables.logarithm(least), scale, zero, step, shift)


def _function(kind: str, table: _Table) -> Callable[[LiteCall], Value]:
    """An operator; of int16 its table."""

    def build(call: LiteCall) -> Value:
        y = _tabled(call, table)
        return call.g(kind, call.real(0)) if y is None else y

    return build


builtin("EXP")(_function("Exp", _lined(tables.exponential)))
builtin("LOG")(_function("Log", _logarithm))
builtin("LOGISTIC")(_function("Sigmoid", _symmetric(tables.logistic)))
builtin("TANH")(_function("Tanh", _symmetric(tables.tanh)))


@builtin("GELU")
def gelu(call: LiteCall) -> Value:
    """The Gaussian error linear unit."""
    approximate = bool(call.option("approximate", False))
    y = _tabled(call, _lined(tables.gelu(approximate)))
    form = "tanh" if approximate else "none"
    return call.g("Gelu", call.real(0), approximate=form) if y is None else y


@builtin("SQRT")
def sqrt(call: LiteCall) -> Value:
    """√x; of int8, the root in whole steps of the result's scale, as LiteRT cuts it off."""
    known = scales(call)
    if known is None and call.result().quantized:
        raise call.unsupported("a root of integers without a scale, or with several,")
    if known is None or call.dtype != dtypes.int8:
        return call.g("Sqrt", call.real(0))
    scale, zero, step, shift = known
    stored, info = _stored(call, zero)
    roots = np.sqrt(np.maximum(stored, 0) * scale) / step
    table = np.clip(np.floor(roots) + shift, info.min, info.max)
    return looked_up(call.g, call.raw(0), table.astype(info.dtype))


@builtin("RSQRT")
def rsqrt(call: LiteCall) -> Value:
    """1 / √x; of bytes and int16, the largest where x is zero."""

    def lines(scale: float, zero: int, step: float, shift: int) -> Array:
        most = np.float32(step) * np.float32(np.iinfo(np.int16).max - shift)
        return tables.between(tables.inverse_root(most), scale, zero, step, shift)

    y = _tabled(call, lines)
    if y is not None:
        return y
    known = scales(call)
    if known is None:
        return call.g("Reciprocal", call.g("Sqrt", call.real(0)))
    scale, zero, step, shift = known
    stored, info = _stored(call, zero)
    bits = 20  # behind the point of the root's inverse
    inverse = np.rint(2.0**bits / np.sqrt(np.maximum(stored, 1))).astype(np.int64)
    m, power = factor(float(np.float32(1) / (np.sqrt(np.float32(scale)) * np.float32(step))))
    found = scaled(inverse, m, power - bits) + shift
    table = np.where(stored > 0, np.clip(found, info.min, info.max), info.max)
    return looked_up(call.g, call.raw(0), table.astype(info.dtype))


def _sloped(call: LiteCall, alpha: float) -> Value | None:
    """Bytes times alpha where they are negative, as bytes of another scale: slopes have 8 bits
    behind the point, and halves go up. None where the delegate takes no such call.
    """
    g, known = call.g, scales(call)
    if known is None:
        return None
    scale, zero, step, shift = known
    ratio = np.float32(scale) / np.float32(step)
    slopes = [float(np.float32(s)) for s in (ratio, ratio * np.float32(alpha))]
    if not all(1 / (2 * _STEEP) <= abs(slope) <= _STEEP for slope in slopes):
        return None
    one, dtype = np.float32(1), call.raw(0).dtype.numpy
    x = g("DequantizeLinear", call.raw(0), g.constant(one), g.constant(np.asarray(zero, dtype)))
    up, down = (g("Mul", x, np.rint(256 * slope) / 256) for slope in slopes)
    y = up if alpha == 1 else g("Where", g("Less", x, g.number(0, x.dtype)), down, up)
    whole = g("Floor", g("Add", y, 0.5))
    return g("QuantizeLinear", whole, g.constant(one), g.constant(np.asarray(shift, dtype)))


@builtin("LEAKY_RELU")
def leaky_relu(call: LiteCall) -> Value:
    """X, and alpha · x where x is negative."""
    alpha = float(call.option("alpha", 0.0))

    def table(scale: float, zero: int, step: float, shift: int) -> Array:
        return tables.sloped(scale, zero, step, shift, alpha)

    y = _tabled(call, table)
    y = _sloped(call, alpha) if y is None else y
    return call.g("LeakyRelu", call.real(0), alpha=alpha) if y is None else y


@builtin("QUANTIZE")
def quantize(call: LiteCall) -> Value:
    """Real numbers as scaled integers."""
    if not call.result().quantized:
        raise call.unsupported(f"quantization to {call.dtype} without a scale")
    y = None if call.keeps(0) else _sloped(call, 1.0)
    return call.real(0) if y is None else y


def _compared(kind: str) -> Callable[[LiteCall], Value]:
    def build(call: LiteCall) -> Value:
        # LiteRT orders int16 by the numbers that are stored, whatever their scales.
        if kind != "Equal" and call.raw(0).dtype == call.raw(1).dtype == dtypes.int16:
            return call.g(kind, call.raw(0), call.raw(1))
        a, b = (call.steps(index, (*BYTES, *_SHORT)) for index in (0, 1))
        if a is None or b is None:
            return call.g(kind, call.real(0), call.real(1))
        return call.g(kind, _in_steps(call, 0, a), _in_steps(call, 1, b))

    return build


def _in_steps(call: LiteCall, index: int, quantization: Quantization) -> Value:
    """Scaled integers in steps of 1/256, as LiteRT compares them."""
    dtype = call.raw(index).dtype
    scale, zero = parameters(quantization, dtype)
    info = np.iinfo(dtype.numpy)
    stored = np.arange(info.min, info.max + 1, dtype=np.int64) - int(zero)
    table = scaled(stored << 8, *factor(float(scale))).astype(np.int32)
    return looked_up(call.g, call.raw(index), table)


for _name, _kind in _COMPARED.items():
    builtin(_name)(_compared(_kind))


builtin("NOT_EQUAL")(lambda call: call.g("Not", _compared("Equal")(call)))
