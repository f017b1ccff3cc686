"""Rotary embeddings, and caches of keys and values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from infuse.targets.cpu.families.attention import heads
from infuse.targets.cpu.families.base import (
    Arguments,
    Array,
    Size,
    Stores,
    declared_in,
    leading,
    writes,
)


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


@writes("rotate")
def rotate(call: Arguments) -> Stores:
    """Pairs of channels turned."""
    s, elements, source, cos, sin, place, _, target = call.arguments
    shape = s.batch, s.heads, s.length, s.dim
    x = heads(SimpleNamespace(items=(elements, *source.items)), shape)
    real, imaginary = (_angles(table, place, s) for table in (cos, sin))
    half = s.half
    even = slice(0, 2 * half, 2) if s.interleaved else slice(0, half)
    odd = slice(1, 2 * half, 2) if s.interleaved else slice(half, 2 * half)
    turned = x.copy()
    turned[..., even] = x[..., even] * real - x[..., odd] * imaginary
    turned[..., odd] = x[..., even] * imaginary + x[..., odd] * real
    places = np.array(0)
    for size, stride in zip(shape, (*target.items, 1)):
        places = np.add.outer(places, np.arange(size) * stride)
    return {6: (places, turned)}


def _angles(table: Array, place: Any, sizes: RotarySizes) -> Array:
    """Rows of a table for each batch and position, the same for all heads."""
    count = sizes.batch * sizes.length
    rows = np.arange(count)
    if place.type == "PickedPlace":
        picked, size = place.items[:2]
        rows = picked[rows] + size * (picked[rows] < 0)
        if ((rows < 0) | (rows >= size)).any():
            raise IndexError(f"a place outside of {size} rows")
    angles = table[rows[:, None] * sizes.half + np.arange(sizes.half)]
    whole: Array = angles.reshape(sizes.batch, 1, sizes.length, sizes.half).astype(np.float64)
    return whole


@writes("count_keys")
def count_keys(call: Arguments) -> Stores:
    """How many keys count in each batch."""
    s, most, last, total = call.arguments[:4]
    last = leading(last, s.batch)
    before = np.zeros(s.batch) if total == s.length else last + 1 - s.length
    counts: Array = np.asarray(before + s.length, np.int64)
    if (before < 0).any() or (counts > min(s.stored, most)).any():
        raise IndexError(f"{counts} keys of {s.stored}")
    return {4: counts}


@writes("store_rows")
def store_rows(call: Arguments) -> Stores:
    """Rows of the past, and new ones as the last that count; zeros elsewhere."""
    s, past, fresh, valid = call.arguments[:4]
    whole = np.zeros((s.batch, s.heads, s.stored, s.dim))
    if past.items:
        before = min(s.past, s.stored)
        whole[:, :, :before] = heads(past, (s.batch, s.heads, before, s.dim))
    new = heads(fresh, (s.batch, s.heads, s.length, s.dim))
    for b, count in enumerate(leading(valid, s.batch).astype(int)):
        if not s.length <= count <= s.stored:
            raise IndexError(f"{count} keys of {s.stored}")
        whole[b, :, count - s.length : count] = new[b]
    return {4: whole}
