"""Patterns of tokens in Python's syntax, of the forms that match in linear time."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from infuse.errors import UnsupportedOperatorError

_FLAGS: Final = re.compile(r"\(\?[aiu]+\)")
_CHARACTER: Final = re.compile(
    r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\[wdsWDSnrtfv]|\\[^A-Za-z0-9]|[^\\^$|?*+()\[\]{}]", re.DOTALL
)
"""A class of characters, or one character."""
_REPEATED: Final = re.compile(r"(?:([+*?])|\{(\d{1,4})(,(\d{0,4}))?\})(?![?+])")
_BOUNDARY: Final = r"\b"
_MOST: Final = 100
"""How many characters a pattern may ask for before one that repeats without end."""


class PlainTokens:
    r"""Tokens that are the longest runs, of at least `shortest`, of one class of characters without
    blanks of ASCII, as in `\b\w\w+\b` or `[a-z]{3,}`. Threads may share it.
    """

    def __init__(self, one: re.Pattern[str], shortest: int) -> None:
        self.shortest = shortest
        self._one = one
        self._states = np.zeros(sys.maxunicode + 1, np.uint8)
        self._look_up(range(128))
        letters = self._states[:128] == 2
        self.table = bytes(c if c < 128 and letters[c] else 32 for c in range(256))
        """For `bytes.translate`: blanks in place of all bytes that are no character of the class
        in ASCII.
        """

    def inside(self, codes: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Whether characters, by their numbers, are of the class."""
        states = self._states[codes]
        fresh = codes[states == 0]
        if len(fresh):
            self._look_up(np.unique(fresh).tolist())
            states = self._states[codes]
        return np.asarray(states == 2)

    def _look_up(self, codes: Iterable[int]) -> None:
        for code in codes:
            self._states[code] = 2 if self._one.fullmatch(chr(code)) else 1


class _Item(NamedTuple):
    """How often a class of characters stands in a row; None is without end."""

    least: int
    most: int | None


@cache
def token_pattern(pattern: str) -> re.Pattern[str]:
    r"""A pattern that finds all tokens of a text in time that grows with its length.

    It has alternatives of classes of characters, each in a fixed number but the last, which may
    repeat; they may begin and end at `\b`, and what ends there without end begins there too. No
    alternative matches nothing. UnsupportedOperatorError for any other.
    """
    flags = _FLAGS.match(pattern)
    place = flags.end() if flags else 0
    while True:
        place = _alternative(pattern, place)
        if place == len(pattern):
            break
        place += 1
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UnsupportedOperatorError(
            f"the pattern of tokens {pattern!r} is no regular expression: {error}"
        ) from error


@cache
def plain_tokens(pattern: str) -> PlainTokens | None:
    """The tokens of a pattern where they are the longest runs of a class of characters; None for
    any other pattern.
    """
    flags = _FLAGS.match(pattern)
    rest = pattern[flags.end() if flags else 0 :]
    begins, ends = rest.startswith(_BOUNDARY), rest.endswith(_BOUNDARY)
    rest = rest.removeprefix(_BOUNDARY).removesuffix(_BOUNDARY)
    classes, items, place = set(), [], 0
    while (character := _CHARACTER.match(rest, place)) is not None:
        classes.add(character[0])
        item, place = _repetition(rest, character.end())
        items.append(item)
    single = classes.pop() if len(classes) == 1 else ""
    if place < len(rest) or not single or items[-1].most is not None:
        return None
    if any(item.least != item.most for item in items[:-1]) or (begins, ends) not in (
        (False, False),
        (True, True),
    ):
        return None
    if begins and single != r"\w":
        return None
    one = re.compile((flags[0] if flags else "") + single)
    least = sum(item.least for item in items)
    if not least or any(c.isspace() and one.fullmatch(c) for c in map(chr, range(128))):
        return None
    return PlainTokens(one, least)


def _alternative(pattern: str, place: int) -> int:
    """Where an alternative that begins at `place` ends."""
    begins = pattern.startswith(_BOUNDARY, place)
    place += len(_BOUNDARY) * begins
    items: list[_Item] = []
    while (character := _CHARACTER.match(pattern, place)) is not None:
        item, place = _repetition(pattern, character.end())
        items.append(item)
    ends = pattern.startswith(_BOUNDARY, place)
    place += len(_BOUNDARY) * ends
    fixed = all(item.least == item.most for item in items[:-1])
    few = sum(item.least if item.most is None else item.most for item in items) <= _MOST
    endless = bool(items) and items[-1].most is None
    is_whole = place == len(pattern) or pattern[place] == "|"
    is_something = sum(item.least for item in items) > 0
    if not (fixed and few and is_whole and is_something and (begins or not (ends and endless))):
        raise UnsupportedOperatorError(
            f"the pattern of tokens {pattern!r} is not of a form that matches in linear time",
            hint="write classes of characters, of which the last may repeat, alone or between two "
            r"\b, as in (?u)\b\w\w+\b or [a-z]{3,}; alternatives stand between |",
        )
    return place


def _repetition(pattern: str, place: int) -> tuple[_Item, int]:
    """How often what ends at `place` stands in a row, and where that is said."""
    found = _REPEATED.match(pattern, place)
    if found is None:
        return _Item(1, 1), place
    sign, least, comma, most = found.groups()
    if sign:
        return {"+": _Item(1, None), "*": _Item(0, None), "?": _Item(0, 1)}[sign], found.end()
    low = int(least)
    high = low if comma is None else int(most) if most else None
    return _Item(low, high), found.end()
