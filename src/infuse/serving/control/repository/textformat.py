"""Protobuf's text format without a schema: fields that nobody knows are data too, and can be
named.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from google.protobuf import text_format

from infuse.errors import ConfigurationError

Value: TypeAlias = "str | int | float | bool | Message"
Message: TypeAlias = "dict[str, list[Value]]"

_MOST_DEPTH: Final = 32
_MOST_TEXT: Final = 512 << 10  # characters: some seconds of reading
_BEYOND_BYTES: Final = re.compile(r"(?<!\\)(?:\\\\)*\\[4-7][0-7]{2}")  # octal escapes above 377
_CLOSING: Final = {"{": "}", "<": ">"}


def parse_text(text: str, where: str) -> Message:
    """A text of the format as plain data: field → its values in order. ConfigurationError if it is
    not well formed.
    """
    if len(text) > _MOST_TEXT:
        raise ConfigurationError(
            f"it has {len(text)} characters, and at most {_MOST_TEXT} are read", where=where
        )
    tokenizer = text_format.Tokenizer(text.splitlines())
    try:
        return _message(tokenizer, "", 0)
    except text_format.ParseError as error:
        raise ConfigurationError(
            f"it is not protobuf's text format: {str(error)[:500]}", where=where
        ) from error


def _message(tokens: text_format.Tokenizer, closing: str, depth: int) -> Message:
    """Fields up to `closing`, which is taken too, or to the end."""
    if depth > _MOST_DEPTH:
        raise tokens.ParseError(f"messages lie more than {_MOST_DEPTH} deep in one another")
    message: Message = {}
    while not (tokens.TryConsume(closing) if closing else tokens.AtEnd()):
        if tokens.AtEnd():
            raise tokens.ParseError(f"{closing!r} is missing")
        name = tokens.ConsumeIdentifier()
        colon = tokens.TryConsume(":")
        message.setdefault(name, []).extend(_values(tokens, colon, depth))
        tokens.TryConsume(",") or tokens.TryConsume(";")
    return message


def _values(tokens: text_format.Tokenizer, colon: bool, depth: int) -> list[Value]:
    """The value of a field, or the values of a list in brackets."""
    if not tokens.TryConsume("["):
        return [_value(tokens, colon, depth)]
    values: list[Value] = []
    while not tokens.TryConsume("]"):
        if values and not tokens.TryConsume(","):
            raise tokens.ParseError("',' or ']' is missing in a list")
        values.append(_value(tokens, colon, depth))
    return values


def _text(tokens: text_format.Tokenizer) -> str:
    wrong = tokens.ParseError("a text has an escape that stands for no character, or is not UTF-8")
    if _BEYOND_BYTES.search(tokens.token):
        raise wrong
    try:
        return str(tokens.ConsumeString())
    except text_format.ParseError as error:
        if "codec" in str(error):
            raise wrong from error
        raise


def _value(tokens: text_format.Tokenizer, colon: bool, depth: int) -> Value:
    for opening, closing in _CLOSING.items():
        if tokens.TryConsume(opening):
            return _message(tokens, closing, depth + 1)
    if not colon:
        raise tokens.ParseError("':' or '{' is missing after a field's name")
    if tokens.token[:1] in ("'", '"'):
        return _text(tokens)
    for read in (tokens.ConsumeInteger, tokens.ConsumeFloat, tokens.ConsumeBool):
        try:
            return read()  # type: ignore[no-any-return]
        except text_format.ParseError:
            continue
    return str(tokens.ConsumeIdentifier())
