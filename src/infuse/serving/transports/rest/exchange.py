"""A request and its answer on a connection, as ASGI has them."""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import Any, Final, Protocol

from infuse.serving.transports.elements import Buffer
from infuse.serving.transports.rest.asgi import Application, Message, Scope
from infuse.serving.transports.rest.refusals import Headers
from infuse.serving.tuning import PIECE_BYTES

_JOINED_BYTES: Final = 16 << 10  # parts of an answer up to this size are sent as one
# Set in the scope by an application that is to be cancelled when nobody waits for its answer any
# more.
ABANDON: Final = "infuse.abandon"
STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode()
    for status in HTTPStatus
    if status >= 200
}
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_BODILESS: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
_log: Final = logging.getLogger("infuse.serving.rest")


def written(date_line: bytes, status: int, headers: Headers, body: bytes) -> bytes:
    """An answer after which the connection ends."""
    lines = [b"%b: %b\r\n" % header for header in headers]
    end = b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body)
    return b"".join((STATUS_LINES[status], date_line, *lines, end, body))


class Outlet(Protocol):
    """Where answers go: a connection."""

    transport: asyncio.Transport
    write_paused: bool

    @property
    def date_line(self) -> bytes:
        """The header that tells the time."""

    async def drain(self) -> None:
        """Wait until more may be written."""

    def answered(self, exchange: Exchange) -> None:
        """All of an answer is written."""

    def ended(self, exchange: Exchange) -> None:
        """The application does no more."""


class Exchange:
    """A request and its answer. The body is handed over whole; an answer goes out with its head.

    `keep_alive`: whether the connection takes another request after it. `started`, `complete`: the
    answer is. `gone`: nobody waits for it.
    """

    __slots__ = (
        "_body",
        "_chunked",
        "_expects_continue",
        "_held",
        "_outlet",
        "_parts",
        "_waiter",
        "complete",
        "gone",
        "keep_alive",
        "scope",
        "started",
        "task",
    )

    def __init__(
        self, outlet: Outlet, scope: Scope, keep_alive: bool, expects_continue: bool
    ) -> None:
        self._outlet = outlet
        self._expects_continue = expects_continue
        self._body: Buffer | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._chunked = False
        self._parts: list[Buffer] = []  # of the answer that are not written yet
        self._held = 0  # bytes of its body among them
        self.scope = scope
        self.keep_alive = keep_alive
        self.started = False
        self.complete = False
        self.gone = False
        self.task: asyncio.Task[None] | None = None

    async def run(self, application: Application) -> None:
        """Have the request answered."""
        try:
            await application(self.scope, self.receive, self.send)
        except Exception as error:
            _log.error("an application failed", exc_info=error)
            if not self.started:
                head = {"status": 500, "headers": [(b"content-length", b"0")]}
                await self.send({"type": "http.response.start", **head})
                await self.send({"type": "http.response.body"})
        finally:
            self._outlet.ended(self)

    def arrive(self, body: Buffer) -> None:
        """All of the request is there."""
        if not self.complete:
            self._body = body
            self._wake()

    def abandon(self) -> None:
        """Nobody waits for the answer any more."""
        self.gone = True
        self._body = None
        self._wake()
        if self.task is not None and ABANDON in self.scope:
            self.task.cancel()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def receive(self) -> dict[str, Any]:
        """The body in one message, when all of it is there; `http.disconnect` when the caller is
        gone.
        """
        while self._body is None and not self.gone and not self.complete:
            if self._expects_continue and not self.started:
                self._expects_continue = False
                self._outlet.transport.write(_CONTINUE)
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self.gone or self.complete:
            return {"type": "http.disconnect"}
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Message) -> None:
        """A message of ASGI. What is written stays as it is until then."""
        if not self.started:
            self.started = True
            self._begin(message)
            return
        self._add(message.get("body", b""))
        more = message.get("more_body", False)
        if more and not self._chunked and self._held < PIECE_BYTES:
            return
        if self._outlet.write_paused and not self.gone:
            await self._outlet.drain()
        if self.gone:
            return
        if self._chunked and not more:
            self._parts.append(b"0\r\n\r\n")
        self._write()
        if not more:
            self.complete = True
            self._wake()
            self._outlet.answered(self)

    def _begin(self, message: Message) -> None:
        status = message["status"]
        pieces = [STATUS_LINES[status], self._outlet.date_line]
        bounded = status in _BODILESS
        for name, value in message.get("headers", ()):
            if name == b"connection" and value == b"close":
                self.keep_alive = False
                continue
            if name == b"content-length":
                bounded = True
            pieces += (name, b": ", value, b"\r\n")
        if not bounded and self.scope["http_version"] != "1.0":
            self._chunked = self.scope["method"] != "HEAD"
            pieces.append(b"transfer-encoding: chunked\r\n")
        pieces.append(b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n")
        self._parts.append(b"".join(pieces))

    def _add(self, part: Buffer) -> None:
        if not part or self.scope["method"] == "HEAD":
            return
        if self._chunked:
            self._parts += (b"%x\r\n" % len(part), part, b"\r\n")
        else:
            self._parts.append(part)
        self._held += len(part)

    def _write(self) -> None:
        """What is held goes out by one call of the system."""
        if self._held <= _JOINED_BYTES:
            self._outlet.transport.write(b"".join(self._parts))
        else:
            self._outlet.transport.writelines(self._parts)
        self._parts = []
        self._held = 0
