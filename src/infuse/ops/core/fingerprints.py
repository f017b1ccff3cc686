"""Hashes of bytes that other libraries choose buckets by: FarmHash's fingerprint and SipHash."""

from __future__ import annotations

from typing import Final

_MASK: Final = (1 << 64) - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F


def _fetch(data: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _turned(x: int, bits: int) -> int:
    x &= _MASK
    return (x >> bits | x << (64 - bits)) & _MASK


def _shifted(x: int) -> int:
    x &= _MASK
    return x ^ x >> 47


def _of_two(u: int, v: int, factor: int) -> int:
    a = _shifted((u ^ v) * factor)
    return _shifted((v ^ a) * factor) * factor & _MASK


def farm_fingerprint(data: bytes) -> int:
    """FarmHash's Fingerprint64, unsigned."""
    size = len(data)
    if size > 64:
        return _long(data)
    if size > 16:
        return _to_32(data) if size <= 32 else _to_64(data)
    factor = _K2 + size * 2
    if size >= 8:
        a, b = _fetch(data, 0) + _K2, _fetch(data, size - 8)
        c, d = _turned(b, 37) * factor + a, (_turned(a, 25) + b) * factor
        return _of_two(c & _MASK, d & _MASK, factor)
    if size >= 4:
        return _of_two(size + (_fetch(data, 0, 4) << 3), _fetch(data, size - 4, 4), factor)
    if not size:
        return _K2
    y, z = data[0] + (data[size >> 1] << 8), size + (data[-1] << 2)
    return _shifted(y * _K2 ^ z * _K0) * _K2 & _MASK


def _sums(data: bytes, factor: int) -> tuple[int, int, int]:
    size = len(data)
    a, b = _fetch(data, 0) * (_K1 if size <= 32 else _K2) & _MASK, _fetch(data, 8)
    c, d = _fetch(data, size - 8) * factor & _MASK, _fetch(data, size - 16) * _K2
    return _turned(a + b, 43) + _turned(c, 30) + d & _MASK, a + _turned(b + _K2, 18) + c & _MASK, a


def _to_32(data: bytes) -> int:
    factor = _K2 + len(data) * 2
    y, z, _ = _sums(data, factor)
    return _of_two(y, z, factor)


def _to_64(data: bytes) -> int:
    size, factor = len(data), _K2 + len(data) * 2
    y, other, a = _sums(data, factor)
    z = _of_two(y, other, factor)
    e, f = _fetch(data, 16) * factor & _MASK, _fetch(data, 24)
    g = (y + _fetch(data, size - 32)) * factor & _MASK
    h = (z + _fetch(data, size - 24)) * factor & _MASK
    u = _turned(e + f, 43) + _turned(g, 30) + h
    return _of_two(u & _MASK, e + _turned(f + a, 18) + g & _MASK, factor)


def _weak(data: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = (_fetch(data, at + i) for i in (0, 8, 16, 24))
    a = a + w & _MASK
    b, c = _turned(b + a + z, 21), a
    a = a + x + y & _MASK
    return a + z & _MASK, b + _turned(a, 44) + c & _MASK


def _round(data: bytes, at: int, state: list[int], k: int, times: int) -> list[int]:
    x, y, z, v1, v2, w1, w2 = state
    x = _turned(x + y + v1 + _fetch(data, at + 8), 37) * k & _MASK
    y = _turned(y + v2 + _fetch(data, at + 48), 42) * k & _MASK
    x ^= w2 * times & _MASK
    y = y + v1 * times + _fetch(data, at + 40) & _MASK
    z = _turned(z + w1, 33) * k & _MASK
    v1, v2 = _weak(data, at, v2 * k & _MASK, x + w1 & _MASK)
    w1, w2 = _weak(data, at + 32, z + w2 & _MASK, y + _fetch(data, at + 16) & _MASK)
    return [z, y, x, v1, v2, w1, w2]


def _long(data: bytes) -> int:
    size = len(data)
    y = 81 * _K1 + 113 & _MASK
    z = _shifted(y * _K2 + 113) * _K2 & _MASK
    state = [81 * _K2 + _fetch(data, 0) & _MASK, y, z, 0, 0, 0, 0]
    end = (size - 1) // 64 * 64
    for at in range(0, end, 64):
        state = _round(data, at, state, _K1, 1)
    x, y, z, v1, v2, w1, w2 = state
    factor = _K1 + ((z & 0xFF) << 1)
    w1 = w1 + (size - 1 & 63) & _MASK
    v1 = v1 + w1 & _MASK
    w1 = w1 + v1 & _MASK
    last = end + (size - 1 & 63) - 63
    x, y, z, v1, v2, w1, w2 = _round(data, last, [x, y, z, v1, v2, w1, w2], factor, 9)
    first = _of_two(v1, w1, factor) + _shifted(y) * _K0 + z
    return _of_two(first & _MASK, _of_two(v2, w2, factor) + x & _MASK, factor)


def sip_hash(data: bytes, key: tuple[int, int]) -> int:
    """SipHash-2-4 with two words of a key, unsigned."""
    a, b = (k & _MASK for k in key)
    v = [
        a ^ 0x736F6D6570736575,
        b ^ 0x646F72616E646F6D,
        a ^ 0x6C7967656E657261,
        b ^ 0x7465646279746573,
    ]
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for at in range(0, len(padded), 8):
        word = _fetch(padded, at)
        v[3] ^= word
        _sip_rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xFF
    _sip_rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _sip_rounds(v: list[int], count: int) -> None:
    for _ in range(count):
        for a, b, left, c, d, right in ((0, 1, 13, 2, 3, 16), (2, 1, 17, 0, 3, 21)):
            v[a] = v[a] + v[b] & _MASK
            v[b] = _turned(v[b], 64 - left) ^ v[a]
            v[c] = v[c] + v[d] & _MASK
            v[d] = _turned(v[d], 64 - right) ^ v[c]
            if a == 0:
                v[0] = _turned(v[0], 32)
            else:
                v[2] = _turned(v[2], 32)
