"""Rotary places: queries and keys turned by angles."""

from __future__ import annotations

import numpy as np

from infuse.frontends.huggingface.cache import Cache, places
from infuse.frontends.huggingface.files import Config
from infuse.frontends.huggingface.rotary_scaling import scaling
from infuse.tracing.arrays.array import Array, lifted, node
from infuse.tracing.arrays.creation import arange
from infuse.tracing.arrays.manipulation import broadcast_to, expand_dims


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
        self._scaling = scaling(rope, config, theta, self.turned)

    def tables(self, input_ids: Array, cache: Cache) -> tuple[Array, Array, Array]:
        """Cosines and sines of the new tokens, and their rows [batch, length]."""
        batch, length = input_ids.shape
        frequencies = self._scaling.frequencies(length + cache.length)
        turned = expand_dims(places(input_ids, cache), axis=1).astype(np.float32)
        angles = turned * lifted(frequencies).astype(np.float32)
        spread = broadcast_to(expand_dims(arange(length), axis=0), (batch, length))
        factor = np.float32(self._scaling.factor)
        waves = [node(kind, angles) for kind in ("Cos", "Sin")]
        cosines, sines = waves if factor == 1 else [wave * factor for wave in waves]
        return cosines, sines, spread

    def turn(self, x: Array, tables: tuple[Array, Array, Array]) -> Array:
        """[batch, heads, length, size], turned."""
        size = x.shape[3]
        dim = 0 if self.turned == size else self.turned
        return node("RotaryEmbedding", x, *tables, rotary_embedding_dim=dim)
