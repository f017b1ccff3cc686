"""The files of the console's page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from infuse.serving.security import PAGE_HEADERS

_FOLDER: Final = Path(__file__).parent / "page"
_TYPES: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_INDEX: Final = "index.html"
_JSON: Final = "application/json"
_NOTHING: Final = b'{"error": "the console has no such file"}'


def asset(path: str) -> tuple[str, bytes] | None:
    """The content type and the bytes of what a path of the server (`/`, `/console/console.js`) is; None: it is nothing.

    To be sent with `security.PAGE_HEADERS`.
    """
    if path in ("/", "/console"):
        return _files()[_INDEX]
    return _files().get(path.removeprefix("/console/")) if path.startswith("/console/") else None


async def page(
    scope: Mapping[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """The assets as an ASGI application, to be mounted at `/` and `/console` for everybody: it holds no data."""
    found = asset(scope["path"])
    status, (kind, body) = (404, (_JSON, _NOTHING)) if found is None else (200, found)
    headers = {**PAGE_HEADERS, "content-type": kind, "content-length": str(len(body))}
    if scope["method"] not in ("GET", "HEAD"):
        status, body = 405, b""
        headers = {**headers, "allow": "GET, HEAD", "content-length": "0"}
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


@cache
def _files() -> Mapping[str, tuple[str, bytes]]:
    return {file.name: (_TYPES[file.suffix], file.read_bytes()) for file in _FOLDER.iterdir() if file.suffix in _TYPES}
