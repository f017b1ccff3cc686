"""Numbers that are rounded to few bits, and scaled integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.tensorflow.calls import FlowCall, operator
from infuse.frontends.tensorflow.tensors import dtype_of
from infuse.ir.graph import Value


def _nudged(low: Any, high: Any, bits: int, narrow: bool) -> tuple[Any, Any, Any]:
    """The limits moved so that zero is one of the steps, and the step."""
    first, last = np.float32(int(narrow)), np.float32((1 << bits) - 1)
    low, high = np.asarray(low, np.float32), np.asarray(high, np.float32)
    if np.any(low > 0) or np.any(high < 0) or np.any(low >= high):
        raise ModelFileError(f"it rounds between {low.tolist()} and {high.tolist()}")
    step = (high - low) / (last - first)
    zero = first - low / step
    zero = np.where(zero < first, first, np.where(zero > last, last, np.floor(zero + 0.5)))
    return (first - zero) * step, (last - zero) * step, step


def _rounded(call: FlowCall, low: Any, high: Any) -> Value:
    bits = int(call.option("num_bits", 8))
    if not 2 <= bits <= 16:
        raise ModelFileError(f"it has {bits} bits")
    first, last, step = _nudged(low, high, bits, bool(call.option("narrow_range", False)))
    g, x = call.g, call.raw(0)
    first, last = (g.constant(np.asarray(v, np.float32)) for v in (first, last))
    limited = g("Min", g("Max", x, first), last)
    inverse = g.constant(np.asarray(np.float32(1) / step, np.float32))
    steps = g("Floor", g("Add", g("Mul", g("Sub", limited, first), inverse), 0.5))
    return g("Add", g("Mul", steps, g.constant(np.asarray(step, np.float32))), first)


@operator("FakeQuantWithMinMaxArgs")
def fake_quant(call: FlowCall) -> Value:
    """Real numbers rounded to those that some number of bits has between two limits."""
    return _rounded(call, call.option("min", -6.0), call.option("max", 6.0))


@operator("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quant_of_operands(call: FlowCall) -> Value:
    """The same, with limits that are operands: for each channel, or of all."""
    low, high = call.const(1), call.const(2)
    if low is None or high is None:
        raise call.unsupported("rounding between computed limits")
    return _rounded(call, low, high)


@operator("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4")
def there_and_back(call: FlowCall) -> Value:
    """Real numbers rounded to those that scaled integers stand for."""
    if not call.option("range_given", True) or int(call.option("axis", -1)) != -1:
        raise call.unsupported("rounding by the range of the operand itself, or by channels,")
    bits = call.one(3) if call.has(3) else int(call.option("num_bits", 8))
    signed, narrow = bool(call.option("signed_input", True)), call.option("narrow_range", False)
    low, high = call.const(1), call.const(2)
    if low is None or high is None:
        raise call.unsupported("rounding between computed limits")
    if not 1 < bits < 32:
        raise ModelFileError(f"it has {bits} bits")
    least = -(1 << bits - 1) + int(bool(narrow)) if signed else 0
    most = (1 << bits - 1) - 1 if signed else (1 << bits) - 1
    below, above = (np.float32(np.asarray(v).reshape(())) for v in (low, high))
    scales = [np.float32(n) / v for n, v in ((least, below), (most, above)) if n * v > 0]
    if not scales:
        raise ModelFileError(f"it rounds between {below} and {above}")
    scale = min(scales)
    limits = np.float32(least) / scale, np.float32(most) / scale
    g, x = call.g, call.raw(0)
    x = g("Min", g("Max", x, g.constant(limits[0])), g.constant(limits[1]))
    scaled = g("Mul", x, g.constant(np.float32(scale)))
    even = call.text("round_mode", "HALF_TO_EVEN", "HALF_UP") == "HALF_TO_EVEN"
    whole = g("Round", scaled) if even else g("Floor", g("Add", scaled, 0.5))
    return g("Mul", whole, g.constant(np.float32(1) / np.float32(scale)))


@operator("Dequantize")
def dequantize(call: FlowCall) -> Value:
    """Scaled integers as real numbers, by the range that they stand for."""
    g, x = call.g, call.raw(0)
    if int(call.option("axis", -1)) != -1 or call.type("dtype", 1) != dtypes.float32:
        raise call.unsupported("dequantization by channels, or to another type than float32,")
    kind = dtype_of(call.option("T", 12))
    info = np.iinfo(kind.numpy)
    low, high = g.cast(call.raw(1), dtypes.float32), g.cast(call.raw(2), dtypes.float32)
    real, least, most = g.cast(x, dtypes.float32), float(info.min), float(info.max)
    mode = call.text("mode", "MIN_COMBINED", "MIN_FIRST", "SCALED")
    if mode == "SCALED":
        if kind.is_signed:
            narrow = int(bool(call.option("narrow_range", False)))
            factor = g("Max", g("Div", low, least + narrow), g("Div", high, most))
            return g("Mul", real, factor)
        return g("Mul", real, g("Div", high, most))
    step = g("Div", g("Sub", high, low), most - least)
    if mode == "MIN_COMBINED" and kind.is_signed:
        real = g("Add", real, (most - least + 1) / 2)
        return g("Add", g("Mul", real, step), low)
    return g("Add", g("Mul", g("Sub", real, least), step), low)
