"""MurmurHash3 of many terms at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_MOST: Final = 1 << 16
"""Terms whose hashes are stored."""
_NONE: Final = 1 << 40
_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)


class Hashes:
    """The hashes of terms, of which the most recent are stored. Threads may share it."""

    def __init__(self) -> None:
        self._stored: dict[bytes, int] = {}

    def of(self, terms: Sequence[bytes]) -> npt.NDArray[np.int64]:
        """The hash of each."""
        stored = self._stored
        hashes = np.array([stored.get(term, _NONE) for term in terms], np.int64)
        fresh = np.flatnonzero(hashes == _NONE)
        if len(fresh):
            others = [terms[i] for i in fresh.tolist()]
            hashes[fresh] = murmur_hashes(others)
            if len(stored) + len(others) > _MOST:
                stored = self._stored = {}
            stored.update(zip(others[:_MOST], hashes[fresh].tolist()))
        return hashes


def murmur_hashes(terms: Sequence[bytes]) -> npt.NDArray[np.int64]:
    """The signed MurmurHash3 (x86, 32 bits, seed 0) of each of some bytes, as int64."""
    result = np.zeros(len(terms), np.int64)
    lengths = np.array([len(one) for one in terms], np.int64)
    for length in np.unique(lengths).tolist():
        at = np.flatnonzero(lengths == length)
        joined = b"".join(terms[i] for i in at.tolist())
        content = np.frombuffer(joined, np.uint8).reshape(len(at), length)
        result[at] = _hashed(content).view(np.int32)
    return result


def _hashed(content: npt.NDArray[np.uint8]) -> Any:
    count, length = content.shape
    h = np.zeros(count, np.uint32)
    whole = length // 4
    blocks = np.ascontiguousarray(content[:, : whole * 4]).view("<u4")
    for i in range(whole):
        h = _turned(h ^ _mixed(blocks[:, i]), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    if length % 4:
        tail = np.zeros((count, 4), np.uint8)
        tail[:, : length % 4] = content[:, whole * 4 :]
        h = h ^ _mixed(tail.view("<u4")[:, 0])
    h = h ^ np.uint32(length)
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return h ^ (h >> np.uint32(16))


def _mixed(block: Any) -> Any:
    return _turned(block.astype(np.uint32) * _C1, 15) * _C2


def _turned(x: Any, bits: int) -> Any:
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))
