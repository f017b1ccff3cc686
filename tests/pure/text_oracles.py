"""What operators on texts give, in plain Python: where ONNX's own evaluator fails or means
something else.
"""

import itertools
import re
import unicodedata
from typing import Any

import numpy as np

from infuse.ops.tokens import WORDS
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


def _tokenized(row: Row) -> list[Any]:
    """The rules of the samples' tokenizer by hand: words by white space in lower case, the longest
    piece first, frames, cuts and fillings.
    """
    op = row.op
    rows = [
        _framed(op, *(_numbers(text) for text in pair if text is not None))
        for pair in itertools.zip_longest(*(x for x in row.inputs if x is not None))
    ]
    width = max((len(ids) for ids, _ in rows), default=0)
    width = op.max_length if op.padding == "max_length" else -(-width // op.multiple) * op.multiple
    made = np.zeros((3, len(rows), width), np.int64)
    made[0], made[2] = op.pad_id, op.pad_type_id
    for i, (ids, kinds) in enumerate(rows):
        at = slice(0, len(ids)) if op.padding_side == "right" else slice(width - len(ids), width)
        made[0, i, at], made[1, i, at], made[2, i, at] = ids, 1, kinds
    return list(made)


def _numbers(text: str) -> list[int]:
    return list(itertools.chain.from_iterable(map(_pieces, text.lower().split())))


def _pieces(word: str) -> list[int]:
    """The tokens of a word: its longest beginnings, or the unknown one for all of it."""
    left, prefix, made = word, "", []
    while left:
        for end in range(len(left), 0, -1):
            if prefix + left[:end] in WORDS:
                made.append(WORDS.index(prefix + left[:end]))
                left, prefix = left[end:], "##"
                break
        else:
            return [1]
    return made


def _framed(op: Any, *lists: list[int]) -> tuple[list[int], list[int]]:
    frame = (1 + len(lists)) * bool(op.special_tokens)
    while op.max_length and sum(map(len, lists)) + frame > op.max_length:
        longer = 0 if op.truncation == "only_first" else len(lists) - 1
        if op.truncation == "longest_first" and len(lists) > 1:
            longer = int(len(lists[1]) >= len(lists[0]))
        lists[longer].pop(-1 if op.truncation_side == "right" else 0)
    ids, kinds = ([2], [0]) if op.special_tokens else ([], [])
    for kind, part in enumerate(lists):
        more = [*part, 3] if op.special_tokens else part
        ids, kinds = ids + more, kinds + [kind] * len(more)
    return ids, kinds


def _joined(row: Row) -> list[Any]:
    """Tokens with blanks between, but for the ends of words."""
    made = []
    for line in row.inputs[0].tolist():
        words = [WORDS[i] for i in line if i > 3 or not row.op.skip_special_tokens]
        text = "".join(w[2:] if w.startswith("##") and n else f" {w}" for n, w in enumerate(words))
        made.append(text[1:])
    return [np.array(made, dtype=object)]


def _missing(row: Row) -> list[Any]:
    """By the type of each element."""
    kind = type(None) if row.op.value == "none" else float
    return [np.frompyfunc(lambda v: isinstance(v, kind), 1, 1)(row.inputs[0]).astype(bool)]


def _runs(op: Any, text: str) -> list[str]:
    """Every place of a text is asked whether a run begins there that is a term."""
    text = text.lower() if op.lowercase else text
    if op.accents:
        keep = str.isascii if op.accents == "ascii" else lambda c: not unicodedata.combining(c)
        text = "".join(filter(keep, unicodedata.normalize("NFKD", text)))
    if op.analyzer == "word":
        signs = op.pattern.endswith("[.,]")
        marked = "".join(c if c.isalnum() or c == "_" else f" {c} " for c in text)
        words = [w for w in marked.split() if w[0].isalnum() or (signs and w in ".,")]
        words = [w for w in words if (signs or len(w) > 1) and w not in op.stop_words]
        lines, glue = [words], " "
    else:
        plain = re.sub(r"\s{2,}", " ", text)
        words = [plain] if op.analyzer == "char" else [f" {w} " for w in plain.split()]
        lines, glue = [list(w) for w in words], ""
    lengths = range(op.least, op.most + 1)
    return [
        glue.join(line[i : i + n])
        for line in lines
        for n in lengths
        for i in range(len(line))
        if i + n <= len(line)
    ]


def _terms(row: Row) -> list[Any]:
    """How often each term of the vocabulary is among the runs."""
    op = row.op
    listed = [_runs(op, text) for text in row.inputs[0].tolist()]
    made = [[runs.count(term) for term in op.vocabulary] for runs in listed]
    return [np.array(made, np.int64).reshape(-1, len(op.vocabulary))]


def _found_terms(row: Row) -> list[Any]:
    """The same by places in ascending order, those of hashes too."""
    op, size = row.op, row.op.buckets or len(row.op.vocabulary)
    sums: list[dict[int, int]] = []
    for text in row.inputs[0].tolist():
        sums.append({})
        for run in _runs(op, text):
            place, sign = size, 1
            if op.buckets:
                value = murmur(run.encode())
                place, sign = abs(value) % size, -1 if value < 0 and op.alternate_sign else 1
            elif run in op.vocabulary:
                place = op.vocabulary.index(run)
            if place < size:
                sums[-1][place] = sums[-1].get(place, 0) + sign
    longest = max((len(one) for one in sums), default=0)
    longest = max(longest, 1)
    rows = [sorted(one.items()) + [(size, 0)] * (longest - len(one)) for one in sums]
    table = np.array(rows, np.float64).reshape(-1, longest, 2)
    return [table[..., 0].astype(np.int64), table[..., 1]]


def murmur(data: bytes) -> int:
    """MurmurHash3 of 32 bits by Python's integers."""
    h, whole = 0, len(data) // 4 * 4
    for i in range(0, len(data), 4):
        k = int.from_bytes(data[i : i + 4], "little") * 0xCC9E2D51 & 0xFFFFFFFF
        h ^= (k << 15 | k >> 17) * 0x1B873593 & 0xFFFFFFFF
        if i < whole:
            h = ((h << 13 | h >> 19) & 0xFFFFFFFF) * 5 + 0xE6546B64 & 0xFFFFFFFF
    h ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        h = (h ^ h >> shift) * factor & 0xFFFFFFFF
    return h - (h >> 31 << 32)


_HASHES = {
    **{"": 797982799, "a": -805065478, "red": -1242798403, "1234": -1848678467},
    **{"-17": -1981090261, "ünï": -1072714353, "nine char": -1579513843},
    **{"sixteen letters!": 1409682486, "seventeen letters": -580945932, "t" * 32: 111645833},
    **{"u" * 33: -570836930, "v" * 64: 545430306, "w" * 65: 1141626801, "x" * 128: 1142986461},
    **{"yz" * 100: 640053614, "猫" * 43: 1645615578},
}
"""What CatBoost 1.2.10 writes of categories that a tree of one split tells from all others."""


def _hashed(row: Row) -> list[Any]:
    """By a list."""
    (found,) = row.inputs
    return [np.array([_HASHES[v] for v in found.reshape(-1)], np.int64).reshape(found.shape)]


TEXT_ORACLES = {
    "HashText": _hashed,
    "CountTerms": _terms,
    "FindTerms": _found_terms,
    "Detokenize": _joined,
    "Tokenize": _tokenized,
    "MissingText": _missing,
    "RegexFullMatch": _matched,
    "StringNormalizer": _normalized,
    "TfIdfVectorizer": _counted,
}
