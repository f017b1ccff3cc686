"""Callers of gRPC who send slowly, by hand-written frames: what is waited for how long, and what
goes on meanwhile.
"""

from __future__ import annotations

import threading
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2 as messages, service_pb2_grpc

from infuse.serving.config import Limits, Listener, ServerConfig
from tests.serving.h2_frames import END_HEADERS, END_STREAM, HEADERS, Caller, frame, head, message
from tests.serving.rpc_tools import HOST, FakeEngine, engine, request, running

__all__ = ["engine"]
pytestmark = pytest.mark.row("S9")
SERVICE = "/inference.GRPCInferenceService"
INFER, STREAM = f"{SERVICE}/ModelInfer", f"{SERVICE}/ModelStreamInfer"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
OK, INVALID_ARGUMENT, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED = 0, 3, 4, 8
SOON = 0.3


def served(engine: FakeEngine, **limits: Any) -> Any:
    return running(engine, ServerConfig(grpc=Listener(host=HOST), limits=Limits(**limits)))


def infer(model: str = "echo") -> bytes:
    """A request as it is sent."""
    return message(request(model).SerializeToString())


@pytest.mark.parametrize(
    "path",
    [
        INFER,
        f"{SERVICE}/ServerLive",
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
    ],
)
@pytest.mark.parametrize("said", ["nothing", "a byte now and then"])
def test_a_call_whose_message_does_not_arrive_is_ended(
    engine: FakeEngine, path: str, said: str
) -> None:
    with served(engine, body_seconds=SOON) as server, Caller(server.server.port) as caller:
        dribbled = message(bytes(10_000)) if said != "nothing" else b""
        assert caller.ended(caller.open(path), dribbled) == DEADLINE_EXCEEDED
        call = caller.open(INFER)
        caller.say(call, infer(), END_STREAM)
        assert caller.ended(call) == OK
    assert [each.model for each in engine.requests] == ["echo"]


def test_a_message_in_pieces_is_put_together(engine: FakeEngine) -> None:
    with served(engine) as server, Caller(server.server.port) as caller:
        call = caller.open(INFER)
        for byte in infer():
            caller.say(call, bytes((byte,)))
        (answer,) = caller.answers(call)
        assert messages.ModelInferResponse.FromString(answer).model_name == "echo"
        assert caller.ended(call) == OK


@pytest.mark.parametrize("path", [INFER, "/grpc.health.v1.Health/Check"])
def test_a_call_without_a_message_is_ended_at_once(engine: FakeEngine, path: str) -> None:
    with served(engine) as server, Caller(server.server.port) as caller:
        assert caller.ended(caller.open(path, END_STREAM)) == INVALID_ARGUMENT


def test_answers_may_take_longer_than_messages(engine: FakeEngine) -> None:
    with (
        served(engine, body_seconds=SOON) as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        call = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer.future(request("slow"))
        assert engine.arrived.wait(30)
        with Caller(server.server.port) as caller:
            assert (
                caller.ended(caller.open(INFER)) == DEADLINE_EXCEEDED
            )  # it came later than the other
        engine.release.set()
        assert call.result(30).model_name == "slow"


@pytest.mark.parametrize("path", [STREAM, REFLECTION])
def test_as_many_streams_may_be_silent_as_there_may_be_connections(
    engine: FakeEngine, path: str
) -> None:
    with (
        served(engine, body_seconds=SOON, connections=2) as server,
        Caller(server.server.port) as caller,
    ):
        first, second, third = (caller.open(path) for _ in range(3))
        assert caller.ended(third, message(bytes(10_000))) == RESOURCE_EXHAUSTED
        caller.say(first, b"", END_STREAM)
        assert caller.ended(first) == OK
        fourth, fifth = (
            caller.open(STREAM),
            caller.open(path),
        )  # the fourth has the place of the first
        assert caller.ended(fifth) == RESOURCE_EXHAUSTED
        caller.say(fourth, infer())
        assert len(caller.answers(fourth)) == 1
        caller.say(second, b"", END_STREAM)
        assert caller.ended(second) == OK


def test_a_stream_whose_answer_is_under_way_is_not_silent(engine: FakeEngine) -> None:
    with (
        served(engine, body_seconds=SOON, connections=1) as server,
        Caller(server.server.port) as caller,
    ):
        busy = caller.open(STREAM)
        caller.say(busy, infer("slow"))
        assert engine.arrived.wait(30)
        caller.open(STREAM)
        assert caller.ended(caller.open(STREAM)) == RESOURCE_EXHAUSTED
        threading.Timer(2 * SOON, engine.release.set).start()
        (answer,) = caller.answers(busy)
        assert (
            messages.ModelStreamInferResponse.FromString(answer).infer_response.model_name == "slow"
        )


@pytest.mark.parametrize("dribbled", [b"", frame(HEADERS, END_HEADERS, 1, head("/" + 100 * "a"))])
def test_a_connection_without_a_call_is_ended(engine: FakeEngine, dribbled: bytes) -> None:
    with served(engine, idle_seconds=SOON) as server, Caller(server.server.port) as caller:
        assert caller.closed(dribbled, every=0.1)


def test_callers_connect_again_after_a_pause(engine: FakeEngine) -> None:
    with (
        served(engine, idle_seconds=SOON) as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        paused = threading.Event()
        infer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer
        assert infer(request()).model_name == "echo"
        channel.subscribe(
            lambda state: paused.set() if state is grpc.ChannelConnectivity.IDLE else None
        )
        assert paused.wait(30)
        assert infer(request()).model_name == "echo"


def test_a_connection_with_a_call_is_not_idle(engine: FakeEngine) -> None:
    with served(engine, idle_seconds=SOON) as server, Caller(server.server.port) as caller:
        stream = caller.open(STREAM)
        with Caller(server.server.port) as other:
            assert other.closed()  # it came later
        caller.say(stream, infer())
        assert len(caller.answers(stream)) == 1


def test_connections_may_have_an_end(engine: FakeEngine) -> None:
    limits = {"grpc_connection_seconds": SOON, "request_seconds": SOON}
    with served(engine, **limits) as server, Caller(server.server.port) as caller:
        caller.open(STREAM)
        assert caller.closed()
