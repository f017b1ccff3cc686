"""Which HTTP status and which gRPC code an error has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from infuse.errors import (
    AccessError,
    ConfigurationError,
    DataError,
    DeadlineError,
    InfuseError,
    InputError,
    ModelFailureError,
    NotFoundError,
    OptionError,
    OverloadError,
    RepositoryError,
    RequestError,
    ShapeError,
    TooLargeError,
    TypeMismatchError,
    UnavailableError,
    UnsupportedRequestError,
)

MOST_TEXT: Final = 4000
"""Characters of an error that a caller is told."""

# HTTP status, name of the gRPC code; the first class that fits.
_STATUSES: Final[Mapping[type[Exception], tuple[int, str]]] = {
    RequestError: (400, "INVALID_ARGUMENT"),
    InputError: (400, "INVALID_ARGUMENT"),
    DataError: (400, "INVALID_ARGUMENT"),
    ShapeError: (400, "INVALID_ARGUMENT"),
    TypeMismatchError: (400, "INVALID_ARGUMENT"),
    OptionError: (400, "INVALID_ARGUMENT"),
    ConfigurationError: (400, "INVALID_ARGUMENT"),
    RepositoryError: (400, "FAILED_PRECONDITION"),
    NotFoundError: (404, "NOT_FOUND"),
    UnavailableError: (503, "UNAVAILABLE"),
    OverloadError: (503, "RESOURCE_EXHAUSTED"),
    DeadlineError: (504, "DEADLINE_EXCEEDED"),
    TooLargeError: (413, "RESOURCE_EXHAUSTED"),
    UnsupportedRequestError: (501, "UNIMPLEMENTED"),
    ModelFailureError: (500, "INTERNAL"),
}


def http_status(error: BaseException) -> int:
    """The HTTP status of an error: 500 for what is not the caller's fault and has no status of its
    own.
    """
    if isinstance(error, AccessError):
        return 403 if error.known else 401
    return next((status for kind, (status, _) in _STATUSES.items() if isinstance(error, kind)), 500)


def grpc_code(error: BaseException) -> str:
    """The name of the gRPC code of an error."""
    if isinstance(error, AccessError):
        return "PERMISSION_DENIED" if error.known else "UNAUTHENTICATED"
    return next(
        (code for kind, (_, code) in _STATUSES.items() if isinstance(error, kind)), "INTERNAL"
    )


def public_text(error: BaseException) -> str:
    """What a caller may read of an error: the message of ours, nothing of one that was not
    expected.

    It is cut to `MOST_TEXT` characters: names that callers chose may be in it.
    """
    text = (
        str(error) if isinstance(error, InfuseError) else f"internal error ({type(error).__name__})"
    )
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"
