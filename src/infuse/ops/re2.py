"""Patterns in RE2's syntax for Python's `re`, which means something else by some of them."""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NoReturn

from infuse.errors import UnsupportedOperatorError

_MOST_REPEATS: Final = 1000
_LAST: Final = "\U0010ffff"
_SETS: Final = {
    "d": "0-9",
    "D": f"\\x00-/:-{_LAST}",
    "s": r"\t\n\f\r ",
    "S": f"\\x00-\\x08\\x0b\\x0e-\\x1f!-{_LAST}",
    "w": "0-9A-Za-z_",
    "W": f"\\x00-/:-@\\[-\\^`{{-{_LAST}",
}
_NAMED: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_SAME: Final = {"a": r"\x07", "f": r"\f", "t": r"\t", "n": r"\n", "r": r"\r", "v": r"\v"}
_REPEAT: Final = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")
_GROUP: Final = re.compile(r"\(\?(?:P?<(\w+)>|([imsU]*)(?:-([imsU]+))?([:)]))")
_NUMBER: Final = re.compile(r"x\{([0-9A-Fa-f]+)\}|x([0-9A-Fa-f]{2})|(0[0-7]{0,2}|[1-7][0-7]{1,2})")


@cache
def translated(pattern: str) -> re.Pattern[str]:
    """What matches as a whole what RE2's `pattern` matches; UnsupportedOperatorError where nothing does."""
    text = _Translation(pattern).run()
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise UnsupportedOperatorError(f"the pattern {pattern!r} is no regular expression: {error}") from error


