"""Texts as the numbers that CatBoost knows its categories by."""

from __future__ import annotations

from typing import Final

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir.graph import Value
from infuse.ops.core.base import Array, Elementwise
from infuse.ops.core.samples import cases
from infuse.ops.core.traits import Trait
from infuse.ops.text import require_text, texts
from infuse.ops.tokens import decoded

_MASK: Final = (1 << 64) - 1
_K0: Final = 0xC3A5C85C97CB3127
_K1: Final = 0xB492B66FBE98F273
_K2: Final = 0x9AE16A3B2F90404F
_K3: Final = 0xC949D7C7509E6557
_PAIR: Final = 0x9DDFEA08EB382D69
"""The constants of CityHash64, version 1."""
_BLOCK: Final = 64


def _turned(value: int, bits: int) -> int:
    value &= _MASK
    return ((value >> bits) | (value << (64 - bits))) & _MASK


def _folded(value: int) -> int:
    value &= _MASK
    return value ^ (value >> 47)


def _joined(low: int, high: int) -> int:
    low, high = low & _MASK, high & _MASK
    first = _folded((low ^ high) * _PAIR)
    return _folded((high ^ first) * _PAIR) * _PAIR & _MASK


def _word(data: bytes, place: int, size: int = 8) -> int:
    place += len(data) if place < 0 else 0
    return int.from_bytes(data[place : place + size], "little")


def _weak(data: bytes, place: int, a: int, b: int) -> tuple[int, int]:
    """32 bytes from `place` on, with two numbers that were made before."""
    w, x, y, z = (_word(data, place + 8 * i) for i in range(4))
    a += w
    b = _turned(b + a + z, 21)
    more = a + x + y
    return (more + z) & _MASK, (b + _turned(more, 44) + a) & _MASK


def _short(data: bytes) -> int:
    """Of at most 16 bytes."""
    size = len(data)
    if size > 8:
        last = _word(data, -8)
        return _joined(_word(data, 0), _turned(last + size, size)) ^ last
    if size >= 4:
        return _joined(size + (_word(data, 0, 4) << 3), _word(data, size - 4, 4))
    if not size:
        return _K2
    y = data[0] + (data[size >> 1] << 8)
    z = size + (data[-1] << 2)
    return _folded(y * _K2 ^ z * _K3) * _K2 & _MASK


def _middle(data: bytes) -> int:
    """Of 17 to 32 bytes."""
    a, b = _word(data, 0) * _K1, _word(data, 8)
    c, d = _word(data, -8) * _K2, _word(data, -16) * _K0
    return _joined(
        _turned(a - b, 43) + _turned(c, 30) + d, a + _turned(b ^ _K3, 20) - c + len(data)
    )


def _long(data: bytes) -> int:
    """Of 33 to 64 bytes: both ends, which may overlap."""

    def half(first: int, second: int, third: int, fourth: int) -> tuple[int, int]:
        a = first
        b, c = _turned(a + fourth, 52), _turned(a, 37)
        a += second
        c += _turned(a, 7)
        a += third
        return a + fourth, b + _turned(a, 31) + c

    size = len(data)
    start = _word(data, 0) + (size + _word(data, -16)) * _K0
    v, vs = half(start, _word(data, 8), _word(data, 16), _word(data, 24))
    end = _word(data, 16) + _word(data, size - 32)
    w, ws = half(end, _word(data, size - 24), _word(data, -16), _word(data, -8))
    made = _folded((v + ws) * _K2 + (w + vs) * _K0)
    return _folded(made * _K0 + vs) * _K2 & _MASK


def city_hash(data: bytes) -> int:
    """CityHash64, version 1, of some bytes."""
    size = len(data)
    if size <= 64:
        return _short(data) if size <= 16 else _middle(data) if size <= 32 else _long(data)
    x, y, z = _word(data, 0), _word(data, -16) ^ _K1, _word(data, size - 56) ^ _K0
    v = _weak(data, size - 64, size, y)
    w = _weak(data, size - 32, size * _K1, _K0)
    z += _folded(v[1]) * _K1
    x, y = _turned(z + x, 39) * _K1, _turned(y, 33) * _K1
    for place in range(0, (size - 1) // _BLOCK * _BLOCK, _BLOCK):
        x = _turned(x + y + v[0] + _word(data, place + 16), 37) * _K1 ^ w[1]
        y = _turned(y + v[1] + _word(data, place + 48), 42) * _K1 ^ v[0]
        x, y = x & _MASK, y & _MASK
        z = _turned(z ^ w[0], 33)
        v = _weak(data, place, v[1] * _K1, x + w[0])
        w = _weak(data, place + 32, z + w[1], y)
        z, x = x, z
    return _joined(_joined(v[0], w[0]) + _folded(y) * _K1 + z, _joined(v[1], w[1]) + x)


class HashText(Elementwise):
    """The number that CatBoost knows a category by: the lowest 32 bits of the CityHash64 (version
    1) of its text in UTF-8, as a signed number in int64.
    """

    traits = Trait.ZERO_FLOPS

    domain = "infuse"
    samples = cases(
        x=[
            texts("", "a", "red", "1234", "-17", "ünï", "nine char", "sixteen letters!"),
            texts("seventeen letters", "t" * 32, "u" * 33, "v" * 64, shape=(2, 2)),
            texts("w" * 65, "x" * 128, "yz" * 100, "猫" * 43),
            texts(shape=(0, 3)),
        ],
    )

    def result_dtype(self, x: Value) -> DType:
        require_text(self.name, x)
        return dtypes.int64

    def eval(self, x: Array) -> Array:
        found = decoded(x.reshape(-1))
        known = {text: city_hash(text.encode()) for text in set(found)}
        low = np.array([known[text] & 0xFFFFFFFF for text in found], np.uint32)
        return low.view(np.int32).astype(np.int64).reshape(x.shape)
