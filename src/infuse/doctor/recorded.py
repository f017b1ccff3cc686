"""The calls of a framework that its exporter records on the nodes of a file.

PyTorch's exporter (torch.onnx.export with dynamo=True) puts the node of the exported program and
the lines of source that called it into the metadata of each ONNX node.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from infuse import dtypes
from infuse.errors import InfuseError, ModelFileError

NODE: Final = "pkg.torch.onnx.fx_node"
STACK: Final = "pkg.torch.onnx.stack_trace"
_CALL: Final = re.compile(
    r"%(?P<result>\w+) : \[[^\]]*\] = call_function"
    r"\[target=(?:torch\.ops\.)?(?P<target>[\w.]+)\]"
    r"\(args = (?P<args>.*), kwargs = (?P<kwargs>.*)\)$",
    re.DOTALL,
)
_LINE: Final = re.compile(r'File "([^"]+)", line (\d+)')
_TOKEN: Final = re.compile(r"\s*(%[\w.]+|[\w.+-]+|[()\[\]{},:]|'[^']*')")
_LISTS: Final = {"(": ")", "[": "]"}
_SIGNS: Final = (")", "]", "}", ",", ":")
_WORDS: Final = {"None": None, "True": True, "False": False}
_DEPTH: Final = 32
_LONGEST: Final = 20_000
"""Characters of a call from which on it is not read."""


class Reference(str):
    """The name of a value among a call's arguments."""


@dataclass(frozen=True)
class RecordedCall:
    """`result = target(*positional, **named)`, called at `line` (file:line, empty where the file
    does not say). Values among the arguments are `Reference`s.
    """

    text: str
    target: str
    result: str
    positional: tuple[Any, ...]
    named: Mapping[str, Any]
    line: str = field(compare=False, default="")

    def argument(self, name: str, default: Any = None) -> Any:
        """An argument by the name that it has in the operator's schema."""
        return self._bound.get(name, default)

    @property
    def references(self) -> list[str]:
        """The values that the call reads, each once."""
        every = [*self.positional, *self.named.values()]
        return list(dict.fromkeys(_references(every)))

    @cached_property
    def _bound(self) -> Mapping[str, Any]:
        import infuse.tracing.aten  # noqa: F401  registers the operators
        from infuse.tracing.aten.calls import handler_of

        handler = handler_of(self.target)
        if handler is None:
            return self.named
        names = list(inspect.signature(handler).parameters)[1:]
        return {**dict(zip(names, self.positional)), **self.named}


def recorded_call(metadata: Mapping[str, str]) -> RecordedCall | None:
    """The call that a node was exported from; None where none is recorded that can be read."""
    text = metadata.get(NODE, "")
    match = _CALL.match(text) if len(text) < _LONGEST else None
    if match is None:
        return None
    try:
        positional = _Arguments(match["args"]).whole()
        named = _Arguments(match["kwargs"]).whole()
    except InfuseError:
        return None
    if not isinstance(positional, list) or not isinstance(named, dict):
        return None
    line = source_line(metadata.get(STACK, ""))
    return RecordedCall(
        metadata[NODE], match["target"], match["result"], tuple(positional), named, line
    )


def source_line(stack: str) -> str:
    """file:line of the innermost call that is not torch's own."""
    lines: list[tuple[str, str]] = _LINE.findall(stack)
    if not lines:
        return ""
    own = (each for each in reversed(lines) if "/torch/" not in each[0].replace("\\", "/"))
    return ":".join(next(own, lines[-1]))


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, Reference):
        yield value
    elif isinstance(value, list):
        for entry in value:
            yield from _references(entry)


class _Arguments:
    """Reads what FX prints of arguments: `(%x, [2, 2], None, mean)`, `{dtype: torch.float32}`."""

    def __init__(self, text: str) -> None:
        self.tokens, end = [], 0
        while end < len(text):
            match = _TOKEN.match(text, end)
            if match is None:
                raise ModelFileError(f"{text[end : end + 20]!r} is not understood")
            self.tokens.append(match[1])
            end = match.end()
        self.tokens.reverse()

    def whole(self) -> Any:
        """The one value that the text is."""
        value = self.value()
        if self.tokens:
            raise ModelFileError(f"{self.tokens[-1]!r} follows the arguments")
        return value

    def value(self, depth: int = 0) -> Any:
        """The next argument, list or dictionary."""
        if depth > _DEPTH or not self.tokens:
            raise ModelFileError("the arguments do not end, or are nested too deeply")
        word = self.tokens.pop()
        if word in _LISTS:
            return self.listed(_LISTS[word], depth)
        if word in _SIGNS:
            raise ModelFileError(f"{word!r} is no argument")
        return self.mapping(depth) if word == "{" else _atom(word)

    def listed(self, end: str, depth: int) -> list[Any]:
        """The elements of a list or tuple that has begun."""
        entries: list[Any] = []
        while self.peek() != end:
            entries.append(self.value(depth + 1))
            if self.peek() == ",":
                self.tokens.pop()
        self.tokens.pop()
        return entries

    def mapping(self, depth: int) -> dict[str, Any]:
        """The entries of a dictionary that has begun."""
        entries: dict[str, Any] = {}
        while self.peek() != "}":
            key = self.tokens.pop()
            if self.peek() != ":":
                raise ModelFileError(f"{key!r} has no value")
            self.tokens.pop()
            entries[key] = self.value(depth + 1)
            if self.peek() == ",":
                self.tokens.pop()
        self.tokens.pop()
        return entries

    def peek(self) -> str:
        """The next token; the empty text at the end is an error."""
        if not self.tokens:
            raise ModelFileError("the arguments do not end")
        return self.tokens[-1]


def _atom(word: str) -> Any:
    if word.startswith("%"):
        return Reference(word[1:])
    if word in _WORDS:
        return _WORDS[word]
    if word.startswith("torch."):
        try:
            return dtypes.by_name(word.removeprefix("torch."))
        except InfuseError:
            return word
    for number in (int, float):
        try:
            return number(word)
        except ValueError:
            continue
    return word.strip("'")
