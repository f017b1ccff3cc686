"""Texts as counts of terms, and counts as weights."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from infuse.dtypes import by_numpy
from infuse.errors import InputError
from infuse.frontends.sklearn.calls import TRANSFORM, reads, transform, unsupported
from infuse.frontends.sklearn.term_matrix import TermMatrix
from infuse.ir.registry import make_operator
from infuse.tracing.tensors import Tensor

VECTORIZERS: Final = ("CountVectorizer", "TfidfVectorizer", "HashingVectorizer")
_ACCENTS: Final = {None: "", "ascii": "ascii", "unicode": "unicode"}


def _counts(model: Any, x: Tensor) -> TermMatrix:
    """How often each term occurs in each text."""
    attributes = _splitting(model, x)
    vocabulary = _vocabulary(model)
    attributes["vocabulary"] = tuple(sorted(vocabulary, key=vocabulary.__getitem__))

    def found() -> tuple[Tensor, Tensor]:
        places, values = _found(x, attributes)
        return places, (values > 0.0).floats() if model.binary else values

    def dense() -> Tensor:
        operator = make_operator("infuse", "CountTerms", attributes)
        counts = Tensor(x.g, x.g.apply(operator, [x.vector().value])[0])
        return (counts > 0).integers() if model.binary else counts

    return TermMatrix(x.g, found, len(vocabulary), dense=dense)


def _found(x: Tensor, attributes: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    operator = make_operator("infuse", "FindTerms", attributes)
    places, values = x.g.apply(operator, [x.vector().value], 2)
    return Tensor(x.g, places), Tensor(x.g, values)


def _splitting(model: Any, x: Tensor) -> dict[str, Any]:
    """How a vectorizer splits texts, as attributes of an operator."""
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
    is_word = model.analyzer == "word"
    if is_word and re.compile(model.token_pattern).groups:
        raise unsupported(model, "a token_pattern with groups", "write it without parentheses")
    least, most = model.ngram_range
    attributes: dict[str, Any] = {
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
    return attributes


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
    counts = _counts(model, x)
    return transform(model._tfidf, counts).astype(by_numpy(np.dtype(model.dtype)))


@reads(TRANSFORM, "HashingVectorizer")
def hashed(model: Any, x: Tensor) -> Tensor:
    """Counts of the hashes of terms, in rows of one length."""
    attributes = _splitting(model, x)
    attributes |= {
        "buckets": int(model.n_features),
        "alternate_sign": int(bool(model.alternate_sign)),
    }
    result = TermMatrix(x.g, lambda: _found(x, attributes), int(model.n_features))
    if model.binary:
        result = result.with_values(result.is_there().floats())
    normal: Tensor = of_one_length(result, model.norm)
    return normal.astype(by_numpy(np.dtype(model.dtype)))


@reads(TRANSFORM, "TfidfTransformer")
def weighted(model: Any, x: Tensor) -> Tensor:
    """Counts, or their logarithms and one, times the weights of their columns, in rows of one
    length. What is zero stays so, as it is not stored there.
    """
    values = x.values if isinstance(x, TermMatrix) else x
    zero = values.equals(0.0)
    if model.sublinear_tf:
        values = zero.where(0.0, zero.where(1.0, values).log() + 1.0)
    weights = model.idf_ if model.use_idf else getattr(model, "idf_", None)
    if isinstance(x, TermMatrix):
        result = x.with_values(values)
        result = result if weights is None else result.weighted(np.asarray(weights, np.float64))
        few: Tensor = of_one_length(result, model.norm)
        return few
    if weights is not None:
        values = zero.where(0.0, values * np.asarray(weights, np.float64))
    every: Tensor = of_one_length(values, model.norm)
    return every


def of_one_length(x: Any, norm: str | None) -> Any:
    """Rows divided by their norms, but for those without any."""
    if norm is None:
        return x
    values = x.values if isinstance(x, TermMatrix) else x
    norms = {
        "l1": lambda: values.abs().sum(keep=True),
        "l2": lambda: (values * values).sum(keep=True).sqrt(),
        "max": lambda: values.abs().max(keep=True),
    }[norm]()
    result = values / norms.equals(0.0).where(1.0, norms)
    return x.with_values(result) if isinstance(x, TermMatrix) else result
