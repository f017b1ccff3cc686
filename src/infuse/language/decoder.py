"""What a decoder is: sizes, and what differs between families of them."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from infuse.errors import ModelFileError
from infuse.immutable import Immutable

Floats = npt.NDArray[np.float32]
PAGE: Final = 32
"""Tokens of a page of the cache."""


class Weights(Immutable, eq=False):
    """A tensor of a model: floats, or rows of blocks (uint8) in a format of `FORMATS`, of `shape`
    (rows, columns).
    """

    elements: npt.NDArray[Any]
    shape: tuple[int, ...]
    format: str = ""


class Rope(Immutable, eq=False):
    """Rotary position embedding: the first `channels` of each head turn, in pairs of neighbours
    where `interleaved`, else of channels that are half of them apart. Pair i turns by place · base
    ^ (-2 · i / channels) / factors[i].
    """

    channels: int
    base: float
    interleaved: bool = False
    factors: Floats | None = None

    @property
    def frequencies(self) -> Floats:
        """Radians a token for each pair."""
        pairs = np.arange(0, self.channels, 2, dtype=np.float64)
        speeds = self.base ** (-pairs / self.channels)
        if self.factors is not None:
            speeds = speeds / self.factors
        return speeds.astype(np.float32)


class Decoder(Immutable, eq=False):
    """A decoder: embedding, layers of attention and of two products with a gate, head.

    `windows` has for each layer how many tokens one sees before its own place (-1: all), `ropes`
    how it turns queries and keys. `epsilon` is that of RMS normalizations. `softcap` and
    `head_softcap` bend scores and logits (0: not).
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    size: int
    value_size: int
    hidden: int
    words: int
    context: int
    epsilon: float
    windows: tuple[int, ...]
    ropes: tuple[Rope, ...]
    activation: str = "silu"
    embedding_scale: float = 1.0
    score_scale: float | None = None
    softcap: float = 0.0
    head_softcap: float = 0.0

    def check(self, where: str) -> None:
        """ModelFileError unless the sizes fit together."""
        counts = self.layers, self.width, self.heads, self.kv_heads, self.size, self.value_size
        faults = {
            "a size is not positive": min(*counts, self.hidden, self.words, self.context) < 1,
            "heads of queries share no heads of keys evenly": self.heads % max(self.kv_heads, 1),
            "more channels turn than a head has, or an odd number": any(
                not 0 < rope.channels <= self.size or rope.channels % 2 for rope in self.ropes
            ),
            "epsilon is no small number": not 0 <= self.epsilon < 1,
            "the base of positions is not positive": any(
                not (math.isfinite(rope.base) and rope.base > 0) for rope in self.ropes
            ),
        }
        for fault, is_there in faults.items():
            if is_there:
                raise ModelFileError(fault, where=where, hint="convert the model again")
