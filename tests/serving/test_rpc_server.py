"""The gRPC server over an engine in memory: statuses, deadlines, cancellation, streams, health, reflection, limits."""

import logging
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

from infuse.errors import (
    AccessError,
    ConfigurationError,
    DeadlineError,
    InfuseError,
    InputError,
    ModelFailureError,
    NotFoundError,
    OverloadError,
    RequestError,
    TooLargeError,
    UnavailableError,
    UnsupportedRequestError,
)
from infuse.serving.config import Limits, Listener, Security, ServerConfig
from infuse.serving.rpc import GrpcServer
from infuse.serving.rpc.schema import SERVICE
from tests.serving.rpc_tools import HOST, FakeEngine, Running, failure, running

pytestmark = pytest.mark.row("S1")
STATUS = grpc.StatusCode


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


def request(model: str = "echo", id: str = "", **parameters: int) -> Any:
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


# ----------------------------------------------------------------------------------------------------- inference


def test_a_request_reaches_the_engine(engine: FakeEngine, stub: Any) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    answer = stub.ModelInfer(request(id="7"), metadata=[("traceparent", trace), ("x-user", "ann")])
    assert (answer.model_name, answer.model_version, answer.id) == ("echo", "1", "7")
    assert answer.raw_output_contents[0] == bytes(8)
    seen = engine.requests[0]
    assert (seen.trace, seen.sticky, seen.deadline, seen.protocol) == (trace, "ann", None, "grpc")
    assert 0 < seen.timeline.received <= seen.timeline.sent


def test_only_the_header_of_a_sticky_split_sticks(engine: FakeEngine, stub: Any) -> None:
    stub.ModelInfer(request(id="7"), metadata=[("x-other", "ann"), ("x-us", "bob")])
    engine.models["plain"] = True
    stub.ModelInfer(request("plain"), metadata=[("x-user", "ann")])
    assert [seen.sticky for seen in engine.requests] == ["", ""]


def test_the_deadline_of_a_call_is_that_of_the_request(engine: FakeEngine, stub: Any) -> None:
    start = time.monotonic()
    stub.ModelInfer(request(), timeout=50)
    stub.ModelInfer(request(timeout=5_000_000), timeout=50)
    stub.ModelInfer(request(timeout=90_000_000), timeout=50)
    call, own, later = (r.deadline - start for r in engine.requests if r.deadline is not None)
    assert 40 < call < 60
    assert 4 < own < 15
    assert 40 < later < 60


def test_a_deadline_drops_the_work(engine: FakeEngine, stub: Any) -> None:
    error = refusal(lambda: stub.ModelInfer(request("slow"), timeout=0.3))
    assert error.code() == STATUS.DEADLINE_EXCEEDED
    assert engine.dropped.wait(30)


def test_cancellation_drops_the_work(engine: FakeEngine, stub: Any) -> None:
    call = stub.ModelInfer.future(request("slow"))
    assert engine.arrived.wait(30)
    call.cancel()
    assert engine.dropped.wait(30)


def test_a_connection_that_goes_drops_the_work(engine: FakeEngine, server: Running) -> None:
    channel = grpc.insecure_channel(server.address)
    call = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer.future(request("slow"))
    assert engine.arrived.wait(30)
    channel.close()
    assert engine.dropped.wait(30)
    assert refusal(call.result).code() == STATUS.CANCELLED


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RequestError("no"), STATUS.INVALID_ARGUMENT),
        (InputError("no"), STATUS.INVALID_ARGUMENT),
        (NotFoundError("no"), STATUS.NOT_FOUND),
        (UnavailableError("no"), STATUS.UNAVAILABLE),
        (OverloadError("no"), STATUS.RESOURCE_EXHAUSTED),
        (TooLargeError("no"), STATUS.RESOURCE_EXHAUSTED),
        (DeadlineError("no"), STATUS.DEADLINE_EXCEEDED),
        (UnsupportedRequestError("no"), STATUS.UNIMPLEMENTED),
        (ModelFailureError("no"), STATUS.INTERNAL),
        (AccessError("no"), STATUS.UNAUTHENTICATED),
        (failure(AccessError("no"), known=True), STATUS.PERMISSION_DENIED),
    ],
)
@pytest.mark.row("S7")
def test_errors_have_a_status_and_a_text(engine: FakeEngine, stub: Any, error: InfuseError, code: Any) -> None:
    engine.error = error
    caught = refusal(lambda: stub.ModelInfer(request("failing")))
    assert (caught.code(), caught.details()) == (code, str(error))


@pytest.mark.row("S7")
def test_an_overload_says_when_to_come_again(engine: FakeEngine, stub: Any) -> None:
    engine.error = OverloadError("full")
    engine.error.retry_after = 2.5
    caught = refusal(lambda: stub.ModelInfer(request("failing")))
    assert ("retry-after", "2.5") in [(item.key, item.value) for item in caught.trailing_metadata()]


@pytest.mark.row("S9")
def test_an_unexpected_error_is_logged_and_not_told(
    engine: FakeEngine, stub: Any, caplog: pytest.LogCaptureFixture
) -> None:
    engine.error = ValueError("a secret")
    with caplog.at_level(logging.ERROR):
        caught = refusal(lambda: stub.ModelInfer(request("failing")))
    assert (caught.code(), caught.details()) == (STATUS.INTERNAL, "internal error (ValueError)")
    assert "a secret" in caplog.text


def test_a_long_text_is_cut(engine: FakeEngine, stub: Any) -> None:
    engine.error = RequestError("é" * 50_000)
    caught = refusal(lambda: stub.ModelInfer(request("failing")))
    assert caught.code() == STATUS.INVALID_ARGUMENT
    assert 1000 < len(caught.details()) < 2000


