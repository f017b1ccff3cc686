"""The vocabulary of a GGUF file: texts to numbers of tokens, and back."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np

from infuse.errors import DataError, InfuseError, InputError, UnsupportedOperatorError
from infuse.frontends.gguf.encoders import ENCODERS, Encoder
from infuse.frontends.gguf.metadata import Metadata
from infuse.frontends.gguf.pieces import SPACE
from infuse.frontends.gguf.pretokenizers import pre_tokenizer
from infuse.frontends.gguf.special_tokens import END_TEXTS, SHOWN, TokenMatcher, end_numbers
from infuse.frontends.gguf.tokens import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    Tokens,
)
from infuse.ir.collection import uncollected

_TEMPLATE: Final = "tokenizer.chat_template"
_BEGINNINGS: Final[Mapping[str, int]] = {"llama": 1, "bert": 101}
_ENDS: Final[Mapping[str, int]] = {"llama": 2, "t5": 1}
"""Numbers of the tokens that begin and end texts where a file does not say, by kind."""


class Vocabulary:
    """Tokens of a model. `kind` is the file's name for the way that they are made: gpt2, llama
    (SentencePiece, also of Gemma), bert or t5.

    `bos`, `eos`, `padding`, `unknown`: numbers of special tokens, or None. `ends`: all that end an
    answer. `special`: tokens by text that stand for themselves and are no text. `adds_bos` and
    `adds_eos`: what frames a text. `chat_template`: Jinja text, or None; `chat_templates` has the
    others that the file names. Threads may share it.
    """

    def __init__(self, metadata: Metadata) -> None:
        """Read the fields `tokenizer.*`. ModelFileError where they do not fit together,
        UnsupportedOperatorError for another kind, and without the package tokenizers where a kind
        needs it.
        """
        try:
            with uncollected():
                self._read(metadata)
        except InfuseError as error:
            if not (error.where or "").startswith(metadata.where):
                error.within(metadata.where)
            raise

    def _read(self, metadata: Metadata) -> None:
        self.kind: str = metadata.text("tokenizer.ggml.model")
        if self.kind not in ENCODERS:
            what = (
                "it has no vocabulary"
                if self.kind in ("no_vocab", "none")
                else (f"its tokenizer is of the kind {self.kind!r}")
            )
            raise UnsupportedOperatorError(what, hint=f"there are {', '.join(ENCODERS)}")
        tokens = self._tokens = Tokens(metadata)
        self.bos = tokens.special("bos", _BEGINNINGS.get(self.kind))
        self.eos = tokens.special("eos", _ENDS.get(self.kind))
        self.padding, self.unknown = tokens.special("padding"), tokens.special("unknown")
        self._last = self.eos
        self._set_frame(metadata)
        named = {tokens.special(name) for name in ("eot", "eom")} | {self.eos}
        self.ends = end_numbers(tokens.numbers, {n for n in named if n is not None})
        for number in self.ends:
            if tokens.texts[number] in END_TEXTS:
                tokens.types[number] = CONTROL
        for text in SHOWN & tokens.numbers.keys():
            tokens.types[tokens.numbers[text]] = USER_DEFINED
        self._set_matchers(metadata)
        self._encode: Encoder = ENCODERS[self.kind](metadata, tokens)
        self._pieces = _pieces_of(self.kind, tokens)
        self._prefixed = self.kind == "bert" or metadata.flag(
            "tokenizer.ggml.add_space_prefix", self.kind == "llama"
        )
        self.chat_template: str | None = metadata.text(_TEMPLATE, None)
        self.chat_templates: dict[str, str] = {
            name.removeprefix(f"{_TEMPLATE}."): metadata.text(name)
            for name in metadata
            if name.startswith(f"{_TEMPLATE}.")
        }

    def _set_frame(self, metadata: Metadata) -> None:
        begins, ends = self.kind in ("llama", "bert"), self.kind in ("bert", "t5")
        if self.kind == "gpt2":
            begins = pre_tokenizer(metadata.text("tokenizer.ggml.pre", "default")).begins
        if self.kind == "bert":
            self._last = self._tokens.special("separator", 102)
        self.adds_bos = self.bos is not None and metadata.flag(
            "tokenizer.ggml.add_bos_token", begins
        )
        self.adds_eos = self._last is not None and metadata.flag(
            "tokenizer.ggml.add_eos_token", ends
        )
        if self.kind == "bert":
            self.adds_bos, self.adds_eos = self.bos is not None, self._last is not None

    def _set_matchers(self, metadata: Metadata) -> None:
        tokens = self._tokens
        chosen = np.isin(tokens.types, (CONTROL, USER_DEFINED, UNKNOWN)).nonzero()[0].tolist()
        every = {tokens.texts[n]: n for n in chosen if tokens.texts[n]}
        written = {text: n for text, n in every.items() if tokens.types[n] == USER_DEFINED}
        self.special: Mapping[str, int] = {t: n for t, n in every.items() if t not in written}
        name = metadata.text("general.name", "").lower()
        stripped: set[int] = set()
        if "phi-3" in name or "phi3" in name:
            stripped = {n for text, n in every.items() if text not in _NOT_STRIPPED}
        self._every = TokenMatcher(every, stripped)
        self._written = TokenMatcher(written, stripped)

    def __len__(self) -> int:
        return len(self._tokens)

    def text(self, number: int) -> str:
        """A token as the file writes it; DataError for a number that is no token's."""
        return self._tokens.texts[self._checked(number)]

    def encode(self, text: str, *, special: bool = True, framed: bool = False) -> list[int]:
        """The numbers of the tokens of a text.

        `special`: names of special tokens in the text stand for these; else they are text as any
        other. `framed`: between the tokens that begin and end a text, where the model has them
        there. InputError for a text that is no Unicode.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"character {error.start} of the text is a lone surrogate") from error
        ids = [self.bos] if framed and self.adds_bos and self.bos is not None else []
        first = True
        for part in (self._every if special else self._written).split(text):
            if isinstance(part, int):
                ids.append(part)
            else:
                ids += self._encode(part, first)
            first = isinstance(part, int)
        if framed and self.adds_eos and self._last is not None:
            ids.append(self._last)
        return ids

    def piece(self, number: int, *, special: bool = False) -> bytes:
        """The bytes that a token adds to a text; of special tokens none, but with `special` their
        names. DataError for a number that is no token's.
        """
        kind = self._tokens.types[self._checked(number)]
        if kind in (CONTROL, UNKNOWN):
            return self._tokens.texts[number].encode() if special else b""
        return self._pieces(number, int(kind))

    def decode(self, numbers: Iterable[int], *, special: bool = False) -> str:
        """The text of tokens, bytes that are no UTF-8 replaced by U+FFFD; `special`: with the names
        of special tokens.
        """
        text = b"".join(self.piece(number, special=special) for number in numbers)
        return text.removeprefix(b" " if self._prefixed else b"").decode("utf-8", "replace")

    def detokenizer(self, *, special: bool = False) -> Detokenizer:
        """What makes text of tokens as they come."""
        return Detokenizer(self, special)

    def _checked(self, number: int) -> int:
        if not 0 <= number < len(self):
            raise DataError(f"{number} is no token's number; there are {len(self)}")
        return number


class Detokenizer:
    """Text of tokens as they come: bytes that may still become a character wait for the next."""

    def __init__(self, vocabulary: Vocabulary, special: bool = False) -> None:
        self._vocabulary, self._special = vocabulary, special
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, number: int) -> str:
        """The text that is complete with this token; DataError for a number that is no token's."""
        return self._decoder.decode(self._vocabulary.piece(number, special=self._special))

    def finish(self) -> str:
        """What bytes that wait are without others: U+FFFD, or nothing."""
        return self._decoder.decode(b"", final=True)


