"""Attention."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np
from ml_dtypes import bfloat16

from infuse.immutable import replace
from infuse.targets.cpu.families.base import Arguments, Array, Size, computes, declared_in
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


# -- meaning ---------------------------------------------------------------------------------------


@computes("attention")
def attention(call: Arguments) -> Array:
    """Positions × heads side by side: values weighted by the softmax of masked scores."""
    return _attended(call)


@computes("attention_bf16x2")
def attention_bf16x2(call: Arguments) -> Array:
    """The same; that operands are split is within what sums of float32 lose."""
    return _attended(call)


@computes("attention_bf16")
def attention_bf16(call: Arguments) -> Array:
    """The same of operands that are rounded to bfloat16."""
    shape, *rows = call.arguments[:4]
    rounded = [_rows(r.items[0].astype(bfloat16), *r.items[1:]) for r in rows]
    return _attended(replace(call, arguments=(shape, *rounded, *call.arguments[4:])))


def _rows(*items: Any) -> Any:
    return SimpleNamespace(items=items)


def heads(rows: Any, shape: tuple[int, int, int, int]) -> Array:
    """Rows of heads (batch, head, row, size) in float64; IndexError where they leave the
    elements.
    """
    elements, *strides = rows.items
    places = np.array(0)
    for size, stride in zip(shape, (*strides, 1)):
        places = np.add.outer(places, np.arange(size) * stride)
    made: Array = elements[places].astype(np.float64)
    return made


def _attended(call: Arguments) -> Array:
    shape, *rows = call.arguments[:4]
    s, scale, _ = shape.items
    shared = s.heads // s.kv_heads
    q = heads(rows[0], (s.batch, s.heads, s.queries, s.dim))
    k = heads(rows[1], (s.batch, s.kv_heads, s.keys, s.dim))
    v = heads(rows[2], (s.batch, s.kv_heads, s.keys, s.value_dim))
    scores = q @ np.repeat(k, shared, axis=1).swapaxes(2, 3) * scale
    counts, _ = _keys(shape)
    v = np.where(np.arange(s.keys)[:, None] < counts[:, None, None, None], v, 0)
    weights = _shares(_seen(shape, call.arguments[4], scores), getattr(shape, "sinks", None))
    mixed: Array = weights @ np.repeat(v, shared, axis=1)
    return np.reshape(mixed.swapaxes(1, 2), (s.batch * s.queries, s.heads * s.value_dim))


def _seen(shape: Any, mask: Any, scores: Array) -> Array:
    """Scores of the keys that queries see, -inf elsewhere. Masks are asked of these alone."""
    causal, left = shape.items[2], getattr(shape, "left", -1)
    b, _, i, j = np.ix_(*map(np.arange, scores.shape))
    counts, first = _keys(shape)
    seen = (j < counts[b]) & ((not causal) | (j <= i + first[b]))
    places = np.nonzero(np.broadcast_to(seen, scores.shape))
    masked = np.full(scores.shape, -np.inf)
    masked[places] = _masked(mask, scores[places], *places)
    far = (j < i + first[b] - left) & (left >= 0)
    if (np.where(far, masked, -np.inf) > -np.inf).any():
        raise ValueError("keys count that are left out")
    return masked


def _keys(shape: Any) -> tuple[Array, Array]:
    """How many keys count in each batch, and the place of the first query among them."""
    s, valid = shape.items[0], getattr(shape, "valid", None)
    if valid is None:
        return np.full(s.batch, s.keys), np.full(s.batch, s.causal_offset)
    counts = np.asarray(valid[: s.batch])
    if counts.size < s.batch:
        raise IndexError(f"{counts.size} counts of keys for {s.batch} batches")
    return np.clip(counts, 0, s.keys), counts - s.queries


def _masked(mask: Any, scores: Array, b: Array, h: Array, i: Array, j: Array) -> Array:
    """Scores at these places as a mask leaves them."""
    if mask.type == "NoMask":
        return scores
    inner, *numbers = mask.items
    if mask.type == "Capped":
        return _masked(inner, np.tanh(scores / numbers[0]) * numbers[0], b, h, i, j)
    if mask.type == "Windowed":
        left, right, first, valid, queries = numbers
        place = i + (first if valid is None else valid[b] - queries)
        is_near = ((left < 0) | (j >= place - left)) & ((right < 0) | (j <= place + right))
        return np.where(is_near, _masked(inner, scores, b, h, i, j), -np.inf)
    steps = b * numbers[0] + h * numbers[1] + i * numbers[2] + j * numbers[3]
    if mask.type == "BoolMask":
        return np.where(inner[steps], scores, -np.inf)
    return np.asarray(scores + inner[steps].astype(np.float64))


def _shares(scores: Array, sinks: Any) -> Array:
    """The softmax of scores, in which a sink of each head takes part; zeros where no key does."""
    top = scores.max(3, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    powers = np.exp(scores - top)
    total = powers.sum(3, keepdims=True)
    if sinks is not None:
        own = np.exp(sinks[: scores.shape[1]].astype(np.float64).reshape(-1, 1, 1) - top)
        total = np.where(total == 0, 0, total + own)
    shares: Array = powers / np.where(total == 0, 1, total)
    return shares


# -- forms -----------------------------------------------------------------------------------------

MOST_FEW: Final = 4
"""So many queries can read keys as they lie (kernels/attention_masks.hpp: AttentionShape)."""
USUAL_FEW: Final = 2
"""The same where no form says so."""
MOST_KEYS: Final = 256
BLOCKS: Final = {"k256": MOST_KEYS, "k128": 128, "k64": 64}
"""Keys of a block, by form."""


def forms(queries: Size, keys: int, precision: str) -> list[str]:
    """How attention may be computed: for few queries from rows of keys or packed ones, else by
    blocks of keys; in bf16 and bf16x2, also of operands that are rounded or split.
    """
    static = isinstance(queries, int)
    if static and queries <= MOST_FEW:
        names = ["rows", "panels"]
    else:
        largest = max(BLOCKS.values())
        names = [name for name, size in BLOCKS.items() if size == largest or size < keys]
    low = precision in ("bf16", "bf16x2") and not (static and queries <= 2)
    return [*names, precision] if low else names


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


counts("attention", "k256", "rows", "panels", "bf16", "bf16x2")(_attention)
counts("attention", "k128")(partial(_attention, block=128))
counts("attention", "k64")(partial(_attention, block=64))
