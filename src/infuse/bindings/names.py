"""Names and texts of a model in the sources of other languages, where they mean nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

__all__ = [
    "c_literal",
    "camel",
    "identifiers",
    "java_literal",
    "pascal",
    "shown",
    "snake",
    "unicode_literal",
    "utf16_literal",
]
_SAFE: Final = re.compile(r"[A-Za-z0-9 _.,:;/()\[\]+*=<>-]")
_LONGEST: Final = 200
"""Letters of a text that are written, and of a name."""


def shown(text: object) -> str:
    """Text of a model, made harmless in comments and tables of all languages."""
    return re.sub(r"[^\w.:,+*%()\[\] -]", "_", str(text), flags=re.ASCII)[:_LONGEST]


def words(name: str) -> list[str]:
    """The words of a name in ASCII: input.1 → input, 1; lastHidden → last, hidden."""
    parts = re.findall(r"[A-Z]?[a-z]+\d*|[A-Z]+(?![a-z])\d*|\d+", name[:_LONGEST])
    return [word.lower() for word in parts]


def snake(parts: list[str]) -> str:
    """As in last_hidden."""
    return "_".join(parts)


def pascal(parts: list[str]) -> str:
    """As in LastHidden; numbers stay apart: Axis1_2."""
    text = ""
    for part in parts:
        text += f"_{part}" if part.isdigit() and text[-1:].isdigit() else part.capitalize()
    return text


def camel(parts: list[str]) -> str:
    """As in lastHidden."""
    text = pascal(parts)
    return text[:1].lower() + text[1:]


def identifiers(
    names: Iterable[str], kind: str, style: Callable[[list[str]], str], reserved: frozenset[str]
) -> list[str]:
    """An identifier for each name, all different, none reserved; what has no letter of ASCII is
    called by kind and number.
    """
    used: set[str] = set()
    result = []
    for number, name in enumerate(names):
        parts = words(name) or [kind, str(number)]
        if parts[0].isdigit():
            parts = [kind, *parts]
        text = style(parts)
        while text in reserved or text.lower() in used:
            text += "_" if text in reserved else f"_{number}"
        used.add(text.lower())
        result.append(text)
    return result


def c_literal(text: str) -> str:
    """A literal of C, C++ and Go in UTF-8: what is not plain is written as octal numbers."""
    return '"' + "".join(_octal(character) for character in text[:_LONGEST]) + '"'


def _octal(character: str) -> str:
    if _SAFE.fullmatch(character):
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "replace"))


def unicode_literal(text: str) -> str:
    """A literal of Rust and Swift: what is not plain is written as numbers of characters."""
    return '"' + "".join(map(_braced, text[:_LONGEST])) + '"'


def _braced(character: str) -> str:
    if _SAFE.fullmatch(character):
        return character
    code = ord(character)
    return "?" if 0xD800 <= code < 0xE000 else f"\\u{{{code:x}}}"


def utf16_literal(text: str) -> str:
    """A literal of C# and Kotlin: what is not plain is written as numbers of UTF-16."""
    return '"' + "".join(map(_units, text[:_LONGEST])) + '"'


def java_literal(text: str) -> str:
    """A literal of Java: there escapes of UTF-16 are read before literals are, so that signs of
    ASCII are octal.
    """
    return '"' + "".join(_octal(c) if c < "\x80" else _units(c) for c in text[:_LONGEST]) + '"'


def _units(character: str) -> str:
    if _SAFE.fullmatch(character):
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
