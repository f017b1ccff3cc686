"""How functions of frameworks are called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def required_arguments(function: Callable[..., Any], otherwise: str = "x") -> str:
    """What a call of a function needs, as it stands in a tuple: `x,` or `x, mask`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # functions of C
        return f"{otherwise},"
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    ordered = [each for each in parameters if each.kind in places]
    needed = [each.name for each in ordered if each.default is inspect.Parameter.empty]
    names = needed or [each.name for each in ordered[:1]] or [otherwise]
    return f"{names[0]}," if len(names) == 1 else ", ".join(names)
