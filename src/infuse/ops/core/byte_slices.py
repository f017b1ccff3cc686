"""Slices of one buffer of bytes, looked up in tables all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
_WORD: Final = 8
_LARGEST: Final = (1 << 64) - 1
PADDING: Final = 2 * _WORD
"""How many bytes follow the last slice of a buffer: two words are read for each."""
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_SPREAD: Final = 0xD6E8FEB86659FD93
_MASKS: Final = np.array([0] + [(1 << 8 * n) - 1 for n in range(1, _WORD + 1)], np.uint64)


class Slices(NamedTuple):
    """Slices of `content` (uint8, a multiple of 8 bytes, PADDING of them behind all slices)."""

    content: Array
    starts: Ints
    lengths: Ints

    def of(self, which: Array) -> Slices:
        """Some of them, by a mask or by places."""
        return Slices(self.content, self.starts[which], self.lengths[which])

    def words(self, number: int) -> Array:
        """The bytes from `number` · 8 on of each as uint64, little-endian, zero where it ended;
        none may have ended before.
        """
        starts, size = self.starts, self.lengths
        if number:
            starts, size = starts + number * _WORD, size - number * _WORD
        aligned = self.content.view("<u8")
        place = starts >> 3
        bits = (starts.astype(np.uint64) & np.uint64(7)) << np.uint64(3)
        low = aligned[place] >> bits
        # Shifts by 64 bits have no meaning: one bit first, the other 63 - bits behind it.
        high = (aligned[place + 1] << np.uint64(1)) << (np.uint64(63) - bits)
        words: Array = (low | high) & _MASKS[np.minimum(size, _WORD)]
        return words


def padded(content: bytes | bytearray | Array) -> Array:
    """Bytes with PADDING behind them, zeros, so that slices of them may be read in words."""
    bare = np.frombuffer(content, np.uint8) if not isinstance(content, np.ndarray) else content
    result = np.zeros(-(-(len(bare) + PADDING) // _WORD) * _WORD, np.uint8)
    result[: len(bare)] = bare
    return result


def slices_of(terms: Sequence[bytes]) -> Slices:
    """Each of some bytes, one after another."""
    lengths = np.fromiter(map(len, terms), np.int64, len(terms))
    return Slices(padded(b"".join(terms)), np.cumsum(lengths) - lengths, lengths)


class NumberTable:
    """The places of distinct numbers (uint64) in a list of them."""

    def __init__(self, numbers: Array) -> None:
        self._bits = np.uint64(64 - max(1, int(len(numbers) * 4).bit_length()))
        slots = self._slots(numbers)
        order = np.argsort(slots, kind="stable")
        self._numbers = np.append(numbers[order], np.uint64(0))
        self._places = np.append(order, -1)
        size = 1 << (64 - int(self._bits))
        ends = np.cumsum(np.bincount(slots, minlength=size))
        self._starts = np.concatenate([[0], ends])
        self._most = int(np.diff(self._starts).max(initial=0))

    def _slots(self, numbers: Array) -> Array:
        slots: Ints = ((numbers * _FACTOR) >> self._bits).astype(np.int64)
        return slots

    def find(self, numbers: Array) -> Ints:
        """The place of each, -1 where it has none."""
        slots = self._slots(numbers)
        at = self._starts[slots]
        # Where a slot is empty stands a number of another slot, or the last one, without a place.
        found = np.where(self._numbers[at] == numbers, self._places[at], -1)
        if self._most < 2:
            return found
        rest = np.flatnonzero((found < 0) & (self._starts[slots + 1] - at > 1))
        step = 1
        while len(rest):
            there = at[rest] + step
            same = self._numbers[there] == numbers[rest]
            found[rest[same]] = self._places[there[same]]
            step += 1
            rest = rest[~same]
            rest = rest[self._starts[slots[rest] + 1] - at[rest] > step]
        return found


class BytesTable:
    """The places of distinct byte strings in a list of them."""

    def __init__(self, terms: Sequence[bytes]) -> None:
        self._slices = slices_of(terms)
        self._firsts = self._slices.words(0)
        self._longest = max(map(len, terms), default=0)
        self._seed = 1
        while len(np.unique(mixed := self._mixed(self._slices, self._firsts))) < len(terms):
            self._seed += 2
        self._table = NumberTable(mixed)

    def _mixed(self, slices: Slices, firsts: Array) -> Array:
        """One number for each slice, which distinct terms have distinct."""
        factor = np.uint64(_SPREAD * self._seed & _LARGEST)
        result: Array = (slices.lengths.astype(np.uint64) * factor) ^ firsts
        number, rest = 1, np.flatnonzero(slices.lengths > _WORD)
        while len(rest):
            before = result[rest]
            before = (before ^ (before >> np.uint64(29))) * factor
            result[rest] = before ^ slices.of(rest).words(number)
            number += 1
            rest = rest[slices.lengths[rest] > number * _WORD]
        return result

    def find(self, slices: Slices) -> Ints:
        """The place of each, -1 where it has none."""
        result = np.full(len(slices.starts), -1, np.int64)
        fit = np.flatnonzero(slices.lengths <= self._longest)
        few = slices if len(fit) == len(result) else slices.of(fit)
        firsts = few.words(0)
        found = self._table.find(self._mixed(few, firsts))
        hit = np.flatnonzero(found >= 0)
        places = found[hit]
        same = (few.lengths[hit] == self._slices.lengths[places]) & (
            firsts[hit] == self._firsts[places]
        )
        hit, places = hit[same], places[same]
        number, rest = 1, np.flatnonzero(few.lengths[hit] > _WORD)
        others = np.ones(len(hit), bool)
        while len(rest):
            one, other = few.of(hit[rest]), self._slices.of(places[rest])
            same = one.words(number) == other.words(number)
            others[rest[~same]] = False
            number += 1
            rest = rest[same & (one.lengths > number * _WORD)]
        result[fit[hit[others]]] = places[others]
        return result
