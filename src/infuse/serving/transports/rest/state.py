"""What the connections of an HTTP server share."""

from __future__ import annotations

import asyncio
import time
from email.utils import formatdate
from typing import Final, Protocol

from infuse.serving.config import Limits
from infuse.serving.transports.rest.asgi import Application
from infuse.serving.transports.rest.deadline import seconds_by_phase
from infuse.serving.transports.rest.reading import Lender

_SCRATCH_BYTES: Final = 1 << 14


class Open(Protocol):
    """An open connection."""

    transport: asyncio.Transport

    def check_time(self, now: float) -> None:
        """End when what is waited for has not come in time."""

    def leave(self) -> None:
        """End when what has been asked for is answered."""


class ServerState:
    """An application, its limits, and the connections to it. `tick` is to be called now and then.

    `scratch` is where all connections receive what is short. `lend` gives memory for large bodies,
    where the application is a Lender. `running`: what answers requests.
    """

    def __init__(self, application: Application, limits: Limits) -> None:
        self.application = application
        self.limits = limits
        self.seconds = seconds_by_phase(limits)
        self.scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self.lend = application.receive_buffer if isinstance(application, Lender) else None
        self.connections: set[Open] = set()
        self.running: set[asyncio.Task[None]] = set()
        self.date_line = b""
        self._tell_time()

    def tick(self, now: float) -> None:
        """Look after time; `now` is that of the loop."""
        self._tell_time()
        for connection in list(self.connections):
            connection.check_time(now)

    def _tell_time(self) -> None:
        self.date_line = f"date: {formatdate(time.time(), usegmt=True)}\r\n".encode()
