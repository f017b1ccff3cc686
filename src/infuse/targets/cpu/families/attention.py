"""Attention."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from infuse.targets.cpu.families.base import Size, declared_in
from infuse.targets.cpu.families.work import Work, ceil_div, counts
from infuse.targets.machine import Machine


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


# -- work ------------------------------------------------------------------------------------------


def _attention(sizes: Sequence[int], machine: Machine, threads: int, block: int = 256) -> Work:
    batch, heads, queries, keys, dim, values = sizes
    units, blocks = batch * heads, ceil_div(keys, block)
    return (
        units * queries * keys * (dim + values) / machine.lanes / threads,
        units * queries * keys / machine.lanes / threads,
        units * keys * (dim + values) / threads,
        units * queries * (dim + values) / threads,
        units * queries * blocks * (values + machine.lanes) / machine.lanes / threads,
        units * ceil_div(queries, 252) * keys * (dim + values) / threads,
        1.0,
    )


counts("attention", "k256", "rows", "panels", "bf16")(_attention)
counts("attention", "k128")(partial(_attention, block=128))
counts("attention", "k64")(partial(_attention, block=64))
