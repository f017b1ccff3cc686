"""From texts to the numbers of tokens, and back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from infuse.errors import InfuseError, RequestError, TooLargeError
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

if TYPE_CHECKING:
    from infuse.processing.text import RowOptions, Tokenizer

_ROWS: Final = (
    "truncation",
    "truncation_side",
    "padding",
    "padding_side",
    "multiple",
    "special_tokens",
)


class TokenizeOptions(Options, frozen=True):
    """How texts are cut into tokens."""

    tokenizer: str = "tokenizer.json"
    """A file of the `tokenizers` library in the model's folder."""
    max_length: Positive | None = None
    """Tokens of a row at most; without it, there is no limit."""
    truncation: Literal["longest_first", "only_first", "only_second", "none"] = "longest_first"
    """Which text of a pair is cut; `none`: longer texts are refused."""
    truncation_side: Literal["left", "right"] = "right"
    """The side of a text that is cut."""
    padding: Literal["longest", "max_length", "none"] = "longest"
    """Rows are filled up to the longest, to `max_length`, or not at all: then they are equally
    long.
    """
    padding_side: Literal["left", "right"] = "right"
    """The side of a row that is filled up."""
    multiple: Positive = 1
    """Rows are filled up to a multiple of it."""
    pad_token: str = ""
    """What rows are filled with; without it, the tokenizer's."""
    special_tokens: bool = True
    """Whether tokens that frame a text are added."""
    dtype: Literal["INT64", "INT32"] = "INT64"
    """Element type of the result."""
    max_bytes: Positive = 1 << 20
    """Bytes that a text may have."""


class Tokenize(Builtin[TokenizeOptions]):
    """The tokens of texts, by a `tokenizer.json`.

    Inputs: `text`, BYTES [n] or [n, 1] in UTF-8; optional `pair`, the second texts. Outputs, [n,
    tokens] of the type `dtype`: `input_ids`, `attention_mask` (1 where there is a token, 0 where a
    row was filled up) and `token_type_ids` (1 in second texts). Options: `TokenizeOptions`. Needs
    `tokenizers`.
    """

    kind = TokenizeOptions

    def prepare(self, options: TokenizeOptions, place: Place) -> None:
        """Read the tokenizer, and set how rows are cut and filled up."""
        # A server without such a step does not load what it needs.
        from infuse.processing.text import RowOptions, padding_of

        self.options = options
        path = place.find(options.tokenizer)
        rows = {name: getattr(options, name) for name in _ROWS}
        with _refused(place):
            lengths = RowOptions(max_length=options.max_length or 0, **rows)
            lengths.check()
        self._tokenizer = _tokenizer(path, place, lengths)
        with _refused(place):
            self._tokenizer.check_room(True)
        if options.padding != "none":
            with _refused(place, path.name):
                fill = padding_of(self._tokenizer, options.pad_token, path)
                self._tokenizer.fill_with(*fill)
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

    def run(self, inputs: Mapping[str, Array], outputs: Collection[str]) -> dict[str, Array]:
        texts = self._texts(inputs["text"], "text")
        seconds = None
        if "pair" in inputs:
            seconds = self._texts(inputs["pair"], "pair")
            if len(seconds) != len(texts):
                raise RequestError(
                    f"inputs 'text' and 'pair' have {len(texts)} and {len(seconds)} elements"
                )
        dtype = NUMPY[self.options.dtype]
        with _blamed("text"):
            rows = self._tokenizer.encode(texts, seconds)
        return {port.name: part.astype(dtype) for port, part in zip(self.outputs, rows)}

    def _texts(self, data: Array, name: str) -> list[str]:
        return of_each(elements(data, name), name, self._text)

    def _text(self, item: bytes) -> str:
        if len(item) > self.options.max_bytes:
            raise TooLargeError(f"it has {len(item)} bytes, {self.options.max_bytes} are allowed")
        try:
            return item.decode()
        except UnicodeDecodeError as error:
            raise RequestError(f"it is not UTF-8 (at byte {error.start})") from error


class DetokenizeOptions(Options, frozen=True):
    """How tokens become texts."""

    tokenizer: str = "tokenizer.json"
    """A file of the `tokenizers` library in the model's folder."""
    skip_special_tokens: bool = True
    """Whether tokens that frame a text are left out."""


class Detokenize(Builtin[DetokenizeOptions]):
    """Texts of tokens.

    Input: `ids`, INT64 or INT32 [n, tokens]. Output: `text`, BYTES [n] in UTF-8. Options:
    `DetokenizeOptions`. Needs `tokenizers`. RequestError for a number that is no token's.
    """

    kind = DetokenizeOptions

    def prepare(self, options: DetokenizeOptions, place: Place) -> None:
        """Read the tokenizer."""
        self.options = options
        self._tokenizer = _tokenizer(place.find(options.tokenizer), place)
        self.inputs = (Port("ids", INTEGERS, (-1, -1)),)
        self.outputs = (Port("text", frozenset({BYTES}), (-1,)),)

    def run(self, inputs: Mapping[str, Array], outputs: Collection[str]) -> dict[str, Array]:
        ids = inputs["ids"]
        if ids.ndim != 2:
            raise RequestError(f"input 'ids' has shape [n, tokens], not {list(ids.shape)}")
        with _blamed("ids"):
            texts = [
                text.encode()
                for text in self._tokenizer.decode(ids, self.options.skip_special_tokens)
            ]
        return {"text": objects(texts, (len(texts),))}


def _tokenizer(path: Path, place: Place, rows: RowOptions | None = None) -> Tokenizer:
    from infuse.processing.text import Tokenizer

    with _refused(place, path.name):
        return Tokenizer(path.read_bytes().decode(), rows)


@contextmanager
def _refused(place: Place, file: str = "") -> Iterator[None]:
    """Within, what the tokenizer or a file is refused for is the fault of the step."""
    try:
        yield
    except InfuseError as error:
        about = f"'{file}': " if file else ""
        raise place.fail(f"{about}{error.what}", error.hint) from error
    except (OSError, UnicodeDecodeError) as error:
        raise place.fail(f"'{file}' cannot be read: {error}") from error


@contextmanager
def _blamed(name: str) -> Iterator[None]:
    """Within, what cannot be done is the fault of an element of this input."""
    try:
        yield
    except InfuseError as error:
        raise RequestError(
            error.what, where=f"{error.where} of input '{name}'", hint=error.hint
        ) from error
