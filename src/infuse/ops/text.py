"""Strings: cleaned, joined, split, matched against patterns, and counted as n-grams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ShapeError, TypeMismatchError, UnsupportedOperatorError
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Elementwise, Inferred, Op, same_dtype
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import fresh_dim
from infuse.ops.core.traits import Trait
from infuse.ops.domains.ml import as_texts

CASES: Final = ("NONE", "LOWER", "UPPER")


def texts(*words: str, shape: tuple[int, ...] | None = None) -> Array:
    """An array of strings, for samples."""
    return as_texts(words).reshape(shape or (len(words),))


def require_text(op: str, x: Value) -> None:
    """TypeMismatchError unless `x` holds strings."""
    if x.dtype != dtypes.string:
        raise TypeMismatchError(f"{op} takes strings, found {x.dtype}")


def _cased(text: str, how: str) -> str:
    """`text` in lower or upper case, character by character."""
    changes: dict[str, Callable[[str], str]] = {"LOWER": str.lower, "UPPER": str.upper, "NONE": str}
    change = changes[how]
    return "".join(c if len(change(c)) != 1 else change(c) for c in text)


class StringNormalizer(Op):
    """A list of strings without the stop words, in another case; an empty string where nothing is
    left.

    `locale` is not looked at: cases are those of Unicode.
    """

    traits = Trait.ZERO_FLOPS

    case_change_action: str = "NONE"
    is_case_sensitive: int = 0
    locale: str = ""
    stopwords: tuple[str, ...] = ()

    since = 10
    samples = (
        cases(
            x=[
                texts("Monday", "tuesday", "", "Éa"),
                texts("Monday", "b", shape=(1, 2)),
                texts("monday", "monday"),
            ],
            case_change_action=CASES,
            is_case_sensitive=[0, 1],
            stopwords=[("monday",), ()],
        ),
    )

    def infer(self, x: Value) -> Inferred:
        require_text(self.name, x)
        if self.case_change_action not in CASES:
            raise TypeMismatchError(
                f"{self.name} knows {', '.join(CASES)}, not {self.case_change_action!r}"
            )
        shape = x.tensor.shape
        if shape is None:
            return x.type
        if len(shape) not in (1, 2) or (
            len(shape) == 2 and shape[0] not in (1,) and isinstance(shape[0], int)
        ):
            raise ShapeError(f"{self.name} takes a list or one row of strings, found {x.type}")
        return TensorType(x.dtype, (*((1,) * (len(shape) - 1)), fresh_dim("kept")))

    def eval(self, x: Array) -> Array:
        if x.ndim == 2 and x.shape[0] != 1:
            raise ShapeError(
                f"{self.name} takes a list or one row of strings, found the shape {x.shape}"
            )
        plain = "NONE" if self.is_case_sensitive else "LOWER"
        stops = {_cased(word, plain) for word in self.stopwords}
        words = [
            _cased(v, self.case_change_action)
            for v in x.reshape(-1)
            if _cased(v, plain) not in stops
        ]
        return as_texts(words or [""]).reshape((1,) * (x.ndim - 1) + (-1,))


class StringConcat(Elementwise):
    """Strings joined element by element, with broadcasting."""

    since = 20
    samples = cases(
        x=[texts("a", "", "c"), texts("a", "b", shape=(2, 1)), texts("é")],
        y=[texts("1", "2", "3"), texts("x", "y"), texts(shape=(0,))],
    )

    def result_dtype(self, x: Value, y: Value) -> DType:
        require_text(self.name, x)
        return same_dtype(self.name, x, y)

    def eval(self, x: Array, y: Array) -> Array:
        return np.asarray(np.add(x.astype(object), y.astype(object)), dtype=object)


class StringSplit(Op):
    """The parts of each string between delimiters (or white space), filled up with empty strings;
    and their numbers.
    """

    traits = Trait.ZERO_FLOPS

    delimiter: str = ""
    maxsplit: int | None = None

    since = 20
    samples = (
        cases(
            x=[texts("a,b", "c", ",", ""), texts("a,b,c", "x", shape=(2, 1))],
            delimiter=[","],
            maxsplit=[None, 1],
        ),
        cases(x=[texts("  hello world ", "", "x"), texts(shape=(0,))], maxsplit=[None, 1]),
    )

    def infer(self, x: Value) -> Inferred:
        require_text(self.name, x)
        shape = x.tensor.shape
        parts = None if shape is None else (*shape, fresh_dim("parts"))
        return TensorType(dtypes.string, parts), TensorType(dtypes.int64, shape)

    def eval(self, x: Array) -> tuple[Array, Array]:
        most = -1 if self.maxsplit is None else self.maxsplit
        parts = [text.split(self.delimiter or None, most) for text in x.reshape(-1).tolist()]
        width = max(map(len, parts), default=0)
        flat = [part for row in parts for part in (*row, *[""] * (width - len(row)))]
        counts = np.array([len(row) for row in parts], np.int64)
        return as_texts(flat).reshape(*x.shape, width), counts.reshape(x.shape)


@cache
def compiled_pattern(pattern: str) -> Any:
    """A pattern in RE2's syntax, which matches in linear time; UnsupportedOperatorError where it is
    none.

    Needs the package google-re2.
    """
    try:
        import re2
    except ImportError as error:
        raise UnsupportedOperatorError(
            "RegexFullMatch needs the package google-re2", hint="install it: pip install google-re2"
        ) from error
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        raise UnsupportedOperatorError(
            f"the pattern {pattern!r} is not a regular expression of RE2: {error}"
        ) from error


class RegexFullMatch(Elementwise):
    """Whether each string as a whole matches a pattern in RE2's syntax. Needs the package
    google-re2.
    """

    pattern: str

    since = 20
    samples = cases(
        x=[
            texts("www.google.com", "www.facebook.com", "", "a\n"),
            texts("AB-12", "ab", "x y", "7", shape=(2, 2)),
        ],
        pattern=[
            r"www\.[\w.-]+\.\bcom\b",
            "(?i)[[:alpha:]]{2}-\\d+",
            "a$",
            r"[^\s]+|(?P<gap>. .)",
            "",
        ],
    )

    def result_dtype(self, x: Value) -> DType:
        require_text(self.name, x)
        compiled_pattern(self.pattern)
        return dtypes.bool_

    def eval(self, x: Array) -> Array:
        pattern = compiled_pattern(self.pattern)
        return np.array(
            [pattern.fullmatch(v) is not None for v in x.reshape(-1)], dtype=bool
        ).reshape(x.shape)


MISSING: Final = ("none", "nan")
"""What may stand in a tensor of strings in place of one: None, or NaN."""


class MissingText(Elementwise):
    """Where something missing, None or NaN as `value` says, stands in place of a string."""

    traits = Trait.ZERO_FLOPS

    value: str = "none"

    domain = "infuse"
    samples = cases(
        x=[
            texts("a", "None", "nan", ""),
            np.array([["a", None], [np.nan, "b"]], object),
            texts(shape=(0,)),
        ],
        value=MISSING,
    )

    def result_dtype(self, x: Value) -> DType:
        require_text(self.name, x)
        if self.value not in MISSING:
            raise TypeMismatchError(
                f"{self.name} knows {' and '.join(MISSING)}, not {self.value!r}"
            )
        return dtypes.bool_

    def eval(self, x: Array) -> Array:
        wanted = [v is None if self.value == "none" else v != v for v in x.reshape(-1).tolist()]
        return np.array(wanted, dtype=bool).reshape(x.shape)


# -- n-grams ---------------------------------------------------------------------------------------


@dataclass
class NgramTree:
    """N-grams as flat lists: node i continues with tokens[starts[i]:starts[i + 1]], which ascend,
    at `children`.

    `columns` tells what a node counts for, -1 nothing.
    """

    starts: list[int] = field(default_factory=list)
    tokens: list[Any] = field(default_factory=list)
    children: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)


class TfIdfVectorizer(Op):
    """How often each n-gram of a pool occurs in each row of tokens, up to `max_skip_count` others
    left out in between.

    The mode TF counts; IDF gives the weight of what occurs, TFIDF counts times the weight, by
    column.
    """

    traits = Trait.ZERO_FLOPS

    max_gram_length: int
    max_skip_count: int
    min_gram_length: int
    mode: str
    ngram_counts: tuple[int, ...]
    ngram_indexes: tuple[int, ...]
    pool_int64s: tuple[int, ...] = ()
    pool_strings: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()

    since = 9
    samples = (
        cases(
            x=[Ints((12,), 2, 9), Ints((3, 12), 2, 9, dtypes.int32), Ints((0,))],
            max_gram_length=[2],
            max_skip_count=[0, 5],
            min_gram_length=[1, 2],
            mode=["TF", "TFIDF"],
            ngram_counts=[(0, 4)],
            ngram_indexes=[(0, 1, 2, 3, 4, 5, 6)],
            pool_int64s=[(2, 3, 5, 4, 5, 6, 7, 8, 6, 7)],
            weights=[(), (1.0, 2.0, 0.5, 1.0, 2.0, 3.0, 0.25)],
        ),
        cases(
            x=[texts("a", "b", "a", "c"), texts("b", "b", "c", "a", shape=(2, 2))],
            max_gram_length=[2],
            max_skip_count=[0],
            min_gram_length=[1],
            mode=["IDF"],
            ngram_counts=[(0, 2)],
            ngram_indexes=[(1, 0, 3)],
            pool_strings=[("a", "b", "b", "c")],
            weights=[(0.5, 1.5, 2.5, 3.5)],
        ),
    )

    @property
    def columns(self) -> int:
        """The number of columns of the result."""
        return max(self.ngram_indexes, default=-1) + 1

    @property
    def pool(self) -> tuple[Any, ...]:
        """The tokens of all n-grams, one after another."""
        return self.pool_int64s or self.pool_strings

    def infer(self, x: Value) -> Inferred:
        is_text = bool(self.pool_strings)
        if is_text == bool(self.pool_int64s) or self.mode not in ("TF", "IDF", "TFIDF"):
            raise TypeMismatchError(
                f"{self.name} needs one pool, and a mode that is TF, IDF or TFIDF"
            )
        if (x.dtype == dtypes.string) != is_text or (
            not is_text and x.dtype not in (dtypes.int32, dtypes.int64)
        ):
            raise TypeMismatchError(
                f"{self.name} has a pool of {'strings' if is_text else 'int64'}, found {x.dtype}"
            )
        if self.weights and len(self.weights) < self.columns:
            raise TypeMismatchError(
                f"{self.name} has {len(self.weights)} weights for {self.columns} columns"
            )
        shape = x.tensor.shape
        if shape is not None and len(shape) > 2:
            raise ShapeError(f"{self.name} takes one or several rows of tokens, found {x.type}")
        self.grams()
        return TensorType(
            dtypes.float32,
            None if shape is None else (*shape[: max(0, len(shape) - 1)], self.columns),
        )

    def grams(self) -> dict[tuple[Any, ...], int]:
        """The n-grams of the lengths that count, and their columns."""
        columns: dict[tuple[Any, ...], int] = {}
        ends = (*self.ngram_counts[1:], len(self.pool))
        number = 0
        for length, (start, end) in enumerate(zip(self.ngram_counts, ends), 1):
            if not 0 <= start <= end <= len(self.pool):
                raise TypeMismatchError(
                    f"{self.name} has n-grams of length {length} outside of its pool"
                )
            for place in range(start, end - length + 1, length):
                if number >= len(self.ngram_indexes):
                    raise TypeMismatchError(f"{self.name} has more n-grams than indices")
                if self.min_gram_length <= length <= self.max_gram_length:
                    columns[self.pool[place : place + length]] = self.ngram_indexes[number]
                number += 1
        return columns

    def tree(self) -> NgramTree:
        """The n-grams as a tree of tokens."""
        grams = self.grams()
        below: dict[tuple[Any, ...], set[Any]] = {(): set()}
        for gram in grams:
            for length in range(len(gram)):
                below.setdefault(gram[:length], set()).add(gram[length])
        order: list[tuple[Any, ...]] = [()]
        tree = NgramTree()
        for prefix in order:
            tree.starts.append(len(tree.tokens))
            tree.columns.append(grams.get(prefix, -1))
            for token in sorted(below.get(prefix, ())):
                tree.tokens.append(token)
                tree.children.append(len(order))
                order.append((*prefix, token))
        tree.starts.append(len(tree.tokens))
        return tree

    def eval(self, x: Array) -> Array:
        grams, rows = self.grams(), x if x.ndim == 2 else x.reshape(1, -1)
        counts = np.zeros((len(rows), self.columns), np.float32)
        for count, row in zip(counts, rows.tolist()):
            for length in range(self.min_gram_length, self.max_gram_length + 1):
                # Of single tokens there is only one way to leave others out in between.
                for stride in range(1, 2 if length == 1 else self.max_skip_count + 2):
                    for first in range(len(row) - stride * (length - 1)):
                        column = grams.get(
                            tuple(row[first : first + stride * (length - 1) + 1 : stride]), -1
                        )
                        if column >= 0:
                            count[column] += 1
        weights = np.array(self.weights[: self.columns] or (1.0,), np.float32)
        if self.mode == "IDF":
            counts = np.where(counts > 0, weights, np.float32(0))
        elif self.mode == "TFIDF":
            counts = counts * weights
        return counts.reshape(*x.shape[: max(0, x.ndim - 1)], self.columns)
