"""One HTTP connection: uvicorn's, with large bodies received in their place, and limits in time and
size.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any, Final

import httptools
import msgspec
import numpy as np
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from infuse.serving.config import Limits
from infuse.serving.transports.rest.exchange import ABANDON, STATUS_LINES, Exchange
from infuse.serving.transports.rest.options import ServerOptions

if TYPE_CHECKING:
    from uvicorn.server import ServerState


MOST_HEADER_BYTES: Final = 64 << 10
_LINGER_SECONDS: Final = (
    2.0  # a refused caller may go on sending for so long before the connection is cut
)
_ALIGNMENT: Final = 64
_LENT_BYTES: Final = 1 << 16  # from here on not copying a body is worth the trouble
# Headers of which one counts: with two of them, this server and a proxy before it may read
# different requests.
_SINGLE: Final = frozenset(
    name.encode()
    for name in (
        *("authorization", "content-encoding", "content-length", "content-type", "host", "origin"),
        "inference-header-content-length",
    )
)
# What a connection waits for.
_HEADER, _BODY, _ANSWER, _READER, _IDLE, _LINGER = range(6)


def _parser(connection: Connection) -> Any:
    parser = httptools.HttpRequestParser(connection)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def _wrong_head(headers: list[tuple[bytes, bytes]], version: str) -> str:
    """Why a request with these headers is none of HTTP; "" if it is one."""
    seen: set[bytes] = set()
    for name, _ in headers:
        if name in _SINGLE:
            if name in seen:
                return f"the header {name.decode()} is there twice"
            seen.add(name)
    return "the header host is missing" if version == "1.1" and b"host" not in seen else ""


class Connection(HttpToolsProtocol):
    """A connection. What a caller may do is in its options' limits; `check_time` is to be called
    now and then.
    """

    cycle: Exchange | None  # type: ignore[assignment]
    limits: Limits

    def __init__(
        self,
        config: ServerOptions,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.limits = config.limits
        self.scratch = config.scratch
        self.receive_buffer = config.receive_buffer
        self.clock: Callable[[], float] = self.loop.time
        self.header_bytes = 0
        self.bare_bytes = (
            0  # that came since the last ones of a body: extensions of chunks, trailers
        )
        self.length: int | None = None  # of the body, where it was announced
        self.place: memoryview | None = (
            None  # what is missing of a body that is received in its place
        )
        self.body: memoryview | bytearray | None = None
        self._wait(_HEADER, self.limits.header_seconds)

    # ----------------------------------------------------------------------------------------- time

    def _wait(self, phase: int, seconds: float) -> None:
        self.phase = phase
        self.due = self.clock() + seconds

    def check_time(self, now: float) -> None:
        """Ends the connection when what it waits for has not come in time."""
        if now < self.due or self.transport is None:
            return
        if self.phase in (_HEADER, _BODY) and self.header_bytes:
            self._refuse(408, "the request did not arrive in time")
            self.transport.close()
        elif self.phase == _IDLE and not self.transport.get_write_buffer_size():
            self.transport.close()
        else:
            self.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait(_READER, self.limits.body_seconds)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.phase == _READER:
            answered = self.cycle is None or self.cycle.response_complete
            self._wait(
                _IDLE if answered else _ANSWER, self.limits.idle_seconds if answered else inf
            )

    # -------------------------------------------------------------------------------------- reading

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            self._refuse(
                503,
                f"more than {self.limits.connections} connections are open",
                b"retry-after: 1\r\n",
            )

    def connection_lost(self, exc: Exception | None) -> None:
        cycle = self.cycle
        super().connection_lost(exc)
        if (
            cycle is not None
            and cycle.task is not None
            and not cycle.response_complete
            and ABANDON in cycle.scope
        ):
            cycle.task.cancel()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.scratch if self.place is None else self.place

    def buffer_updated(self, nbytes: int) -> None:
        if self.place is not None:
            self.place = self.place[nbytes:]
            if not self.place:
                self._end_body()
        elif self.phase != _LINGER:
            self.data_received(self.scratch[:nbytes])

    def data_received(self, data: bytes | memoryview) -> None:
        """Reads what has come; answers 400 when it is not HTTP, 431 when its head does not end."""
        self.header_bytes += len(data)
        self.bare_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as error:
            self._decline_upgrade(data[error.args[0] :])
        except httptools.HttpParserCallbackError:
            self.transport.abort()
            raise
        except httptools.HttpParserError as error:
            if self.phase != _LINGER:
                self._refuse(400, f"the request is not HTTP: {error}")
        if self.phase == _HEADER and self.header_bytes > MOST_HEADER_BYTES:
            self._refuse(431, f"the head of the request is longer than {MOST_HEADER_BYTES} bytes")
        if self.phase == _BODY and self.length is None and self.bare_bytes > MOST_HEADER_BYTES:
            self._refuse(
                431, f"the trailers of the request are longer than {MOST_HEADER_BYTES} bytes"
            )
        if self.phase == _BODY and self.length is not None and isinstance(self.body, memoryview):
            self.place = self.body

    def _decline_upgrade(self, rest: bytes | memoryview) -> None:
        """Answers a request as if it had not asked for another protocol; `rest` is what the parser
        has left.
        """
        if self.phase == _BODY and self.length:
            size = min(len(rest), self.length)
            self._take_rest(rest[:size])
            rest = rest[size:]
        else:
            self.parser = _parser(self)
        if rest:
            self.data_received(rest)

    def on_message_begin(self) -> None:
        if self.phase == _LINGER:
            return
        super().on_message_begin()
        self._wait(_HEADER, self.limits.header_seconds)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.phase != _HEADER:
            return  # a trailer: it is counted, and belongs to no head
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self.phase == _LINGER:
            return
        self.header_bytes = 1
        self.bare_bytes = 0
        version = self.parser.get_http_version()
        self.scope["method"] = self.parser.get_method().decode("ascii")
        self.scope["http_version"] = version
        try:
            url = httptools.parse_url(self.url)
            path = url.path.decode("ascii")
        except (httptools.HttpParserInvalidURLError, UnicodeDecodeError, AttributeError):
            self._refuse(400, "the request's target is no path")
            return
        self.scope["path"] = urllib.parse.unquote(path) if "%" in path else path
        self.scope["raw_path"] = url.path
        self.scope["query_string"] = url.query or b""
        wrong = _wrong_head(self.headers, version)
        if wrong:
            self._refuse(400, wrong)
            return
        self.length = next(
            (int(value) for name, value in self.headers if name == b"content-length"), None
        )
        if self.length is not None and self.length > self.limits.request_bytes:
            self._refuse(
                413,
                f"the body has {self.length} bytes, at most {self.limits.request_bytes} are taken",
            )
            return
        self._wait(_BODY, self.limits.body_seconds)
        self._open(keep_alive=version != "1.0" and self.parser.should_keep_alive())

    def _open(self, *, keep_alive: bool) -> None:
        before = self.cycle
        self.body = None
        self.cycle = Exchange(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=keep_alive,
            on_response=self.on_response_complete,
        )
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        cycle.task = task = self.loop.create_task(cycle.run_asgi(app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def on_body(self, body: bytes) -> None:
        if self.phase != _BODY:
            return
        if self.length is None:
            self._extend(body)
        elif self.body is None and len(body) == self.length:
            self.cycle.whole = body  # type: ignore[union-attr]
        else:
            self._take_rest(body)

    def _extend(self, body: bytes) -> None:
        """Part of a body whose length was not announced."""
        self.bare_bytes = 0
        if self.body is None:
            self.body = bytearray()
            self.cycle.whole = self.body  # type: ignore[union-attr]
        assert isinstance(self.body, bytearray)
        self.body += body
        if len(self.body) > self.limits.request_bytes:
            self._refuse(
                413, f"the body has more than the {self.limits.request_bytes} bytes that are taken"
            )

    def _take_rest(self, body: bytes | memoryview) -> None:
        """Part of a body whose length was announced; the rest is received into its place."""
        if self.phase != _BODY or not self.length:
            return
        if self.body is None:
            self.body = self._reserved(self.length)
            self.cycle.whole = self.body  # type: ignore[union-attr]
        assert isinstance(self.body, memoryview)
        size = min(len(body), len(self.body))
        self.body[:size] = body[:size]
        self.body = self.body[size:]
        if not self.body:
            self._end_body()

    def _reserved(self, length: int) -> memoryview:
        """Memory for a body, such that the tensors behind its JSON are aligned."""
        text = next(
            (value for name, value in self.headers if name == b"inference-header-content-length"),
            b"",
        )
        head = int(text) if text.isdigit() and len(text) < 10 else 0
        memory = None
        if (
            self.receive_buffer is not None
            and length >= _LENT_BYTES
            and text.isdigit()
            and head < _LENT_BYTES
        ):
            memory = self.receive_buffer(self.scope, length + _ALIGNMENT)
        if memory is None:
            memory = np.empty(length + _ALIGNMENT, np.uint8)
        start = -(memory.ctypes.data + head) % _ALIGNMENT
        return memory[start : start + length].data

    def _end_body(self) -> None:
        """Ends a message that the parser has not seen the end of, and makes the connection ready
        for another.
        """
        self.place = None
        self.parser = _parser(self)
        self._complete()

    def on_message_complete(self) -> None:
        upgrade_with_body = self.parser.should_upgrade() and self.length
        if self.phase == _BODY and not upgrade_with_body:
            self._complete()

    def _complete(self) -> None:
        if self.cycle is None:
            return
        self._wait(_ANSWER, inf)
        self.header_bytes = 0
        self.body = None
        self.cycle.more_body = False
        self.cycle.message_event.set()
        if self.cycle.response_complete:
            self._wait(_IDLE, self.limits.idle_seconds)

    # -------------------------------------------------------------------------------------- writing

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
        elif self.phase == _ANSWER:
            self._wait(_IDLE, self.limits.idle_seconds)

    def _refuse(self, status: int, what: str, headers: bytes = b"") -> None:
        """Answers with an error and takes no more.

        What the caller still sends is read for a moment, so that it finds the answer.
        """
        self.place = None
        self._wait(_LINGER, _LINGER_SECONDS)
        cycle = self.cycle
        if cycle is not None and cycle.more_body:
            if cycle.response_started:
                self.transport.close()
                return
            cycle.disconnected = True
            cycle.message_event.set()
        elif cycle is not None and not cycle.response_complete:
            # The answer to the request before comes first, and is the last one.
            cycle.keep_alive = False
            self.due = inf
            return
        body = msgspec.json.encode({"error": what})
        self.transport.write(
            b"%bcontent-type: application/json\r\ncontent-length: %d\r\n%bconnection: "
            b"close\r\n\r\n%b" % (STATUS_LINES[status], len(body), headers, body)
        )
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def eof_received(self) -> bool:  # type: ignore[override]
        """A caller that has said all may still read its answer."""
        cycle = self.cycle
        waiting = cycle is not None and not cycle.response_complete and not cycle.more_body
        if waiting and self.scheme == "http":
            cycle.keep_alive = False  # type: ignore[union-attr]
            return True
        return False


class Receiver(asyncio.BufferedProtocol):
    """A connection to its transport: one that says where to put what is received.

    uvicorn's own protocol is one that is handed bytes, and a class cannot be both.
    """

    def __init__(
        self,
        config: ServerOptions,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._connection = Connection(config, server_state, app_state, _loop)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection.connection_made(transport)  # type: ignore[arg-type]

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._connection.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self._connection.buffer_updated(nbytes)

    def eof_received(self) -> bool:
        return self._connection.eof_received()

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()
