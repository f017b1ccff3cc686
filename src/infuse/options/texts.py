"""How the texts of flags become values."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from infuse.errors import OptionError


def names(texts: Iterable[str], flag: str) -> list[str]:
    """Rule names, one by one or with commas between them. OptionError for a text without."""
    return listed(texts, f"{flag} {{!r}} names no rule", "infuse why --list shows them")


def values(texts: Iterable[str], flag: str) -> list[str]:
    """Names of values in a graph, likewise."""
    return listed(texts, f"{flag} {{!r}} names no value", "infuse show --text lists them")


def listed(texts: Iterable[str], refusal: str, hint: str) -> list[str]:
    """Names, one by one or with commas between them. OptionError for a text without."""
    result: list[str] = []
    for text in texts:
        named = [name.strip() for name in text.split(",") if name.strip()]
        if not named:
            raise OptionError(refusal.format(text), hint=hint)
        result += named
    return result


def dims(texts: Iterable[str], option: str) -> dict[str, int]:
    """`["batch=2", "seq=8"]` → `{"batch": 2, "seq": 8}`; OptionError for anything else, and for
    contradictions.
    """
    sizes: dict[str, int] = {}
    for text in texts:
        name, equals, size = text.rpartition("=")
        if not equals or not name or not size.isdecimal():
            raise OptionError(
                f"{option} {text} does not give a dynamic axis its size",
                hint=f"write it as {option} batch=2",
            )
        if sizes.setdefault(name, int(size)) != int(size):
            raise OptionError(
                f"{option} gives {name} the sizes {sizes[name]} and {size}", hint="give it one"
            )
    return sizes


def described(texts: Iterable[str], flag: str = "--input") -> dict[str, Any]:
    """`["x:float32:batch,3", "rate=16000"]` → pairs of element type and shape, and numbers, by
    name; OptionError for anything else.
    """
    inputs: dict[str, Any] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        try:
            if equals and name:
                inputs[name] = ast.literal_eval(number)
            else:
                name, kind, sizes = text.split(":")
                shape = [s.strip() for s in sizes.split(",") if s.strip()]
                inputs[name] = (kind, tuple(int(s) if s.isdecimal() else s for s in shape))
        except (ValueError, SyntaxError) as error:
            raise OptionError(
                f"{flag} {text} describes no input",
                hint=f"write it as {flag} x:float32:batch,3,224,224 or {flag} rate=16000",
            ) from error
    return inputs
