"""Vocabularies of GGUF files for tests, and texts that are hard to split."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from infuse.frontends.gguf import GgufFile
from infuse.frontends.gguf.vocabulary import Vocabulary
from tests.support.gguf_writer import gguf_bytes, written

TEXTS = [
    "", " ", "   ", "\n\n", "\r\n x\r", "\t\ttabs", "Hello, world! It's 12345 o'clock, I'LL go.",
    "def f(x):\n    return x ** 2  # naïve\n",
    "日本語のテキスト、中文。한국어", "🙂👨‍👩‍👧 é e\u0301 ½",
    "CamelCaseHTTPServer snake_case 1,000,000.5", "Привет, мир! हिन्दी ไทย مرحبا",
    "a\u00a0b\u3000c\u2028d",
    "<|im_start|>user\nhi<|im_end|>", "x" * 300, " " * 50 + "y", "\x00\x01\x7f\ufeff",
]  # fmt: skip
NORMAL, UNKNOWN, CONTROL, WRITTEN, _, BYTE = range(1, 7)


def vocabulary(tmp_path: Path, fields: Mapping[str, Any]) -> Vocabulary:
    path = written(tmp_path / "a.gguf", gguf_bytes(fields))
    return Vocabulary(GgufFile(path).metadata)


def fields_of(
    kind: str, tokens: Sequence[str], types: Mapping[str, int] | None = None, **others: Any
) -> dict[str, Any]:
    """The fields of a tokenizer; `types` of tokens that are not normal, others by their names."""
    numbers = [(types or {}).get(token, NORMAL) for token in tokens]
    own = {"model": kind, "tokens": list(tokens), "token_type": np.array(numbers, np.int32)}
    return {f"tokenizer.ggml.{name}": value for name, value in {**own, **others}.items()}


@cache
def trained() -> tuple[list[str], list[str]]:
    """Tokens and merges that know no borders of words."""
    tokenizers = importlib.import_module("tokenizers")
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    own = tokenizers.Tokenizer(tokenizers.models.BPE())
    own.pre_tokenizer = byte_level(add_prefix_space=False, use_regex=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=900, initial_alphabet=byte_level.alphabet(), show_progress=False
    )
    texts = [text[at : at + 40] for text in TEXTS[:-4] for at in range(0, len(text), 10)]
    own.train_from_iterator(texts * 4, trainer)
    vocab = own.get_vocab()
    merges = json.loads(own.to_str())["model"]["merges"]
    return sorted(vocab, key=vocab.__getitem__), [" ".join(pair) for pair in merges]


def byte_pairs() -> dict[str, Any]:
    """The fields of a vocabulary of merged pairs, with special tokens in front."""
    tokens, merges = trained()
    special = dict.fromkeys(("<|end|>", "<|im_start|>", "<|im_end|>"), CONTROL)
    special["<tool>"] = WRITTEN
    return fields_of("gpt2", [*special, *tokens], special, merges=merges, pre="gpt-2")
