"""The files of the console's page."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent / "page"
_TYPES: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_INDEX: Final = "index.html"


def asset(path: str) -> tuple[str, bytes] | None:
    """The content type and the bytes of what a path of the server (`/`, `/console/console.js`) is;
    None: it is nothing.

    To be sent with `security.PAGE_HEADERS`.
    """
    if path in ("/", "/console"):
        return _files()[_INDEX]
    return _files().get(path.removeprefix("/console/")) if path.startswith("/console/") else None


@cache
def _files() -> Mapping[str, tuple[str, bytes]]:
    return {
        file.name: (_TYPES[file.suffix], file.read_bytes())
        for file in _FOLDER.iterdir()
        if file.suffix in _TYPES
    }
