"""Rotary embeddings, and caches of keys and values."""

from __future__ import annotations

from typing import NamedTuple

from infuse.targets.cpu.families.base import Size, declared_in


@declared_in("rotary.hpp")
class RotarySizes(NamedTuple):
    """Heads of which `half` pairs of channels turn: neighbours where they are interleaved."""

    batch: Size
    heads: Size
    length: Size
    dim: Size
    half: Size
    interleaved: bool


@declared_in("cache.hpp")
class CacheSizes(NamedTuple):
    """A cache of `past` rows, `length` new ones, of which `stored` leave."""

    batch: Size
    heads: Size
    past: Size
    length: Size
    stored: Size
    dim: Size
