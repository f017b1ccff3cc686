"""MurmurHash3 (x86, 32 bits, seed 0) of many terms at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from infuse.ops.core.byte_slices import Ints, Slices, slices_of

_LONG: Final = 512
"""Bytes above which a term is hashed by itself."""
_C1, _C2, _C3 = 0xCC9E2D51, 0x1B873593, 0xE6546B64
_LOW: Final = 0xFFFFFFFF


def hashes_of_terms(terms: Sequence[bytes]) -> Ints:
    """The signed hash of each, as int64."""
    return murmur_hashes(slices_of(terms))


def murmur_hashes(slices: Slices) -> Ints:
    """The signed hash of each, as int64."""
    h = np.zeros(len(slices.starts), np.uint32)
    long = np.flatnonzero(slices.lengths > _LONG)
    for i in long.tolist():
        begin, size = int(slices.starts[i]), int(slices.lengths[i])
        h[i] = _of_one(slices.content[begin : begin + size].tobytes())
    rest, number = np.flatnonzero(slices.lengths <= _LONG), 0
    while len(rest):
        few = slices if len(rest) == len(h) else slices.of(rest)
        words, left = few.words(number), few.lengths - 8 * number
        state = h[rest]
        for begin in (0, 4):
            # What is behind the end is zero, and changes nothing.
            mixed = state ^ _mixed((words >> np.uint64(8 * begin)).astype(np.uint32))
            whole = _turned(mixed, 13) * np.uint32(5) + np.uint32(_C3)
            state = np.where(left >= begin + 4, whole, mixed)
        h[rest] = state
        rest, number = rest[left > 8], number + 1
    ended = h ^ slices.lengths.astype(np.uint32)
    ended = (ended ^ (ended >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    ended = (ended ^ (ended >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    ended = ended ^ (ended >> np.uint32(16))
    return np.asarray(ended.view(np.int32).astype(np.int64))


def _of_one(content: bytes) -> int:
    """The state of the hash behind the last byte."""
    h = 0
    whole = len(content) // 4 * 4
    for block in np.frombuffer(content[:whole], "<u4").tolist():
        h ^= _mixed_one(block)
        h = (((h << 13 | h >> 19) & _LOW) * 5 + _C3) & _LOW
    return h ^ _mixed_one(int.from_bytes(content[whole:], "little"))


def _mixed_one(block: int) -> int:
    k = block * _C1 & _LOW
    return ((k << 15 | k >> 17) & _LOW) * _C2 & _LOW


def _mixed(block: Any) -> Any:
    return _turned(block * np.uint32(_C1), 15) * np.uint32(_C2)


def _turned(x: Any, bits: int) -> Any:
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))
