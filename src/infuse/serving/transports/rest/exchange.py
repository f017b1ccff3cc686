"""A request and its answer on a connection, as ASGI has them."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from infuse.serving.transports.rest.asgi import Message

_JOINED_BYTES: Final = 16 << 10  # parts of an answer up to this size are sent as one
_HELD_BYTES: Final = 1 << 20  # of an answer in several parts
# Set in the scope by an application that is to be cancelled when nobody waits for its answer any
# more.
ABANDON: Final = "infuse.abandon"
STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode()
    for status in HTTPStatus
    if status >= 200
}


class Exchange(RequestResponseCycle):
    """A request and its answer. The body is handed over whole; an answer goes out with its head."""

    whole: bytes | bytearray | memoryview = b""
    task: asyncio.Task[None] | None = None
    start: dict[str, Any] | None = None
    parts: list[Any] | None = None  # of the answer that are not written yet
    held = 0  # bytes of them

    async def receive(self) -> Any:
        """The body in one message, when all of it is there; `http.disconnect` when the caller is
        gone.
        """
        if self.waiting_for_100_continue and not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.waiting_for_100_continue = False
        while self.more_body and not self.disconnected and not self.response_complete:
            self.message_event.clear()
            await self.message_event.wait()
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body, self.whole = self.whole, b""
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Any) -> None:
        """An ASGI message. Answers without a content-length take uvicorn's way."""
        if self.parts is None:
            if self.response_started or not _has_length(message):
                await super().send(message)
                return
            self.start = message
            self.parts = []
            self.response_started = True
            self.waiting_for_100_continue = False
            return
        part = message.get("body", b"")
        if part and self.scope["method"] != "HEAD":
            self.parts.append(part)
            self.held += len(part)
        more = message.get("more_body", False)
        if more and self.held < _HELD_BYTES:
            return
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        self._write()
        if not more:
            self.response_complete = True
            self.message_event.set()
            if not self.keep_alive:
                self.transport.close()
            self.on_response()

    def _write(self) -> None:
        """What is held goes out by one call of the system."""
        assert self.parts is not None
        pieces, self.parts = self.parts, []
        if self.start is not None:
            pieces.insert(0, self._written_head(self.start))
            self.start = None
        if self.held <= _JOINED_BYTES:
            self.transport.write(b"".join(pieces))
        else:
            self.transport.writelines(pieces)
        self.held = 0

    def _written_head(self, message: Message) -> bytes:
        pieces = [STATUS_LINES[message["status"]]]
        for name, value in (*self.default_headers, *message["headers"]):
            if name == b"connection" and value == b"close":
                self.keep_alive = False
            else:
                pieces += (name, b": ", value, b"\r\n")
        pieces.append(b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n")
        return b"".join(pieces)


def _has_length(message: Message) -> bool:
    return any(name == b"content-length" for name, _ in message.get("headers", ()))
