"""Requests out of the bytes of a connection, with large bodies received in their place."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from typing import Final, Protocol

import httptools
import numpy as np

from infuse.runtime.session import Array
from infuse.serving.config import Limits
from infuse.serving.transports.elements import Buffer
from infuse.serving.transports.rest.asgi import Scope
from infuse.serving.transports.rest.deadline import BODY, HEAD
from infuse.serving.transports.rest.refusals import Refusal

MOST_HEADER_BYTES: Final = 64 << 10
BETWEEN: Final = 0
"""The stage of a reader that waits for the next request; the others are HEAD and BODY."""
_ALIGNMENT: Final = 64
_LENT_BYTES: Final = 1 << 16  # from here on not copying a body is worth the trouble
_LENGTH: Final = b"content-length"
_JSON_LENGTH: Final = b"inference-header-content-length"
# Headers of which one counts: with two of them, this server and a proxy before it may read
# different requests.
_SINGLE: Final = frozenset(
    (
        b"authorization",
        b"content-encoding",
        b"content-type",
        b"host",
        b"origin",
        _LENGTH,
        _JSON_LENGTH,
    )
)

Lend = Callable[[Scope, int], Array | None]
"""Memory for so many bytes of the body of a request; None: there is none of its own for it."""


class Requests(Protocol):
    """Who is told of requests."""

    def opened(self, scope: Scope, keep_alive: bool, expects_continue: bool) -> None:
        """The head of a request is there."""

    def completed(self, body: Buffer) -> None:
        """The body of the request that was opened is there."""


class RequestReader:
    """Reads requests; `place` is where the next bytes are best received, if there is such a place.

    `base`: what the scopes of all requests have. `stage`: BETWEEN, HEAD or BODY; `step` counts
    them.
    """

    __slots__ = (
        "_base",
        "_body",
        "_ended",
        "_expects",
        "_headers",
        "_keep_alive",
        "_lend",
        "_length",
        "_limits",
        "_parser",
        "_refusal",
        "_requests",
        "_scope",
        "_single",
        "_unbounded",
        "_url",
        "place",
        "stage",
        "step",
    )

    def __init__(self, requests: Requests, limits: Limits, base: Scope, lend: Lend | None) -> None:
        self._requests = requests
        self._limits = limits
        self._base = base
        self._lend = lend
        self._parser = httptools.HttpRequestParser(self)
        self._refusal: Refusal | None = None
        self._ended = False  # after the last request
        self._scope = base
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._single: dict[bytes, bytes] = {}
        self._expects = False
        self._keep_alive = True
        self._length: int | None = None  # of the body, where it was announced
        self._body: Buffer = b""
        self._unbounded = 0  # bytes since the last ones of a body, or since the head began
        self.place: memoryview | None = None
        self.stage = BETWEEN
        self.step = 0

    def stop(self) -> None:
        """Forget what has come of a request, and read no more."""
        self._ended = True
        self._refusal = self.place = None
        self._body = b""
        self._scope = self._base
        self.stage = BETWEEN

    def close(self) -> None:
        """Read no more, and let go of what refers to this reader."""
        self.stop()
        del self._parser, self._requests

    def placed(self, size: int) -> None:
        """So many bytes have been received into `place`."""
        assert self.place is not None
        self.place = self.place[size:]
        if not self.place:
            # The parser has not seen the end of this message.
            self._parser = httptools.HttpRequestParser(self)
            self.place = None
            self.on_message_complete()

    def feed(self, data: memoryview) -> None:
        """Read bytes that were received elsewhere. Refusal: they are no request that is taken."""
        while data and not self._ended:
            if self.place is not None:  # a body of known length has begun
                size = min(len(self.place), len(data))
                self.place[:size] = data[:size]
                data = data[size:]
                self.placed(size)
                continue
            # What may be a head is read up to its limit, and no further before that is looked at.
            room = MOST_HEADER_BYTES + 1 - self._unbounded
            size = len(data) if self.stage == BODY else max(room, 1)
            self._feed(data[:size])
            data = data[size:]

    def _feed(self, data: memoryview) -> None:
        self._unbounded += len(data)
        while data and not self._ended:
            try:
                self._parser.feed_data(data)
                break
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
            except httptools.HttpParserError as error:
                self._judge(error)
                return
            data = self._decline_upgrade(data)
        if self._unbounded > MOST_HEADER_BYTES and self.stage != BETWEEN and self.place is None:
            part = "head of the request is" if self.stage == HEAD else "trailers of the request are"
            raise Refusal(431, f"the {part} longer than {MOST_HEADER_BYTES} bytes")

    def _judge(self, error: httptools.HttpParserError) -> None:
        """Raise what an error of the parser means. After the last request it means nothing."""
        if self._refusal is None and isinstance(error, httptools.HttpParserCallbackError):
            raise error
        if not self._ended:
            raise self._refusal or Refusal(400, f"the request is not HTTP: {error}") from error

    def _decline_upgrade(self, rest: memoryview) -> memoryview:
        """Read on as if the request had not asked for another protocol: the parser has left its
        body. What follows the body.
        """
        self._parser = httptools.HttpRequestParser(self)
        if self.stage == BODY and self._length:
            size = min(len(rest), self._length)
            self.on_body(bytes(rest[:size]))
            rest = rest[size:]
            if self.place is None:
                self.on_message_complete()
        return rest

    def _refused(self, status: int, what: str) -> Refusal:
        """An exception for a function that the parser calls: the parser passes on none."""
        self._refusal = Refusal(status, what)
        return self._refusal

    # ------------------------------------------------------------------------- called by the parser

    def on_message_begin(self) -> None:
        """A request follows."""
        if self._ended:
            raise self._refused(400, "a request follows the last one")
        self._url = b""
        self._headers = []
        self._single = {}
        self._expects = False
        self.stage = HEAD
        self.step += 1

    def on_url(self, url: bytes) -> None:
        """Part of the request's target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; or a trailer, which is counted, and belongs to no head."""
        if self.stage != HEAD:
            return
        name = name.lower()
        if name in _SINGLE:
            if name in self._single:
                raise self._refused(400, f"the header {name.decode()} is there twice")
            self._single[name] = value
        elif name == b"expect":
            self._expects = value.lower() == b"100-continue"
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head of the request is there."""
        parser = self._parser
        version = parser.get_http_version()
        self._scope = scope = self._base.copy()
        scope["method"] = parser.get_method().decode()
        scope["http_version"] = version
        scope["headers"] = self._headers
        self._read_target(scope)
        if version == "1.1" and b"host" not in self._single:
            raise self._refused(400, "the header host is missing")
        self._length = self._announced()
        self._unbounded = 0
        self.stage = BODY
        self.step += 1
        # Connections of HTTP/1.0 are not kept, and its callers know nothing of 100 (Continue).
        newer = version != "1.0"
        self._keep_alive = newer and parser.should_keep_alive()
        self._requests.opened(scope, self._keep_alive, newer and self._expects)

    def _read_target(self, scope: Scope) -> None:
        target = self._url
        try:
            if target[:1] == b"/" and b"#" not in target:
                path, _, query = target.partition(b"?")
            else:
                url = httptools.parse_url(target)
                path, query = url.path or b"", url.query or b""
            text = path.decode("ascii")
        except (httptools.HttpParserInvalidURLError, UnicodeDecodeError):
            text = ""
        if not text:
            raise self._refused(400, "the request's target is not a path")
        scope["path"] = urllib.parse.unquote(text) if "%" in text else text
        scope["raw_path"] = path
        scope["query_string"] = query

    def _announced(self) -> int | None:
        """How long the body is; None: its chunks tell."""
        text = self._single.get(_LENGTH)
        if text is None:
            chunked = any(name == b"transfer-encoding" for name, _ in self._headers)
            if chunked and self._parser.should_upgrade():
                raise self._refused(400, "a request with chunks asks for another protocol")
            return None if chunked else 0
        length = int(text)
        most = self._limits.request_bytes
        if length > most:
            raise self._refused(413, f"the body has {length} bytes, at most {most} are taken")
        return length

    def on_body(self, body: bytes) -> None:
        """Part of a body: all of it, its beginning, or one of its chunks."""
        if self._length is None:
            self._extend(body)
        elif len(body) == self._length:
            self._body = body
        else:
            self._body = memory = self._reserved(self._length)
            size = len(body)
            memory[:size] = body
            self.place = memory[size:]

    def _extend(self, body: bytes) -> None:
        """Part of a body whose length was not announced."""
        self._unbounded = 0
        if not isinstance(self._body, bytearray):
            self._body = bytearray()
        self._body += body
        most = self._limits.request_bytes
        if len(self._body) > most:
            raise self._refused(413, f"the body has more than the {most} bytes that are taken")

    def _reserved(self, length: int) -> memoryview:
        """Memory for a body, such that the tensors behind its JSON are aligned."""
        text = self._single.get(_JSON_LENGTH, b"")
        head = int(text) if text.isdigit() and len(text) < 10 else 0
        memory = None
        if self._lend is not None and text.isdigit() and head < _LENT_BYTES <= length:
            memory = self._lend(self._scope, length + _ALIGNMENT)
        if memory is None:
            memory = np.empty(length + _ALIGNMENT, np.uint8)
        start = -(memory.ctypes.data + head) % _ALIGNMENT
        return memory[start : start + length].data

    def on_message_complete(self) -> None:
        """The request is whole, unless it asks for another protocol: then its body follows."""
        if self._length and not self._body:
            return
        body, self._body = self._body, b""
        self._scope = self._base
        self._unbounded = 0
        self._ended = not self._keep_alive
        self.stage = BETWEEN
        self._requests.completed(body)
