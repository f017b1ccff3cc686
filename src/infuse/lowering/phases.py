"""How the pixels of a transposed convolution come of windows over its input, one phase of the
stride after another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from infuse import dtypes
from infuse.immutable import Immutable
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node
from infuse.ops.convolution import ConvTranspose

WIDE: Final = 16
"""Output channels that fill vectors, so that each phase may have a convolution of its own."""
_MOST: Final = 16
"""Phases that may each have a kernel call of their own."""
_MULTIPLIED: Final = (dtypes.float32, dtypes.int8, dtypes.uint8)
"""Elements of which there are kernels for convolutions whose results are parts of an image."""


class Phase(Immutable):
    """`count` pixels of one axis from `first` on, a stride apart, and the window of each.

    `taps`: the numbers of the kernel that meet it, in the order of the inputs that they meet, which
    are `apart`; the window of the first pixel begins `before` inputs before the first one.
    """

    first: int
    count: Dim
    taps: tuple[int, ...]
    apart: int
    before: int

    @property
    def is_point(self) -> bool:
        """Whether the windows are the inputs, one after another, as far as there are any."""
        return len(self.taps) == 1 and self.before == 0


def phases_along(kernel: int, step: int, dilation: int, cut: int, out: Dim) -> list[Phase] | None:
    """The phases of one axis of `out` pixels, of which `cut` were cut off before; None where a
    phase meets no tap, or its windows begin behind the first input.
    """
    phases = []
    for first in range(step):
        reached = {k: first + cut - k * dilation for k in reversed(range(kernel))}
        met = {k: place // step for k, place in reached.items() if place % step == 0}
        if not met or min(met.values()) > 0:
            return None
        places = sorted(met.values())
        apart = places[1] - places[0] if len(places) > 1 else 1
        count = dims.floordiv(out + (step - 1 - first), step)
        phases.append(Phase(first, count, tuple(met), apart, -places[0]))
    return phases


Along = Callable[[int, int, int, int, Dim], "list[Phase] | None"]
"""The phases of one axis: of its kernel, step and dilation, what is cut off before, the result."""


def phases_of(node: Node, along: Along = phases_along) -> list[list[Phase]] | None:
    """The phases of every axis of a ConvTranspose with constant filters; None where an axis has
    none of this kind, or where what is cut off is not known.
    """
    op, x, w = node.op, node.inputs[0], node.inputs[1]
    assert isinstance(op, ConvTranspose)
    assert x is not None
    assert w is not None
    assert w.const is not None
    kernel = w.const.shape[2:]
    rank, (_, pads) = len(kernel), op.placement(x.shape[2:], kernel)
    rows = zip(kernel, op.steps(rank), op.spread(rank), pads, node.output.shape[2:])
    phases = []
    for size, step, dilation, (cut, _), out in rows:
        one = along(size, step, dilation, cut, out) if isinstance(cut, int) else None
        if one is None:
            return None
        phases.append(one)
    return phases


def kernel_phases(node: Node) -> list[list[Phase]] | None:
    """The phases of every axis of a ConvTranspose whose kernels write the result themselves; None
    where it has to be expressed in other operators.
    """
    op, x, w = node.op, node.inputs[0], node.inputs[1]
    assert isinstance(op, ConvTranspose)
    assert x is not None
    assert w is not None
    if x.dtype not in _MULTIPLIED or w.const is None or 0 in w.const.shape:
        return None
    if not _fills_vectors(op.group, w.const.shape, op.steps(w.const.ndim - 2)):
        return None
    phases = phases_of(node)
    is_image = w.const.ndim <= 4
    return phases if phases and (is_image or are_points(phases, x.shape[2:])) else None


def leaves_gaps(node: Node) -> bool:
    """Whether the windows of a ConvTranspose of images with constant filters do not meet, and there
    are pixels between them: kernels/spread.hpp.
    """
    op, x, w = node.op, node.inputs[0], node.inputs[1]
    assert isinstance(op, ConvTranspose)
    assert x is not None
    assert w is not None
    if x.dtype not in _MULTIPLIED or w.const is None or 0 in w.const.shape or w.const.ndim > 4:
        return False
    kernel = w.const.shape[2:]
    steps, spread = op.steps(len(kernel)), op.spread(len(kernel))
    apart = all((k - 1) * d < s for k, s, d in zip(kernel, steps, spread))
    return apart and any(k < s for k, s in zip(kernel, steps))


def _fills_vectors(group: int, filters: Sequence[int], steps: Sequence[int]) -> bool:
    """Whether few enough phases have enough channels each."""
    depth, per_group = filters[:2]
    is_depthwise = per_group == 1 and depth == group
    blocks = math.prod(steps)
    return blocks == 1 or (blocks <= _MOST and (is_depthwise or per_group >= WIDE))


def are_points(phases: Sequence[Sequence[Phase]], sizes: Sequence[Dim]) -> bool:
    """Whether every pixel comes of one input, and every input is met by all phases."""
    return all(p.is_point and p.count == n for axis, n in zip(phases, sizes) for p in axis)


def block_phases(kernel: int, step: int, dilation: int, cut: int, out: Dim) -> list[Phase] | None:
    """Phases that all read the same inputs: those of blocks of `step` pixels, before anything is
    cut off, so that the first and the last block may lie outside of the result in part. None where
    phases have different numbers of taps.
    """
    if step == 1:
        return phases_along(kernel, step, dilation, cut, out)
    taps, begin = kernel // step, cut // step
    if kernel % step or dilation != 1 or begin >= taps:
        return None
    count = dims.floordiv(cut % step + out + step - 1, step)
    return [
        Phase(first, count, tuple(range(first, kernel, step))[::-1], 1, taps - 1 - begin)
        for first in range(step)
    ]