@pytest.mark.parametrize("call", ["ModelInfer", "ModelReady", "RepositoryIndex"])
def test_what_is_no_message_is_refused(server: Running, call: str) -> None:
    with grpc.insecure_channel(server.address) as channel:
        caught = refusal(lambda: channel.unary_unary(f"/{SERVICE}/{call}")(b"\xff\xff\xff"))
    assert caught.code() == STATUS.INVALID_ARGUMENT
    assert "message" in caught.details()


def test_a_call_that_is_none(server: Running) -> None:
    with grpc.insecure_channel(server.address) as channel:
        caught = refusal(lambda: channel.unary_unary(f"/{SERVICE}/ModelTrain")(b""))
    assert caught.code() == STATUS.UNIMPLEMENTED


# ------------------------------------------------------------------------------------------------------- streams


def test_answers_of_a_stream_come_in_order(engine: FakeEngine, stub: Any) -> None:
    def requests() -> Iterator[Any]:
        yield request("slow", id="0")
        yield request("absent", id="1")
        yield request(id="2")
        yield messages.ModelInferRequest(model_name="echo", id="3", raw_input_contents=[b"?"])
        while len(engine.requests) < 3:
            time.sleep(0.001)
        engine.release.set()

    answers = list(stub.ModelStreamInfer(requests()))
    assert [answer.infer_response.id for answer in answers] == ["0", "1", "2", ""]
    assert [bool(answer.error_message) for answer in answers] == [False, True, False, True]
    assert "INF-704" in answers[1].error_message
    assert all(a.infer_response.parameters["triton_final_response"].bool_param for a in answers)


def test_a_stream_is_longer_than_what_is_worked_on(stub: Any) -> None:
    answers = stub.ModelStreamInfer(request(id=str(index)) for index in range(500))
    assert [answer.infer_response.id for answer in answers] == [str(index) for index in range(500)]


def test_an_empty_stream_ends(stub: Any) -> None:
    assert list(stub.ModelStreamInfer(iter(()))) == []


def test_a_cancelled_stream_drops_its_work(engine: FakeEngine, stub: Any) -> None:
    def requests() -> Iterator[Any]:
        yield request("slow")
        engine.dropped.wait(30)

    call = stub.ModelStreamInfer(requests())
    assert engine.arrived.wait(30)
    call.cancel()
    assert engine.dropped.wait(30)
    assert refusal(lambda: next(call)).code() == STATUS.CANCELLED


# -------------------------------------------------------------------------------------------- health, reflection


def status(channel: Any, service: str) -> Any:
    return health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service), timeout=30).status


def test_health(engine: FakeEngine, server: Running) -> None:
    serving, not_serving = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
    with grpc.insecure_channel(server.address) as channel:
        assert [status(channel, name) for name in ("", SERVICE, "echo", "loading")] == [serving] * 3 + [not_serving]
        engine.serving = False
        assert [status(channel, name) for name in ("", SERVICE, "echo")] == [not_serving] * 2 + [serving]
        assert refusal(lambda: status(channel, "absent")).code() == STATUS.NOT_FOUND


def test_health_is_watched(engine: FakeEngine, server: Running) -> None:
    kind = health_pb2.HealthCheckResponse
    with grpc.insecure_channel(server.address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service="new"), timeout=30)
        assert next(watch).status == kind.SERVICE_UNKNOWN
        engine.models["new"] = False
        assert next(watch).status == kind.NOT_SERVING
        engine.models["new"] = True
        assert next(watch).status == kind.SERVING
        watch.cancel()


def test_reflection(server: Running) -> None:
    asked = reflection_pb2.ServerReflectionRequest
    with grpc.insecure_channel(server.address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        requests = [
            asked(list_services=""),
            asked(file_containing_symbol=SERVICE),
            asked(file_containing_symbol="grpc.health.v1.Health"),
            asked(file_by_filename="absent.proto"),
        ]
        services, ours, health, absent = stub.ServerReflectionInfo(iter(requests), timeout=30)
    names = {service.name for service in services.list_services_response.service}
    assert names == {SERVICE, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}
    file = descriptor_pb2.FileDescriptorProto.FromString(ours.file_descriptor_response.file_descriptor_proto[0])
    assert "ModelInferRequest" in [message.name for message in file.message_type]
    assert len(health.file_descriptor_response.file_descriptor_proto) == 1
    assert absent.error_response.error_code == STATUS.NOT_FOUND.value[0]


# ------------------------------------------------------------------------------------------------ limits, access


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
        assert refusal(lambda: infer(large, compression=compression)).code() == STATUS.RESOURCE_EXHAUSTED
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
            assert refusal(lambda: stub.RepositoryModelLoad(load)).code() == STATUS.PERMISSION_DENIED
            assert refusal(lambda: stub.RepositoryModelUnload(unload)).code() == STATUS.PERMISSION_DENIED
    assert engine.loads == ([("echo", "", {}), ("echo", False)] if allowed else [])


class Door:
    """A guard that writes down what it is asked, and lets only `ann` in."""

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
        assert stub.ModelStatistics(messages.ModelStatisticsRequest(name="echo"), metadata=ann).model_stats
    infer, watch = ("infer", "echo"), ("watch", "")
    assert door.asked == [("health", ""), infer, infer, watch, infer, infer]


# ------------------------------------------------------------------------------------------------------- the port


def test_a_port_in_use_is_an_error(engine: FakeEngine, server: Running) -> None:
    config = ServerConfig(grpc=Listener(host=HOST, port=server.server.port))
    with pytest.raises(ConfigurationError, match="listened on"), running(engine, config):
        pass


@pytest.mark.parametrize("host", ["::1", "localhost"])
def test_other_addresses(engine: FakeEngine, host: str) -> None:
    try:
        socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
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
