"""Tokens of a vocabulary that stand for themselves wherever a text has them, and what they mean."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from typing import Final

from infuse.errors import ModelFileError

_LONGEST: Final = 256
_SPACES: Final = re.compile(r"[ \t\n\v\f\r]*")
_ENDS_OF_TURN: Final = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
    "<EOT>", "_<EOT>", "[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>",
)  # fmt: skip
END_TEXTS: Final = frozenset(
    (
        *_ENDS_OF_TURN, "<|eom_id|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "</s>",
        "[EOS]", "<eos>", "<turn|>", "<|tool_response>", "[e~[", "<|fim_pad|>", "<fim-pad>",
        "<fim_pad>", "<PAD>", "[PAD]", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>",
        "<reponame>", "<|file_sep|>",
    )
)  # fmt: skip
"""Tokens that end an answer by their text, since files name few of them."""
SHOWN: Final = frozenset(("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"))
"""Tokens inside of an answer that are a part of its text."""


def end_numbers(numbers: Mapping[str, int], named: Set[int]) -> frozenset[int]:
    """The tokens that end an answer: those that the file names, and those of `END_TEXTS`.

    Where messages have several channels, `<|end|>` ends one of them only; where tools are called by
    `<|tool_response>`, `</s>` is text.
    """
    texts = END_TEXTS & numbers.keys()
    calls = texts & {"<|call|>", "<|calls|>"}
    if calls and texts & {"<|return|>", "<|flush|>"}:
        texts -= {"<|end|>"}
    if "<|tool_response>" in texts:
        texts -= {"</s>"}
    return frozenset(numbers[text] for text in texts) | named


class TokenMatcher:
    """Splits texts where they have one of some tokens, the longest where several begin.

    `numbers`: by text. `stripped`: those that take the white space after them away.
    ModelFileError for a token of more than 256 characters.
    """

    def __init__(self, numbers: Mapping[str, int], stripped: Set[int] = frozenset()) -> None:
        self._numbers, self._stripped = numbers, stripped
        lengths: dict[str, set[int]] = {}
        for text in numbers:
            if len(text) > _LONGEST:
                raise ModelFileError(
                    f"the special token {text[:40]!r}… has {len(text)} characters",
                    hint=f"at most {_LONGEST}",
                )
            lengths.setdefault(text[0], set()).add(len(text))
        self._lengths = {first: sorted(each, reverse=True) for first, each in lengths.items()}
        self._firsts = re.compile(f"[{re.escape(''.join(lengths))}]") if lengths else None

    def split(self, text: str) -> Iterator[str | int]:
        """Pieces of text, none empty, and numbers of tokens, in order."""
        start = place = 0
        while self._firsts is not None:
            match = self._firsts.search(text, place)
            if match is None:
                break
            place = match.start()
            length = self._length_at(text, place)
            if not length:
                place += 1
                continue
            if place > start:
                yield text[start:place]
            number = self._numbers[text[place : place + length]]
            yield number
            place += length
            if number in self._stripped:
                spaces = _SPACES.match(text, place)
                place = spaces.end() if spaces else place
            start = place
        if start < len(text):
            yield text[start:]

    def _length_at(self, text: str, place: int) -> int:
        for length in self._lengths[text[place]]:
            if text[place : place + length] in self._numbers:
                return length
        return 0
