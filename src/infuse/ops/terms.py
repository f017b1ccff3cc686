"""How often the terms of a vocabulary occur in texts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cached_property
from typing import Final

import numpy as np

from infuse import dtypes
from infuse.errors import TypeMismatchError
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op
from infuse.ops.core.samples import cases
from infuse.ops.core.token_patterns import token_pattern
from infuse.ops.core.traits import Trait
from infuse.ops.text import texts
from infuse.ops.tokens import count_of_texts, decoded

ANALYZERS: Final = ("word", "char", "char_wb")
ACCENTS: Final = ("", "ascii", "unicode")
WORDS: Final = r"(?u)\b\w\w+\b"
_BLANKS: Final = re.compile(r"\s\s+")


class CountTerms(Op):
    """How often each term of a vocabulary occurs in each text: texts [n] to int64 [n, terms].

    Terms are runs of `least` to `most` tokens with a blank between (analyzer word), of as many
    characters (char), or of characters within a word that has a blank on each side (char_wb), where
    a word that is shorter is one term. Tokens are what `pattern` matches (`token_pattern` of
    `ops/core/token_patterns.py`) and is no stop word. Before that the text is written in small
    letters (`lowercase`), and accents are taken off (`accents`): only those of combining characters
    (unicode), or with them all that is no ASCII (ascii).
    """

    traits = Trait.ZERO_FLOPS

    vocabulary: tuple[str, ...]
    analyzer: str = "word"
    pattern: str = WORDS
    lowercase: int = 1
    accents: str = ""
    stop_words: tuple[str, ...] = ()
    least: int = 1
    most: int = 1

    domain = "infuse"
    samples = (
        cases(
            text=[
                texts("The cat sat on THE mat.", "", "a cat_1, a cat 1", "Éa été"),
                texts("sat the cat sat the"),
            ],
            vocabulary=[
                ("the", "cat", "cat_1", "cat sat", "sat the cat", "éa", "nothing", "a cat")
            ],
            pattern=[WORDS, r"\w+|[.,]"],
            lowercase=[1, 0],
            stop_words=[(), ("on", "the")],
            most=[1, 3],
        ),
        cases(
            text=[texts("Aab  été\n\tb", "", "b", "É")],
            vocabulary=[
                (" ", "a", "ab", " b", "b ", " b ", "\u00e9t", "et", "\n", "aab", "\u00e9")
            ],
            analyzer=["char", "char_wb"],
            accents=ACCENTS,
            least=[1, 2],
            most=[2, 3],
        ),
    )

    @cached_property
    def _places(self) -> dict[str, int]:
        return {term: place for place, term in enumerate(self.vocabulary)}

    @cached_property
    def _lengths(self) -> list[int]:
        """Of how many tokens or characters a term of the vocabulary may be."""
        if self.analyzer == "word":
            most = max((term.count(" ") + 1 for term in self.vocabulary), default=0)
            return list(range(self.least, min(self.most, most) + 1))
        known = {len(term) for term in self.vocabulary}
        return sorted(n for n in known if self.least <= n <= self.most)

    def infer(self, text: Value) -> Inferred:
        count = count_of_texts(self.name, text)
        if self.analyzer not in ANALYZERS or self.accents not in ACCENTS:
            raise TypeMismatchError(
                f"{self.name} knows the analyzers {', '.join(ANALYZERS)}, and accents that are "
                f"empty, {' or '.join(ACCENTS[1:])}; found {self.analyzer!r} and {self.accents!r}"
            )
        if not 1 <= self.least <= self.most:
            raise TypeMismatchError(f"{self.name} counts runs of {self.least} to {self.most}")
        if not self.vocabulary or len(self._places) != len(self.vocabulary):
            raise TypeMismatchError(
                f"{self.name} needs a vocabulary in which each term stands once"
            )
        token_pattern(self.pattern)
        return TensorType(dtypes.int64, (count, len(self.vocabulary)))

    def eval(self, text: Array) -> Array:
        counts = np.zeros((len(text), len(self.vocabulary)), np.int64)
        places = self._places
        for row, one in zip(counts, decoded(text)):
            found = [places[term] for term in self._terms(self._plain(one)) if term in places]
            np.add.at(row, np.array(found, np.int64), 1)
        return counts

    def _plain(self, text: str) -> str:
        text = text.lower() if self.lowercase else text
        if not self.accents or text.isascii():
            return text
        apart = unicodedata.normalize("NFKD", text)
        if self.accents == "ascii":
            return apart.encode("ascii", "ignore").decode()
        return "".join(c for c in apart if not unicodedata.combining(c))

    def _terms(self, text: str) -> Iterator[str]:
        """The terms of a text, but for those of lengths that none of the vocabulary has."""
        if self.analyzer == "word":
            stops = self._stops
            tokens = [t for t in token_pattern(self.pattern).findall(text) if t not in stops]
            for n in self._lengths:
                yield from (" ".join(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
            return
        text = _BLANKS.sub(" ", text)
        if self.analyzer == "char":
            for n in self._lengths:
                yield from (text[i : i + n] for i in range(len(text) - n + 1))
            return
        for word in text.split():
            framed = f" {word} "
            # One that is shorter than a run is counted once, whole.
            if self.least > len(framed):
                yield framed
            for n in self._lengths:
                if n <= len(framed):
                    yield from (framed[i : i + n] for i in range(len(framed) - n + 1))

    @cached_property
    def _stops(self) -> frozenset[str]:
        return frozenset(self.stop_words)
