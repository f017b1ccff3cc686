"""From texts to the numbers of tokens, and back."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from infuse.errors import RequestError, TooLargeError
from infuse.runtime.session import Array
from infuse.serving.config import Positive
from infuse.serving.datatypes import BYTES, NUMPY
from infuse.serving.engine.pipelines.ports import INTEGERS, Port
from infuse.serving.engine.pipelines.steps import (
    Builtin,
    Options,
    Place,
    elements,
    objects,
    of_each,
)

_SETTINGS: Final = "tokenizer_config.json"  # beside the tokenizer, where its padding token is named


class TokenizeOptions(Options, frozen=True):
    """`tokenizer`: the file of the `tokenizers` library in the model's folder.

    `max_length`: tokens of a row; longer ones are cut by `truncation` from the longer, the first or
    the second text of a pair, on the side `truncation_side`, or refused (`none`). `padding`: up to
    the longest row, to `max_length`, or not at all (rows must then be equally long); on the side
    `padding_side`, to a multiple of `multiple`. `pad_token` is taken from the tokenizer's files if
    it is left out. `special_tokens`: add those that frame a text. `max_bytes` of a text.
    """

    tokenizer: str = "tokenizer.json"
    max_length: Positive | None = None
    truncation: Literal["longest_first", "only_first", "only_second", "none"] = "longest_first"
    truncation_side: Literal["left", "right"] = "right"
    padding: Literal["longest", "max_length", "none"] = "longest"
    padding_side: Literal["left", "right"] = "right"
    multiple: Positive = 1
    pad_token: str = ""
    special_tokens: bool = True
    dtype: Literal["INT64", "INT32"] = "INT64"
    max_bytes: Positive = 1 << 20


class Tokenize(Builtin):
    """The tokens of texts, by a `tokenizer.json`.

    Inputs: `text`, BYTES [n] or [n, 1] in UTF-8; optional `pair`, the second texts. Outputs, [n,
    tokens] of the type `dtype`: `input_ids`, `attention_mask` (1 where there is a token, 0 where a
    row was filled up) and `token_type_ids` (1 in second texts). Options: `TokenizeOptions`. Needs
    `tokenizers`.
    """

    kind = TokenizeOptions

    def prepare(self, options: TokenizeOptions, place: Place) -> None:
        """Read the tokenizer and set what it cuts; rows are filled up here."""
        self.options = options
        path = place.find(options.tokenizer)
        self._tokenizer = _tokenizer(path, place)
        if options.padding == "max_length" and options.max_length is None:
            raise place.fail("`padding: max_length` needs a `max_length`")
        if (options.max_length or 0) % options.multiple:
            raise place.fail("`max_length` is no multiple of `multiple`")
        self._padding = (0, 0) if options.padding == "none" else self._find_padding(path, place)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        if options.max_length is not None and options.truncation != "none":
            frame = self._tokenizer.num_special_tokens_to_add(True) if options.special_tokens else 0
            if frame >= options.max_length:
                raise place.fail(f"`max_length` leaves no room beside {frame} special tokens")
            self._tokenizer.enable_truncation(
                options.max_length, strategy=options.truncation, direction=options.truncation_side
            )
        columns = (
            options.max_length if options.padding == "max_length" and options.max_length else -1
        )
        self.inputs = (
            Port("text", frozenset({BYTES})),
            Port("pair", frozenset({BYTES}), optional=True),
        )
        self.outputs = tuple(
            Port(name, frozenset({options.dtype}), (-1, columns))
            for name in ("input_ids", "attention_mask", "token_type_ids")
        )

    def _find_padding(self, path: Path, place: Place) -> tuple[int, int]:
        """Number and type of the token that rows are filled up with."""
        own = self._tokenizer.padding
        if own is not None and not self.options.pad_token:
            return int(own["pad_id"]), int(own["pad_type_id"])
        token = self.options.pad_token or _named_padding(path.with_name(_SETTINGS), place)
        number = self._tokenizer.token_to_id(token) if token else None
        if number is None:
            what = (
                f"it has no token '{token}'"
                if token
                else "it does not say which token rows are filled up with"
            )
            raise place.fail(f"'{path.name}': {what}", "set `pad_token`, or `padding: none`")
        return int(number), 0

    def run(self, inputs: Mapping[str, Array], outputs: Collection[str]) -> dict[str, Array]:
        texts = self._texts(inputs["text"], "text")
        seconds: Sequence[str | None] = [None] * len(texts)
        if "pair" in inputs:
            seconds = self._texts(inputs["pair"], "pair")
            if len(seconds) != len(texts):
                raise RequestError(
                    f"inputs 'text' and 'pair' have {len(texts)} and {len(seconds)} elements"
                )
        rows = [self._encoded(number, *pair) for number, pair in enumerate(zip(texts, seconds))]
        width = self._width([len(row) for row in rows])
        number, kind = self._padding
        return {
            "input_ids": self._filled([row.ids for row in rows], width, number),
            "attention_mask": self._filled([row.attention_mask for row in rows], width, 0),
            "token_type_ids": self._filled([row.type_ids for row in rows], width, kind),
        }

    def _texts(self, data: Array, name: str) -> list[str]:
        return of_each(elements(data, name), name, self._text)

    def _text(self, item: bytes) -> str:
        if len(item) > self.options.max_bytes:
            raise TooLargeError(f"it has {len(item)} bytes, {self.options.max_bytes} are allowed")
        try:
            return item.decode()
        except UnicodeDecodeError as error:
            raise RequestError(f"it is no UTF-8 (at byte {error.start})") from error

    def _encoded(self, number: int, text: str, second: str | None) -> Any:
        place = f"element {number} of input 'text'"
        try:
            row = self._tokenizer.encode(
                text, second, add_special_tokens=self.options.special_tokens
            )
        except (
            Exception
        ) as error:  # the library has no class of its own for what it cannot cut or does not know
            raise RequestError(f"it cannot be made tokens of: {error}", where=place) from error
        most = self.options.max_length
        if most is not None and len(row) > most:
            raise RequestError(f"it has {len(row)} tokens, {most} are allowed", where=place)
        return row

    def _width(self, lengths: Sequence[int]) -> int:
        longest = max(lengths, default=0)
        if self.options.padding == "max_length":
            return self.options.max_length or longest
        if self.options.padding == "none":
            for number, length in enumerate(lengths):
                if length != lengths[0]:
                    raise RequestError(
                        f"it has {length} tokens and the first text {lengths[0]}, and rows are not "
                        "filled up",
                        where=f"element {number} of input 'text'",
                        hint="send texts one by one, or let the step pad",
                    )
            return longest
        return -(-longest // self.options.multiple) * self.options.multiple

    def _filled(self, rows: Sequence[Sequence[int]], width: int, value: int) -> Array:
        result = np.full((len(rows), width), value, NUMPY[self.options.dtype])
        for row, line in zip(rows, result):
            if self.options.padding_side == "right":
                line[: len(row)] = row
            else:
                line[width - len(row) :] = row
        return result


class DetokenizeOptions(Options, frozen=True):
    """`tokenizer`: its file in the model's folder. `skip_special_tokens`: leave out those that
    frame a text.
    """

    tokenizer: str = "tokenizer.json"
    skip_special_tokens: bool = True


class Detokenize(Builtin):
    """Texts of tokens.

    Input: `ids`, INT64 or INT32 [n, tokens]. Output: `text`, BYTES [n] in UTF-8. Options:
    `DetokenizeOptions`. Needs `tokenizers`. RequestError for a number that is no token's.
    """

    kind = DetokenizeOptions

    def prepare(self, options: DetokenizeOptions, place: Place) -> None:
        """Read the tokenizer."""
        self.options = options
        self._tokenizer = _tokenizer(place.find(options.tokenizer), place)
        self._known = np.asarray(sorted(self._tokenizer.get_vocab(with_added_tokens=True).values()))
        self.inputs = (Port("ids", INTEGERS, (-1, -1)),)
        self.outputs = (Port("text", frozenset({BYTES}), (-1,)),)

    def run(self, inputs: Mapping[str, Array], outputs: Collection[str]) -> dict[str, Array]:
        ids = inputs["ids"]
        if ids.ndim != 2:
            raise RequestError(f"input 'ids' has shape [n, tokens], not {list(ids.shape)}")
        strange = ~np.isin(ids, self._known)
        if strange.any():
            row, column = (int(index) for index in np.argwhere(strange)[0])
            raise RequestError(
                f"{ids[row, column]} is no token's number", where=f"row {row} of input 'ids'"
            )
        texts = [
            self._tokenizer.decode(row, self.options.skip_special_tokens).encode()
            for row in ids.tolist()
        ]
        return {"text": objects(texts, (len(texts),))}


def _tokenizer(path: Path, place: Place) -> Any:
    tokenizers = place.need("tokenizers", "tokenizers")
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no class of its own
        raise place.fail(f"'{path.name}' is no file of the tokenizers library: {error}") from error


def _named_padding(path: Path, place: Place) -> str:
    """The padding token that the tokenizer's settings name, or nothing."""
    if not path.is_file():
        return ""
    try:
        token = json.loads(path.read_bytes()).get("pad_token")
    except (OSError, ValueError, AttributeError) as error:
        raise place.fail(f"'{path.name}' cannot be read: {error}") from error
    return str(token.get("content", "") if isinstance(token, dict) else token or "")
