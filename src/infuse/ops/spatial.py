"""Geometry of sliding windows, shared by convolutions and poolings."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from infuse.errors import ShapeError
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.relations import must_hold
from infuse.ir.types import Shape
from infuse.ops.core.base import Array, Op

Pads = tuple[tuple[Dim, Dim], ...]
AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


class Sliding(Op, abstract=True):
    """An operator whose window moves over the spatial axes, those after batch and channels.

    Empty attributes stand for defaults: strides and dilations of one, no pads. `pads` lists all
    begins, then all ends.
    """

    auto_pad: str = "NOTSET"
    dilations: tuple[int, ...] = ()
    kernel_shape: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()

    def steps(self, rank: int) -> tuple[int, ...]:
        """Stride of each spatial axis."""
        return self._per_axis("strides", self.strides, rank)

    def spread(self, rank: int) -> tuple[int, ...]:
        """Dilation of each spatial axis."""
        return self._per_axis("dilations", self.dilations, rank)

    def extents(self, kernel: Sequence[Dim]) -> Shape:
        """Input elements that the window spans along each axis."""
        return tuple((k - 1) * d + 1 for k, d in zip(kernel, self.spread(len(kernel))))

    def padding(self, sizes: Sequence[Dim], kernel: Sequence[Dim]) -> Pads:
        """Elements added before and after each spatial axis, `auto_pad` resolved."""
        rank = len(sizes)
        if self.auto_pad not in AUTO_PADS:
            raise ShapeError(
                f"{self.name} has no auto_pad {self.auto_pad!r}",
                hint=f"one of {', '.join(AUTO_PADS)}",
            )
        if self.auto_pad == "VALID":
            return ((0, 0),) * rank
        if self.auto_pad == "NOTSET":
            if len(self.pads) not in (0, 2 * rank):
                raise ShapeError(
                    f"{self.name} over {rank} spatial axes needs {2 * rank} pads, found "
                    f"{len(self.pads)}"
                )
            return tuple(zip(self.pads[:rank], self.pads[rank:])) or ((0, 0),) * rank
        needed = [
            dims.maximum((dims.ceildiv(size, step) - 1) * step + extent - size, 0)
            for size, step, extent in zip(sizes, self.steps(rank), self.extents(kernel))
        ]
        return tuple(split_padding(total, self.auto_pad == "SAME_UPPER") for total in needed)

    def int_padding(self, sizes: Sequence[int], kernel: Sequence[int]) -> list[tuple[int, int]]:
        """`padding` in `eval`, where all sizes are numbers."""
        return [(int(begin), int(end)) for begin, end in self.padding(sizes, kernel)]

    def window_counts(
        self, sizes: Sequence[Dim], kernel: Sequence[Dim], ceil_mode: bool = False
    ) -> Shape:
        """How many windows fit along each spatial axis; ShapeError when none does."""
        pads, extents = self.padding(sizes, kernel), self.extents(kernel)
        same = self.auto_pad in ("SAME_UPPER", "SAME_LOWER")
        counts: list[Dim] = []
        for axis, step in enumerate(self.steps(len(sizes))):
            begin, end = pads[axis]
            if same:
                count = dims.ceildiv(sizes[axis], step)
            else:
                count = _window_count(sizes[axis], begin, end, extents[axis], step, ceil_mode)
            if not must_hold(1, "<=", count):
                raise ShapeError(
                    f"the window of {self.name} spans {extents[axis]} elements of spatial axis "
                    f"{axis}, "
                    f"which has {sizes[axis] + begin + end} with its pads"
                )
            counts.append(count)
        return tuple(counts)

    def _per_axis(self, what: str, values: tuple[int, ...], rank: int) -> tuple[int, ...]:
        if len(values) not in (0, rank):
            raise ShapeError(
                f"{self.name} over {rank} spatial axes needs {rank} {what}, found {len(values)}"
            )
        if any(v < 1 for v in values):
            raise ShapeError(f"{what} of {self.name} must be positive, found {list(values)}")
        return values or (1,) * rank


def split_padding(total: Dim, more_at_end: bool) -> tuple[Dim, Dim]:
    """`total` elements as equally as possible before and after."""
    smaller = dims.floordiv(total, 2)
    return (smaller, total - smaller) if more_at_end else (total - smaller, smaller)


def _window_count(size: Dim, begin: Dim, end: Dim, extent: Dim, step: int, ceil_mode: bool) -> Dim:
    room = size + begin + end - extent
    if not ceil_mode:
        return dims.floordiv(room, step) + 1
    count = dims.ceildiv(room, step) + 1
    if dims.compare("<=", end + step, extent):
        return count
    # A window that would start behind the data, in its end padding, is left out.
    return dims.minimum(count, dims.ceildiv(size + begin, step))


def static(values: Sequence[Dim]) -> tuple[int, ...]:
    """Sizes that are numbers, as they are in `eval`."""
    return tuple(int(v) for v in values)


def padded(x: Array, pads: Sequence[tuple[int, int]], fill: float) -> Array:
    """`x` with its last axes padded; negative pads cut off."""
    lead = x.ndim - len(pads)
    grown = [(max(b, 0), max(e, 0)) for b, e in pads]
    if any(b or e for b, e in grown):
        x = np.pad(x, [(0, 0)] * lead + grown, constant_values=fill)
    cropped = [slice(max(-b, 0), size - max(-e, 0)) for (b, e), size in zip(pads, x.shape[lead:])]
    return np.asarray(x[last_axes(cropped)])


def last_axes(slices: Sequence[slice]) -> Any:
    """The index that takes these slices of the last axes."""
    return (..., *slices)


def windows(
    x: Array,
    kernel: Sequence[int],
    steps: Sequence[int],
    spread: Sequence[int],
    counts: Sequence[int],
) -> Array:
    """A view of all windows over the last axes of a padded input: (…, *counts, *kernel)."""
    rank = len(kernel)
    lead = x.ndim - rank
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, spread)]
    view = sliding_window_view(x, extents, axis=tuple(range(lead, x.ndim)))
    starts = tuple(slice(0, (n - 1) * s + 1, s) for n, s in zip(counts, steps))
    return view[(slice(None),) * lead + starts + tuple(slice(None, None, d) for d in spread)]


def taps(
    kernel: Sequence[int], steps: Sequence[int], spread: Sequence[int], counts: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], Any]]:
    """For every position in the window: its index, and where all windows have it in the padded
    input.
    """
    for index in itertools.product(*map(range, kernel)):
        first = [i * d for i, d in zip(index, spread)]
        yield (
            index,
            last_axes([slice(f, f + (n - 1) * s + 1, s) for f, n, s in zip(first, counts, steps)]),
        )
