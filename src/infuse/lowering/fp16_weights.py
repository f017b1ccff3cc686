"""Weights stored as IEEE half-precision floats (precision fp16): the kernels widen them and compute
in float32.
"""

from __future__ import annotations

import logging
import math
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir.graph import Array, Value
from infuse.lowering.lowering import Lowering

_log = logging.getLogger(__name__)
OVERFLOW: Final = 65520.0
"""From here on a number is rounded to infinity."""
NORMAL: Final = 2.0**-14
"""Below, halves have fewer bits than elsewhere; 2⁻²⁵ and less is rounded to zero."""
BLOCK: Final = 1 << 20
"""Elements that are looked at together."""


def weight_type(low: Lowering, value: Value, growth: float = 1.0) -> DType:
    """What the elements of a constant operand are in the weight file: halves where the precision
    asks for them.

    Only for operands whose kernel reads both. Packing makes elements up to `growth` times larger. A
    tensor that halves do not hold stays as it is; the program's weights remember it with the
    reason.
    """
    if value.const is None or usual_type(low, value) is value.dtype:
        return value.dtype
    reason = why_not(value.const, growth)
    if not reason:
        return dtypes.float16
    name = value.name or f"a constant of shape {list(value.const.shape)}"
    if low.program.weights.float32_reasons.setdefault(name, reason) is reason:
        _log.info("%s stays in float32: %s", name, reason)
    return value.dtype


def usual_type(low: Lowering, value: Value) -> DType:
    """What the elements of a constant operand are in the weight file, where halves hold them."""
    is_half = low.precision == "fp16" and value.dtype == dtypes.float32
    return dtypes.float16 if is_half else value.dtype


def why_not(array: Array, growth: float = 1.0) -> str:
    """Why a tensor cannot be stored in halves without a loss beyond their usual rounding; empty
    where it can.

    An element that becomes infinite is one reason. The other is that the elements are so small as a
    whole (their root mean square, without those that are zero) that most lose bits or vanish.
    """
    total, count = 0.0, 0
    flat = array.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        block: Any = flat[start : start + BLOCK]
        if not (math.isfinite(block.max()) and math.isfinite(block.min())):
            block = block[np.isfinite(block)]
        largest = max(float(block.max(initial=0.0)), -float(block.min(initial=0.0)))
        if largest * growth >= OVERFLOW:
            return f"the magnitude {largest:.3g} is more than halves hold (65504)"
        total += float(block @ block)
        count += int(np.count_nonzero(block))
    typical = math.sqrt(total / max(count, 1))
    if count and typical < NORMAL:
        return (
            f"the elements are of size {typical:.1e}, where halves lose bits (below {NORMAL:.1e})"
        )
    return ""
