"""What tests of the HTTP server need: an engine in memory, requests without a socket, a server in a
thread.
"""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from infuse.errors import NotFoundError
from infuse.serving.config import Limits, Listener, ServerConfig
from infuse.serving.messages import InferRequest, InferResponse, Tensor
from infuse.serving.transports.rest.server import HttpServer

HOST = "127.0.0.1"
INPUTS: Mapping[str, tuple[str, list[int], int]] = {
    "echo": ("FP32", [-1, 4], 8),  # datatype, shape, max_batch_size
    "words": ("BYTES", [1], 0),
    "free": ("INT32", [-1, 2], 0),
    "wild": ("FP32", [-1, -1, -1], 0),
}


class FakeTraffic:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    @property
    def rollouts(self) -> Any:
        return self

    routing = rollouts

    def __getattr__(self, verb: str) -> Any:
        return lambda *values: self.calls.append((verb, *values))

    def describe(self) -> dict[str, Any]:
        return {"model": "echo", "calls": len(self.calls)}


@dataclass
class FakeEngine:
    """Answers a request with its inputs, or with `outputs`, or with `error`; `held` requests wait
    for `release`.
    """

    error: Exception | None = None
    outputs: list[Tensor] | None = None
    held: bool = False
    serving: bool = True
    requests: list[InferRequest] = field(default_factory=list)
    loads: list[tuple[Any, ...]] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)
    arrived: threading.Event = field(default_factory=threading.Event)
    dropped: threading.Event = field(default_factory=threading.Event)
    told: FakeTraffic = field(default_factory=FakeTraffic)

    @property
    def admin(self) -> Any:
        """What administers."""
        return self

    def live(self) -> bool:
        return True

    def ready(self) -> bool:
        return self.serving

    def _check(self, name: str, version: str) -> None:
        if name not in INPUTS or version not in ("", "1", "stable"):
            raise NotFoundError(f"there is no model {name!r} {version}")

    def model_ready(self, name: str, version: str = "") -> bool:
        self._check(name, version)
        return self.serving

    def sticky_header(self, name: str) -> str:
        return "x-user" if name == "echo" else ""

    def receive_buffer(self, model: str, version: str, size: int) -> None:
        return None

    def server_metadata(self) -> dict[str, Any]:
        return {"name": "infuse", "version": "0.1", "extensions": ["binary_tensor_data"]}

    def model_metadata(self, name: str, version: str = "") -> dict[str, Any]:
        self._check(name, version)
        datatype, shape, _ = INPUTS[name]
        tensor = {"name": "x", "datatype": datatype, "shape": shape}
        return {
            "name": name,
            "versions": ["1"],
            "platform": "onnx",
            "inputs": [tensor],
            "outputs": [tensor],
        }

    def model_config(self, name: str, version: str = "") -> dict[str, Any]:
        self._check(name, version)
        return {"name": name, "max_batch_size": INPUTS[name][2]}

    def statistics(self, name: str = "", version: str = "") -> dict[str, Any]:
        if name:
            self._check(name, version)
        return {
            "model_stats": [{"name": each, "version": "1"} for each in INPUTS if name in ("", each)]
        }

    async def index(self, ready: bool = False) -> list[dict[str, Any]]:
        return [{"name": name, "version": "1", "state": "READY", "reason": ""} for name in INPUTS]

    async def load(
        self, name: str, config: str = "", files: Mapping[str, bytes] = {}, caller: Any = None
    ) -> None:
        self._check(name, "")
        self.loads.append((name, config, dict(files)))

    async def start_rollout(self, name: str, version: int, canary: Any = None) -> None:
        self._check(name, "")
        self.told.start_rollout(version, canary)

    async def rollback(self, name: str, reason: str) -> None:
        self._check(name, "")
        self.told.rollback(reason)

    async def unload(self, name: str, dependents: bool = False, caller: Any = None) -> None:
        self._check(name, "")
        self.loads.append((name, dependents))

    def placement(self) -> dict[str, Any]:
        return {"cores": [0, 1]}

    def traffic(self, name: str) -> FakeTraffic:
        self._check(name, "")
        return self.told

    async def infer(self, request: InferRequest) -> InferResponse:
        self.requests.append(request)
        self.arrived.set()
        try:
            while self.held and not self.release.is_set():
                await asyncio.sleep(0.002)
        except asyncio.CancelledError:
            self.dropped.set()
            raise
        if self.error is not None:
            raise self.error
        self._check(request.model, request.version)
        outputs = self.outputs
        if outputs is None:
            outputs = [Tensor(each.name, each.datatype, each.data) for each in request.inputs]
        return InferResponse(request.model, "1", request.id, outputs)


