"""Texts as counts of terms, and counts as weights."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from infuse.dtypes import by_numpy
from infuse.errors import InputError
from infuse.frontends.sklearn.calls import TRANSFORM, reads, transform, unsupported
from infuse.ir.registry import make_operator
from infuse.tracing.tensors import Tensor

VECTORIZERS: Final = ("CountVectorizer", "TfidfVectorizer")
_ACCENTS: Final = {None: "", "ascii": "ascii", "unicode": "unicode"}


def _counts(model: Any, x: Tensor) -> Tensor:
    """How often each term occurs in each text: int64."""
    for option in ("preprocessor", "tokenizer"):
        if getattr(model, option) is not None:
            raise unsupported(model, f"a {option}", "use a token_pattern, or load what follows it")
    if callable(model.analyzer):
        raise unsupported(model, "an analyzer that is a function", "use 'word' or 'char'")
    if callable(model.strip_accents):
        raise unsupported(model, "strip_accents that is a function", "use 'unicode' or 'ascii'")
    if model.input != "content":
        raise unsupported(model, f"input={model.input!r}", "give it the texts themselves")
    if model.encoding.lower().replace("_", "-") not in ("utf-8", "utf8", "ascii"):
        raise unsupported(model, f"encoding={model.encoding!r}", "fit it to strings")
    vocabulary = _vocabulary(model)
    is_word = model.analyzer == "word"
    if is_word and re.compile(model.token_pattern).groups:
        raise unsupported(model, "a token_pattern with groups", "write it without parentheses")
    least, most = model.ngram_range
    attributes = {
        "vocabulary": tuple(sorted(vocabulary, key=vocabulary.__getitem__)),
        "analyzer": model.analyzer,
        "lowercase": int(bool(model.lowercase)),
        "accents": _ACCENTS[model.strip_accents or None],
        "least": int(least),
        "most": int(most),
    }
    if is_word:
        stops = model.get_stop_words() or ()
        attributes |= {"pattern": model.token_pattern, "stop_words": tuple(sorted(stops))}
    if x.rank == 2 and x.width != 1:
        raise InputError(f"{type(model).__name__} takes one column of texts, not {x.width}")
    operator = make_operator("infuse", "CountTerms", attributes)
    counts = Tensor(x.g, x.g.apply(operator, [x.vector().value])[0])
    return (counts > 0).integers() if model.binary else counts


def _vocabulary(model: Any) -> Mapping[str, int]:
    """The places of terms: those that were found, or those that were given to it."""
    given = getattr(model, "vocabulary_", None)
    given = model.vocabulary if given is None else given
    if given is None:
        raise InputError(f"{type(model).__name__} is not fitted", hint="call its fit method first")
    if isinstance(given, Mapping):
        return given
    listed = sorted(given) if isinstance(given, (set, frozenset)) else list(given)
    return {term: place for place, term in enumerate(listed)}


@reads(TRANSFORM, "CountVectorizer")
def counted(model: Any, x: Tensor) -> Tensor:
    """How often terms occur, or whether they do."""
    return _counts(model, x).astype(by_numpy(np.dtype(model.dtype)))


@reads(TRANSFORM, "TfidfVectorizer")
def weighted_terms(model: Any, x: Tensor) -> Tensor:
    """Counts of terms, weighted."""
    counts = _counts(model, x).floats()
    return transform(model._tfidf, counts).astype(by_numpy(np.dtype(model.dtype)))


@reads(TRANSFORM, "TfidfTransformer")
def weighted(model: Any, x: Tensor) -> Tensor:
    """Counts, or their logarithms and one, times the weights of their columns, in rows of one
    length. What is zero stays so, as it is not stored there.
    """
    zero = x.equals(0.0)
    if model.sublinear_tf:
        x = zero.where(0.0, zero.where(1.0, x).log() + 1.0)
    weights = model.idf_ if model.use_idf else getattr(model, "idf_", None)
    if weights is not None:
        x = zero.where(0.0, x * np.asarray(weights, np.float64))
    if model.norm is None:
        return x
    norms = x.abs().sum(keep=True) if model.norm == "l1" else (x * x).sum(keep=True).sqrt()
    return x / norms.equals(0.0).where(1.0, norms)
