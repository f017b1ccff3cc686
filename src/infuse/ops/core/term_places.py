"""Where the terms of texts stand in a vocabulary, and which they are without one."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any, Final

import numpy as np

from infuse.ops.core.byte_slices import Ints
from infuse.ops.core.term_slices import (
    CharacterRuns,
    RowSlices,
    TokenRuns,
    TokenSlices,
    characters,
    pieces,
    runs_of,
)
from infuse.ops.core.term_splitting import Splitter

_LARGEST_KEY: Final = 1 << 62
_FEW: Final = 4096
"""Characters up to which texts are split one by one: below, the calls of NumPy cost more."""


def are_few(texts: Sequence[str]) -> bool:
    """Whether texts are so short that they are split one by one."""
    return sum(map(len, texts)) < _FEW


class _Numbers(dict[bytes, int]):
    """A number for each term that is looked up, in their order."""

    def __missing__(self, term: bytes) -> int:
        return self.setdefault(term, len(self))


def numbered(splitter: Splitter, texts: Sequence[str]) -> tuple[Ints, Ints, list[bytes]]:
    """The row and the number of each term of each text, and the terms by their numbers."""
    numbers, flat, ends = _Numbers(), array("q"), [0]
    fast = splitter.words
    terms: Iterable[bytes]
    for text in texts:
        plain = splitter.plain(text)
        if fast is None or not plain.isascii():
            terms = (term.encode("utf-8", "surrogatepass") for term in splitter.terms(text))
        elif splitter.most == 1:
            terms = fast(plain)
        else:
            words = fast(plain)
            terms = (
                b" ".join(words[i : i + n])
                for n in splitter.lengths
                for i in range(len(words) - n + 1)
            )
        flat.extend(map(numbers.__getitem__, terms))
        ends.append(len(flat))
    rows = np.repeat(np.arange(len(texts)), np.diff(ends))
    return rows, np.array(flat, np.int64), list(numbers)


def sliced(splitter: Splitter, texts: Sequence[str]) -> Iterator[RowSlices] | None:
    """The terms of texts, in parts; None where they have to be split one by one."""
    if splitter.analyzer != "word":
        return _character_slices(splitter, texts)
    if splitter.tokens is None:
        return None
    tokens = TokenSlices(splitter, splitter.tokens).of(texts)
    return tokens if splitter.most == 1 else (runs_of(part, splitter.lengths) for part in tokens)


def _character_slices(splitter: Splitter, texts: Sequence[str]) -> Iterator[RowSlices]:
    for first, some in pieces(texts):
        part = CharacterRuns(splitter, some).slices
        yield part._replace(rows=part.rows + first)


class Vocabulary:
    """The places of terms, and those that each text of a list has."""

    def __init__(self, splitter: Splitter, terms: Sequence[str]) -> None:
        self.splitter = splitter
        self.terms = terms
        self.count = len(terms)
        self._places = {term: place for place, term in enumerate(terms)}

    def occurrences(self, texts: Sequence[str]) -> tuple[Ints, Ints]:
        """The row and the place of each term that occurs, once for each time that it does."""
        if self.splitter.analyzer != "word":
            if self._tables is not None:
                return _joined(self._of_characters(texts))
            return self._flat(map(self._slow, texts))
        if self._tokens is not None and not are_few(texts):
            split, runs = self._tokens
            return _joined(pair for part in split.of(texts) for pair in runs.find(part))
        if self._fast is None:
            return self._flat(map(self._slow, texts))
        fast = self._fast
        plain = map(self.splitter.plain, texts)
        return self._flat(fast(text) if text.isascii() else self._slow(text) for text in plain)

    def _flat(self, found: Iterable[Iterable[int]]) -> tuple[Ints, Ints]:
        places, ends = array("q"), [0]
        for one in found:
            places.extend(one)
            ends.append(len(places))
        flat = np.frombuffer(places, np.int64) if places else np.zeros(0, np.int64)
        rows = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        known = flat < self.count
        return rows[known], flat[known]

    def _slow(self, text: str) -> Iterable[int]:
        return map(self._places.get, self.splitter.terms(text), repeat(self.count))

    # -- words -------------------------------------------------------------------------------------

    @cached_property
    def _tokens(self) -> tuple[TokenSlices, TokenRuns] | None:
        """What finds the terms of many texts at once; None where tokens are other than the longest
        runs of a class of characters.
        """
        splitter, tokens = self.splitter, self.splitter.tokens
        if tokens is None:
            return None
        return TokenSlices(splitter, tokens), TokenRuns(splitter, tokens, self.terms)

    @cached_property
    def _fast(self) -> Callable[[str], Iterable[int]] | None:
        """What finds the places of a plain ASCII text by bytes; None as for `_tokens`."""
        splitter, tokens = self.splitter, self.splitter.tokens
        split, absent = splitter.words, self.count
        if tokens is None or split is None:
            return None
        table, shortest = tokens.table, tokens.shortest
        stops = frozenset(stop.encode(errors="surrogatepass") for stop in splitter.stops)
        if splitter.most == 1:
            # Short tokens and stop words need not be left out: they have no place.
            get = self._by_bytes(1, shortest, stops).get
            return lambda text: map(get, text.encode().translate(table).split(), repeat(absent))
        known = {n: self._by_bytes(n, shortest, stops).get for n in splitter.lengths}

        def runs(text: str) -> Iterable[int]:
            words = split(text)
            for n in splitter.lengths:
                given = words if n == 1 else zip(*(words[i:] for i in range(n)))
                yield from map(known[n], given, repeat(absent))

        return runs

    def _by_bytes(self, n: int, shortest: int, stops: frozenset[bytes]) -> Mapping[Any, int]:
        """The places of terms of n tokens, by the bytes of the token or the tuple of them."""
        result: dict[Any, int] = {}
        for place, term in enumerate(self.terms):
            words = tuple(term.encode(errors="surrogatepass").split(b" "))
            if len(words) != n or any(len(w) < shortest or w in stops for w in words):
                continue
            result[words[0] if n == 1 else words] = place
        return result

    # -- characters --------------------------------------------------------------------------------

    @cached_property
    def _tables(self) -> tuple[Ints, dict[int, tuple[Ints, Ints]]] | None:
        """The number of each character, and for each length of terms its keys, ascending, with
        their places; None where keys do not fit into 64 bits.
        """
        letters = np.array(sorted({ord(c) for term in self.terms for c in term}), np.int64)
        longest = max(map(len, self.terms), default=0)
        base = len(letters) + 1
        if not longest or base**longest >= _LARGEST_KEY:
            return None
        numbers = np.zeros(int(letters[-1]) + 2, np.int64)
        numbers[letters] = np.arange(1, base)
        result = {}
        for n in sorted({len(term) for term in self.terms}):
            places = np.array([p for p, term in enumerate(self.terms) if len(term) == n])
            text = "".join(self.terms[p] for p in places)
            keys = _keys(numbers[characters(text)].reshape(-1, n).T, base)
            order = np.argsort(keys)
            result[n] = keys[order], places[order]
        return numbers, result

    def _of_characters(self, texts: Sequence[str]) -> Iterator[tuple[Ints, Ints]]:
        assert self._tables is not None, "asked before"
        numbers, tables = self._tables
        base = int(numbers.max()) + 1
        runs = CharacterRuns(self.splitter, texts)
        letters = numbers[np.minimum(runs.codes, len(numbers) - 1)]
        for n, (keys, where) in tables.items():
            allowed = runs.allowed(n)
            if allowed is None:
                continue
            size = len(letters) - n + 1
            found = _keys([letters[i : i + size] for i in range(n)], base)
            at = np.minimum(np.searchsorted(keys, found), len(keys) - 1)
            hit = allowed & (keys[at] == found)
            yield runs.rows[:size][hit], where[at[hit]]


def _joined(pairs: Iterable[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    listed = [*pairs] or [(np.zeros(0, np.int64),) * 2]
    rows, places = zip(*listed)
    return np.concatenate(rows), np.concatenate(places)


def _keys(letters: Any, base: int) -> Ints:
    """One number for each run of characters, from the number of each."""
    result = letters[0]
    for letter in letters[1:]:
        result = result * base + letter
    return np.asarray(result)
