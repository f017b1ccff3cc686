"""The table of what programs call besides ATen's operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Primitive = Callable[..., Any]
PRIMITIVES: Final[dict[str, Primitive]] = {}
"""By name; an entry gives NotImplemented where an operator of ATen is meant."""


def primitive(*names: str) -> Callable[[Primitive], Primitive]:
    """Register what carries out calls of these names."""

    def register(function: Primitive) -> Primitive:
        for name in names:
            PRIMITIVES[name] = function
        return function

    return register