class _Translation:
    """`flags` are those that hold here; those of the groups around wait in `outer`."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.at = pattern, 0
        self.out: list[str] = []
        self.flags: frozenset[str] = frozenset()
        self.outer: list[tuple[frozenset[str], int]] = []
        self.opened = 0

    def refuse(self, why: str) -> NoReturn:
        raise UnsupportedOperatorError(
            f"the pattern {self.pattern!r} has {why} at character {self.at}, which RE2 or this release does not know"
        )

    def run(self) -> str:
        while self.at < len(self.pattern):
            self.item()
        if self.outer:
            self.refuse("a group without an end")
        return "".join(self.out) + ")" * self.opened

    def take(self, text: str, length: int) -> None:
        self.out.append(text)
        self.at += length

    def item(self) -> None:
        c = self.pattern[self.at]
        if c == "\\":
            self.escape()
        elif c == "[":
            self.take_set()
        elif c == "(":
            self.group()
        elif c == ")":
            self.close()
        elif c in "*+?{":
            self.repeat(c)
        elif c == "$":
            self.take("$" if "m" in self.flags else r"\Z", 1)
        elif c == "|" and self.opened:
            # A flag set in an alternative holds for the later ones, too.
            self.take(f"{')' * self.opened}|{self.opening()}", 1)
            self.opened = 1
        else:
            self.take(c, 1)

    # -- groups and flags ----------------------------------------------------------------------------------------

    def group(self) -> None:
        if not self.pattern.startswith("(?", self.at):
            self.enter("(", 1, self.flags)
            return
        found = _GROUP.match(self.pattern, self.at)
        if found is None:
            self.refuse("a group of another kind")
        name, on, off, end = found.groups()
        length = len(found.group())
        if name is not None:
            self.enter(f"(?P<{name}>", length, self.flags)
            return
        flags = (self.flags | set(on)) - set(off or "")
        if end == ":":
            self.enter(self.opening(flags), length, flags)
            return
        self.flags = flags
        self.opened += 1
        self.take(self.opening(), length)

    def opening(self, flags: frozenset[str] | None = None) -> str:
        """The start of a group in which the flags hold; greediness has no part in whether a whole string matches."""
        wanted = (self.flags if flags is None else flags) - {"U"}
        off = "".join(sorted({"i", "m", "s"} - wanted))
        return f"(?{''.join(sorted(wanted))}{'-' if off else ''}{off}:"

    def enter(self, text: str, length: int, flags: frozenset[str]) -> None:
        self.outer.append((self.flags, self.opened))
        self.flags, self.opened = flags, 0
        self.take(text, length)

    def close(self) -> None:
        if not self.outer:
            self.refuse("an end of no group")
        inner = self.opened
        self.flags, self.opened = self.outer.pop()
        self.take(")" * (inner + 1), 1)

    # -- repetition ----------------------------------------------------------------------------------------------

    def repeat(self, c: str) -> None:
        length, text = 1, c
        if c == "{":
            found = _REPEAT.match(self.pattern, self.at)
            if found is None:
                self.take(r"\{", 1)
                return
            if max(int(n) for n in (found[1], found[3] or "0")) > _MOST_REPEATS:
                self.refuse(f"more than {_MOST_REPEATS} repetitions")
            length, text = len(found.group()), found.group()
        after = self.at + length
        if self.pattern.startswith("?", after):
            text, after = text + "?", after + 1
        if self.pattern.startswith(("*", "+", "?"), after) or _REPEAT.match(self.pattern, after):
            self.refuse("a repetition of a repetition")
        self.take(text, after - self.at)

    # -- escapes and sets ----------------------------------------------------------------------------------------

    def escape(self) -> None:
        c = self.pattern[self.at + 1 : self.at + 2]
        if c in _SETS and c:
            self.take(f"[{_SETS[c]}]", 2)
        elif c in ("b", "B"):
            self.take(f"(?a:\\{c})", 2)
        elif c in ("A", "z"):
            self.take(r"\A" if c == "A" else r"\Z", 2)
        elif c == "Q":
            end = self.pattern.find(r"\E", self.at)
            literal = self.pattern[self.at + 2 : end if end >= 0 else None]
            self.take(re.escape(literal), len(literal) + (4 if end >= 0 else 2))
        else:
            text, length = self.character()
            self.take(text, length)

    def character(self) -> tuple[str, int]:
        """What an escape of one character stands for, and its length."""
        c = self.pattern[self.at + 1 : self.at + 2]
        if c in _SAME and c:
            return _SAME[c], 2
        found = _NUMBER.match(self.pattern, self.at + 1)
        if found is not None:
            code = int(found[1] or found[2] or "0", 16) if found[3] is None else int(found[3], 8)
            if code > ord(_LAST):
                self.refuse("a character that is none")
            return re.escape(chr(code)), 1 + len(found.group())
        if not c or c.isalnum() or ord(c) > 127:
            self.refuse(f"the escape \\{c}")
        return re.escape(c), 2

    def take_set(self) -> None:
        start, self.at = self.at, self.at + 1
        words = ["[^"] if self.pattern.startswith("^", self.at) else ["["]
        self.at += len(words[0]) - 1
        first = True
        while first or not self.pattern.startswith("]", self.at):
            if self.at >= len(self.pattern):
                self.at = start
                self.refuse("a set without an end")
            words.append(self.member())
            first = False
        self.at += 1
        self.out.append("".join(words) + "]")

    def member(self) -> str:
        """A class, a character or a range of a set."""
        named = re.compile(r"\[:(\^?)(\w+):\]").match(self.pattern, self.at)
        if named is not None:
            if named[1] or named[2] not in _NAMED:
                self.refuse(f"the class {named.group()}")
            self.at += len(named.group())
            return _NAMED[named[2]]
        after = self.pattern[self.at + 1 : self.at + 2]
        if self.pattern[self.at] == "\\" and after in _SETS and after:
            self.at += 2
            return _SETS[after]
        low = self.one()
        if self.pattern.startswith("-", self.at) and self.pattern[self.at + 1 : self.at + 2] not in ("]", ""):
            self.at += 1
            return f"{low}-{self.one()}"
        return low

    def one(self) -> str:
        c = self.pattern[self.at : self.at + 1]
        text, length = self.character() if c == "\\" else (re.escape(c), 1)
        self.at += length
        return text


__all__ = ["translated"]
