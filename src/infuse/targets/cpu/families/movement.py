"""Filling, ranges, running sums and padding."""

from __future__ import annotations

import numpy as np

from infuse.targets.cpu.families.base import Arguments, Array, Stores, writes


@writes("fill")
def fill(call: Arguments) -> Stores:
    """One number everywhere."""
    y, count, number = call.arguments
    return {0: np.full(count, number, y.dtype)}


@writes("range")
def range_(call: Arguments) -> Stores:
    """Start + i · step; integers wrap."""
    start, step, count = call.arguments[:3]
    with np.errstate(over="ignore"):
        return {3: np.asarray(start) + np.arange(count) * np.asarray(step)}


@writes("running")
def running(call: Arguments) -> Stores:
    """Running sums or products along lines, without the element itself where exclusive."""
    outer, size, inner, exclusive, reverse, x = call.arguments[:6]
    exact = x.dtype if x.dtype.kind in "iu" else np.float64
    lines = x[: outer * size * inner].astype(exact).reshape(outer, size, inner)
    lines = lines[:, ::-1] if reverse else lines
    start = 0 if call.template[0] == "RunningSum" else 1
    if exclusive:
        lines = np.insert(lines, 0, start, axis=1)[:, :-1]
    join = np.add if call.template[0] == "RunningSum" else np.multiply
    made = join.accumulate(lines, axis=1)
    return {6: made[:, ::-1] if reverse else made}


@writes("pad_nd")
def pad_nd(call: Arguments) -> Stores:
    """A tensor with elements added, or cut where negative, before and after each axis."""
    rank, size, begin, out, mode, value, x, y = call.arguments
    if int(call.template[0]) != x.dtype.itemsize:
        raise ValueError(f"elements of {call.template[0]} bytes in place of {x.dtype.itemsize}")
    number = value[0] if isinstance(value, np.ndarray) else np.asarray(value).astype(y.dtype)
    whole = x[: int(np.prod(size[:rank]))].reshape(size[:rank])
    for axis in range(rank):
        at = np.arange(out[axis]) - begin[axis]
        first = max(-begin[axis], 0)
        end = min(out[axis] - begin[axis], size[axis])
        outside = (at < first) | (at >= end)
        if mode != "constant" and outside.any():
            at = _repeated(at, first, end, mode)
            outside = np.zeros_like(outside)
        # An element more at the end is the constant.
        whole = np.insert(whole, size[axis], number, axis)
        whole = np.take(whole, np.where(outside, size[axis], at), axis)
    return {7: whole}


def _repeated(at: Array, first: int, end: int, mode: str) -> Array:
    """Where places outside of [first, end) take their elements from."""
    if mode == "edge":
        return np.clip(at, first, end - 1)
    count = end - first
    if mode == "wrap" or count == 1:
        return np.asarray(first + (at - first) % count)
    back = (at - first) % (2 * (count - 1))
    return np.asarray(first + np.where(back < count, back, 2 * (count - 1) - back))
