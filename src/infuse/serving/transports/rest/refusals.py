"""Errors that only HTTP knows, and the form that all errors have in an answer."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

import msgspec

from infuse.errors import AccessError, OverloadError, RequestError
from infuse.serving.control.statuses import http_status, public_text

Headers = list[tuple[bytes, bytes]]

JSON: tuple[bytes, bytes] = (b"content-type", b"application/json")


class Refusal(RequestError):
    """A request that HTTP has a status of its own for, with the headers that belong to it."""

    def __init__(
        self,
        status: int,
        what: str,
        *,
        headers: Mapping[str, str] | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(what, hint=hint)
        self.status = status
        self.headers = dict(headers or {})


def refused(error: Exception) -> tuple[int, Headers, bytes]:
    """Status, headers and body (`{"error": …}`) of the answer that tells of an error."""
    body = msgspec.json.encode({"error": public_text(error)})
    headers = [JSON]
    if isinstance(error, Refusal):
        headers += [(name.encode(), value.encode()) for name, value in error.headers.items()]
        return error.status, headers, body
    if isinstance(error, OverloadError):
        headers.append((b"retry-after", str(max(1, ceil(error.retry_after))).encode()))
    if isinstance(error, AccessError) and not error.known:
        headers.append((b"www-authenticate", b'Bearer realm="infuse"'))
    return http_status(error), headers, body
