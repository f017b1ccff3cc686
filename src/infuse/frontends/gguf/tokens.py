"""The tables of tokens in a GGUF file."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from infuse.errors import ModelFileError
from infuse.frontends.gguf.metadata import Metadata

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""The types of tokens."""
_KEYS: Final = {
    "bos": ("bos_token_id", "cls_token_id"),
    "eos": ("eos_token_id",),
    "eot": ("eot_token_id",),
    "eom": ("eom_token_id",),
    "unknown": ("unknown_token_id",),
    "separator": ("seperator_token_id", "separator_token_id"),
    "padding": ("padding_token_id",),
    "mask": ("mask_token_id",),
}
"""Which fields name a special token; the first spelling of the separator is the usual one."""


class Tokens:
    """Texts, types (int32) and scores of all tokens by their number, and numbers by text.

    An empty token has no number by text. ModelFileError where two tokens have one text, and where a
    table does not fit the others.
    """

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self.texts: list[str] = metadata.texts("tokenizer.ggml.tokens").all()
        count = len(self.texts)
        self.numbers = dict(zip(self.texts, range(count)))
        empty = self.texts.count("")
        self.numbers.pop("", None)
        if not self.numbers:
            raise ModelFileError("its vocabulary has no tokens")
        if len(self.numbers) + empty != count:
            last = {text: number for number, text in enumerate(self.texts)}
            twice = next(n for n, text in enumerate(self.texts) if text and last[text] != n)
            raise ModelFileError(
                f"the tokens {twice} and {last[self.texts[twice]]} are both "
                f"{self.texts[twice][:80]!r}"
            )
        types = self._table("token_type", "iu")
        self.types: npt.NDArray[Any] = (
            np.full(count, NORMAL, np.int32) if types is None else types.astype(np.int32)
        )
        self._scores = self._table("scores", "fiu")

    def __len__(self) -> int:
        return len(self.texts)

    def required_scores(self) -> npt.NDArray[np.float64]:
        """The scores; ModelFileError where there are none, or one is no number."""
        if self._scores is None:
            raise ModelFileError("it has no field 'tokenizer.ggml.scores'")
        if not np.isfinite(self._scores).all():
            number = int(np.argmin(np.isfinite(self._scores)))
            raise ModelFileError(f"the score of token {number} is {self._scores[number]}")
        return self._scores.astype(np.float64)

    def special(self, name: str, default: int | None = None) -> int | None:
        """The number of a special token: what the file says, else `default` where that is a
        token's. ModelFileError for a number that is none.
        """
        for key in _KEYS[name]:
            number = self._metadata.integer(f"tokenizer.ggml.{key}", None)
            if number is None:
                continue
            if not 0 <= number < len(self):
                raise ModelFileError(
                    f"tokenizer.ggml.{key} is {number}, and there are {len(self)} tokens"
                )
            return int(number)
        return default if default is None or default < len(self) else None

    def _table(self, name: str, kinds: str) -> npt.NDArray[Any] | None:
        table = self._metadata.numbers(f"tokenizer.ggml.{name}", None)
        if table is None:
            return None
        if table.dtype.kind not in kinds or len(table) < len(self):
            raise ModelFileError(
                f"tokenizer.ggml.{name} has {len(table)} elements of {table.dtype} for "
                f"{len(self)} tokens"
            )
        return np.asarray(table[: len(self)])
