"""The gRPC server towards callers that want too much, and its port: limits, access, listening,
stopping.
"""

import socket
from contextlib import suppress
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from tritonclient.grpc import service_pb2 as messages, service_pb2_grpc

from infuse.errors import (
    AccessError,
    ConfigurationError,
)
from infuse.serving.config import Limits, Listener, Security, ServerConfig
from infuse.serving.transports.rpc import GrpcServer
from tests.serving.rpc_tools import (
    HOST,
    FakeEngine,
    Running,
    engine,
    refusal,
    request,
    running,
    server,
    status,
    stub,
)

__all__ = ["engine", "server", "stub"]
pytestmark = pytest.mark.row("S1")
STATUS = grpc.StatusCode


@pytest.mark.row("S9")
@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_large_requests_are_refused_also_when_they_come_small(
    engine: FakeEngine, compression: grpc.Compression
) -> None:
    config = ServerConfig(grpc=Listener(host=HOST), limits=Limits(request_bytes=1 << 20))
    large = messages.ModelInferRequest(model_name="echo", raw_input_contents=[bytes(8 << 20)])
    large.inputs.add(name="x", datatype="UINT8", shape=[8 << 20])
    with running(engine, config) as server, grpc.insecure_channel(server.address) as channel:
        infer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer
        assert (
            refusal(lambda: infer(large, compression=compression)).code()
            == STATUS.RESOURCE_EXHAUSTED
        )
        assert infer(request(), compression=compression).model_name == "echo"
    assert [r.inputs[0].data.nbytes for r in engine.requests] == [8]


def wait_until_closed(connection: socket.socket) -> bytes:
    """What the other end says until it closes the connection; TimeoutError when it does not."""
    connection.settimeout(30)
    said = b""
    with suppress(ConnectionResetError):
        while part := connection.recv(4096):
            said += part
    return said


