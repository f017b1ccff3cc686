"""Texts, a small tokenizer, and programs with it."""

from typing import Any

import numpy as np

from infuse import processing
from infuse.ops.tokens import sample_tokenizer

SMALL = sample_tokenizer().encode()


def strings(*parts: str) -> Any:
    result = np.empty(len(parts), object)
    result[:] = parts
    return result


def small(text: Any) -> Any:
    return processing.tokenize(text, tokenizer=SMALL, pad_token="[PAD]", max_length=6)


def program(text: Any) -> Any:
    ids, mask, _ = processing.tokenize(text, tokenizer=SMALL, pad_token="[PAD]", max_length=6)
    return {"ids": ids, "mask": mask, "text": processing.detokenize(ids, tokenizer=SMALL)}
