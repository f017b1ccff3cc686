"""The client that all commands ask a server with: it reads no more than it was told to expect, and
a token never leaves the server that it is for.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import aiohttp
import msgspec
from yarl import URL

from infuse.errors import OptionError
from infuse.serving.load.remote import Cause, Failure, wrong_answer

MOST_BYTES: Final = 64 << 20
"""Bytes of an answer that is kept in memory."""
_MOST_COUNTED: Final = 1 << 30  # bytes of an answer of which only a part is kept
_MOST_REFUSAL: Final = 64 << 10
_MOST_TEXT: Final = 300  # characters of a refusal
_MOST_REDIRECTS: Final = 5
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_CAUSES: Final[Mapping[int, Cause]] = {
    HTTPStatus.NOT_FOUND: "unknown",
    HTTPStatus.UNAUTHORIZED: "access",
    HTTPStatus.FORBIDDEN: "access",
}
_TRANSIENT: Final = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
)  # refusals that depend on the load


@dataclass(frozen=True)
class Answer:
    """An answer with status 200: its headers, and as much of its body as was to be kept."""

    headers: Mapping[str, str]
    body: bytes
    size: int


Keep = Callable[[Mapping[str, str]], int]
"""How many bytes of a body are kept, by the headers; the rest is counted and dropped."""


class Session:
    """Connections to one server that stay open, at most `connections`; a request waits for a free
    one. `seconds` is the longest that an answer may take.

    Redirects are followed within the same origin (scheme, host and port) alone, with the same
    method and body. Answers are asked for uncompressed, and compressed ones are none.
    """

    def __init__(
        self, url: str, token: str, seconds: float, connections: int, tls: ssl.SSLContext | None
    ) -> None:
        if not (token.isascii() and token.isprintable()):
            raise OptionError("the token has characters that no header can carry")
        headers = {"Accept-Encoding": "identity"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._base = url.rstrip("/")
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections, ssl=tls or True),
            timeout=aiohttp.ClientTimeout(total=seconds),
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )

    async def ask(
        self,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        most: int = MOST_BYTES,
        keep: Keep | None = None,
    ) -> Answer:
        """GET, or POST with a body. Failure for all but status 200, for a redirect elsewhere, and
        for a body of more than `most` bytes that are to be kept.
        """
        url = URL(self._base + path, encoded=True)
        origin = url.origin()
        method = "GET" if body is None else "POST"
        for _ in range(_MOST_REDIRECTS):
            async with (
                _failures(),
                self._session.request(
                    method, url, data=body, headers=headers, allow_redirects=False
                ) as answer,
            ):
                if answer.status not in _REDIRECTS:
                    return await _taken(answer, most, keep)
                url = _target(url, answer.headers.get("Location", ""))
            if url.origin() != origin:
                raise Failure(
                    "redirect",
                    f"it sends to {url.origin()}, where neither token nor request go",
                    "refused",
                )
        raise Failure("redirect", f"more than {_MOST_REDIRECTS}, one after the other", "refused")

    async def close(self) -> None:
        """End all connections."""
        await self._session.close()


def _target(url: URL, location: str) -> URL:
    try:
        target = url.join(URL(location))
        target.origin()
    except ValueError as error:
        raise wrong_answer(f"it redirects to no address: {error}") from error
    return target


async def _taken(answer: aiohttp.ClientResponse, most: int, keep: Keep | None) -> Answer:
    """An answer's body, read as far as it is one that may be."""
    if answer.status != HTTPStatus.OK:
        raise _refusal(answer.status, (await _read(answer, _MOST_REFUSAL))[:_MOST_REFUSAL])
    encoding = answer.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise wrong_answer(f"it is compressed ({encoding}), which nobody asked for")
    kept = most if keep is None else min(keep(answer.headers), most)
    body = bytearray()
    limit = most if keep is None else _MOST_COUNTED
    size = 0
    async for piece in answer.content.iter_any():
        size += len(piece)
        body += piece[: max(kept - len(body), 0)]
        if size > limit:
            raise wrong_answer(f"it has more than {limit} bytes")
    return Answer(answer.headers, bytes(body), size)


async def _read(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """The begin of a body, and at least so many bytes if it has them."""
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) >= most:
            answer.close()
            break
    return bytes(body)


@asynccontextmanager
async def _failures() -> AsyncIterator[None]:
    """Makes Failures of what the client raises."""
    try:
        yield
    except asyncio.TimeoutError as error:
        raise Failure("timeout", "no answer came in time", "timeout") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        text = f"{type(error).__name__}: {error}"
        raise Failure("connection", text, "connection") from error


def _refusal(status: int, body: bytes) -> Failure:
    """The failure of an answer with another status than 200."""
    try:
        text = str(msgspec.json.decode(body)["error"])
    except (msgspec.DecodeError, KeyError, TypeError):
        text = body.decode("utf-8", "replace")
    is_refused = status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _TRANSIENT
    cause: Cause = _CAUSES.get(status, "refused" if is_refused else "server")
    return Failure(f"HTTP {status}", text[:_MOST_TEXT], cause)
