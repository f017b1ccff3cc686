"""Fourier transforms of the last axes of tensors whose last axis has real and imaginary parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.ir.graph import Value
from infuse.tracing.importer import Importer


def _along(g: Importer, parts: Value, length: Value | None, axis: int, **kind: int) -> Value:
    return g("DFT", parts, length, g.constant(np.array(axis, np.int64)), **kind)


def _check(rank: int, axes: int) -> None:
    if rank < axes:
        raise ModelFileError(f"its operand has {rank} axes")


def complex_transform(g: Importer, parts: Value, axes: int, inverse: int) -> Value:
    """The transform of the last `axes` axes, or its inverse."""
    _check(parts.rank - 1, axes)
    for axis in range(parts.rank - 2, parts.rank - 2 - axes, -1):
        parts = _along(g, parts, None, axis, inverse=inverse)
    return parts


def real_transform(g: Importer, x: Value, lengths: Sequence[Value]) -> Value:
    """The transform of the last axes of real numbers, cut or filled up to these lengths, without
    what follows of it.
    """
    axes = len(lengths)
    _check(x.rank, axes)
    parts = g("Unsqueeze", x, g.ints(-1))
    for number in reversed(range(axes)):
        once = int(number == axes - 1)
        parts = _along(g, parts, lengths[number], x.rank - axes + number, onesided=once)
    return parts


def real_inverse(g: Importer, parts: Value, lengths: Sequence[Value]) -> Value:
    """The real numbers of these lengths whose transform this is."""
    axes, last = len(lengths), parts.rank - 2
    _check(last + 1, axes)
    for number in range(axes - 1):
        parts = _along(g, parts, lengths[number], last - axes + 1 + number, inverse=1)
    made = _mirrored(g, parts, lengths[-1], last)
    return g("Gather", made, g.constant(np.array(0)), axis=last + 1)


def _mirrored(g: Importer, parts: Value, length: Value, axis: int) -> Value:
    """The inverse transform of what its conjugates complete."""
    count = None if length.const is None else int(length.const)
    if count is None or count < 1:
        raise UnsupportedOperatorError("an inverse transform of computed length is not supported")
    half, size = count // 2 + 1, parts.shape[axis]
    if not isinstance(size, int):
        raise UnsupportedOperatorError(
            "an inverse transform of an axis of unknown length is not supported"
        )
    parts = g.slice(parts, axis, 0, half) if size > half else parts
    parts = g.pad(parts, axis, 0, half - size) if size < half else parts
    behind = np.arange(count - half, 0, -1, dtype=np.int64)
    rest = g("Gather", parts, g.constant(behind), axis=axis)
    signs = g.constant(np.array([1, -1], parts.dtype.numpy))
    whole = g("Concat", parts, g("Mul", rest, signs), axis=axis)
    return _along(g, whole, None, axis, inverse=1)
