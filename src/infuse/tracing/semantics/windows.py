"""Windows of images: their places one by one, groups of channels, and what transposed convolutions
leave out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from infuse.errors import ModelFileError
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ops.core.building import GraphBuilder


def groups(channels: Dim, inner: Dim) -> int:
    """The groups of a convolution whose filters see `inner` channels each; 1 where a number is not
    known. ModelFileError where they do not divide the channels.
    """
    if not isinstance(channels, int) or not isinstance(inner, int):
        return 1
    if inner < 1 or channels % inner:
        raise ModelFileError(f"filters of {inner} channels do not fit {channels}")
    return channels // inner


def cropped(total: int, same: bool) -> tuple[int, int, int]:
    """What a transposed convolution leaves out before and after an axis so that `total` elements
    are gone, half of them before where `same` is set, and how many zeros it appends.
    """
    before = max(total, 0) // 2 if same else 0
    return before, max(total - before, 0), max(before - total, 0)


def padded_to_fit(g: GraphBuilder, x: Value, axis: int, extent: int, stride: int) -> Value:
    """An axis of known size with zeros, for ⌈size / stride⌉ windows; the larger half behind."""
    size = int(x.shape[axis])
    total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    return g.pad(x, axis, total // 2, total - total // 2)


def taps(
    g: GraphBuilder,
    x: Value,
    axes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    rates: Sequence[int],
) -> Iterator[tuple[tuple[int, ...], Value]]:
    """Every place of a window, and the elements that all windows have there; sizes are known."""
    spans = [(k - 1) * rate + 1 for k, rate in zip(kernel, rates)]
    sizes = [int(x.shape[axis]) for axis in axes]
    counts = [(n - span) // step + 1 for n, span, step in zip(sizes, spans, strides)]
    for place in product(*map(range, kernel)):
        part = x
        for axis, at, rate, step, count in zip(axes, place, rates, strides, counts):
            begin = at * rate
            part = g.slice(part, axis, begin, begin + (count - 1) * step + 1, step)
        yield place, part