@pytest.mark.row("S9")
@pytest.mark.parametrize(
    "said", [b"", b"PRI * HTTP/2.0\r\n", b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", b"\x16\x03\x01 \xff"]
)
def test_who_does_not_speak_the_protocol_is_cut_off(engine: FakeEngine, said: bytes) -> None:
    config = ServerConfig(grpc=Listener(host=HOST), limits=Limits(header_seconds=0.2))
    with running(engine, config) as server:
        with socket.create_connection((HOST, server.server.port)) as connection:
            connection.sendall(said)
            wait_until_closed(connection)
        with grpc.insecure_channel(server.address) as channel:
            assert status(channel, "") == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.row("S9")
def test_a_flood_of_pings_is_cut_off(server: Running) -> None:
    hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
    ping = bytes((0, 0, 8, 6, 0, 0, 0, 0, 0)) + bytes(8)
    with socket.create_connection((HOST, server.server.port)) as connection:
        connection.sendall(hello + ping * 10)
        assert b"too_many_pings" in wait_until_closed(connection)


@pytest.mark.row("S9")
def test_connections_are_limited(engine: FakeEngine) -> None:
    config = ServerConfig(grpc=Listener(host=HOST), limits=Limits(connections=1))
    with running(engine, config) as server, grpc.insecure_channel(server.address) as channel:
        assert status(channel, "") == health_pb2.HealthCheckResponse.SERVING
        with socket.create_connection((HOST, server.server.port)) as connection:
            wait_until_closed(connection)
        assert status(channel, "") == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.row("S9")
@pytest.mark.parametrize("allowed", [False, True])
def test_admin_calls_are_for_a_port_that_allows_them(engine: FakeEngine, allowed: bool) -> None:
    config = ServerConfig(grpc=Listener(host=HOST), security=Security(admin_on_data_port=allowed))
    load = messages.RepositoryModelLoadRequest(model_name="echo")
    unload = messages.RepositoryModelUnloadRequest(model_name="echo")
    with running(engine, config) as server, grpc.insecure_channel(server.address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        if allowed:
            stub.RepositoryModelLoad(load)
            stub.RepositoryModelUnload(unload)
        else:
            assert (
                refusal(lambda: stub.RepositoryModelLoad(load)).code() == STATUS.PERMISSION_DENIED
            )
            assert (
                refusal(lambda: stub.RepositoryModelUnload(unload)).code()
                == STATUS.PERMISSION_DENIED
            )
    assert engine.loads == ([("echo", "", {}), ("echo", False)] if allowed else [])


class Door:
    """A guard that writes down what it is asked, and lets only `ann` in."""

    open = False
    with_tokens = True

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def admit(self, headers: Any, address: str, role: str, model: str = "") -> str:
        assert address.startswith("ipv4:127.0.0.1")
        self.asked.append((role, model))
        if role != "health" and headers.get("authorization") != "Bearer ann":
            raise AccessError("this needs a token")
        return "ann"


@pytest.mark.row("S9")
def test_the_guard_is_asked(engine: FakeEngine) -> None:
    door, ann = Door(), [("authorization", "Bearer ann")]
    with running(engine, guard=door) as server, grpc.insecure_channel(server.address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert stub.ServerLive(messages.ServerLiveRequest()).live
        assert refusal(lambda: stub.ModelInfer(request())).code() == STATUS.UNAUTHENTICATED
        assert next(stub.ModelStreamInfer(iter([request()]))).error_message
        statistics = messages.ModelStatisticsRequest()
        assert refusal(lambda: stub.ModelStatistics(statistics)).code() == STATUS.UNAUTHENTICATED
        assert engine.requests == []
        assert stub.ModelInfer(request(), metadata=ann).model_name == "echo"
        assert stub.ModelStatistics(
            messages.ModelStatisticsRequest(name="echo"), metadata=ann
        ).model_stats
    infer, watch = ("infer", "echo"), ("watch", "")
    assert door.asked == [("health", ""), infer, infer, watch, infer, infer]


def test_a_port_in_use_is_an_error(engine: FakeEngine, server: Running) -> None:
    config = ServerConfig(grpc=Listener(host=HOST, port=server.server.port))
    with pytest.raises(ConfigurationError, match="listened on"), running(engine, config):
        pass


@pytest.mark.parametrize("host", ["::1", "localhost"])
def test_other_addresses(engine: FakeEngine, host: str) -> None:
    try:
        socket.create_server(
            (host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        ).close()
    except OSError:
        pytest.skip(f"{host} is not there")
    with running(engine, ServerConfig(grpc=Listener(host=host))) as server:
        address = f"[{host}]" if ":" in host else host
        with grpc.insecure_channel(f"{address}:{server.server.port}") as channel:
            assert status(channel, "") == health_pb2.HealthCheckResponse.SERVING


def test_stopping_lets_calls_finish(engine: FakeEngine) -> None:
    with running(engine) as server, grpc.insecure_channel(server.address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        call = stub.ModelInfer.future(request("slow"))
        assert engine.arrived.wait(30)
        server.loop.call_soon_threadsafe(server.loop.call_later, 0.05, engine.release.set)
        server.call(server.server.stop(20))
        assert call.result(30).model_name == "slow"


def test_stopping_ends_calls_that_take_longer(engine: FakeEngine) -> None:
    with running(engine) as server, grpc.insecure_channel(server.address) as channel:
        call = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer.future(request("slow"))
        assert engine.arrived.wait(30)
        server.call(server.server.stop(0.01))
        assert refusal(lambda: call.result(30)).code() in (STATUS.UNAVAILABLE, STATUS.CANCELLED)


def test_a_server_that_was_not_started_stops(engine: FakeEngine) -> None:
    server = GrpcServer(engine, ServerConfig())  # type: ignore[arg-type]
    with running(engine) as other:
        other.call(server.stop(0))
    assert server.port == 0
