"""The HTTP server: an ASGI application on a socket, in the loop that runs already."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Iterator
from math import inf
from typing import Final

import uvicorn

from infuse.errors import ConfigurationError
from infuse.serving.config import Limits, Listener
from infuse.serving.transports.rest.asgi import Application
from infuse.serving.transports.rest.connection import Connection, Receiver
from infuse.serving.transports.rest.options import ServerOptions
from infuse.serving.transports.security import Certificates

_BACKLOG: Final = 2048
_SOCKET_BYTES: Final = (
    1 << 20
)  # of the kernel's buffers of a connection: a picture goes through in one piece


class _Server(uvicorn.Server):
    """uvicorn's server, without signal handlers, which looks after the connections' time."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def on_tick(self, counter: int) -> bool:
        now = asyncio.get_running_loop().time()
        for connection in list(self.server_state.connections):
            if isinstance(connection, Connection):
                connection.check_time(now)
        return await super().on_tick(counter)


class HttpServer:
    """An application on the address of a listener. `port` is the one that was bound, after `start`.

    `certificates`: those of a listener with TLS. Whoever looks at them lets it take new ones.
    """

    def __init__(self, app: Application, listener: Listener, limits: Limits) -> None:
        self._listener = listener
        self.certificates = None if listener.tls is None else Certificates(listener.tls)
        context = None if self.certificates is None else self.certificates.context
        self._server = _Server(ServerOptions(app, limits, context, Receiver))
        self._socket: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None
        self.port = listener.port

    @property
    def url(self) -> str:
        """Where it is reached."""
        host = f"[{self._listener.host}]" if ":" in self._listener.host else self._listener.host
        return f"http{'s' if self._listener.tls else ''}://{host}:{self.port}"

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._server.server_state.connections)

    async def start(self) -> None:
        """Listens; ConfigurationError when the address cannot be had."""
        self._socket = _bound(self._listener)
        self.port = self._socket.getsockname()[1]
        self._task = asyncio.get_running_loop().create_task(self._server.serve([self._socket]))
        while not self._server.started:
            await asyncio.sleep(0)
            if self._task.done():
                await self._task

    async def stop(self, grace: float = inf) -> None:
        """Takes no more requests, and ends when those taken are answered, after `grace` seconds at
        the latest.
        """
        if self._task is None:
            return
        self._server.config.timeout_graceful_shutdown = None if grace == inf else max(grace, 0.1)  # type: ignore[assignment]
        self._server.should_exit = True
        await self._task
        self._task = None
        for connection in list(self._server.server_state.connections):
            if isinstance(connection, Connection):
                connection.transport.abort()


def _bound(listener: Listener) -> socket.socket:
    where = f"{listener.host}:{listener.port}"
    try:
        family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
        bound = socket.create_server(
            (listener.host, listener.port), family=family, backlog=_BACKLOG
        )
    except OSError as error:
        hint = (
            "choose another port, or end the program that has it"
            if error.errno == errno.EADDRINUSE
            else None
        )
        raise ConfigurationError(
            f"it cannot be listened on: {error.strerror or error}", where=where, hint=hint
        ) from error
    bound.setblocking(False)
    for kind in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        bound.setsockopt(socket.SOL_SOCKET, kind, _SOCKET_BYTES)
    return bound
