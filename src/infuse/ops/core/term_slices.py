"""The terms of many texts at once, as slices of one buffer of their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from infuse.ops.core.byte_slices import (
    Array,
    BytesTable,
    Ints,
    NumberTable,
    Slices,
    padded,
)
from infuse.ops.core.term_splitting import Splitter
from infuse.ops.core.token_patterns import PlainTokens

_PIECE: Final = 1 << 18
"""About how many characters are split at once: what is made of them fits into a cache."""


class RowSlices(NamedTuple):
    """Slices of texts, in their order, and the row of each."""

    slices: Slices
    rows: Ints

    def of(self, which: Array) -> RowSlices:
        """Some of them, by a mask or by places."""
        return RowSlices(self.slices.of(which), self.rows[which])


def pieces(texts: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """The texts in parts of about so many characters, each with the number of its first."""
    sizes = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    begin = 0
    while begin < len(texts):
        reached = int(sizes[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(sizes, reached + _PIECE, "right")))
        yield begin, texts[begin:end]
        begin = end


class TokenSlices:
    """Splits texts into tokens that are the longest runs of a class of characters."""

    def __init__(self, splitter: Splitter, tokens: PlainTokens) -> None:
        self._splitter, self._tokens = splitter, tokens
        small = [ord(chr(c).lower()) if splitter.lowercase else c for c in range(128)]
        self._table = bytes(tokens.table[c] for c in small) + tokens.table[128:]
        self._stops = BytesTable([encoded(stop) for stop in splitter.stops])

    def of(self, texts: Sequence[str]) -> Iterator[RowSlices]:
        """The tokens without stop words, in parts whose rows do not meet."""
        for first, some in pieces(texts):
            is_plain = np.fromiter(map(str.isascii, some), bool, len(some))
            for plain in (True, False):
                rows = np.flatnonzero(is_plain == plain)
                if not len(rows):
                    continue
                listed = some if len(rows) == len(some) else [some[i] for i in rows.tolist()]
                found = self._ascii(listed) if plain else self._others(listed)
                found = found._replace(rows=rows[found.rows] + first)
                if self._splitter.stops:
                    found = found.of(self._stops.find(found.slices) < 0)
                yield found

    def _ascii(self, texts: Sequence[str]) -> RowSlices:
        joined = ("\n".join(texts) + "\n").encode().translate(self._table)
        content = padded(joined)
        inside = content[: len(joined)] != 32
        starts, ends = _runs(inside)
        lengths = ends - starts
        bounds = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)) + 1)
        return self._long_enough(content, starts, lengths, lengths, bounds)

    def _others(self, texts: Sequence[str]) -> RowSlices:
        plain = [self._splitter.plain(text) for text in texts]
        joined = "\n".join(plain) + "\n"
        codes = characters(joined)
        starts, ends = _runs(self._tokens.inside(codes))
        offsets = byte_offsets(codes)
        bounds = np.cumsum(np.fromiter(map(len, plain), np.int64, len(plain)) + 1)
        at = offsets[starts]
        return self._long_enough(
            padded(encoded(joined)), at, offsets[ends] - at, ends - starts, offsets[bounds]
        )

    def _long_enough(
        self, content: Array, starts: Ints, lengths: Ints, letters: Ints, bounds: Ints
    ) -> RowSlices:
        """Those of enough characters, with their rows, which end at `bounds`."""
        if self._tokens.shortest > 1:
            fit = np.flatnonzero(letters >= self._tokens.shortest)
            starts, lengths = starts[fit], lengths[fit]
        counts = np.diff(np.searchsorted(starts, bounds), prepend=0)
        rows = np.repeat(np.arange(len(bounds)), counts)
        return RowSlices(Slices(content, starts, lengths), rows)


class TokenRuns:
    """The places of terms, which are runs of tokens with a blank between."""

    def __init__(self, splitter: Splitter, tokens: PlainTokens, terms: Sequence[str]) -> None:
        shortest, stops = tokens.shortest, splitter.stops
        listed: list[tuple[int, list[bytes]]] = []
        for place, term in enumerate(terms):
            words = term.split(" ")
            if len(words) in splitter.lengths and not any(
                len(word) < shortest or word in stops for word in words
            ):
                listed.append((place, [encoded(word) for word in words]))
        numbers = {word: i for i, word in enumerate(sorted({w for _, t in listed for w in t}))}
        self._words, self._count = BytesTable(list(numbers)), len(numbers)
        # A run of n tokens is the number of its first n - 1 and the number of the last.
        self._levels: list[tuple[NumberTable | None, Ints]] = []
        heads: dict[tuple[int, ...], int] = {(i,): i for i in numbers.values()}
        for n in range(1, splitter.most + 1):
            runs = {place: tuple(numbers[w] for w in t) for place, t in listed if len(t) >= n}
            table = None
            if n > 1:
                distinct = sorted({run[:n] for run in runs.values()})
                keys = [heads[run[:-1]] * self._count + run[-1] for run in distinct]
                table = NumberTable(np.array(keys, np.uint64))
                heads = {run: i for i, run in enumerate(distinct)}
            places = np.full(len(heads), -1, np.int64)
            for place, run in runs.items():
                if len(run) == n:
                    places[heads[run]] = place
            self._levels.append((table, places))

    def find(self, tokens: RowSlices) -> Iterator[tuple[Ints, Ints]]:
        """The rows and the places of all terms that occur."""
        rows, numbers = tokens.rows, self._words.find(tokens.slices)
        at = np.flatnonzero(numbers >= 0)
        heads = numbers[at]
        for n, (table, places) in enumerate(self._levels, 1):
            if table is not None:
                last = at + n - 1
                fit = np.flatnonzero(last < len(rows))
                fit = fit[rows[last[fit]] == rows[at[fit]]]
                fit = fit[numbers[last[fit]] >= 0]
                at = at[fit]
                keys = heads[fit] * self._count + numbers[at + n - 1]
                heads = table.find(keys.astype(np.uint64))
                at, heads = at[heads >= 0], heads[heads >= 0]
            term = places[heads]
            hit = term >= 0
            yield rows[at[hit]], term[hit]


def runs_of(tokens: RowSlices, lengths: Iterable[int]) -> RowSlices:
    """All runs of so many tokens of a row, with a blank between."""
    content, starts, sizes = tokens.slices
    ends = np.cumsum(sizes + 1)
    begins = ends - sizes - 1
    source = np.repeat(starts - begins, sizes + 1) + np.arange(int(ends[-1]) if len(ends) else 0)
    joined = content[source]
    joined[ends - 1] = 32
    first, last = [], []
    for n in lengths:
        at = np.arange(max(0, len(sizes) - n + 1))
        at = at[tokens.rows[at] == tokens.rows[at + n - 1]]
        first.append(at)
        last.append(at + n - 1)
    at, to = np.concatenate(first), np.concatenate(last)
    return RowSlices(Slices(padded(joined), begins[at], ends[to] - 1 - begins[at]), tokens.rows[at])


class CharacterRuns:
    """Texts of which terms are runs of characters."""

    def __init__(self, splitter: Splitter, texts: Sequence[str]) -> None:
        self._splitter = splitter
        parts = [splitter.framed(text) for text in texts]
        self._joined = "".join(parts)
        self.codes = characters(self._joined)
        self.rows = np.repeat(
            np.arange(len(parts)), np.fromiter(map(len, parts), np.int64, len(parts))
        )

    @cached_property
    def _segments(self) -> Ints:
        """The number of the text, or of the word between its blanks, that each character is of."""
        if self._splitter.analyzer == "char":
            return self.rows
        begins = np.zeros(len(self.codes), np.int64)
        begins[1:] = (self.codes[1:] == 32) & (self.codes[:-1] == 32)
        return np.cumsum(begins)

    @cached_property
    def _sizes(self) -> Ints:
        return np.bincount(self._segments)

    def allowed(self, n: int) -> Any:
        """Where a run of n characters that begins there is a term; None where none is."""
        splitter, segments = self._splitter, self._segments
        size = len(self.codes) - n + 1
        if size < 1 or n > splitter.most:
            return None
        within = segments[:size] == segments[n - 1 :]
        if n >= splitter.least:
            return within
        if splitter.analyzer == "char":
            return None
        return within & (self._sizes[segments[:size]] == n)

    @cached_property
    def slices(self) -> RowSlices:
        """All terms."""
        offsets, starts, ends = byte_offsets(self.codes), [], []
        for n in range(1, self._splitter.most + 1):
            where = self.allowed(n)
            if where is not None:
                at = np.flatnonzero(where)
                starts.append(at)
                ends.append(at + n)
        empty = [np.zeros(0, np.int64)]
        at, to = np.concatenate(starts or empty), np.concatenate(ends or empty)
        content = padded(encoded(self._joined))
        return RowSlices(Slices(content, offsets[at], offsets[to] - offsets[at]), self.rows[at])


def characters(text: str) -> Array:
    """The number of each character."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def byte_offsets(codes: Array) -> Ints:
    """Where each character begins in UTF-8, and where the last ends."""
    sizes = np.ones(len(codes) + 1, np.int64)
    sizes[0] = 0
    for limit in (0x80, 0x800, 0x10000):
        sizes[1:] += codes >= limit
    return np.cumsum(sizes)


def encoded(text: str) -> bytes:
    """In UTF-8, surrogates too."""
    return text.encode("utf-8", "surrogatepass")


def _runs(inside: Array) -> tuple[Ints, Ints]:
    """Where the runs of what is inside begin and end; the last element is outside."""
    edges = np.flatnonzero(inside[1:] != inside[:-1]) + 1
    if len(inside) and inside[0]:
        edges = np.concatenate([[0], edges])
    return edges[::2], edges[1::2]
