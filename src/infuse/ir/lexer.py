"""Tokens of the text form, and the cursor that a parser moves over them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, NoReturn

from infuse.errors import ModelFileError

DEPTH_LIMIT = 256
_TOKENS = re.compile(
    r"""
    (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<value>[%$][\w./-]+)
  | (?P<hash>\#(?:[0-9a-f]{16}\b|\?))
  | (?P<skip>\s+|\#[^\n]*)
  | (?P<number>[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)
  | (?P<word>[^\W\d]\w*(?:\.[^\W\d]\w*)*)
  | (?P<mark>//|::|[][(){}<>,:=@+*%?-])
  | (?P<end>\Z)
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    """A piece of text: kind (string, value, hash, number, word, mark, end), text, and offset in the
    source.
    """

    kind: str
    text: str
    position: int


class Cursor:
    """A position in the tokens of `source`; errors are ModelFileErrors that name line and
    column.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens = list(self._tokens())
        self.index = 0
        self.depth = 0

    def _tokens(self) -> Iterator[Token]:
        position = 0
        while True:
            match = _TOKENS.match(self.source, position)
            if match is None:
                self.fail_at(position, f"{self.source[position]!r} has no meaning here")
            if match.lastgroup != "skip":
                yield Token(match.lastgroup or "", match.group(), position)
            if match.lastgroup == "end":
                return
            position = match.end()

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    def at(self, text: str) -> bool:
        """Whether the next token is this mark or word."""
        return self.token.text == text and self.token.kind != "string"

    def follows(self, text: str) -> bool:
        """Whether the token after the next one is this mark."""
        return self.index + 1 < len(self.tokens) and self.tokens[self.index + 1].text == text

    def advance(self) -> Token:
        token = self.token
        self.index += token.kind != "end"
        return token

    def accept(self, text: str) -> bool:
        """Step over this mark or word if it comes next."""
        matches = self.at(text)
        if matches:
            self.index += 1
        return matches

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"expected {text!r}")

    def take(self, kind: str, what: str) -> str:
        """The text of the next token, which must be of this kind."""
        if self.token.kind != kind:
            self.fail(f"expected {what}")
        return self.advance().text

    def string(self, what: str) -> str:
        """The contents of a quoted string."""
        token = self.token
        try:
            return str(json.loads(self.take("string", what), strict=False))
        except ValueError as error:
            self.fail_at(token.position, f"{token.text} is not a well-formed string", error)

    def name(self, what: str) -> str:
        """A word, or any text in quotes."""
        return self.string(what) if self.token.kind == "string" else self.take("word", what)

    def separated(self, close: str) -> Iterator[None]:
        """Once per item of a list with commas, up to and over the mark `close`; a comma may end the
        list.
        """
        while not self.accept(close):
            yield
            if not self.at(close):
                if not self.at(","):
                    self.fail(f"expected ',' or {close!r}")
                self.advance()

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Inside one more level of brackets; there is a limit to their depth."""
        self.depth += 1
        if self.depth > DEPTH_LIMIT:
            self.fail(f"brackets are nested more than {DEPTH_LIMIT} deep")
        yield
        self.depth -= 1

    def fail(self, what: str, cause: Exception | None = None) -> NoReturn:
        token = repr(self.token.text) if self.token.text else "the end of the text"
        self.fail_at(self.token.position, f"{what}, found {token}", cause)

    def fail_at(self, position: int, what: str, cause: Exception | None = None) -> NoReturn:
        line = self.source.count("\n", 0, position) + 1
        column = position - self.source.rfind("\n", 0, position)
        raise ModelFileError(what, where=f"line {line}, column {column}") from cause
