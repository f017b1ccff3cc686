"""A small GPT on the King James Bible: perplexity on chapters that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.compression_tasks.base import Answers, Prepared, Recipe, Truth
from benchmarks.compression_tasks.packages import Packages
from benchmarks.compression_tasks.verses import chapters

VOCABULARY, WINDOW = 2048, 128
HELD_OUT = 20
"""One chapter of so many is not learned."""
CALIBRATING, TESTED = 64, 128


def tokenized(texts: list[str], tokenizer: Any) -> np.ndarray:
    """The tokens of texts, joined and cut into windows [n, WINDOW + 1] that share their ends."""
    ids = np.concatenate([np.array(one.ids) for one in tokenizer.encode_batch(texts)])
    starts = np.arange(0, len(ids) - WINDOW - 1, WINDOW)
    return ids[starts[:, None] + np.arange(WINDOW + 1)]


def prepared(packages: Packages) -> Prepared:
    """A GPT with a vocabulary of its own, trained for some minutes."""
    from tokenizers import ByteLevelBPETokenizer

    from benchmarks.compression_tasks.gpt import Gpt, fit
    from benchmarks.compression_tasks.training import onnx_file, seeded

    texts = ["\n".join(chapter) for chapter in chapters(packages)]
    learned = [text for i, text in enumerate(texts) if i % HELD_OUT]
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(learned, VOCABULARY, show_progress=False)
    windows = tokenized(learned, tokenizer)
    unseen = tokenized(texts[::HELD_OUT], tokenizer)
    rng = np.random.default_rng(0)
    unseen = unseen[np.sort(rng.permutation(len(unseen))[:TESTED])]
    seeded()
    network = fit(Gpt(VOCABULARY, WINDOW), windows)
    calibration = windows[rng.permutation(len(windows))[:CALIBRATING]]
    return Prepared(
        onnx_file(network, [windows[:1, :-1]], ["tokens"], "logits"),
        [{"tokens": row[None, :-1]} for row in calibration],
        [{"tokens": row[None, :-1]} for row in unseen],
        {"next": unseen[:, 1:]},
    )


def perplexity(answers: Sequence[Answers], truth: Truth) -> float:
    """The exponential of the mean cross entropy of the next token."""
    total = 0.0
    for one, after in zip(answers, truth["next"], strict=True):
        logits = one["logits"][0].astype(np.float64)
        peak = logits.max(-1, keepdims=True)
        log_sum = peak[:, 0] + np.log(np.exp(logits - peak).sum(-1))
        total += float(np.sum(log_sum - logits[np.arange(len(after)), after]))
    return float(np.exp(total / truth["next"].size))


RECIPES = (Recipe("gpt_kjv", "perplexity", prepared, perplexity, higher_is_better=False),)
