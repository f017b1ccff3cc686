"""How texts are split into words and pairs are merged, against another engine."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from infuse.frontends.gguf.pretokenizers import PRE_TOKENIZERS
from tests.support.gguf_vocabularies import TEXTS, byte_pairs, vocabulary

tokenizers = pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")


NAMES = list({kind: name for name, kind in PRE_TOKENIZERS.items()}.values())
"""One for each way to split texts."""


@pytest.mark.parametrize("name", NAMES)
def test_texts_are_split_as_another_engine_does(name: str) -> None:
    regex = pytest.importorskip("regex", reason="the package regex is not installed")
    steps = [
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
        for pattern in PRE_TOKENIZERS[name].patterns
    ]
    split = tokenizers.pre_tokenizers.Sequence(steps)
    for text in TEXTS:
        words = [text] if text else []
        for pattern in PRE_TOKENIZERS[name].patterns:
            compiled = regex.compile(pattern, regex.VERSION0)
            words = [part for word in words for part in isolated(compiled, word)]
        assert [word for word, _ in split.pre_tokenize_str(text)] == words


def isolated(pattern: Any, text: str) -> list[str]:
    """A text at all borders of what a pattern matches."""
    borders = {0, len(text)}
    for match in pattern.finditer(text):
        borders |= set(match.span())
    return [text[a:b] for a, b in itertools.pairwise(sorted(borders))]


WORDS = {
    "gpt-2": ["It's", " 2024", "  ", " x", "!!", "\n\n", "\n", "ok"],
    "smollm": ["It's", " ", "2", "0", "2", "4", "  ", " x", "!!", "\n\n", "\n", "ok"],
    "llama-bpe": ["It's", " ", "202", "4", "  ", " x", "!!\n\n\n", "ok"],
    "qwen2": ["It's", " ", "2", "0", "2", "4", "  ", " x", "!!\n\n\n", "ok"],
    "default": ["It's", " ", "202", "4", "  ", " x", "!!", "\n\n", "\n", "ok"],
}


@pytest.mark.parametrize("name", WORDS)
def test_words_by_hand(name: str) -> None:
    steps = [
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
        for pattern in PRE_TOKENIZERS[name].patterns
    ]
    split = tokenizers.pre_tokenizers.Sequence(steps).pre_tokenize_str("It's 2024   x!!\n\n\nok")
    words = [word for word, _ in split]
    assert "".join(words) == "".join(WORDS[name])
    joined = (
        [words[0] + words[1] + words[2], *words[3:]]
        if words[1] == "'"
        else ([words[0] + words[1], *words[2:]])
    )
    assert joined == WORDS[name]


@pytest.mark.parametrize("name", ["gpt-2", "qwen2", "llama-bpe", "smollm", "tekken", "deepseek-v3"])
def test_pairs_are_merged_in_the_order_of_the_file(name: str, tmp_path: Path) -> None:
    pairs = byte_pairs()
    own = vocabulary(tmp_path, {**pairs, "tokenizer.ggml.pre": name})
    ranks = {
        tuple(line.split(" ")): rank for rank, line in enumerate(pairs["tokenizer.ggml.merges"])
    }
    numbers = {text: n for n, text in enumerate(pairs["tokenizer.ggml.tokens"])}
    steps = [
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
        for pattern in PRE_TOKENIZERS[name].patterns
    ]
    steps.append(tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    split = tokenizers.pre_tokenizers.Sequence(steps)
    for text in TEXTS:
        expected = []
        for word, _ in split.pre_tokenize_str(text):
            if PRE_TOKENIZERS[name].whole_words and word in numbers:
                expected.append(numbers[word])
            else:
                expected += [numbers[piece] for piece in merged(word, ranks)]
        assert own.encode(text, special=False) == expected


def merged(word: str, ranks: Mapping[Any, int]) -> list[str]:
    """The symbols of a word when no pair with a rank is left; the least is merged first."""
    symbols = list(word)
    while True:
        best = min(
            range(len(symbols) - 1),
            key=lambda at: ranks.get((symbols[at], symbols[at + 1]), 1 << 30),
            default=None,
        )
        if best is None or (symbols[best], symbols[best + 1]) not in ranks:
            return symbols
        symbols[best : best + 2] = [symbols[best] + symbols[best + 1]]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("run", [" ", "\u00a0", "1", "A", "!"])
def test_long_runs_take_time_in_proportion(name: str, run: str) -> None:
    steps = [
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
        for pattern in PRE_TOKENIZERS[name].patterns
    ]
    text, start = run * 20_000 + "1 a", time.perf_counter()
    words = tokenizers.pre_tokenizers.Sequence(steps).pre_tokenize_str(text)
    assert "".join(word for word, _ in words) == text
    assert time.perf_counter() - start < 3  # a twentieth of a second where nothing else runs
