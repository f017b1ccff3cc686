"""Rows of a kernel that are blocks of pixels, turned into rows of a result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from infuse.immutable import Immutable
from infuse.ir.dims import Dim

Array = npt.NDArray[Any]


class BlockAxis(Immutable):
    """`count` blocks of `step` pixels along one axis of `size` pixels, of which the first block
    begins `cut` pixels before the first one.
    """

    count: Dim
    step: int
    cut: int
    size: Dim

    @property
    def is_whole(self) -> bool:
        """Whether the blocks are all pixels, and nothing else."""
        return self.cut == 0 and self.count * self.step == self.size


class BlockRows(Immutable):
    """A kernel's rows are the blocks of images, one after another; its columns the `columns`
    channels of the first pixel of a block, then those of the next one, and so on. Pixels outside of
    the image are no part of the result.
    """

    axes: tuple[BlockAxis, ...]
    columns: Dim

    def places(
        self, rows: int, columns: int, number: Callable[[Dim], int]
    ) -> tuple[Array, Array, Array]:
        """Of kernel's rows × columns the rows and columns of the result, and whether these lie in
        it.
        """
        each = number(self.columns)
        pixel, col = np.divmod(np.arange(columns)[None], each)
        block = np.arange(rows)[:, None]
        counts, steps = [number(a.count) for a in self.axes], [a.step for a in self.axes]
        image, *blocks = np.unravel_index(block, (max(rows, 1), *counts))
        pixels = np.unravel_index(pixel, steps)
        inside, row = np.ones((rows, columns), bool), image
        for axis, b, p in zip(self.axes, blocks, pixels):
            size, at = number(axis.size), b * axis.step + p - axis.cut
            inside &= (at >= 0) & (at < size)
            row = row * size + at
        return np.broadcast_to(row, inside.shape), np.broadcast_to(col, inside.shape), inside
