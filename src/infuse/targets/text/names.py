"""Text of a model inside of C++: it means nothing there."""

from __future__ import annotations

LONGEST = 160
"""Letters of a text that are written."""
_UNSAFE = frozenset("\\\"'?#{};%")


def comment(text: str) -> str:
    """Text of a model as plain characters that mean nothing in C++."""
    plain = "".join(
        c if c.isascii() and c.isprintable() and c not in _UNSAFE else "_" for c in text
    )
    return plain.replace("*/", "* _").replace("/*", "_ *")[:LONGEST]


def string(text: str) -> str:
    """A C++ string literal of this text; what is no letter, digit, space or plain sign is written
    as numbers.
    """
    return '"' + "".join(map(_escaped, text[:LONGEST])) + '"'


def _escaped(character: str) -> str:
    if character.isascii() and character.isprintable() and character not in _UNSAFE:
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "replace"))
