"""What the HTTP server and its connections are told."""

from __future__ import annotations

import ssl
from typing import Any, Final

import uvicorn

from infuse.serving.config import Limits
from infuse.serving.transports.rest.asgi import Application

_BACKLOG: Final = 2048
SCRATCH_BYTES: Final = 1 << 14


class ServerOptions(uvicorn.Config):
    """uvicorn's options with what connections, which are of the class `http`, need to know.

    `scratch` is where all of them receive what is short. `receive_buffer(scope, size)`, where the
    application has it, gives memory for a large body, or None.
    """

    def __init__(
        self, app: Application, limits: Limits, context: ssl.SSLContext | None, http: Any
    ) -> None:
        super().__init__(
            app,
            http=http,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=_BACKLOG,
            ssl_context_factory=None if context is None else lambda config, default: context,
        )
        self.limits = limits
        self.receive_buffer = getattr(app, "receive_buffer", None)
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
