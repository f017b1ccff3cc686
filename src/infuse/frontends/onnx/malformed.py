"""Messages with contents that no exporter writes: what they make Python raise, as one error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from infuse.errors import ModelFileError

MALFORMED: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
)
"""What reading a message with impossible contents may raise."""


def malformed(message: Any, error: Exception, where: str) -> ModelFileError:
    """The error for a message (a model, a node) whose contents made Python raise `error`."""
    field = _field_without_text(message)
    what = (
        f"it is not well formed: {error}" if field is None else f"a {field} in it is not UTF-8 text"
    )
    return ModelFileError(what, where=where, hint="the file is damaged; fetch or export it again")


def _field_without_text(message: Any) -> str | None:
    """The name of a field that should be text but is not."""
    for field, value in message.ListFields():
        values = (
            value
            if isinstance(value, Sequence) and not isinstance(value, (str, bytes))
            else [value]
        )
        if field.type == field.TYPE_STRING and any(isinstance(v, bytes) for v in values):
            return str(field.name)
        name = (
            next(filter(None, map(_field_without_text, values)), None)
            if field.message_type is not None
            else None
        )
        if name:
            return name
    return None
