"""Which terms of a vocabulary occur in texts, and how often."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np

from infuse import dtypes
from infuse.errors import TypeMismatchError
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op
from infuse.ops.core.samples import cases
from infuse.ops.core.sizes import fresh_dim
from infuse.ops.core.stored_hashes import Hashes
from infuse.ops.core.term_hashing import hashes_of_terms, murmur_hashes
from infuse.ops.core.term_places import Vocabulary, are_few, numbered, sliced
from infuse.ops.core.term_splitting import Splitter
from infuse.ops.core.token_patterns import token_pattern
from infuse.ops.core.traits import Trait
from infuse.ops.text import texts
from infuse.ops.tokens import count_of_texts, decoded

ANALYZERS: Final = ("word", "char", "char_wb")
ACCENTS: Final = ("", "ascii", "unicode")
WORDS: Final = r"(?u)\b\w\w+\b"


class Terms(Op, abstract=True):
    """An operator that splits texts [n] into terms.

    Terms are runs of `least` to `most` tokens with a blank between (analyzer word), of as many
    characters (char), or of characters within a word that has a blank on each side (char_wb), where
    a word that is shorter is one term. Tokens are what `pattern` matches (`token_pattern` of
    `ops/core/token_patterns.py`) and is no stop word. Before that the text is written in small
    letters (`lowercase`), and accents are taken off (`accents`): only those of combining characters
    (unicode), or with them all that is no ASCII (ascii).
    """

    traits = Trait.ZERO_FLOPS

    vocabulary: tuple[str, ...] = ()
    analyzer: str = "word"
    pattern: str = WORDS
    lowercase: int = 1
    accents: str = ""
    stop_words: tuple[str, ...] = ()
    least: int = 1
    most: int = 1

    domain = "infuse"

    @cached_property
    def _splitter(self) -> Splitter:
        return Splitter(self)

    @cached_property
    def _terms(self) -> Vocabulary:
        return Vocabulary(self._splitter, self.vocabulary)

    def checked(self, text: Value) -> Dim:
        """How many texts there are; TypeMismatchError for options that say nothing."""
        count = count_of_texts(self.name, text)
        if self.analyzer not in ANALYZERS or self.accents not in ACCENTS:
            raise TypeMismatchError(
                f"{self.name} knows the analyzers {', '.join(ANALYZERS)}, and accents that are "
                f"empty, {' or '.join(ACCENTS[1:])}; found {self.analyzer!r} and {self.accents!r}"
            )
        if not 1 <= self.least <= self.most:
            raise TypeMismatchError(f"{self.name} counts runs of {self.least} to {self.most}")
        token_pattern(self.pattern)
        return count

    def check_vocabulary(self) -> None:
        """TypeMismatchError for a vocabulary without terms, or with one that is there twice."""
        if not self.vocabulary or len(set(self.vocabulary)) != len(self.vocabulary):
            raise TypeMismatchError(
                f"{self.name} needs a vocabulary in which each term stands once"
            )


class CountTerms(Terms):
    """How often each term of a vocabulary occurs in each text: texts [n] to int64 [n, terms]."""

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

    def infer(self, text: Value) -> Inferred:
        count = self.checked(text)
        self.check_vocabulary()
        return TensorType(dtypes.int64, (count, len(self.vocabulary)))

    def eval(self, text: Array) -> Array:
        size = len(self.vocabulary)
        rows, places = self._terms.occurrences(decoded(text))
        counts = np.bincount(rows * size + places, minlength=len(text) * size)
        return counts.reshape(len(text), size).astype(np.int64, copy=False)


class FindTerms(Terms):
    """The places of the terms that occur in each text, ascending, and how often each does: texts
    [n] to int64 and float64 [n, most of them in a text]; what fills up a row is a place behind all
    others, and zero.

    With `buckets`, there is no vocabulary, and the place of a term is the absolute value of its
    MurmurHash3 (32 bits, of UTF-8) modulo `buckets`; with `alternate_sign`, terms of a negative one
    count as -1. Sums that are zero stay, as they do in scikit-learn.
    """

    buckets: int = 0
    alternate_sign: int = 0

    samples = (
        cases(
            text=[
                texts("The cat sat on THE mat.", "", "a cat_1, a cat 1", "Éa été"),
                texts("sat the cat sat the"),
                texts(shape=(0,)),
            ],
            vocabulary=[("the", "cat", "cat_1", "cat sat", "sat the cat", "éa", "nothing")],
            stop_words=[(), ("on", "the")],
            most=[1, 3],
        ),
        cases(
            text=[texts("The cat sat on THE mat.", "", "cat, a cat 1 cat", "Éa été")],
            buckets=[8, 1048576],
            alternate_sign=[0, 1],
            analyzer=["word", "char_wb"],
            most=[1, 2],
        ),
    )

    @property
    def places(self) -> int:
        """The number of places, and the one behind them all."""
        return self.buckets or len(self.vocabulary)

    def infer(self, text: Value) -> Inferred:
        count = self.checked(text)
        if not self.buckets:
            self.check_vocabulary()
        elif self.vocabulary or not 0 < self.buckets < 1 << 31:
            raise TypeMismatchError(
                f"{self.name} has a vocabulary or 1 to 2147483647 buckets, not both"
            )
        size = fresh_dim("terms")
        return (
            TensorType(dtypes.int64, (count, size)),
            TensorType(dtypes.float64, (count, size)),
        )

    def eval(self, text: Array) -> tuple[Array, Array]:
        rows, places, negative = self._found(decoded(text))
        row, place, sums = _summed(rows, places, self.places, negative)
        lengths = np.bincount(row, minlength=len(text))
        column = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        shape = (len(text), int(lengths.max(initial=1)))
        at, values = np.full(shape, self.places, np.int64), np.zeros(shape)
        at[row, column], values[row, column] = place, sums
        return at, values

    @cached_property
    def _hashes(self) -> Hashes[bytes]:
        return Hashes(hashes_of_terms)

    def _found(self, listed: list[str]) -> tuple[Array, Array, Array | None]:
        """The row and the place of each term, and whether it counts as -1."""
        if not self.buckets:
            return *self._terms.occurrences(listed), None
        parts = None if are_few(listed) else sliced(self._splitter, listed)
        if parts is None:
            rows, numbers, terms = numbered(self._splitter, listed)
            hashes = self._hashes.of(terms)[numbers]
        else:
            pairs = [(part.rows, murmur_hashes(part.slices)) for part in parts]
            rows, hashes = map(np.concatenate, zip(*pairs))
        signs = hashes < 0 if self.alternate_sign else None
        return rows, np.abs(hashes) % self.buckets, signs


def _summed(
    rows: Array, places: Array, size: int, negative: Array | None
) -> tuple[Array, Array, Array]:
    """The row and the place (of so many) of each term once, ascending, and how often it is there,
    those that count as -1 taken off.
    """
    keys = rows * size + places
    keys = keys if negative is None else keys * 2 + negative
    if keys.max(initial=0) < 1 << 31:
        keys = keys.astype(np.int32)  # sorted in half the time
    distinct, sums = np.unique(keys, return_counts=True)
    if negative is not None:
        sums = np.where(distinct & 1, -sums, sums)
        distinct = distinct >> 1
        first = np.flatnonzero(np.diff(distinct, prepend=-1))
        distinct = distinct[first]
        sums = np.add.reduceat(sums, first) if len(first) else sums
    row, place = np.divmod(distinct, size)
    return row, place, sums
