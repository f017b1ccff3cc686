"""Names of functions of the interface, and text of a model inside of C and C++, where it means
nothing.
"""

from __future__ import annotations

import re
from typing import Final

_FUNCTIONS: Final = (
    "metadata|status|open|create|shapes|needed_bytes|run|cancel|output|error|arena_bytes|live_bytes"
    "|close|profile|embedded_weights|create_context|open_context"
)
_NAMES: Final = re.compile(rf"\binfuse_(?=(?:{_FUNCTIONS})\b)")
LONGEST = 160
"""Letters of a text that are written."""
_UNSAFE = frozenset("\\\"'?#{};%")


def prefixed(text: str, prefix: str) -> str:
    """C text in which the functions of the interface have this prefix in place of infuse_."""
    return _NAMES.sub(f"{prefix}_", text)


def plain(text: object) -> str:
    """Text of a model, made harmless in a C comment."""
    return re.sub(r"[^\w.:+%() -]", "_", str(text), flags=re.ASCII)


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
