"""Texts as terms, as scikit-learn's vectorizers split them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

from infuse.ops.core.token_patterns import PlainTokens, plain_tokens, token_pattern

_BLANKS: Final = re.compile(r"\s\s+")


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

    @property
    def lengths(self) -> range:
        """Of how many tokens or characters terms are."""
        return range(self.least, self.most + 1)

    @cached_property
    def tokens(self) -> PlainTokens | None:
        """The tokens, where they are the longest runs of a class of characters."""
        return plain_tokens(self.pattern) if self.analyzer == "word" else None

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
        if self.analyzer == "char":
            return [text[i : i + n] for n in self.lengths for i in range(len(text) - n + 1)]
        terms = []
        for word in text.split():
            framed = f" {word} "
            if self.least > len(framed):
                terms.append(framed)
            terms += [framed[i : i + n] for n in self.lengths for i in range(len(framed) - n + 1)]
        return terms

    def _runs_of_tokens(self, tokens: Sequence[str]) -> list[str]:
        tokens = [t for t in tokens if t not in self.stops]
        if self.most == 1:
            return tokens
        return [
            " ".join(tokens[i : i + n]) for n in self.lengths for i in range(len(tokens) - n + 1)
        ]

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
        tokens = self.tokens
        if tokens is None:
            return None
        table, shortest = tokens.table, tokens.shortest
        stops = frozenset(stop.encode() for stop in self.stops if stop.isascii())

        def split(text: str) -> list[bytes]:
            words = text.encode().translate(table).split()
            return [w for w in words if len(w) >= shortest and w not in stops]

        return split
