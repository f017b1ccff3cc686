"""One connection of HTTP/1.1: its requests in their order, and when it ends."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, cast

from infuse.serving.transports.elements import Buffer
from infuse.serving.transports.rest.asgi import Scope
from infuse.serving.transports.rest.deadline import (
    ANSWER,
    BODY,
    HEAD,
    IDLE,
    LINGER,
    READER,
    Deadline,
)
from infuse.serving.transports.rest.exchange import Exchange, written
from infuse.serving.transports.rest.reading import BETWEEN, RequestReader
from infuse.serving.transports.rest.refusals import Refusal, refused
from infuse.serving.transports.rest.state import ServerState

_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}


class Connection(asyncio.BufferedProtocol):
    """A connection to the application of a server. What a caller may do is in the server's limits.

    One request is answered at a time. While others that came with it wait, no more is received.
    """

    transport: asyncio.Transport
    _reader: RequestReader

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._loop = asyncio.get_running_loop()
        self._deadline = Deadline(state.seconds, self._loop.time)
        self._scratch = state.scratch
        self._arriving: Exchange | None = None  # its body is not all there
        self._current: Exchange | None = None  # it is being answered
        self._waiting: deque[Exchange] = deque()
        self._resting = HEAD  # what is waited for between requests: the first one, or another
        self._refusal: bytes | None = None  # to be written when what came before is answered
        self._deaf = False  # what comes is thrown away
        self._lingers = False  # all is written
        self._reading_paused = False
        self._writable: asyncio.Future[None] | None = None
        self.write_paused = False

    # ----------------------------------------------------------------------------- by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        state = self._state
        # Those of uvloop are of no class of asyncio's.
        self.transport = cast(asyncio.Transport, transport)
        base: Scope = {
            "type": "http",
            "asgi": _ASGI,
            "scheme": "http" if transport.get_extra_info("sslcontext") is None else "https",
            "root_path": "",
            "client": _address(transport.get_extra_info("peername")),
            "server": _address(transport.get_extra_info("sockname")),
        }
        self._reader = RequestReader(self, state.limits, base, state.lend)
        state.connections.add(self)
        most = state.limits.connections
        if len(state.connections) > most:
            what = f"more than {most} connections are open"
            self._refuse(Refusal(503, what, headers={"retry-after": "1"}))

    def connection_lost(self, exc: Exception | None) -> None:
        self._state.connections.discard(self)
        self._reader.close()
        # Queued requests have not been started, and never will be.
        self._waiting.clear()
        for exchange in (self._current, self._arriving):
            if exchange is not None:
                exchange.abandon()
        self._current = self._arriving = None
        self._wake_writer()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.place or self._scratch

    def buffer_updated(self, nbytes: int) -> None:
        if self._deaf:
            return
        reader = self._reader
        try:
            if reader.place is None:
                reader.feed(self._scratch[:nbytes])
            else:
                reader.placed(nbytes)
        except Refusal as refusal:
            self._refuse(refusal)
        self._look_at_clock()

    def eof_received(self) -> bool:
        """A caller that has said all may still read its answer."""
        last = self._last
        if last is None or self._arriving is not None or not self.transport.can_write_eof():
            return False
        last.keep_alive = False
        return True

    def pause_writing(self) -> None:
        self.write_paused = True
        self._look_at_clock()

    def resume_writing(self) -> None:
        self._wake_writer()
        self._look_at_clock()

    def _wake_writer(self) -> None:
        self.write_paused = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    # -------------------------------------------------------------------------------- by the reader

    def opened(self, scope: Scope, keep_alive: bool, expects_continue: bool) -> None:
        """A request has begun: it is answered after those before it."""
        self._resting = IDLE
        self._arriving = exchange = Exchange(self, scope, keep_alive, expects_continue)
        if self._current is None:
            self._start(exchange)
        else:
            self._waiting.append(exchange)
            self._pause_reading()

    def completed(self, body: Buffer) -> None:
        """The request that was opened last is all there."""
        if self._arriving is not None:
            self._arriving.arrive(body)
            self._arriving = None

    # ------------------------------------------------------------------------------- by an exchange

    @property
    def date_line(self) -> bytes:
        """The header that tells the time."""
        return self._state.date_line

    async def drain(self) -> None:
        """Wait until more may be written."""
        if self._writable is None:
            self._writable = self._loop.create_future()
        await self._writable

    def answered(self, exchange: Exchange) -> None:
        """All of an answer is written: the next request's turn."""
        self._current = None
        if self.transport.is_closing():
            return
        if not exchange.keep_alive:
            self._end()
        elif self._waiting:
            self._start(self._waiting.popleft())
            if not self._waiting:
                self._resume_reading()
        elif self._refusal is not None:
            self._end(self._refusal)
        self._look_at_clock()

    def ended(self, exchange: Exchange) -> None:
        """An application has returned; it has broken off where the answer is not complete."""
        assert exchange.task is not None
        self._state.running.discard(exchange.task)
        if not exchange.complete and not exchange.gone:
            self.transport.abort()

    # ------------------------------------------------------------------------------- by the server

    def check_time(self, now: float) -> None:
        """End the connection when what it waits for has not come in time."""
        if not self._deadline.is_over(now):
            return
        phase = self._deadline.phase
        if self._reader.stage != BETWEEN and phase in (HEAD, BODY):
            self._refuse(Refusal(408, "the request did not arrive in time"))
            if self._deadline.phase == LINGER:
                self.transport.close()
        elif phase == IDLE and not self.transport.get_write_buffer_size():
            self.transport.close()
        else:
            self.transport.abort()

    def leave(self) -> None:
        """End when what has been asked for is answered."""
        last = self._last
        if last is None:
            self.transport.close()
        else:
            last.keep_alive = False

    # ------------------------------------------------------------------------------------- in order

    @property
    def _last(self) -> Exchange | None:
        """The last request that is not answered."""
        return self._waiting[-1] if self._waiting else self._current

    def _start(self, exchange: Exchange) -> None:
        self._current = exchange
        exchange.task = task = self._loop.create_task(exchange.run(self._state.application))
        self._state.running.add(task)

    def _pause_reading(self) -> None:
        if not self._reading_paused:
            self._reading_paused = True
            self.transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._reading_paused:
            self._reading_paused = False
            self.transport.resume_reading()

    def _refuse(self, refusal: Refusal) -> None:
        """Answer with an error after the answers to what came before, and take no more."""
        self._reader.stop()
        self._deaf = True
        arriving, self._arriving = self._arriving, None
        if arriving is not None:
            if arriving.started:
                self.transport.close()
                return
            arriving.abandon()
            if arriving is self._current:
                self._current = None
            else:
                self._waiting.remove(arriving)
        answer = written(self.date_line, *refused(refusal))
        if self._current is None:
            self._end(answer)
        else:
            self._refusal = answer
        self._look_at_clock()

    def _end(self, answer: bytes = b"") -> None:
        """Write the last of what is written.

        What the caller still sends is read for a moment, so that it finds the answer.
        """
        if not self._deaf and self._arriving is None:
            self.transport.close()
            return
        self._reader.stop()
        self._deaf = self._lingers = True
        self._resume_reading()
        if answer:
            self.transport.write(answer)
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _look_at_clock(self) -> None:
        """Note what is waited for now."""
        reader = self._reader
        if self._lingers:
            phase = LINGER
        elif self.write_paused:
            phase = READER
        elif self._reading_paused:
            phase = ANSWER
        elif reader.stage != BETWEEN:
            phase = reader.stage
        else:
            phase = self._resting if self._current is None else ANSWER
        self._deadline.enter(phase, reader.step)


def _address(name: object) -> tuple[str, int] | None:
    """An address of the Internet; None: it is none."""
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None
