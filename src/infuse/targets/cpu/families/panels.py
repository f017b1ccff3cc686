"""How packed matrices of narrow numbers lie: in words of 32 bits, a pair or four numbers each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuse.targets.machine import TILE_SIDE

Narrow = NDArray[Any]


def panel_words(words: int, tiled: bool) -> int:
    """Words along k of a packed panel: whole tile registers where it is `tiled`."""
    return -(-words // TILE_SIDE) * TILE_SIDE if tiled else words


def in_tiles(panels: Narrow) -> Narrow:
    """Panels [panel, word, 32 columns, number of the word] as [panel, block of 16 words, half of
    the columns, word of the block, column, number] for kernels/tiles.hpp.
    """
    count, words, _, numbers = panels.shape
    blocks = panels.reshape(count, words // TILE_SIDE, TILE_SIDE, 2, TILE_SIDE, numbers)
    return np.ascontiguousarray(blocks.transpose(0, 1, 3, 2, 4, 5))


def out_of_tiles(tiles: Narrow) -> Narrow:
    """The panels of which `in_tiles` made this."""
    count, blocks, numbers = tiles.shape[0], tiles.shape[1], tiles.shape[-1]
    panels: Narrow = tiles.transpose(0, 1, 3, 2, 4, 5)
    return panels.reshape(count, blocks * TILE_SIDE, 2 * TILE_SIDE, numbers)


def panels_of(packed: Narrow, shape: tuple[int, int, int, int], tiled: bool) -> Narrow:
    """The panels [panel, word, column, number of the word] that lie in `packed`, in tiles where
    `tiled`.
    """
    count, words, columns, numbers = shape
    flat = packed[: count * words * columns * numbers]
    if not tiled:
        return np.asarray(flat.reshape(shape))
    sides = TILE_SIDE, columns // TILE_SIDE, TILE_SIDE, TILE_SIDE
    return out_of_tiles(flat.reshape(count, words // sides[0], *sides[1:], numbers))
