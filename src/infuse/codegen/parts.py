"""Parts of a result that one call of a kernel makes: pixels that lie a stride apart, or blocks of
pixels side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infuse.codegen.tensors import Order, Tensor, channels_last
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.types import Shape


@dataclass(frozen=True)
class Pixels:
    """Of every spatial axis of a result (N, C, …) `counts` pixels from `first` on, `steps` apart.

    The rows of the kernel are these pixels, its columns the channels.
    """

    whole: Shape
    first: tuple[int, ...]
    steps: tuple[int, ...]
    counts: Shape

    @property
    def shape(self) -> Shape:
        """The logical shape of the part."""
        return (*self.whole[:2], *self.counts)

    @property
    def order(self) -> Order:
        """The axes of the part in the order of the kernel's rows and columns."""
        return channels_last(len(self.whole))

    @property
    def side_by_side(self) -> int:
        """Pixels that one row of the kernel holds."""
        return 1

    def of(self, tensor: Tensor) -> Tensor:
        """The part of a tensor that broadcasts to the whole result."""
        view = tensor.expand(self.whole)
        for axis, (first, step, count) in enumerate(zip(self.first, self.steps, self.counts), 2):
            view = view.slice(axis, first, count, step)
        return view


@dataclass(frozen=True)
class Blocks:
    """A result (N, C, …) in blocks of `steps` pixels.

    The rows of the kernel are the blocks; its columns are the channels of the first pixel of a
    block, then those of the next.
    """

    whole: Shape
    steps: tuple[int, ...]

    @property
    def counts(self) -> Shape:
        """Blocks of every spatial axis."""
        return tuple(dims.floordiv(n, step) for n, step in zip(self.whole[2:], self.steps))

    @property
    def shape(self) -> Shape:
        """The logical shape: N, C, and for each spatial axis blocks and pixels."""
        pairs = zip(self.counts, self.steps)
        return (*self.whole[:2], *(size for pair in pairs for size in pair))

    @property
    def order(self) -> Order:
        """The axes in the order of the kernel's rows and columns."""
        rank = len(self.steps)
        blocks, pixels = (range(start, start + 2 * rank, 2) for start in (2, 3))
        return (0, *blocks, *pixels, 1)

    @property
    def side_by_side(self) -> int:
        """Pixels that one row of the kernel holds."""
        return product(self.steps)

    def of(self, tensor: Tensor) -> Tensor:
        """A tensor that broadcasts to the whole result, in blocks."""
        view = tensor.expand(self.whole)
        for i, (count, step) in enumerate(zip(self.counts, self.steps)):
            view = view.unfold(2 + 2 * i, count, step)
        return view


Part = Pixels | Blocks


def product(steps: Sequence[int]) -> int:
    """Pixels of a block."""
    result: Dim = dims.product(steps)
    assert isinstance(result, int)
    return result
