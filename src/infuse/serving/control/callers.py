"""Whoever asks the server for something, and which models they may touch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from infuse.errors import AccessError


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever was admitted: the name for logs ("" without tokens), and the models it is limited to
    (empty: all).
    """

    name: str = ""
    models: frozenset[str] = frozenset()

    def require(self, model: str, why: str) -> None:
        """AccessError, which names the model and says why it is touched, unless the caller may
        touch it.
        """
        if self.models and model not in self.models:
            raise forbidden(
                f"the token '{self.name}' is not for the model '{model[:100]}', and {why}"
            )


ANYBODY: Final = Caller()
"""A caller without limits."""


def forbidden(what: str, hint: str | None = None) -> AccessError:
    """The error of a caller who is not allowed what they ask for."""
    error = AccessError(what, hint=hint)
    error.known = True
    return error
