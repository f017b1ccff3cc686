"""The HTTP server: an ASGI application on a socket, in the loop that runs already."""

from __future__ import annotations

import asyncio
import errno
import socket
from math import inf
from typing import Final

from infuse.errors import ConfigurationError
from infuse.serving.config import Limits, Listener
from infuse.serving.transports.rest.asgi import Application
from infuse.serving.transports.rest.connection import Connection
from infuse.serving.transports.rest.state import ServerState
from infuse.serving.transports.security import Certificates
from infuse.serving.tuning import WAIT_SECONDS

_BACKLOG: Final = 2048
_SOCKET_BYTES: Final = (
    1 << 20
)  # of the kernel's buffers of a connection: a picture goes through in one piece
_TICK_SECONDS: Final = 0.1
_LAST_SECONDS: Final = 0.2  # for what is cancelled to say so


class HttpServer:
    """An application on the address of a listener. `port` is the one that was bound, after `start`.

    `certificates`: those of a listener with TLS. Whoever looks at them lets it take new ones.
    """

    def __init__(self, app: Application, listener: Listener, limits: Limits) -> None:
        self._listener = listener
        self.certificates = None if listener.tls is None else Certificates(listener.tls)
        self._state = ServerState(app, limits)
        self._server: asyncio.Server | None = None
        self._ticking: asyncio.Task[None] | None = None
        self.port = listener.port

    @property
    def url(self) -> str:
        """Where it is reached."""
        host = f"[{self._listener.host}]" if ":" in self._listener.host else self._listener.host
        return f"http{'s' if self._listener.tls else ''}://{host}:{self.port}"

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._state.connections)

    async def start(self) -> None:
        """Listens; ConfigurationError when the address cannot be had."""
        bound = _bound(self._listener)
        self.port = bound.getsockname()[1]
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self._state),
            sock=bound,
            ssl=None if self.certificates is None else self.certificates.context,
            backlog=_BACKLOG,
        )
        self._ticking = loop.create_task(self._tick())

    async def _tick(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            self._state.tick(clock())
            await asyncio.sleep(_TICK_SECONDS)

    async def stop(self, grace: float = inf) -> None:
        """Takes no more requests, and ends when those taken are answered, after `grace` seconds at
        the latest.
        """
        if self._server is None or self._ticking is None:
            return
        self._server.close()
        self._server = None
        state = self._state
        for connection in list(state.connections):
            connection.leave()
        end = asyncio.get_running_loop().time() + max(grace, _TICK_SECONDS)
        while state.connections or state.running:
            if asyncio.get_running_loop().time() >= end:
                break
            await asyncio.sleep(WAIT_SECONDS)
        running = list(state.running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=_LAST_SECONDS)
        for connection in list(state.connections):
            connection.transport.abort()
        self._ticking.cancel()
        await asyncio.gather(self._ticking, return_exceptions=True)


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
