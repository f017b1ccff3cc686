"""A server process: an engine with its transports, from start to a graceful end."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable

from infuse.serving.config import ServerConfig
from infuse.serving.control.telemetry.logs import Logging
from infuse.serving.control.telemetry.monitor import Monitor
from infuse.serving.engine.engine import Engine
from infuse.serving.transports.coders import Coders
from infuse.serving.transports.console import asset
from infuse.serving.transports.rest.app import AdminApp, DataApp, Mount
from infuse.serving.transports.rest.asgi import Receive, Scope, Send
from infuse.serving.transports.rest.server import HttpServer
from infuse.serving.transports.rpc.server import GrpcServer
from infuse.serving.transports.security import PAGE_HEADERS, Guard, check_exposure
from infuse.serving.transports.security.renewal import Renewal
from infuse.serving.tuning import END_SECONDS, UPKEEP_SECONDS, WAIT_SECONDS


class Server:
    """An engine behind HTTP, gRPC and the admin port. `start`, then `stop`; or `run`, until a
    signal comes.

    `logging`: the log of this process, whose counts the metrics show.
    """

    def __init__(self, config: ServerConfig, logging: Logging | None = None) -> None:
        check_exposure(config)
        self.config = config
        self.engine = Engine(config)
        self.guard = Guard(config)
        self.coders = Coders(config.limits.request_bytes)
        self._renewal = Renewal(self.engine.journal)
        sources = [
            self.engine.admin.readings,
            self._renewal.readings,
            *([logging.readings] if logging is not None else []),
        ]
        self.monitor = Monitor(self.engine, config.telemetry, self.engine.journal, sources)
        self.engine.objectives = self.monitor.objectives.as_list
        self.http: HttpServer | None = None
        self.admin: HttpServer | None = None
        self.grpc: GrpcServer | None = None
        self._running: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Listen, then load: health is answered from the first moment, and readiness when models
        serve.

        ConfigurationError when an address cannot be had, RepositoryError when there is no
        repository.
        """
        config = self.config
        try:
            if config.http.enabled:
                data = DataApp(self.engine, config, self.guard, coders=self.coders)
                self.http = HttpServer(data, config.http, config.limits)
                await self.http.start()
                self._renewal.watch("http", self.http.certificates)
            if config.grpc.enabled:
                self.grpc = GrpcServer(self.engine, config, self.guard, coders=self.coders)
                await self.grpc.start()
                self._renewal.watch("grpc", self.grpc.certificates)
            if config.admin.enabled:
                mounts = {
                    "metrics": Mount(self._metrics, "watch"),
                    "": Mount(_page, "health"),
                    "console": Mount(_page, "health"),
                }
                app = AdminApp(self.engine, config, self.guard, mounts, coders=self.coders)
                self.admin = HttpServer(app, config.admin, config.limits)
                await self.admin.start()
                self._renewal.watch("admin", self.admin.certificates)
            self._running.append(asyncio.create_task(self._renewal.run()))
            await self.engine.start()
        except BaseException:
            await self.stop(0.0)
            raise
        self._running.append(asyncio.create_task(self._tick()))

    async def stop(self, grace: float | None = None) -> None:
        """Refuse new requests, answer those under way within `grace` seconds, then end
        everything.
        """
        limit = time.monotonic() + (self.config.exit_seconds if grace is None else grace)
        self.engine.drain()
        while self.engine.inflight and time.monotonic() < limit:
            await asyncio.sleep(WAIT_SECONDS)
        left = max(0.0, limit - time.monotonic())
        leaving = min(left, END_SECONDS)
        servers: list[Callable[[float], Awaitable[None]]] = [
            server.stop for server in (self.http, self.grpc, self.admin) if server is not None
        ]
        await asyncio.gather(*(stop(leaving) for stop in servers))
        await self.coders.close()
        await self.engine.stop(max(0.0, limit - time.monotonic()))
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self.monitor.close()

    async def run(self, started: Callable[[Server], None]) -> None:
        """Serve until SIGTERM or SIGINT; a second one ends it at once. `started` is called when
        models are loaded.
        """
        loop = asyncio.get_running_loop()
        asked = asyncio.Event()
        numbers = (signal.SIGTERM, signal.SIGINT)

        def ask(*_: object) -> None:
            for (
                number
            ) in numbers:  # the next one is the system's own: it needs nothing of this loop
                signal.signal(number, signal.SIG_DFL)
            loop.call_soon_threadsafe(asked.set)

        before = {number: signal.signal(number, ask) for number in numbers}
        try:
            starting = asyncio.create_task(self.start())
            waiting = asyncio.create_task(asked.wait())
            await asyncio.wait((starting, waiting), return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                await starting
                started(self)
                await asked.wait()
            else:
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)
            waiting.cancel()
            await self.stop()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(UPKEEP_SECONDS)
            self.monitor.tick()

    async def _metrics(self, scope: Scope, _: Receive, send: Send) -> None:
        """GET /metrics, for Prometheus."""
        headers = dict(scope["headers"])
        kind, body = self.monitor.metrics.render(headers.get(b"accept", b"").decode("latin-1"))
        await _answer(send, 200, kind, body)


async def _page(scope: Scope, _: Receive, send: Send) -> None:
    """The files of the console."""
    page = asset(scope["path"])
    if page is None or scope["method"] not in ("GET", "HEAD"):
        await _answer(send, 404, "application/json", b'{"error":"there is no such page"}')
        return
    kind, body = page
    await _answer(send, 200, kind, body)


async def _answer(send: Send, status: int, kind: str, body: bytes) -> None:
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
    headers += [(name.lower().encode(), value.encode()) for name, value in PAGE_HEADERS.items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
