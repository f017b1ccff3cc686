"""Requests out of the bytes of a connection, with large bodies received in their place."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from typing import Final, Protocol, runtime_checkable

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


@runtime_checkable
class Lender(Protocol):
    """An application that lends memory for bodies."""

    def receive_buffer(self, scope: Scope, size: int) -> Array | None:
        """As `Lend`."""


class Requests(Protocol):
    """Who is told of requests."""

    def opened(self, scope: Scope, keep_alive: bool, expects_continue: bool) -> None:
        """The head of a request is there."""

    def completed(self, body: Buffer) -> None:
        """The body of the request that was opened is there."""


class _Head:
    """The head of a request, as a parser reads it. `single`: values of headers of which there is
    one; `expects`: the caller waits for 100 Continue.
    """

    __slots__ = ("expects", "headers", "single", "url")

    def __init__(self) -> None:
        self.url = b""
        self.single: dict[bytes, bytes] = {}
        self.headers: list[tuple[bytes, bytes]] = []
        self.expects = False

    def scope(self, base: Scope, method: str, version: str) -> Scope:
        """What ASGI has of a request; Refusal where the head is none that is taken."""
        scope = base.copy()
        scope["method"] = method
        scope["http_version"] = version
        scope["headers"] = self.headers
        self._read_target(scope)
        if version == "1.1" and b"host" not in self.single:
            raise Refusal(400, "the header host is missing")
        return scope

    def _read_target(self, scope: Scope) -> None:
        target = self.url
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
            raise Refusal(400, "the request's target is not a path")
        scope["path"] = urllib.parse.unquote(text) if "%" in text else text
        scope["raw_path"] = path
        scope["query_string"] = query

    @property
    def length(self) -> int | None:
        """How long the body is, as it is announced; None where it is not."""
        text = self.single.get(_LENGTH)
        return None if text is None else int(text)

    @property
    def chunked(self) -> bool:
        """Whether the body comes in chunks."""
        return any(name == b"transfer-encoding" for name, _ in self.headers)

    @property
    def json_length(self) -> int | None:
        """How long the JSON before the tensors of the body is; None where that is not said."""
        text = self.single.get(_JSON_LENGTH, b"")
        if not text.isdigit():
            return None
        return int(text) if len(text) < 10 else 0


class _Body:
    """The body of a request as it arrives. `length`: as it was announced, None for chunks. `rest`:
    the memory that the next bytes belong into, once a body of known length has begun.
    """

    __slots__ = ("_data", "_lend", "_most", "length", "rest")

    def __init__(self, most: int, lend: Lend | None) -> None:
        self._most, self._lend = most, lend
        self._data: Buffer = b""
        self.length: int | None = None
        self.rest: memoryview | None = None

    @property
    def begun(self) -> bool:
        """Whether some of it is there."""
        return bool(self._data)

    def announce(self, length: int | None) -> None:
        """A body of this length follows; Refusal for one that is too long."""
        if length is not None and length > self._most:
            raise Refusal(413, f"the body has {length} bytes, at most {self._most} are taken")
        self.length = length

    def add(self, part: bytes, scope: Scope, head: _Head) -> None:
        """Part of it: all, its beginning, or one of its chunks. Refusal where it gets too long."""
        if self.length is None:
            self._extend(part)
        elif len(part) == self.length:
            self._data = part
        else:
            self._data = memory = self._reserved(self.length, scope, head.json_length)
            size = len(part)
            memory[:size] = part
            self.rest = memory[size:]

    def received(self, size: int) -> bool:
        """So many bytes have been written to `rest`; whether that was all of it."""
        assert self.rest is not None
        self.rest = self.rest[size:] or None
        return self.rest is None

    def take(self) -> Buffer:
        """All of it, which is let go of."""
        data, self._data = self._data, b""
        self.rest = None
        return data

    def _extend(self, part: bytes) -> None:
        if not isinstance(self._data, bytearray):
            self._data = bytearray()
        self._data += part
        if len(self._data) > self._most:
            raise Refusal(413, f"the body has more than the {self._most} bytes that are taken")

    def _reserved(self, length: int, scope: Scope, json_length: int | None) -> memoryview:
        """Memory for it, such that the tensors behind its JSON are aligned."""
        head = json_length or 0
        memory = None
        if self._lend is not None and json_length is not None and head < _LENT_BYTES <= length:
            memory = self._lend(scope, length + _ALIGNMENT)
        if memory is None:
            memory = np.empty(length + _ALIGNMENT, np.uint8)
        start = -(memory.ctypes.data + head) % _ALIGNMENT
        return memory[start : start + length].data


class RequestReader:
    """Reads requests; `place` is where the next bytes are best received, if there is such a place.

    `base`: what the scopes of all requests have. `stage`: BETWEEN, HEAD or BODY; `step` counts
    them.
    """

    __slots__ = (
        "_base",
        "_body",
        "_ended",
        "_head",
        "_keep_alive",
        "_parser",
        "_refusal",
        "_requests",
        "_scope",
        "_unbounded",
        "stage",
        "step",
    )

    def __init__(self, requests: Requests, limits: Limits, base: Scope, lend: Lend | None) -> None:
        self._requests = requests
        self._base = base
        self._parser = httptools.HttpRequestParser(self)
        self._refusal: Refusal | None = None
        self._ended = False  # after the last request
        self._scope = base
        self._head = _Head()
        self._body = _Body(limits.request_bytes, lend)
        self._keep_alive = True
        self._unbounded = 0  # bytes since the last ones of a body, or since the head began
        self.stage = BETWEEN
        self.step = 0

    @property
    def place(self) -> memoryview | None:
        """Where the next bytes are best received."""
        return self._body.rest

    def stop(self) -> None:
        """Forget what has come of a request, and read no more."""
        self._ended = True
        self._refusal = None
        self._body.take()
        self._scope = self._base
        self.stage = BETWEEN

    def close(self) -> None:
        """Read no more, and let go of what refers to this reader."""
        self.stop()
        del self._parser, self._requests

    def placed(self, size: int) -> None:
        """So many bytes have been received into `place`."""
        if self._body.received(size):
            # The parser has not seen the end of this message.
            self._parser = httptools.HttpRequestParser(self)
            self.on_message_complete()

    def feed(self, data: memoryview) -> None:
        """Read bytes that were received elsewhere. Refusal: they are no request that is taken."""
        while data and not self._ended:
            place = self._body.rest
            if place is not None:  # a body of known length has begun
                size = min(len(place), len(data))
                place[:size] = data[:size]
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
        if self.stage == BODY and self._body.length:
            size = min(len(rest), self._body.length)
            self.on_body(bytes(rest[:size]))
            rest = rest[size:]
            if self.place is None:
                self.on_message_complete()
        return rest

    # ------------------------------------------------------------------------- called by the parser

    # The parser passes on no exceptions: a refusal is kept until it has returned.

    def on_message_begin(self) -> None:
        """A request follows."""
        if self._ended:
            self._refusal = Refusal(400, "a request follows the last one")
            raise self._refusal
        self._head = _Head()
        self.stage = HEAD
        self.step += 1

    def on_url(self, url: bytes) -> None:
        """Part of the request's target."""
        self._head.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; or a trailer, which is counted, and belongs to no head."""
        if self.stage != HEAD:
            return
        head, name = self._head, name.lower()
        if name in _SINGLE:
            if name in head.single:
                self._refusal = Refusal(400, f"the header {name.decode()} is there twice")
                raise self._refusal
            head.single[name] = value
        elif name == b"expect":
            head.expects = value.lower() == b"100-continue"
        head.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head of the request is there."""
        try:
            self._begin()
        except Refusal as refusal:
            self._refusal = refusal
            raise
        # Connections of HTTP/1.0 are not kept, and its callers know nothing of 100 (Continue).
        newer = self._scope["http_version"] != "1.0"
        self._keep_alive = newer and self._parser.should_keep_alive()
        self._requests.opened(self._scope, self._keep_alive, newer and self._head.expects)

    def _begin(self) -> None:
        """The request has a head that is taken; its body follows."""
        head, parser = self._head, self._parser
        self._scope = head.scope(
            self._base, parser.get_method().decode(), parser.get_http_version()
        )
        length = head.length
        if length is None and not head.chunked:
            length = 0
        if length is None and parser.should_upgrade():
            raise Refusal(400, "a request with chunks asks for another protocol")
        self._body.announce(length)
        self._unbounded = 0
        self.stage = BODY
        self.step += 1

    def on_body(self, body: bytes) -> None:
        """Part of a body: all of it, its beginning, or one of its chunks."""
        if self._body.length is None:
            self._unbounded = 0
        try:
            self._body.add(body, self._scope, self._head)
        except Refusal as refusal:
            self._refusal = refusal
            raise

    def on_message_complete(self) -> None:
        """The request is whole, unless it asks for another protocol: then its body follows."""
        if self._body.length and not self._body.begun:
            return
        body = self._body.take()
        self._scope = self._base
        self._unbounded = 0
        self._ended = not self._keep_alive
        self.stage = BETWEEN
        self._requests.completed(body)
