"""Where the terms of texts stand in a vocabulary, as scikit-learn's vectorizers split texts."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from infuse.ops.core.token_patterns import plain_tokens, token_pattern

Ints = npt.NDArray[np.int64]
_BLANKS: Final = re.compile(r"\s\s+")
_LARGEST_KEY: Final = 1 << 62
_LARGEST_TABLE: Final = 1 << 22


class Splitter:
    """Texts as lists of terms: runs of `least` to `most` tokens with a blank between (analyzer
    word), of as many characters (char), or of characters within a word that has a blank on each
    side (char_wb), where a word that is shorter than `least` is one term.
    """

    def __init__(self, op: Any) -> None:
        self.analyzer: str = op.analyzer
        self.least: int = op.least
        self.most: int = op.most
        self.lowercase = bool(op.lowercase)
        self.accents: str = op.accents
        self.stops = frozenset(op.stop_words)
        self.pattern: str = op.pattern

    def plain(self, text: str) -> str:
        """In small letters and without accents, where asked for."""
        text = text.lower() if self.lowercase else text
        if not self.accents or text.isascii():
            return text
        apart = unicodedata.normalize("NFKD", text)
        if self.accents == "ascii":
            return apart.encode("ascii", "ignore").decode()
        return "".join(c for c in apart if not unicodedata.combining(c))

    def terms(self, text: str) -> list[str]:
        """All terms of a text."""
        text = self.plain(text)
        if self.analyzer == "word":
            return self._runs_of_tokens(token_pattern(self.pattern).findall(text))
        text = _BLANKS.sub(" ", text)
        lengths = range(self.least, self.most + 1)
        if self.analyzer == "char":
            return [text[i : i + n] for n in lengths for i in range(len(text) - n + 1)]
        terms = []
        for word in text.split():
            framed = f" {word} "
            if self.least > len(framed):
                terms.append(framed)
            terms += [framed[i : i + n] for n in lengths for i in range(len(framed) - n + 1)]
        return terms

    def _runs_of_tokens(self, tokens: Sequence[str]) -> list[str]:
        tokens = [t for t in tokens if t not in self.stops]
        if self.most == 1:
            return tokens
        lengths = range(self.least, self.most + 1)
        return [" ".join(tokens[i : i + n]) for n in lengths for i in range(len(tokens) - n + 1)]

    def framed(self, text: str) -> str:
        """What runs of characters are cut from: for char_wb, words between blanks."""
        text = _BLANKS.sub(" ", self.plain(text))
        if self.analyzer == "char":
            return text
        words = text.split()
        return f" {'  '.join(words)} " if words else ""

    @cached_property
    def words(self) -> Callable[[str], list[bytes]] | None:
        """What splits a plain ASCII text into tokens by its bytes; None where tokens are other than
        the longest runs of a class of characters.
        """
        tokens = plain_tokens(self.pattern) if self.analyzer == "word" else None
        if tokens is None:
            return None
        table, shortest = tokens
        stops = frozenset(stop.encode() for stop in self.stops if stop.isascii())

        def split(text: str) -> list[bytes]:
            words = text.encode().translate(table).split()
            return [w for w in words if len(w) >= shortest and w not in stops]

        return split


class _Numbers(dict[bytes, int]):
    """A number for each term that is looked up, in their order."""

    def __missing__(self, term: bytes) -> int:
        return self.setdefault(term, len(self))


def numbered(splitter: Splitter, texts: Sequence[str]) -> tuple[Ints, Ints, list[bytes]]:
    """The row and the number of each term of each text, and the terms by their numbers."""
    numbers, flat, ends = _Numbers(), array("q"), [0]
    fast, lengths = splitter.words, range(splitter.least, splitter.most + 1)
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
                b" ".join(words[i : i + n]) for n in lengths for i in range(len(words) - n + 1)
            )
        flat.extend(map(numbers.__getitem__, terms))
        ends.append(len(flat))
    rows = np.repeat(np.arange(len(texts)), np.diff(ends))
    return rows, np.array(flat, np.int64), list(numbers)


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
                return self._of_characters(texts)
            return self._flat(map(self._slow, texts))
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

    # -- words of ASCII ----------------------------------------------------------------------------

    @cached_property
    def _fast(self) -> Callable[[str], Iterable[int]] | None:
        """What finds the places of a plain ASCII text by bytes; None where its tokens are other
        than the longest runs of a class of characters.
        """
        splitter, tokens = self.splitter, plain_tokens(self.splitter.pattern)
        split, absent = splitter.words, self.count
        if tokens is None or split is None:
            return None
        table, shortest = tokens
        stops = frozenset(stop.encode() for stop in splitter.stops)
        if splitter.most == 1:
            # Short tokens and stop words need not be left out: they have no place.
            get = self._by_bytes(1, shortest, stops).get
            return lambda text: map(get, text.encode().translate(table).split(), repeat(absent))
        lengths = range(splitter.least, splitter.most + 1)
        known = {n: self._by_bytes(n, shortest, stops).get for n in lengths}

        def runs(text: str) -> Iterable[int]:
            words = split(text)
            for n in lengths:
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
        characters = np.array(sorted({ord(c) for term in self.terms for c in term}), np.int64)
        longest = max(map(len, self.terms), default=0)
        base = len(characters) + 1
        if not longest or base**longest >= _LARGEST_KEY:
            return None
        numbers = np.zeros(int(characters[-1]) + 2, np.int64)
        numbers[characters] = np.arange(1, base)
        result = {}
        for n in sorted({len(term) for term in self.terms}):
            places = np.array([p for p, term in enumerate(self.terms) if len(term) == n])
            text = "".join(self.terms[p] for p in places)
            keys = _keys(numbers[_codes(text)].reshape(-1, n).T, base)
            order = np.argsort(keys)
            result[n] = keys[order], places[order]
        return numbers, result

    def _of_characters(self, texts: Sequence[str]) -> tuple[Ints, Ints]:
        assert self._tables is not None, "asked before"
        numbers, tables = self._tables
        base = int(numbers.max()) + 1
        parts = [self.splitter.framed(text) for text in texts]
        codes = _codes("".join(parts))
        letters = numbers[np.minimum(codes, len(numbers) - 1)]
        row = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        segment = self._segments(codes, row)
        rows, places = [], []
        for n, (keys, where) in tables.items():
            size = len(letters) - n + 1
            whole = self._allowed(n, segment, size)
            if whole is None:
                continue
            found = _keys([letters[i : i + size] for i in range(n)], base)
            at = np.minimum(np.searchsorted(keys, found), len(keys) - 1)
            hit = whole & (keys[at] == found)
            rows.append(row[:size][hit])
            places.append(where[at[hit]])
        if not rows:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return np.concatenate(rows), np.concatenate(places)

    def _segments(self, codes: Ints, row: Ints) -> Ints:
        """The number of the text, or of the word between its blanks, that each character is of."""
        if self.splitter.analyzer == "char":
            return row
        begins = np.zeros(len(codes), np.int64)
        begins[1:] = (codes[1:] == 32) & (codes[:-1] == 32)
        return np.cumsum(begins)

    def _allowed(self, n: int, segment: Ints, size: int) -> Any:
        """Where a run of n characters is a term; None where none is."""
        if size < 1 or n > self.splitter.most:
            return None
        within = segment[:size] == segment[n - 1 :]
        if n >= self.splitter.least:
            return within
        if self.splitter.analyzer == "char":
            return None
        lengths = np.bincount(segment)
        return within & (lengths[segment[:size]] == n)


def _codes(text: str) -> Ints:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)


def _keys(letters: Any, base: int) -> Ints:
    """One number for each run of characters, from the number of each."""
    result = letters[0]
    for letter in letters[1:]:
        result = result * base + letter
    return np.asarray(result)
