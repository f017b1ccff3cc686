"""YAML as configurations use it: every text is read here, within limits that a hostile one meets
early.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final, TypeAlias

import yaml

from infuse.errors import ConfigurationError

MOST_BYTES: Final = 4 << 20
"""Of a text. JSON is YAML too."""
MOST_VALUES: Final = 100_000
"""Tables, lists and single values of a text."""
MOST_DEPTH: Final = 32
"""Tables and lists in one another."""
_MOST_PLAIN: Final = (
    1 << 10
)  # characters of a value without quotes: what looks like a number is read as one
_LOADER: Final = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_TAGS: Final = (None, "!", "tag:yaml.org,2002:str")


Key: TypeAlias = bool | int | float | str | date | None
"""A single value, by which tables may be."""
Data: TypeAlias = "Key | Sequence[Data] | Mapping[str, Data] | Mapping[Key, Data]"
"""What YAML can be."""


def read_yaml(text: str | bytes, where: str) -> Data:
    """Plain data from YAML or JSON; None for an empty text.

    ConfigurationError when it is none, is too large or too deep with its aliases (`*name`) written
    out, since they can stand for far more than is written, or has tags (`!!name`), which have no
    meaning here.
    """
    if len(text) > MOST_BYTES:
        raise ConfigurationError(
            f"it has {len(text)} bytes, and at most {MOST_BYTES} are read", where=where
        )
    try:
        _check(text, where)
        data: Data = yaml.load(text, Loader=_LOADER)  # noqa: S506
        return data
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"it is not YAML: {str(error).splitlines()[0][:500]}", where=where
        ) from error


def _check(text: str | bytes, where: str) -> None:
    """Look at the parts of a text one after the other, before anything is made of them."""
    outline = _Outline()
    for event in yaml.parse(text, Loader=_LOADER):
        problem = ""
        if (
            isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent)
            and event.tag not in _TAGS
        ):
            problem = f"tags such as {str(event.tag)[:100]!r} have no meaning here"
        elif (
            isinstance(event, yaml.ScalarEvent)
            and not event.style
            and len(event.value) > _MOST_PLAIN
        ):
            problem = f"a value without quotes has more than {_MOST_PLAIN} characters"
        elif isinstance(event, yaml.AliasEvent) and event.anchor not in outline.named:
            problem = f"the alias *{str(event.anchor)[:100]} stands for itself, or for nothing"
        else:
            outline.take(event)
        if outline.values > MOST_VALUES:
            problem = (
                f"it has more than {MOST_VALUES} values, those that aliases stand for counted each "
                "time"
            )
        elif outline.depth > MOST_DEPTH:
            problem = f"its tables and lists lie more than {MOST_DEPTH} deep in one another"
        if problem:
            raise ConfigurationError(problem, where=where)


class _Outline:
    """How many values a text has and how deep they lie, with aliases written out; `named`: what
    anchors stand for.
    """

    def __init__(self) -> None:
        self.values = self.depth = 0
        self.named: dict[str | None, tuple[int, int]] = {}  # values and depth
        self._open: list[
            tuple[str | None, int, int]
        ] = []  # anchor, values before it, depth found inside

    def take(self, event: yaml.Event) -> None:
        """The next event."""
        if isinstance(event, yaml.AliasEvent):
            values, depth = self.named[event.anchor]
            self._add(values, depth)
        elif isinstance(event, yaml.ScalarEvent):
            self._add(1, 0)
            self._name(event.anchor, 1, 0)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open.append((event.anchor, self.values, 0))
            self._add(1, 0)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before, depth = self._open.pop()
            self._name(anchor, self.values - before, depth + 1)
            self._add(0, depth + 1)

    def _add(self, values: int, depth: int) -> None:
        self.values += values
        self.depth = max(self.depth, len(self._open) + depth)
        if self._open:
            anchor, before, keys = self._open[-1]
            self._open[-1] = anchor, before, max(keys, depth)

    def _name(self, anchor: str | None, values: int, depth: int) -> None:
        if anchor is not None:
            self.named[anchor] = values, depth
