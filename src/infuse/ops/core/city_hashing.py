"""CityHash64, version 1, of one text or of many at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from infuse.ops.core.byte_slices import Array, Slices, slices_of

_MASK: Final = (1 << 64) - 1
_K0: Final = 0xC3A5C85C97CB3127
_K1: Final = 0xB492B66FBE98F273
_K2: Final = 0x9AE16A3B2F90404F
_K3: Final = 0xC949D7C7509E6557
_PAIR: Final = 0x9DDFEA08EB382D69
_BLOCK: Final = 64


class _One:
    """A text, whose words are numbers of Python."""

    def __init__(self, data: bytes) -> None:
        self.data, self.size = data, len(data)

    def word(self, place: int, size: int = 8) -> int:
        """The bytes from `place` on as a number."""
        return int.from_bytes(self.data[place : place + size], "little")


class _Many:
    """Texts, whose words are arrays of uint64."""

    def __init__(self, slices: Slices) -> None:
        self._slices = slices
        self.size: Any = slices.lengths.astype(np.uint64)

    def word(self, place: Any, size: int = 8) -> Any:
        """The bytes from `place` on of each as a number."""
        content, starts, lengths = self._slices
        starts = starts + np.asarray(place).astype(np.int64)
        return Slices(content, starts, np.full_like(lengths, size)).words(0)


# What follows computes with numbers of Python, whose bits above 64 are taken off, or with arrays of
# uint64, which wrap around.


def _turned(value: Any, bits: Any) -> Any:
    value = value & _MASK
    return ((value >> bits) | (value << (64 - bits))) & _MASK


def _folded(value: Any) -> Any:
    value = value & _MASK
    return value ^ (value >> 47)


def _joined(low: Any, high: Any) -> Any:
    low, high = low & _MASK, high & _MASK
    first = _folded((low ^ high) * _PAIR)
    return _folded((high ^ first) * _PAIR) * _PAIR & _MASK


def _least(data: Any) -> Any:
    """Of 1 to 3 bytes."""
    size = data.size
    y = data.word(0, 1) + (data.word(size >> 1, 1) << 8)
    z = size + (data.word(size - 1, 1) << 2)
    return _folded(y * _K2 ^ z * _K3) * _K2 & _MASK


def _few(data: Any) -> Any:
    """Of 4 to 8 bytes."""
    size = data.size
    return _joined(size + (data.word(0, 4) << 3), data.word(size - 4, 4))


def _short(data: Any) -> Any:
    """Of 9 to 16 bytes."""
    size = data.size
    last = data.word(size - 8)
    return _joined(data.word(0), _turned(last + size, size)) ^ last


def _middle(data: Any) -> Any:
    """Of 17 to 32 bytes."""
    size = data.size
    a, b = data.word(0) * _K1, data.word(8)
    c, d = data.word(size - 8) * _K2, data.word(size - 16) * _K0
    return _joined(_turned(a - b, 43) + _turned(c, 30) + d, a + _turned(b ^ _K3, 20) - c + size)


def _long(data: Any) -> Any:
    """Of 33 to 64 bytes: both ends, which may overlap."""

    def half(first: Any, second: Any, third: Any, fourth: Any) -> tuple[Any, Any]:
        a = first
        b, c = _turned(a + fourth, 52), _turned(a, 37)
        a = a + second
        c = c + _turned(a, 7)
        a = a + third
        return a + fourth, b + _turned(a, 31) + c

    size = data.size
    start = data.word(0) + (size + data.word(size - 16)) * _K0
    v, vs = half(start, data.word(8), data.word(16), data.word(24))
    end = data.word(16) + data.word(size - 32)
    w, ws = half(end, data.word(size - 24), data.word(size - 16), data.word(size - 8))
    mixed = _folded((v + ws) * _K2 + (w + vs) * _K0)
    return _folded(mixed * _K0 + vs) * _K2 & _MASK


def _weak(data: Any, place: int, a: int, b: int) -> tuple[int, int]:
    """32 bytes from `place` on, with two numbers of what came before."""
    w, x, y, z = (data.word(place + 8 * i) for i in range(4))
    a += w
    b = _turned(b + a + z, 21)
    more = a + x + y
    return (more + z) & _MASK, (b + _turned(more, 44) + a) & _MASK


def _longest(data: Any) -> int:
    """Of one text of more than 64 bytes."""
    size = data.size
    x, y, z = data.word(0), data.word(size - 16) ^ _K1, data.word(size - 56) ^ _K0
    v = _weak(data, size - 64, size, y)
    w = _weak(data, size - 32, size * _K1, _K0)
    z += _folded(v[1]) * _K1
    x, y = _turned(z + x, 39) * _K1, _turned(y, 33) * _K1
    for place in range(0, (size - 1) // _BLOCK * _BLOCK, _BLOCK):
        x = _turned(x + y + v[0] + data.word(place + 16), 37) * _K1 ^ w[1]
        y = _turned(y + v[1] + data.word(place + 48), 42) * _K1 ^ v[0]
        x, y = x & _MASK, y & _MASK
        z = _turned(z ^ w[0], 33)
        v = _weak(data, place, v[1] * _K1, x + w[0])
        w = _weak(data, place + 32, z + w[1], y)
        z, x = x, z
    result: int = _joined(_joined(v[0], w[0]) + _folded(y) * _K1 + z, _joined(v[1], w[1]) + x)
    return result


_BY_SIZE: Final[Sequence[tuple[int, int, Callable[[Any], Any]]]] = (
    *((1, 3, _least), (4, 8, _few), (9, 16, _short), (17, 32, _middle), (33, _BLOCK, _long)),
)
_ONE_BY_ONE: Final = 8
"""Texts up to which NumPy is slower."""


def city_hash(data: bytes) -> int:
    """The hash of a text."""
    if not data:
        return _K2
    hashed = next((f for low, high, f in _BY_SIZE if low <= len(data) <= high), _longest)
    return int(hashed(_One(data)))


def city_hashes(texts: Sequence[bytes]) -> Array:
    """The hash of each text, uint64."""
    if len(texts) <= _ONE_BY_ONE:
        return np.array([city_hash(text) for text in texts], np.uint64)
    slices = slices_of(texts)
    result = np.full(len(texts), _K2, np.uint64)
    for low, high, hashed in _BY_SIZE:
        which = np.flatnonzero((slices.lengths >= low) & (slices.lengths <= high))
        if len(which):
            result[which] = hashed(_Many(slices.of(which)))
    for i in np.flatnonzero(slices.lengths > _BLOCK).tolist():
        result[i] = city_hash(texts[i])
    return result
