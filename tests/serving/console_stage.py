"""The console's page with invented data behind it: what it shows and sends, without an engine."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from infuse.serving.transports.console.assets import asset
from infuse.serving.transports.security import PAGE_HEADERS

DATA = "/v2/console/data"
IDLE = {
    **dict.fromkeys(
        ("requests_per_second", "rows_per_second", "failures_per_second", "failure_rate"), 0.0
    ),
    **dict.fromkeys(("mean_batch", "p50_ms", "p95_ms", "p99_ms"), 0.0),
}


def version(number: int, state: str = "READY", **fields: Any) -> dict[str, Any]:
    """A version as `console.data` describes it."""
    ready = state == "READY"
    return {
        "version": number,
        "state": state,
        "reason": "",
        "labels": [],
        "share": 0.0,
        "shadow": 0.0,
        "recent": IDLE,
        "busy": 0.0,
        "replica_states": {"idle": 1, "busy": 0, "starting": 0, "lost": 0} if ready else {},
        "restarts": 0,
        "pending": 0,
        "waiting": 0,
        "weights_bytes": 102_400_000 if ready else 0,
        "tier": "compiled" if ready else "",
        "loaded_at": time.time() if ready else 0.0,
        **fields,
    }


def model(name: str, *versions: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A model as `console.data` describes it."""
    labels = {label: each["version"] for each in versions for label in each["labels"]}
    plain = {
        "name": name,
        "kind": "fp32",
        "problem": "",
        "labels": labels,
        "split": {},
        "rollout": None,
    }
    return {**plain, "previous": [], "versions": list(versions), "objectives": [], **fields}


def data(*models: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A whole snapshot."""
    server = {
        "version": "0.1.0",
        "time": time.time(),
        "uptime_seconds": 4000.0,
        "live": True,
        "ready": True,
        "problem": "",
        "repository": "models",
        "control": "poll",
        "tokens": False,
    }
    placement = {"mode": "process", "cores": [0, 1], "lost": 0, "workers": []}
    return {
        "server": server,
        "models": list(models),
        "placement": placement,
        "events": [],
        **fields,
    }


@dataclass
class Stage:
    """A server of the page: `make` gives the data, `posted` is what was sent, `refusal` what a POST
    is told.
    """

    make: Callable[[], Mapping[str, Any]]
    port: int = 0
    token: str = ""
    refusal: tuple[int, str] | None = None
    posted: list[tuple[str, Any, Mapping[str, str]]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def answer(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, str, bytes]:
        found = asset(path) if method == "GET" else None
        if found is not None:
            return 200, *found
        if self.token and headers.get("Authorization") != f"Bearer {self.token}":
            return self._json(401, {"error": "[INF-709] this needs a token."})
        if method == "GET":
            return (
                self._json(200, self.make())
                if path == DATA
                else self._json(404, {"error": "nothing"})
            )
        self.posted.append((path, json.loads(body or b"null"), headers))
        if self.refusal is not None:
            return self._json(self.refusal[0], {"error": self.refusal[1]})
        return self._json(200, {})

    def _json(self, status: int, plain: Any) -> tuple[int, str, bytes]:
        return status, "application/json", json.dumps(plain).encode()


@contextmanager
def stage(make: Callable[[], Mapping[str, Any]], **fields: Any) -> Iterator[Stage]:
    """A stage that is served while the block runs."""
    shown = Stage(make, **fields)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, kind, content = shown.answer(self.command, self.path, dict(self.headers), body)
            self.send_response(status)
            for name, value in {
                **PAGE_HEADERS,
                "content-type": kind,
                "content-length": str(len(content)),
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    shown.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield shown
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
