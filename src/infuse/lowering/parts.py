"""Parts of a result that one call of a kernel makes: pixels that lie a stride apart, or blocks of
pixels side by side.
"""

from __future__ import annotations

from infuse.immutable import Immutable, replace
from infuse.ir.types import Shape
from infuse.lowering.blocks import BlockAxis, BlockRows
from infuse.lowering.elementwise import Elementwise
from infuse.lowering.iteration_space import IterationSpace
from infuse.lowering.tensors import Tensor, channels_last


class Pixels(Immutable):
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
    def space(self) -> IterationSpace:
        """The rows and columns of the kernel."""
        return IterationSpace(self.shape, channels_last(len(self.whole)))

    def of(self, tensor: Tensor) -> Tensor:
        """The part of a tensor that broadcasts to the whole result."""
        view = tensor.expand(self.whole)
        for axis, (first, step, count) in enumerate(zip(self.first, self.steps, self.counts), 2):
            view = view.slice(axis, first, count, step)
        return view

    def told(self, work: Elementwise) -> Elementwise:
        """What is done with the results of a kernel that makes the part."""
        return replace(work, makes_part=True)


class Blocks(Immutable):
    """A result (N, C, …) in `counts` blocks of `steps` pixels, of which the first ones begin `cut`
    pixels before the first pixel.

    The rows of the kernel are the blocks; its columns are the channels of the first pixel of a
    block, then those of the next.
    """

    whole: Shape
    steps: tuple[int, ...]
    cut: tuple[int, ...]
    counts: Shape

    @property
    def space(self) -> IterationSpace:
        """Rows and columns of the result, into which those of the kernel are turned."""
        return IterationSpace(self.whole, channels_last(len(self.whole)))

    def of(self, tensor: Tensor) -> Tensor:
        """A tensor that broadcasts to the whole result, as it is."""
        return tensor

    def told(self, work: Elementwise) -> Elementwise:
        """What is done with the results of a kernel that makes the blocks."""
        axes = map(BlockAxis, self.counts, self.steps, self.cut, self.whole[2:])
        return replace(work, blocks=BlockRows(tuple(axes), self.whole[1]))


Part = Pixels | Blocks
