"""What operators on texts give, in plain Python: where ONNX's own evaluator fails or means
something else.
"""

import itertools
import re
from typing import Any

import numpy as np

from infuse.testing.samples import Row


def _normalized(row: Row) -> list[Any]:
    """Stopwords are compared without case unless `is_case_sensitive`; ONNX's evaluator always
    compares with it.
    """
    given = row.op.attributes()
    x = row.inputs[0]
    fold = (lambda text: text) if given["is_case_sensitive"] else str.lower
    stop = {fold(word) for word in given["stopwords"] or ()}
    change = {"LOWER": str.lower, "UPPER": str.upper, "NONE": str}[given["case_change_action"]]
    lines = [[change(text) for text in line if fold(text) not in stop] for line in np.atleast_2d(x)]
    if not lines or not lines[0]:
        lines = [[""]]
    made = np.array(lines, dtype=object)
    return [made if x.ndim == 2 else made[0]]


def _counted(row: Row) -> list[Any]:
    """Every n-gram of the pool, at every distance; ONNX's evaluator wants texts and numbers at
    once.
    """
    given = row.op.attributes()
    pool = list(given["pool_strings"] or given["pool_int64s"])
    starts = [*given["ngram_counts"], len(pool)]
    grams = []
    for length, (start, stop) in enumerate(itertools.pairwise(starts), 1):
        grams += [tuple(pool[i : i + length]) for i in range(start, stop, length)]
    x = row.inputs[0]
    made = np.zeros((len(np.atleast_2d(x)), max(given["ngram_indexes"]) + 1), np.float32)
    for line, items in zip(made, np.atleast_2d(x).tolist()):
        for gram, place in zip(grams, given["ngram_indexes"]):
            if given["min_gram_length"] <= len(gram) <= given["max_gram_length"]:
                line[place] = _occurrences(items, gram, given["max_skip_count"])
    # By place in the result, as ONNX's evaluator and ONNX Runtime take them; the text could mean
    # the order of the pool.
    weights = np.float32((given["weights"] or [1] * made.shape[1])[: made.shape[1]])
    if given["mode"] != "TF":
        made = (made > 0) * weights if given["mode"] == "IDF" else made * weights
    return [made.astype(np.float32) if x.ndim == 2 else made[0].astype(np.float32)]


def _matched(row: Row) -> list[Any]:
    """ONNX's evaluator does not know RE2's names of classes."""
    pattern = re.compile(row.op.attributes()["pattern"].replace("[[:alpha:]]", "[A-Za-z]"))
    return [
        np.vectorize(lambda text: pattern.fullmatch(text) is not None, otypes=[bool])(row.inputs[0])
    ]


def _occurrences(items: list[Any], gram: tuple[Any, ...], skips: int) -> int:
    distances = range(1, 2 if len(gram) == 1 else skips + 2)
    return sum(
        tuple(items[start : start + step * (len(gram) - 1) + 1 : step]) == gram
        for step in distances
        for start in range(len(items) - step * (len(gram) - 1))
    )


TEXT_ORACLES = {
    "RegexFullMatch": _matched,
    "StringNormalizer": _normalized,
    "TfIdfVectorizer": _counted,
}
