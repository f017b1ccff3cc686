"""Terms of many texts at once, beside the same looked up and split one by one."""

import random
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from infuse.ops.core import term_places
from infuse.ops.core.byte_slices import BytesTable, NumberTable, slices_of
from infuse.ops.core.city_hashing import city_hash, city_hashes
from infuse.ops.core.stored_hashes import Hashes
from infuse.ops.core.term_hashing import murmur_hashes
from infuse.ops.core.token_patterns import plain_tokens
from infuse.ops.terms import CountTerms, FindTerms
from tests.pure.text_oracles import murmur

LENGTHS = (0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 25, 63, 64, 65, 300, 511, 512, 513, 3000)
CHARACTERS = "aabbcdeAB  \n\t_1é×Σς猫\U0001f600\u0301ßİ,.-\0"


def random_bytes(count: int) -> list[bytes]:
    draw = random.Random(0)
    return [bytes(draw.choices(b"ab\0\xff", k=draw.choice(LENGTHS))) for _ in range(count)]


def test_a_table_has_the_places_of_distinct_bytes() -> None:
    terms = list(dict.fromkeys(random_bytes(600)))
    listed = terms[::2]
    expected = [i // 2 if i % 2 == 0 else -1 for i in range(len(terms))]
    assert BytesTable(listed).find(slices_of(terms)).tolist() == expected
    assert BytesTable([]).find(slices_of([b"", b"a"])).tolist() == [-1, -1]
    assert BytesTable([b"", b"a"]).find(slices_of([b"a", b"", b"\0"])).tolist() == [1, 0, -1]
    assert BytesTable(listed).find(slices_of([])).tolist() == []


def test_numbers_of_one_slot_are_told_apart() -> None:
    numbers = np.arange(5000, dtype=np.uint64) << np.uint64(40)
    asked = np.concatenate([numbers, numbers + np.uint64(1)])
    expected = [*range(5000), *[-1] * 5000]
    assert NumberTable(numbers).find(asked).tolist() == expected


def test_hashes_of_terms() -> None:
    terms = random_bytes(300)
    assert murmur_hashes(slices_of(terms)).tolist() == [murmur(term) for term in terms]
    assert murmur(b"foo") == -156908512  # scikit-learn's test has it as 4138058784
    assert murmur_hashes(slices_of([])).tolist() == []


def test_hashes_of_categories_are_the_same_one_by_one_and_together() -> None:
    draw = random.Random(0)
    texts = [draw.randbytes(size) for size in (*range(140), *range(60))]
    assert city_hashes(texts).tolist() == [city_hash(text) for text in texts]


def test_few_hashes_are_stored_and_all_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infuse.ops.core.stored_hashes._MOST", 8)
    calls: list[int] = []

    def sizes(texts: Sequence[bytes]) -> Any:
        calls.append(len(texts))
        return np.array([len(text) for text in texts], np.int64)

    hashes = Hashes(sizes)
    for texts in ([b"a"] * 4, [b"a", b"bb"], [b"c" * n for n in range(20)], [b"d" * 400] * 2):
        assert hashes.of(texts).tolist() == [len(text) for text in texts]
    assert calls == [1, 1, 20, 1]
    hashes.of([b"d" * 400])
    assert calls[-1] == 1
    assert len(hashes._stored) <= 8


@pytest.mark.parametrize("pattern", [r"(?u)\b\w\w+\b", r"(?a)\w+", r"(?i)[a-z]{3,}", r"[^\s]+"])
def test_the_class_of_tokens(pattern: str) -> None:
    tokens = plain_tokens(pattern)
    assert tokens is not None
    characters = [*map(chr, range(0x250)), "\u0660", "\u212a", "猫", "\U0001f600", "\ud800"]
    alone = re.compile(pattern)
    inside = tokens.inside(np.array(list(map(ord, characters)), np.uint32))
    assert inside.tolist() == [bool(alone.fullmatch(c * 3)) for c in characters]


def random_texts(plain: bool) -> list[str]:
    draw = random.Random(1)
    characters = [c for c in CHARACTERS if c.isascii() or not plain]
    texts = ["", "a", "x" * 700 + " aa", "é" * 300]
    for _ in range(90):
        words = ["".join(draw.choices(characters, k=draw.choice((0, 1, 2, 3, 5, 9, 30))))
                 for _ in range(draw.choice((0, 1, 3, 20)))]  # fmt: skip
        texts.append(draw.choice(" ,\n").join(words))
    return texts


OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"most": 3, "stop_words": ("ab", "é", "x")},
    {"least": 2, "most": 2, "lowercase": 0, "pattern": r"(?i)[a-z]{3,}"},
    {"pattern": r"\w+", "accents": "ascii", "stop_words": ("a",)},
    {"pattern": r"[^\s]+", "accents": "unicode", "most": 2},
    {"analyzer": "char", "least": 1, "most": 3},
    {"analyzer": "char_wb", "least": 2, "most": 5, "accents": "unicode"},
)


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("options", OPTIONS)
def test_many_texts_are_split_as_one_by_one(
    options: dict[str, Any], plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = random_texts(plain)
    assert not term_places.are_few(texts)
    asked = np.array(texts, object)
    splitter = FindTerms(buckets=1, **options)._splitter
    terms = sorted({term for text in texts for term in splitter.terms(text)})[::2]
    monkeypatch.setattr("infuse.ops.core.term_slices._PIECE", 900)
    counts = [CountTerms(vocabulary=tuple(terms), **options).eval(asked)]
    hashed = [FindTerms(buckets=97, alternate_sign=1, **options).eval(asked)]
    monkeypatch.setattr(term_places, "_FEW", 1 << 60)
    counts.append(CountTerms(vocabulary=tuple(terms), **options).eval(asked))
    hashed.append(FindTerms(buckets=97, alternate_sign=1, **options).eval(asked))
    occurring = [Counter(splitter.terms(text)) for text in texts]
    expected = [[found[term] for term in terms] for found in occurring]
    for found in counts:
        assert found.tolist() == expected
    for few, many in zip(*hashed):
        np.testing.assert_array_equal(few, many)
