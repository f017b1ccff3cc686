"""Numbers that are written in texts."""

from __future__ import annotations

import math
import re
from typing import Final

from infuse.errors import DataError

_SPACE: Final = r"[ \t\n\v\f\r]*"
_NUMBER: Final = re.compile(
    rf"{_SPACE}([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?){_SPACE}", re.ASCII | re.IGNORECASE
)
_SPECIAL: Final = re.compile(
    rf"{_SPACE}([+-]?(?:inf|infinity|nan)){_SPACE}", re.ASCII | re.IGNORECASE
)
_WHOLE: Final = re.compile(rf"{_SPACE}([+-]?\d{{1,40}}){_SPACE}", re.ASCII)


def number(text: str) -> float:
    """The number that a text says: decimal, with an exponent or not, infinite, or NaN; spaces
    around it are allowed.

    DataError for anything else, and for a number that is larger than those of float64.
    """
    special = _SPECIAL.fullmatch(text)
    if special:
        return float(special[1])
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise DataError(f"the text {text[:40]!r} is not a number")
    value = float(match[1])
    if math.isinf(value):
        raise DataError(f"the number {text[:40]!r} is larger than any float64")
    return value


def integer(text: str) -> int:
    """The number that a text says, its part after the point cut off; DataError where it is none or
    not finite.
    """
    whole = _WHOLE.fullmatch(text)
    if whole:
        return int(whole[1])
    value = number(text)
    if not math.isfinite(value):
        raise DataError(f"the text {text[:40]!r} is not an integer")
    return int(value)
