"""The gRPC server over an engine in memory: statuses, deadlines, cancellation, streams, health,
reflection, limits.
"""

import logging
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tritonclient.grpc import service_pb2 as messages, service_pb2_grpc

from infuse.errors import (
    AccessError,
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
from infuse.serving.transports.rpc.schema import SERVICE
from tests.serving.rpc_tools import (
    FakeEngine,
    Running,
    engine,
    failure,
    refusal,
    request,
    server,
    status,
    stub,
)

__all__ = ["engine", "server", "stub"]
pytestmark = pytest.mark.row("S1")
STATUS = grpc.StatusCode


# ---------------------------------------------------------------------------------------- inference


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
def test_errors_have_a_status_and_a_text(
    engine: FakeEngine, stub: Any, error: InfuseError, code: Any
) -> None:
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


@pytest.mark.parametrize(("letter", "bytes_each"), [("a", 1), ("%", 3), ("é", 6), ("😀", 12)])
def test_a_long_text_is_cut(engine: FakeEngine, stub: Any, letter: str, bytes_each: int) -> None:
    """To what a header holds in percent-encoding: of more than 8 KiB, callers refuse some."""
    engine.error = RequestError(letter * 50_000)
    caught = refusal(lambda: stub.ModelInfer(request("failing")))
    assert caught.code() == STATUS.INVALID_ARGUMENT
    text = caught.details().partition("] ")[2]
    assert text == letter * (len(text) - 1) + "…"
    assert 3000 < bytes_each * len(text) < 4100


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


# ------------------------------------------------------------------------------------------ streams


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


# ------------------------------------------------------------------------------- health, reflection


def test_health(engine: FakeEngine, server: Running) -> None:
    serving, not_serving = (
        health_pb2.HealthCheckResponse.SERVING,
        health_pb2.HealthCheckResponse.NOT_SERVING,
    )
    with grpc.insecure_channel(server.address) as channel:
        assert [status(channel, name) for name in ("", SERVICE, "echo", "loading")] == [
            serving
        ] * 3 + [not_serving]
        engine.serving = False
        assert [status(channel, name) for name in ("", SERVICE, "echo")] == [not_serving] * 2 + [
            serving
        ]
        assert refusal(lambda: status(channel, "absent")).code() == STATUS.NOT_FOUND


def test_health_is_watched(engine: FakeEngine, server: Running) -> None:
    kind = health_pb2.HealthCheckResponse
    with grpc.insecure_channel(server.address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(
            health_pb2.HealthCheckRequest(service="new"), timeout=30
        )
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
    file = descriptor_pb2.FileDescriptorProto.FromString(
        ours.file_descriptor_response.file_descriptor_proto[0]
    )
    assert "ModelInferRequest" in [message.name for message in file.message_type]
    assert len(health.file_descriptor_response.file_descriptor_proto) == 1
    assert absent.error_response.error_code == STATUS.NOT_FOUND.value[0]
