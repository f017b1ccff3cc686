"""Entropy coding of bytes by asymmetric numeral systems (rANS), many lanes side by side.

Symbol i of n goes to lane i mod L, each lane has STEPS of them, and the rest of the last row is
padding. A lane has a state of 32 bits and words of 16 bits of its own, so that any lanes of any
streams are decoded together by vector instructions of NumPy, and groups of lanes side by side.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import numpy as np

from infuse.errors import ModelFileError
from infuse.immutable import Immutable
from infuse.ir.graph import Array

STEPS = 512
"""Symbols of a lane: more cost less for states, and leave less to do side by side."""
GROUP = 4096
"""Lanes that one thread decodes together: states, tables and words of so many fit into a cache."""
LEAST = 16
"""Lanes that a part of a stream counts as in a group, at least, since it brings a table."""
BITS = 12
TOTAL = 1 << BITS
LOW = 1 << 16
_ENCODED = 1 << 15


class Stream(Immutable):
    """Symbols as coded: how often each of 256 is reckoned with, of TOTAL; the first state of each
    lane, how many words it has, and the words of all lanes in order.
    """

    frequencies: Array
    states: Array
    counts: Array
    words: Array


def frequencies_of(counts: Array) -> Array:
    """How often each of 256 symbols is reckoned with, in sum TOTAL: about in proportion to its
    count, at least 1 where that is not 0, and for at least two symbols.
    """
    counts = counts.astype(np.float64)
    if np.count_nonzero(counts) < 2:
        only = int(counts.argmax())
        counts[only], counts[(only + 1) % 256] = TOTAL, 1
    ideal = counts * (TOTAL / counts.sum())
    result = np.where(counts > 0, np.maximum(1, np.rint(ideal)), 0)
    while result.sum() > TOTAL:
        # The one whose code grows least by losing a place.
        loss = counts * np.log2(np.maximum(result, 1) / np.maximum(result - 1, 1))
        result[np.where(result > 1, loss, np.inf).argmin()] -= 1
    while result.sum() < TOTAL:
        gain = np.where(counts > 0, counts * np.log2((result + 1) / np.maximum(result, 1)), -1)
        result[gain.argmax()] += 1
    return result.astype(np.uint16)


def encoded(symbols: Array) -> Stream:
    """The stream of uint8 symbols [n], n at least 1."""
    counts = np.bincount(symbols, minlength=256)
    lanes = -(-len(symbols) // STEPS)
    rows = np.full(STEPS * lanes, counts.argmax(), np.uint8)
    rows[: len(symbols)] = symbols
    grid = rows.reshape(STEPS, lanes)
    frequencies = frequencies_of(counts)
    parts = [
        _encoded_lanes(grid[:, start : start + _ENCODED], frequencies)
        for start in range(0, lanes, _ENCODED)
    ]
    states, word_counts, words = (np.concatenate(each) for each in zip(*parts))
    return Stream(frequencies, states, word_counts, words)


def _encoded_lanes(grid: Array, frequencies: Array) -> tuple[Array, Array, Array]:
    """States, numbers of words, and words of symbols [STEPS, lanes]."""
    lanes = grid.shape[1]
    widths = frequencies.astype(np.uint32)
    starts = np.cumsum(widths, dtype=np.uint32) - widths
    state = np.full(lanes, LOW, np.uint32)
    words = np.zeros((lanes, STEPS), np.uint16)
    place = np.full(lanes, STEPS)
    for symbols in grid[::-1]:
        width, start = widths[symbols], starts[symbols]
        full = np.flatnonzero(state >= width << np.uint32(32 - BITS))
        place[full] -= 1
        words[full, place[full]] = state[full] & np.uint32(LOW - 1)
        state[full] >>= np.uint32(16)
        quotient, rest = np.divmod(state, width)
        state = (quotient << np.uint32(BITS)) + rest + start
    written = words[np.arange(STEPS) >= place[:, None]]
    return state, (STEPS - place).astype(np.uint16), written


class _Part(Immutable):
    """Lanes `first` to `end` of a stream, and where they put their symbols [STEPS, lanes]."""

    stream: Stream
    first: int
    end: int
    symbols: Array


def decoded(streams: Sequence[Stream]) -> list[Array]:
    """The symbols of streams, uint8 [STEPS · lanes] each; what is padding there, the caller knows.

    ModelFileError where frequencies contradict themselves, or a lane does not end where it should.
    """
    results = [np.empty((STEPS, len(stream.states)), np.uint8) for stream in streams]
    groups: list[list[_Part]] = [[]]
    room = GROUP
    for stream, symbols in zip(streams, results):
        first = 0
        while first < len(stream.states):
            if room <= 0:
                groups.append([])
                room = GROUP
            end = min(len(stream.states), first + room)
            groups[-1].append(_Part(stream, first, end, symbols[:, first:end]))
            room -= max(end - first, LEAST)
            first = end
    if len(groups) > 1:
        with ThreadPoolExecutor(min(len(groups), os.cpu_count() or 1)) as threads:
            list(threads.map(_decode_group, groups))
    elif groups[0]:
        _decode_group(groups[0])
    return [symbols.reshape(-1) for symbols in results]


def _decode_group(parts: Sequence[_Part]) -> None:
    tables = np.concatenate([_table(part.stream.frequencies) for part in parts])
    sizes = [part.end - part.first for part in parts]
    base = np.repeat(np.arange(len(parts), dtype=np.uint32) << np.uint32(BITS), sizes)
    state = np.concatenate([part.stream.states[part.first : part.end] for part in parts])
    counts = np.concatenate([part.stream.counts[part.first : part.end] for part in parts])
    words = np.concatenate([*map(_words, parts), np.zeros(STEPS, np.uint16)])
    ends = np.cumsum(counts, dtype=np.int64)
    if not _decode_lanes(state, tables, base, words, ends, counts, parts):
        _fail("a coded weight does not end where it should")


def _decode_lanes(
    state: Array,
    tables: Array,
    base: Array,
    words: Array,
    ends: Array,
    counts: Array,
    parts: Sequence[_Part],
) -> bool:
    """Write the symbols of all lanes; whether each lane ended in the first state of its coding, at
    its last word.
    """
    mask, shift, byte = np.uint32(TOTAL - 1), np.uint32(BITS), np.uint32(24)
    place = ends - counts
    index = np.empty(len(state), np.intp)
    entry, rest = np.empty(len(state), np.uint32), np.empty(len(state), np.uint32)
    rows = np.empty((STEPS, len(state)), np.uint8)
    for row in rows:
        np.bitwise_and(state, mask, out=rest)
        np.bitwise_or(rest, base, out=rest)
        np.copyto(index, rest, casting="unsafe")
        tables.take(index, out=entry, mode="wrap")
        np.right_shift(entry, byte, out=row, casting="unsafe")
        np.right_shift(state, shift, out=state)
        np.bitwise_and(entry, mask, out=rest)
        np.multiply(state, rest, out=state)
        np.right_shift(entry, shift, out=entry)
        np.bitwise_and(entry, mask, out=entry)
        np.add(state, entry, out=state)
        short = np.flatnonzero(state < LOW)
        at = place[short]
        state[short] = (state[short] << np.uint32(16)) | words[at]
        place[short] = at + 1
    start = 0
    for part in parts:
        lanes = part.end - part.first
        part.symbols[:] = rows[:, start : start + lanes]
        start += lanes
    return bool(np.array_equal(place, ends) and (state == LOW).all())


def _words(part: _Part) -> Array:
    """The words of lanes."""
    ends = np.cumsum(part.stream.counts[: part.end], dtype=np.int64)
    first = int(ends[part.first - 1]) if part.first else 0
    return part.stream.words[first : int(ends[-1])]


def _table(frequencies: Array) -> Array:
    """For each of TOTAL places: its symbol in 8 bits, its distance from the first place of the
    symbol in 12, and the frequency of the symbol in 12.
    """
    widths = frequencies.astype(np.uint32)
    if len(widths) != 256 or widths.max() >= TOTAL or widths.sum() != TOTAL:
        _fail("the frequencies of a coded weight contradict themselves")
    symbols = np.repeat(np.arange(256, dtype=np.uint32), widths)
    starts = np.cumsum(widths, dtype=np.uint32) - widths
    distance = np.arange(TOTAL, dtype=np.uint32) - starts[symbols]
    table: Array = symbols << np.uint32(24) | distance << np.uint32(BITS) | widths[symbols]
    return table


def _fail(what: str) -> NoReturn:
    raise ModelFileError(what, hint="the file is damaged or was not written by Infuse")