_NOT_STRIPPED: Final = ("<unk>", "<s>", "<|endoftext|>")
"""Special tokens of Phi-3 that leave the white space after them."""


def _pieces_of(kind: str, tokens: Tokens) -> Callable[[int, int], bytes]:
    """The bytes of a token that is not special, by its number and its type."""
    texts = tokens.texts
    if kind == "gpt2":
        of_characters = _bytes_of_characters()

        def piece(number: int, type_number: int) -> bytes:
            if type_number == USER_DEFINED:
                return texts[number].encode()
            if type_number == BYTE:
                return _byte(texts[number])
            mapped = [of_characters.get(character) for character in texts[number]]
            return b"".join(
                character.encode() if byte is None else byte
                for byte, character in zip(mapped, texts[number])
            )

        return piece

    def plain(number: int, type_number: int) -> bytes:
        if type_number == USER_DEFINED:
            return texts[number].encode()
        if type_number == BYTE:
            return _byte(texts[number])
        return texts[number].replace(SPACE, " ").encode() if type_number == NORMAL else b""

    return plain


def _byte(text: str) -> bytes:
    """The byte that `<0x0A>` stands for; the text itself where it is none."""
    try:
        return bytes([int(text[3:5], 16)]) if text.startswith("<0x") else text.encode()
    except ValueError:
        return text.encode()


def _bytes_of_characters() -> dict[str, bytes]:
    """GPT-2's bytes by the characters that stand for them: printable ones for themselves, the
    others in order from U+0100.
    """
    printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printed]
    pairs = [(byte, byte) for byte in printed]
    pairs += [(byte, 256 + place) for place, byte in enumerate(others)]
    return {chr(character): bytes([byte]) for byte, character in pairs}
