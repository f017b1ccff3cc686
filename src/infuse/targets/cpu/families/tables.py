"""Tables and texts: lists of labels, counts of n-grams, and support vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.targets.cpu.families.base import Arguments, Array, Stores, leading, writes


@writes("lookup")
def lookup(call: Arguments) -> Stores:
    """The value beside each element in a list of keys, of which NaN is one; another value for
    others.
    """
    n, x, keys, count, values, otherwise = call.arguments[:6]
    own, listed = leading(x, n)[:, None], leading(keys, count)
    equal = (own == listed) | ((own != own) & (listed != listed))
    beside = np.append(leading(values, count), leading(otherwise, 1))
    return {6: beside[np.where(equal.any(1), equal.argmax(1) if count else 0, count)]}


@writes("count_ngrams")
def count_ngrams(call: Arguments) -> Stores:
    """How often each n-gram of a tree is in each row of tokens, with others left out between."""
    grams, rows, size, columns, x = call.arguments[:5]
    counts = np.zeros((rows, columns))
    for row, tokens in enumerate(x[: rows * size].reshape(rows, size)):
        for skip, first in np.ndindex(grams.skips + 1, size):
            line = tokens[first :: skip + 1][: grams.most]
            least = max(grams.least, 2) if skip else grams.least
            # A row has to be long enough for the shortest n-gram.
            if least > grams.most or first + (skip + 1) * (least - 1) >= size:
                continue
            for length, column in _grams(grams, line):
                counts[row, column] += length >= least
    return {5: counts}


def _grams(grams: Any, tokens: Array) -> list[tuple[int, int]]:
    """The n-grams that tokens begin with: how long each is, and its column."""
    node, ended = 0, []
    for number, token in enumerate(tokens):
        begin, end = grams.starts[node : node + 2]
        places = np.flatnonzero(grams.tokens[begin:end] == token)
        if not places.size:
            break
        node = int(grams.children[begin + places[0]])
        if grams.columns[node] >= 0:
            ended.append((number + 1, int(grams.columns[node])))
    return ended


# -- support vectors -------------------------------------------------------------------------------


@writes("square_distances")
def square_distances(call: Arguments) -> Stores:
    """The squares of distances of rows from vectors, which lie side by side: [width, padded]."""
    rows, width, count, padded, x, vectors = call.arguments[:6]
    lines = x[: rows * width].astype(np.float64).reshape(rows, 1, width)
    others = vectors[: width * padded].astype(np.float64).reshape(width, padded)[:, :count].T
    return {6: ((lines - others) ** 2).sum(2)}


@writes("couple_pairs")
def couple_pairs(call: Arguments) -> Stores:
    """Probabilities of classes that fit best to those of pairs, as far as libsvm goes."""
    rows, classes, pairs = call.arguments[:3]
    count = classes * (classes - 1) // 2
    odds = pairs[: rows * count].astype(np.float64).reshape(rows, count)
    return {3: np.stack([_coupled(own, classes) for own in odds]) if rows else odds}


def _coupled(pairs: Array, classes: int) -> Array:
    first, second = np.triu_indices(classes, 1)
    r = np.zeros((classes, classes))
    r[first, second], r[second, first] = pairs, 1 - pairs
    q = -r.T * r
    np.fill_diagonal(q, (r**2).sum(0))
    p = np.full(classes, 1 / classes)
    for _ in range(max(classes, 100)):
        if np.abs(q @ p - p @ q @ p).max() < 0.005 / classes:
            break
        for i in range(classes):
            p[i] += (p @ q @ p - q[i] @ p) / q[i, i]
            p = p / p.sum()
    return p
