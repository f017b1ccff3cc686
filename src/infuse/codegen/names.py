"""Text of a model inside of C++: plain characters that mean nothing there."""

from __future__ import annotations

_UNSAFE = frozenset("\\\"'?#{};%")


def comment(text: str) -> str:
    """Text of a model as plain characters that mean nothing in C++."""
    plain = "".join(c if c.isascii() and c.isprintable() and c not in _UNSAFE else "_" for c in text)
    return plain.replace("*/", "* _").replace("/*", "_ *")[:160]


def string(text: str) -> str:
    """A C++ string literal of plain characters."""
    return f'"{comment(text)}"'
