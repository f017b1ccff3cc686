"""What tests of the gRPC server need: an engine in memory, a server in a thread, certificates."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tritonclient.grpc import service_pb2 as messages, service_pb2_grpc

from infuse.errors import InfuseError, NotFoundError
from infuse.serving.config import Listener, ServerConfig
from infuse.serving.engine.engine import Engine
from infuse.serving.messages import InferRequest, InferResponse, Tensor
from infuse.serving.transports.rpc import GrpcServer

HOST = "127.0.0.1"


class FakeEngine:
    """Answers a request with its inputs, `slow` with nothing before `release`, and `failing` with
    `error`.
    """

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.requests: list[InferRequest] = []
        self.loads: list[tuple[Any, ...]] = []
        self.models = {"echo": True, "slow": True, "failing": True, "loading": False}
        self.serving = True
        self.release = threading.Event()
        self.arrived = threading.Event()
        self.dropped = threading.Event()

    @property
    def admin(self) -> Any:
        """What administers."""
        return self

    def live(self) -> bool:
        return True

    def ready(self) -> bool:
        return self.serving

    def model_ready(self, name: str, version: str = "") -> bool:
        if name not in self.models or version not in ("", "1", "stable"):
            raise NotFoundError(f"there is no model '{name}'")
        return self.models[name]

    def sticky_header(self, name: str) -> str:
        return "x-user" if name == "echo" else ""

    def server_metadata(self) -> dict[str, Any]:
        return {"name": "infuse", "version": "0", "extensions": ["binary_tensor_data"]}

    def statistics(self, name: str = "", version: str = "") -> dict[str, Any]:
        return {"model_stats": [{"name": name or "echo", "version": "1", "unheard_of": 1}]}

    async def index(self, ready: bool = False) -> list[dict[str, Any]]:
        return [
            {"name": n, "version": "1", "state": "READY"}
            for n, up in self.models.items()
            if up or not ready
        ]

    async def load(
        self, name: str, config: str = "", files: Mapping[str, bytes] = {}, caller: Any = None
    ) -> None:
        self.loads.append((name, config, dict(files)))

    async def unload(self, name: str, dependents: bool = False, caller: Any = None) -> None:
        self.loads.append((name, dependents))

    async def infer(self, request: InferRequest) -> InferResponse:
        self.requests.append(request)
        self.arrived.set()
        if request.model == "slow":
            await self._wait()
        if request.model == "failing" and self.error is not None:
            raise self.error
        if request.model not in self.models:
            raise NotFoundError(f"there is no model '{request.model}'")
        outputs = [Tensor(t.name, t.datatype, t.data) for t in request.inputs]
        return InferResponse(request.model, "1", request.id, outputs)

    async def _wait(self) -> None:
        try:
            while not self.release.is_set():
                await asyncio.sleep(0.002)
        except asyncio.CancelledError:
            self.dropped.set()
            raise


@dataclass
class Running:
    """A server in a thread of its own."""

    server: GrpcServer
    loop: asyncio.AbstractEventLoop

    @property
    def address(self) -> str:
        return f"{HOST}:{self.server.port}"

    def call(self, work: Any) -> Any:
        """The result of a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(120)


@contextmanager
def running(
    engine: Any, config: ServerConfig | None = None, guard: Any = None
) -> Iterator[Running]:
    """A server of an engine in memory."""
    with _loop() as loop:
        result = Running(
            GrpcServer(engine, config or ServerConfig(grpc=Listener(host=HOST)), guard), loop
        )
        try:
            result.call(result.server.start())
            yield result
        finally:
            result.call(result.server.stop(None))


@contextmanager
def serving(engine: Engine) -> Iterator[Running]:
    """A server of an engine, which it starts and stops."""
    with _loop() as loop:
        result = Running(GrpcServer(engine, engine.config), loop)
        try:
            result.call(engine.start())
            result.call(result.server.start())
            yield result
        finally:
            result.call(result.server.stop(None))
            result.call(engine.stop())


@contextmanager
def _loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop that runs in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def request(model: str = "echo", id: str = "", **parameters: int) -> Any:
    """A request with one input of two elements."""
    result = messages.ModelInferRequest(model_name=model, id=id, raw_input_contents=[bytes(8)])
    result.inputs.add(name="x", datatype="FP32", shape=[1, 2])
    for name, value in parameters.items():
        result.parameters[name].int64_param = value
    return result


def refusal(call: Any) -> Any:
    """The error that a call ends with."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value


def status(channel: Any, service: str) -> Any:
    """What the health service says of a service."""
    return (
        health_pb2_grpc.HealthStub(channel)
        .Check(health_pb2.HealthCheckRequest(service=service), timeout=60)
        .status
    )


def failure(error: InfuseError, known: bool = False) -> InfuseError:
    """`error`, of a caller that is known or not."""
    error.known = known  # type: ignore[attr-defined]
    return error


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def server(engine: FakeEngine) -> Iterator[Running]:
    with running(engine) as result:
        yield result


@pytest.fixture
def stub(server: Running) -> Iterator[Any]:
    with grpc.insecure_channel(server.address) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)
