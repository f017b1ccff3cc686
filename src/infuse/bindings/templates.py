"""Files of packages, made of templates that lie beside this file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).with_name("templates")
_FIELD: Final = re.compile(r"@([A-Z][A-Z0-9_]*)@")


def filled(template: str, fields: Mapping[str, str]) -> str:
    """A template with its fields (`@NAME@`) filled in. What is filled in is not looked at again, so
    that names of a model cannot be fields.
    """
    text = (_HERE / template).read_text("utf-8")
    return _FIELD.sub(lambda match: fields[match[1]], text)


def reserved(language: str) -> frozenset[str]:
    """What cannot be a name in a language, or means something in its packages."""
    return frozenset((_HERE / language / "words.txt").read_text("utf-8").split())
