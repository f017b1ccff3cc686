"""Rotary places: queries and keys turned by angles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.frontends.arrays.array import Array, lifted, node
from infuse.frontends.arrays.creation import arange
from infuse.frontends.arrays.manipulation import broadcast_to, expand_dims
from infuse.frontends.huggingface.cache import Cache, places
from infuse.frontends.huggingface.files import Config


class Rotary:
    """Rotations of queries and keys by the angles of their places."""

    def __init__(self, config: Config, size: int, kind: str = "") -> None:
        rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
        rope = rope.get(kind, rope) if kind else rope
        local = config.get("rope_local_base_freq")
        if kind == "sliding_attention" and local and not config.get("rope_parameters"):
            rope = {"rope_theta": local}  # scaling is of the other layers
        theta = rope.get("rope_theta") or config.get("rope_theta", 10000.0)
        partial = rope.get("partial_rotary_factor") or config.get("partial_rotary_factor", 1.0)
        self.turned = int(size * partial)
        self.frequencies = theta ** -(np.arange(0, self.turned, 2, dtype=np.float32) / self.turned)
        self._scale(rope)

    def _scale(self, rope: dict[str, Any]) -> None:
        kind = rope.get("rope_type") or rope.get("type", "default")
        if kind == "linear":
            self.frequencies = self.frequencies / rope["factor"]
        elif kind == "llama3":
            self.frequencies = _llama3(self.frequencies, rope)
        elif kind != "default":
            raise UnsupportedOperatorError(
                f"rotary places of type {kind!r} are not supported",
                hint="default, linear and llama3 are",
            )

    def tables(self, input_ids: Array, cache: Cache) -> tuple[Array, Array, Array]:
        """Cosines and sines of the new tokens, and their rows [batch, length]."""
        batch, length = input_ids.shape
        turned = expand_dims(places(input_ids, cache), axis=1).astype(np.float32)
        angles = turned * lifted(self.frequencies.astype(np.float32))
        spread = broadcast_to(expand_dims(arange(length), axis=0), (batch, length))
        return node("Cos", angles), node("Sin", angles), spread

    def turn(self, x: Array, tables: tuple[Array, Array, Array]) -> Array:
        """[batch, heads, length, size], turned."""
        size = x.shape[3]
        dim = 0 if self.turned == size else self.turned
        return node("RotaryEmbedding", x, *tables, rotary_embedding_dim=dim)


def _llama3(frequencies: np.ndarray, rope: dict[str, Any]) -> np.ndarray:
    """Low frequencies divided by a factor, those between smoothly (Llama 3.1)."""
    factor, low, high = rope["factor"], rope["low_freq_factor"], rope["high_freq_factor"]
    context = rope["original_max_position_embeddings"]
    waves = 2 * math.pi / frequencies
    smooth = (context / waves - low) / (high - low)
    between = (1 - smooth) * frequencies / factor + smooth * frequencies
    scaled = np.where(waves > context / low, frequencies / factor, between)
    return np.where(waves < context / high, frequencies, scaled)
