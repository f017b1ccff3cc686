"""Calls of verbs in the words of the last release."""

import warnings
from collections.abc import Callable
from typing import Any


def formerly(verb: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What a verb makes of keywords that are fields of options now; its warnings are no errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return verb(*arguments, **named)
