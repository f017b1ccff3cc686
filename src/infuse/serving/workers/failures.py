"""Errors on their way between processes: as plain text, which the other side raises again."""

from __future__ import annotations

from typing import Final

from infuse import errors
from infuse.errors import InfuseError, RuntimeFailure

Described = tuple[str, str, str, str]
"""The name of a class, and what, where and hint of an error."""
_MOST_TEXT: Final = 4096  # characters of each: a message has a limit


def describe(error: Exception) -> Described:
    """An error as plain text; what is none of ours is a RuntimeFailure."""
    if isinstance(error, InfuseError):
        texts = (error.what, error.where or "", error.hint or "")
        what, where, hint = (text[:_MOST_TEXT] for text in texts)
        return (type(error).__name__, what, where, hint)
    if isinstance(error, MemoryError):
        return (RuntimeFailure.__name__, "out of memory", "", "")
    return (RuntimeFailure.__name__, f"{type(error).__name__}: {error}"[:_MOST_TEXT], "", "")


def restored(described: Described) -> InfuseError:
    """The error that another process described."""
    name, what, where, hint = described
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, InfuseError)):
        kind = RuntimeFailure
    return kind(what, where=where or None, hint=hint or None)
