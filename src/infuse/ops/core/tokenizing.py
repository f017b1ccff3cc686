"""Tokenizers of the `tokenizers` library: texts to rows of numbers, and back. The one place that
calls the library, whose files are strangers'.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from infuse.errors import (
    DataError,
    InfuseError,
    ModelFileError,
    OptionError,
    UnsupportedOperatorError,
)
from infuse.immutable import Immutable, replace

Array = npt.NDArray[Any]

TRUNCATIONS: Final = ("longest_first", "only_first", "only_second", "none")
PADDINGS: Final = ("longest", "max_length", "none")
SIDES: Final = ("right", "left")
_SETTINGS: Final = "tokenizer_config.json"  # beside a tokenizer, where its padding token is named
MOST_TOKENS: Final = 1 << 24
"""The longest row that may be asked for: rows are filled up with real memory."""
_MOST_NUMBER: Final = (1 << 32) - 1  # the library's numbers of tokens


class RowOptions(Immutable):
    """How texts become rows of one length.

    `max_length`: tokens of a row, 0 for any; longer ones are cut by `truncation` from the longer,
    the first or the second text of a pair, on the side `truncation_side`, or refused (`none`).
    `padding`: up to the longest row, to `max_length`, or not at all (rows must then be equally
    long), on the side `padding_side`, to a multiple of `multiple`, with `pad_id` of the type
    `pad_type_id`. `special_tokens`: add those that frame a text.
    """

    max_length: int = 0
    truncation: str = "longest_first"
    truncation_side: str = "right"
    padding: str = "longest"
    padding_side: str = "right"
    multiple: int = 1
    pad_id: int = 0
    pad_type_id: int = 0
    special_tokens: bool = True

    def check(self) -> None:
        """OptionError where an option has no meaning."""
        for name, choices in (
            ("truncation", TRUNCATIONS),
            ("truncation_side", SIDES),
            ("padding", PADDINGS),
            ("padding_side", SIDES),
        ):
            if getattr(self, name) not in choices:
                raise OptionError(
                    f"`{name}` is {getattr(self, name)!r}", hint=f"one of {', '.join(choices)}"
                )
        for name, least, most in (
            ("max_length", 0, MOST_TOKENS),
            ("multiple", 1, MOST_TOKENS),
            ("pad_id", 0, _MOST_NUMBER),
            ("pad_type_id", 0, _MOST_NUMBER),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or not least <= value <= most:
                raise OptionError(f"`{name}` is {value}", hint=f"it is one of {least} to {most}")
        if self.padding == "max_length" and not self.max_length:
            raise OptionError("`padding: max_length` needs a `max_length`")
        if self.max_length % self.multiple:
            raise OptionError("`max_length` is not a multiple of `multiple`")


class Tokenizer:
    """A tokenizer that was read from the content of its `tokenizer.json`, and cuts as these options
    say. UnsupportedOperatorError without the library, ModelFileError where it refuses the content,
    OptionError for options that it cannot follow.

    What the file says of padding and truncation is not applied: the options do.
    """

    def __init__(self, content: str, options: RowOptions | None = None) -> None:
        self.options = options or RowOptions()
        self.options.check()
        library = tokenizers_library()
        with library_errors(ModelFileError, "it is not a file of the tokenizers library"):
            self._own = library.Tokenizer.from_str(content)
            self.file_padding: Mapping[str, Any] | None = self._own.padding
            self._own.no_padding()
            self._own.no_truncation()
            dropout = getattr(self._own.model, "dropout", None)
            numbers = self._own.get_vocab(with_added_tokens=True).values()
        if dropout:
            raise ModelFileError(
                "its `dropout` makes tokens random", hint="set it to null in the tokenizer's file"
            )
        self._numbers: Array = np.sort(np.fromiter(numbers, np.int64))
        self._cut()

    def _cut(self) -> None:
        most, options = self.options.max_length, self.options
        if not most or options.truncation == "none":
            return
        with library_errors(OptionError, "it cannot be cut so"):
            self._own.enable_truncation(
                most, strategy=options.truncation, direction=options.truncation_side
            )

    def check_room(self, pairs: bool) -> None:
        """OptionError where rows of texts, or of pairs of them, are cut to what frames them."""
        most, options = self.options.max_length, self.options
        if not most or options.truncation == "none" or not options.special_tokens:
            return
        with library_errors(ModelFileError, "it is not a file of the tokenizers library"):
            frame = self._own.num_special_tokens_to_add(pairs)
        if frame >= most:
            raise OptionError(f"`max_length` leaves no room beside {frame} special tokens")

    def number_of(self, token: str) -> int | None:
        """The number of a token; None where there is none."""
        number = self._own.token_to_id(token)
        return None if number is None else int(number)

    def fill_with(self, number: int, type_number: int) -> None:
        """Let rows be filled up with this token."""
        self.options = replace(self.options, pad_id=number, pad_type_id=type_number)

    # -- texts to numbers --------------------------------------------------------------------------

    def encode(
        self, texts: Sequence[str], seconds: Sequence[str] | None = None
    ) -> tuple[Array, Array, Array]:
        """The numbers of the tokens, 1 where there is one, and their types, int64 [texts, length].
        DataError says of which element.
        """
        others = [None] * len(texts) if seconds is None else seconds
        rows = [self._row(number, *pair) for number, pair in enumerate(zip(texts, others))]
        width = self._width([len(row) for row in rows])
        options = self.options
        return (
            self._filled([row.ids for row in rows], width, options.pad_id),
            self._filled([row.attention_mask for row in rows], width, 0),
            self._filled([row.type_ids for row in rows], width, options.pad_type_id),
        )

    def _row(self, number: int, text: str, second: str | None) -> Any:
        place, most = f"element {number}", self.options.max_length
        with library_errors(DataError, "it cannot be made tokens of", place):
            row = self._own.encode(text, second, add_special_tokens=self.options.special_tokens)
        if most and len(row) > most:
            raise DataError(f"it has {len(row)} tokens, {most} are allowed", where=place)
        return row

    def _width(self, lengths: Sequence[int]) -> int:
        longest, options = max(lengths, default=0), self.options
        if options.padding == "max_length":
            return options.max_length
        if options.padding == "longest":
            return -(-longest // options.multiple) * options.multiple
        for number, length in enumerate(lengths):
            if length != lengths[0]:
                raise DataError(
                    f"it has {length} tokens and the first text {lengths[0]}, and rows are not "
                    "filled up",
                    where=f"element {number}",
                    hint="give texts one by one, or have rows padded",
                )
        return longest

    def _filled(self, rows: Sequence[Sequence[int]], width: int, value: int) -> Array:
        result = np.full((len(rows), width), value, np.int64)
        for row, line in zip(rows, result):
            if self.options.padding_side == "right":
                line[: len(row)] = row
            else:
                line[width - len(row) :] = row
        return result

    # -- numbers to texts --------------------------------------------------------------------------

    def decode(self, ids: Array, skip_special_tokens: bool = True) -> list[str]:
        """The texts of rows [texts, length] of numbers. DataError for a number that is no token's,
        which says of which row.
        """
        strange = ~np.isin(ids, self._numbers)
        if strange.any():
            row, column = (int(index) for index in np.argwhere(strange)[0])
            raise DataError(f"{ids[row, column]} is not a token's number", where=f"row {row}")
        texts = []
        for number, row in enumerate(ids.tolist()):
            with library_errors(DataError, "it cannot be made a text of", f"row {number}"):
                texts.append(str(self._own.decode(row, skip_special_tokens)))
        return texts


_SHARED: WeakValueDictionary[tuple[str, RowOptions], Tokenizer] = WeakValueDictionary()


def shared(content: str, options: RowOptions) -> Tokenizer:
    """The tokenizer of this content, read once for all who hold one at the same time."""
    tokenizer = _SHARED.get((content, options))
    if tokenizer is None:
        tokenizer = _SHARED[content, options] = Tokenizer(content, options)
    return tokenizer


def padding_of(
    tokenizer: Tokenizer, pad_token: str = "", path: Path | None = None
) -> tuple[int, int]:
    """Number and type of the token that rows are filled up with: `pad_token`, else what the
    tokenizer says, else what the `tokenizer_config.json` beside its file `path` names. OptionError
    where there is none, ModelFileError where that file cannot be read.
    """
    own = tokenizer.file_padding
    if own is not None and not pad_token:
        return int(own["pad_id"]), int(own["pad_type_id"])
    token = pad_token or ("" if path is None else _named_padding(path.with_name(_SETTINGS)))
    number = tokenizer.number_of(token) if token else None
    if number is None:
        what = (
            f"it has no token '{token}'"
            if token
            else "it does not say which token rows are filled up with"
        )
        raise OptionError(what, hint="set `pad_token`, or `padding: none`")
    return number, 0


def _named_padding(path: Path) -> str:
    """The padding token that the tokenizer's settings name, or nothing."""
    if not path.is_file():
        return ""
    try:
        token = json.loads(path.read_bytes()).get("pad_token")
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise ModelFileError(f"'{path.name}' cannot be read: {error}") from error
    return str(token.get("content", "") if isinstance(token, dict) else token or "")


def tokenizers_library() -> Any:
    """The package tokenizers; UnsupportedOperatorError where it is not installed."""
    try:
        return importlib.import_module("tokenizers")
    except ImportError as error:
        raise UnsupportedOperatorError(
            "the module 'tokenizers' is not installed",
            hint="pip install tokenizers",
        ) from error


@contextmanager
def library_errors(kind: type[InfuseError], what: str, where: str | None = None) -> Iterator[None]:
    """Within, what the library raises is an error of this kind. It has no class of its own for what
    it refuses, and one for a panic of its native code that is no Exception.
    """
    try:
        yield
    except InfuseError:
        raise
    except Exception as error:
        raise kind(f"{what}: {error}", where=where) from error
    except BaseException as error:
        if type(error).__module__ != "pyo3_runtime":
            raise
        raise kind(f"{what}: {error}", where=where) from None
