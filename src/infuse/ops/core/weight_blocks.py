"""How blocks of GGUF's formats are read: each function takes the bytes of blocks, uint8 (b, bytes),
and gives their parts, with a row for each block.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from infuse.immutable import Immutable, replace

Bytes: TypeAlias = npt.NDArray[np.uint8]
Floats: TypeAlias = npt.NDArray[np.float32]

_MANY: Final = 256
"""Weights of a block of formats that have scales of scales."""
_FOURS: Final = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8
)
"""The values of IQ4_NL and IQ4_XS."""
_E2M1: Final = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8)
"""Twice the values of E2M1, floats of four bits."""
_NIBBLES: Final = np.array([0, 4], np.uint8)[:, None]
_PAIRS: Final = np.array([0, 2, 4, 6], np.uint8)[:, None]
_BITS: Final = np.arange(8, dtype=np.uint8)[:, None]


class Parts(Immutable, eq=False):
    """weight = scale · quant + offset in float32, with a scale and an offset for each group of
    `group` weights in a row: quants int8 or uint8 (n, k), scales and offsets (n, k / group).

    With `codes`, the quants number these values, float32, and stand for them.
    """

    quants: npt.NDArray[Any]
    scale: Floats
    offset: Floats | None
    group: int
    codes: Floats | None = None

    def weights(self) -> Floats:
        """The weights in float32: (n, k)."""
        n, k = self.quants.shape
        values = self.quants if self.codes is None else self.codes[self.quants]
        grouped = values.reshape(n, k // self.group, self.group).astype(np.float32)
        with np.errstate(invalid="ignore", over="ignore"):
            grouped *= self.scale[:, :, None]
            if self.offset is not None:
                grouped += self.offset[:, :, None]
        return grouped.reshape(n, k)

    def grouped(self, group: int) -> Parts:
        """The same weights in smaller groups, whose number of weights divides that of the large."""
        assert self.group % group == 0, (self.group, group)
        times = self.group // group
        offset = None if self.offset is None else np.repeat(self.offset, times, axis=1)
        return replace(self, scale=np.repeat(self.scale, times, axis=1), offset=offset, group=group)


def q4_0(data: Bytes) -> Parts:
    """A scale, and 32 quants of 4 bits above -8."""
    quants = _nibbles(data[:, 2:]).astype(np.int8) - np.int8(8)
    return Parts(quants, _half(data, 0), None, 32)


def q4_1(data: Bytes) -> Parts:
    """A scale, an offset, and 32 quants of 4 bits."""
    return Parts(_nibbles(data[:, 4:]), _half(data, 0), _half(data, 2), 32)


def q5_0(data: Bytes) -> Parts:
    """A scale, the fifth bits of 32 quants, and their other four; above -16."""
    quants = _nibbles(data[:, 6:]) | _bits(data[:, 2:6]) << np.uint8(4)
    return Parts(quants.astype(np.int8) - np.int8(16), _half(data, 0), None, 32)


def q5_1(data: Bytes) -> Parts:
    """A scale, an offset, the fifth bits of 32 quants, and their other four."""
    quants = _nibbles(data[:, 8:]) | _bits(data[:, 4:8]) << np.uint8(4)
    return Parts(quants, _half(data, 0), _half(data, 2), 32)


def q8_0(data: Bytes) -> Parts:
    """A scale, and 32 quants of 8 bits."""
    return Parts(data[:, 2:].view(np.int8), _half(data, 0), None, 32)


def q2_k(data: Bytes) -> Parts:
    """Sixteen scales and offsets of 4 bits each, 256 quants of 2 bits, and two scales of these."""
    quants = _layers(data[:, 16:80], 32, _PAIRS, 3)
    scale = _half(data, 80) * _float(data[:, :16] & 15)
    return Parts(quants, scale, -(_half(data, 82) * _float(data[:, :16] >> 4)), 16)


def q3_k(data: Bytes) -> Parts:
    """The inverse third bits of 256 quants, their other two, sixteen scales of 6 bits above -32,
    and a scale of these.
    """
    low = _layers(data[:, 32:96], 32, _PAIRS, 3)
    high = _layers(data[:, :32], 32, _BITS, 1)
    quants = low.astype(np.int8) - ((high ^ 1) << 2).astype(np.int8)
    four = (data[:, None, 96:104] >> _NIBBLES & 15).reshape(-1, 16)
    two = (data[:, None, 104:108] >> _PAIRS & 3).reshape(-1, 16)
    scale = _half(data, 108) * _float((four | two << 4).astype(np.int8) - np.int8(32))
    return Parts(quants, scale, None, 16)


def q4_k(data: Bytes) -> Parts:
    """Two scales, eight scales and offsets of 6 bits each, and 256 quants of 4 bits."""
    scale, offset = _scales_of_six(data)
    return Parts(_layers(data[:, 16:], 32, _NIBBLES, 15), scale, offset, 32)


def q5_k(data: Bytes) -> Parts:
    """As Q4_K, with the fifth bits of the quants before their other four."""
    scale, offset = _scales_of_six(data)
    high = _layers(data[:, 16:48], 32, _BITS, 1)
    return Parts(_layers(data[:, 48:], 32, _NIBBLES, 15) | high << 4, scale, offset, 32)


def q6_k(data: Bytes) -> Parts:
    """Four bits and two bits of 256 quants above -32, sixteen scales of 8 bits, and a scale of
    these.
    """
    low = _layers(data[:, :128], 64, _NIBBLES, 15)
    high = _layers(data[:, 128:192], 32, _PAIRS, 3)
    quants = (low | high << 4).astype(np.int8) - np.int8(32)
    return Parts(quants, _half(data, 208) * _float(data[:, 192:208].view(np.int8)), None, 16)


def iq4_nl(data: Bytes) -> Parts:
    """A scale, and 32 numbers of values in a table."""
    return Parts(_FOURS[_nibbles(data[:, 2:])], _half(data, 0), None, 32)


def iq4_xs(data: Bytes) -> Parts:
    """A scale, eight scales of 6 bits above -32 (two bits of all, then four), and 256 numbers of
    values in a table.
    """
    high = np.ascontiguousarray(data[:, 2:4]).view("<u2") >> np.arange(0, 16, 2, dtype=np.uint16)
    low = (data[:, 4:8, None] >> _NIBBLES[:, 0] & 15).reshape(-1, 8)
    steps = (low | (high & 3).astype(np.uint8) << 4).astype(np.int8) - np.int8(32)
    quants = _FOURS[_layers(data[:, 8:], 16, _NIBBLES, 15)]
    return Parts(quants, _half(data, 0) * _float(steps), None, 32)


def mxfp4(data: Bytes) -> Parts:
    """An exponent (E8M0), and 32 floats of four bits (E2M1)."""
    exponent = data[:, :1].astype(np.uint32)
    bits = np.where(exponent < 2, 0x00200000 << exponent, (exponent - 1) << 23)
    return Parts(_E2M1[_nibbles(data[:, 1:])], bits.astype(np.uint32).view(np.float32), None, 32)


def _scales_of_six(data: Bytes) -> tuple[Floats, Floats]:
    """The scales and offsets of eight groups, of 6 bits each in twelve bytes after two scales."""
    first, second, third = data[:, 4:8], data[:, 8:12], data[:, 12:16]
    scales = np.concatenate([first & 63, third & 15 | first >> 2 & 48], axis=1)
    offsets = np.concatenate([second & 63, third >> 4 | second >> 2 & 48], axis=1)
    return _half(data, 0) * _float(scales), -(_half(data, 2) * _float(offsets))


def _nibbles(data: Bytes) -> Bytes:
    """The low, then the high halves of bytes: (b, n) → (b, 2 · n)."""
    return np.concatenate([data & 15, data >> 4], axis=1)


def _bits(data: Bytes) -> Bytes:
    """Bits, the lowest first: (b, n) → (b, 8 · n)."""
    return np.unpackbits(data, axis=1, bitorder="little")


def _layers(data: Bytes, width: int, shifts: Bytes, mask: int) -> Bytes:
    """For each run of `width` bytes, its layers of bits one after the other: (b, n) → (b, m)."""
    runs = np.ascontiguousarray(data).reshape(len(data), -1, 1, width)
    layers: Bytes = runs >> shifts & np.uint8(mask)
    return layers.reshape(len(data), -1)


def _half(data: Bytes, at: int) -> Floats:
    """A float16 of each block: (b, 1)."""
    return np.ascontiguousarray(data[:, at : at + 2]).view("<f2").astype(np.float32)


def _float(data: npt.NDArray[Any]) -> Floats:
    return data.astype(np.float32)
