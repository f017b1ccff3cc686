"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from infuse.errors import ModelFileError
from infuse.frontends.tensorflow.calls import FlowCall, operator
from infuse.ir.graph import Value
from infuse.tracing.items import Complex


def _along(call: FlowCall, parts: Value, length: Any, axis: int, **kind: int) -> Value:
    return call.g("DFT", parts, length, call.g.constant(np.array(axis, np.int64)), **kind)


def _whole(axes: int, inverse: int) -> Callable[[FlowCall], Complex]:
    def build(call: FlowCall) -> Complex:
        parts = call.parts(0)
        if parts.rank <= axes:
            raise ModelFileError(f"its operand has {parts.rank - 1} axes")
        for axis in range(parts.rank - 2, parts.rank - 2 - axes, -1):
            parts = _along(call, parts, None, axis, inverse=inverse)
        return Complex(parts)

    return build


def _lengths(call: FlowCall, axes: int) -> list[Value]:
    listed = call.list_of(1)
    return [call.g("Gather", listed, call.g.constant(np.array(i))) for i in range(axes)]


def _real(axes: int) -> Callable[[FlowCall], Complex]:
    def build(call: FlowCall) -> Complex:
        x, lengths = call.raw(0), _lengths(call, axes)
        if x.rank < axes:
            raise ModelFileError(f"its operand has {x.rank} axes")
        parts = call.g("Unsqueeze", x, call.g.ints(-1))
        for number in reversed(range(axes)):
            axis = x.rank - axes + number
            once = int(number == axes - 1)
            parts = _along(call, parts, lengths[number], axis, onesided=once)
        return Complex(parts)

    return build


def _back(axes: int) -> Callable[[FlowCall], Value]:
    def build(call: FlowCall) -> Value:
        g, parts, lengths = call.g, call.parts(0), _lengths(call, axes)
        last = parts.rank - 2
        if last + 1 < axes:
            raise ModelFileError(f"its operand has {last + 1} axes")
        for number in range(axes - 1):
            axis = last - axes + 1 + number
            parts = _along(call, parts, lengths[number], axis, inverse=1)
        made = _mirrored(call, parts, lengths[-1], last)
        return g("Gather", made, g.constant(np.array(0)), axis=last + 1)

    return build


def _mirrored(call: FlowCall, parts: Value, length: Value, axis: int) -> Value:
    """The inverse transform of what its conjugates complete."""
    count = None if length.const is None else int(length.const)
    if count is None or count < 1:
        raise call.unsupported("an inverse transform of computed length")
    g, half = call.g, count // 2 + 1
    size = parts.shape[axis]
    if not isinstance(size, int):
        raise call.unsupported("an inverse transform of an axis of unknown length")
    parts = g.slice(parts, axis, 0, half) if size > half else parts
    parts = g.pad(parts, axis, 0, half - size) if size < half else parts
    behind = np.arange(count - half, 0, -1, dtype=np.int64)
    rest = g("Gather", parts, g.constant(behind), axis=axis)
    signs = g.constant(np.array([1, -1], parts.dtype.numpy))
    whole = g("Concat", parts, g("Mul", rest, signs), axis=axis)
    return _along(call, whole, None, axis, inverse=1)


for _suffix, _axes in {"": 1, "2D": 2, "3D": 3}.items():
    operator(f"FFT{_suffix}")(_whole(_axes, 0))
    operator(f"IFFT{_suffix}")(_whole(_axes, 1))
    operator(f"RFFT{_suffix}")(_real(_axes))
    operator(f"IRFFT{_suffix}")(_back(_axes))
