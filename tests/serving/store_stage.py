"""An S3 server, a bucket of it, and a proxy before it that spoils answers."""

from __future__ import annotations

import asyncio
import http.client
import logging
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from infuse.serving.config import ServerConfig
from infuse.serving.control.repository import ModelFiles, Repository

boto3 = pytest.importorskip("boto3")
moto = pytest.importorskip("moto")
from moto.core import DEFAULT_ACCOUNT_ID  # noqa: E402
from moto.s3.models import s3_backends  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402

LARGE = bytes(range(256)) * 4096 * 6  # several pieces


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of an S3 server."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


class Bucket:
    """A bucket and a client for it."""

    def __init__(self, server: str, name: str) -> None:
        self.server = server
        self.name = name
        keys = {
            "aws_access_key_id": "key",
            "aws_secret_access_key": "secret",
            "region_name": "us-east-1",
        }
        self.client: Any = boto3.client("s3", endpoint_url=server, **keys)
        self.client.create_bucket(Bucket=name)

    @property
    def backend(self) -> Any:
        """What the server keeps, to put many objects there without a request for each."""
        return s3_backends[DEFAULT_ACCOUNT_ID]["aws"]

    def put(self, key: str, content: bytes = b"") -> None:
        self.client.put_object(Bucket=self.name, Key=key, Body=content)

    def options(self, endpoint: str = "") -> dict[str, str]:
        return {
            "endpoint": endpoint or self.server,
            "region": "us-east-1",
            "access_key_id": "key",
            "secret_access_key": "secret",
            "allow_http": "true",
            "timeout": "30s",
        }

    def config(self, cache: Path, endpoint: str = "", **fields: Any) -> ServerConfig:
        options = self.options(endpoint)
        return ServerConfig(
            repository=f"s3://{self.name}/models", store_options=options, cache=cache, **fields
        )


@pytest.fixture
def bucket(server: str, request: pytest.FixtureRequest) -> Iterator[Bucket]:
    made = Bucket(server, f"b{abs(hash(request.node.nodeid)):x}")
    yield made
    made.client.close()


Fault = Callable[["Handler", http.client.HTTPResponse, bytes], None]


class Proxy(ThreadingHTTPServer):
    """Between a client and the store. Each fault spoils one answer, in order."""

    daemon_threads = True

    def __init__(self, store: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.store = store.removeprefix("http://")
        self.faults: list[tuple[str, Fault]] = []  # part of the path that it waits for
        self.requests: list[tuple[str, str]] = []  # path and range
        self.address = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def do_GET(self) -> None:
        self.server.requests.append((self.path, self.headers.get("Range", "")))
        store = http.client.HTTPConnection(self.server.store, timeout=30)
        store.request(self.command, self.path, headers=dict(self.headers))
        answer = store.getresponse()
        body = answer.read()
        store.close()
        for number, (part, fault) in enumerate(self.server.faults):
            if part in self.path:
                del self.server.faults[number]
                fault(self, answer, body)
                return
        self.forward(answer, body, len(body))

    def forward(self, answer: http.client.HTTPResponse, body: bytes, size: int) -> None:
        """The store's answer, and so many bytes of its body."""
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in (
                "content-length",
                "transfer-encoding",
                "connection",
                "date",
                "server",
            ):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(body))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        self.wfile.write(body[:size])

    do_HEAD = do_GET

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""


def refuse(status: int) -> Fault:
    """An answer with that status instead."""

    def fault(handler: Handler, _answer: http.client.HTTPResponse, _body: bytes) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return fault


def cut(share: float) -> Fault:
    """An answer whose body breaks off."""

    def fault(handler: Handler, answer: http.client.HTTPResponse, body: bytes) -> None:
        handler.forward(answer, body, int(len(body) * share))
        handler.close_connection = True

    return fault


def drop(handler: Handler, _answer: http.client.HTTPResponse, _body: bytes) -> None:
    """No answer: the connection ends."""
    handler.close_connection = True


@pytest.fixture
def proxy(server: str) -> Iterator[Proxy]:
    running = Proxy(server)
    thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield running
    running.shutdown()
    thread.join(30)
    running.server_close()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow one another at once."""
    monkeypatch.setattr("infuse.serving.control.repository.remote.RETRY_SECONDS", 1e-3)


def scan(repository: Repository) -> dict[str, ModelFiles]:
    return dict(asyncio.run(repository.scan()))
