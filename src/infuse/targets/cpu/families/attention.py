"""Attention."""

from __future__ import annotations

from typing import NamedTuple

from infuse.targets.cpu.families.base import Size, declared_in


@declared_in("attention_masks.hpp")
class AttentionSizes(NamedTuple):
    """Attention; the query i sees the keys to i + causal_offset where it is causal."""

    batch: Size
    heads: Size
    kv_heads: Size
    queries: Size
    keys: Size
    dim: Size
    value_dim: Size
    causal_offset: Size