@dataclass
class Reply:
    """An answer: headers have names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The text of an error, which must be all that the body has."""
        assert self.headers["content-type"] == "application/json"
        plain = self.json
        assert list(plain) == ["error"]
        assert isinstance(plain["error"], str)
        return plain["error"]


def ask(
    app: Any, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> Reply:
    """What an application answers, without a socket."""
    named = {"host": "127.0.0.1", **(headers or {})}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in named.items()
        ],
        "client": ("127.0.0.1", 1),
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    head = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    whole = b"".join(bytes(message["body"]) for message in sent[1:])
    assert int(head["content-length"]) == len(whole)
    return Reply(sent[0]["status"], head, whole)


@dataclass
class Running:
    """A server in a thread of its own."""

    server: HttpServer
    loop: asyncio.AbstractEventLoop

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def connect(self) -> socket.socket:
        return socket.create_connection((HOST, self.port), timeout=20)

    def stop(self, grace: float) -> None:
        asyncio.run_coroutine_threadsafe(self.server.stop(grace), self.loop).result(20)


@contextmanager
def serving(
    app: Any, limits: Limits | None = None, listener: Listener | None = None, loop_of: Any = asyncio
) -> Iterator[Running]:
    """An application behind a server on a free port, in a loop of asyncio's or uvloop's."""
    loop = loop_of.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> HttpServer:
        server = HttpServer(app, listener or Listener(), limits or Limits())
        await server.start()
        return server

    try:
        server = asyncio.run_coroutine_threadsafe(start(), loop).result(20)
        running = Running(server, loop)
        try:
            yield running
        finally:
            running.stop(0.1)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()


def reply(connection: socket.socket, method: str = "POST") -> Reply:
    """The next answer on a connection, and not a byte more."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += _received(connection, 1)
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    body = b"" if method == "HEAD" else _received(connection, int(headers["content-length"]))
    return Reply(int(first.split()[1]), headers, body)


def _received(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        if not part:
            raise ConnectionError(f"the connection ended after {found[-200:]!r}")
        found += part
    return found


def post(
    body: bytes, *headers: str, path: str = "/v2/models/echo/infer", length: int | None = None
) -> bytes:
    """A request as it is sent."""
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", *headers]
    if length is None:
        length = len(body)
    if length >= 0:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def config(**fields: Any) -> ServerConfig:
    return ServerConfig(http=Listener(), admin=Listener(), **fields)


def tensor(name: str, datatype: str, values: Any, dtype: Any = np.float32) -> Tensor:
    return Tensor(name, datatype, np.array(values, dtype))


def binary(array: Any, datatype: str = "FP32", **more: Any) -> tuple[bytes, dict[str, str]]:
    """A binary request with one input, and its headers."""
    raw = array.tobytes()
    item = {
        "name": "x",
        "shape": list(array.shape),
        "datatype": datatype,
        "parameters": {"binary_data_size": len(raw)},
    }
    head = json.dumps({"inputs": [item], **more}).encode()
    return head + raw, {"inference-header-content-length": str(len(head))}


def plain(data: Any, shape: list[int], datatype: str = "FP32", **more: Any) -> bytes:
    """A JSON request with one input."""
    item = {"name": "x", "shape": shape, "datatype": datatype, "data": data}
    return json.dumps({"inputs": [item], **more}).encode()
