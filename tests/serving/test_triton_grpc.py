"""tritonclient over gRPC, sync and asyncio, against the server: every call, every datatype,
streams, deadlines, TLS.
"""

import asyncio
import logging
import queue
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import aio
from tritonclient.utils import InferenceServerException

from infuse.serving.config import Listener, Security, ServerConfig, Telemetry
from tests.serving.rpc_tools import HOST, FakeEngine, Running, running

pytestmark = pytest.mark.row("S1")
DATATYPES = {
    "BOOL": np.array([[True, False], [False, True]]),
    **{
        f"{s}INT{b}": np.array([[0, 1], [2, 100]], f"{s}INT{b}".lower())
        for s in ("", "U")
        for b in (8, 16, 32, 64)
    },
    "FP16": np.array([[0.5, -1], [np.inf, 65504]], np.float16),
    "FP32": np.array([[0.5, -np.inf], [np.nan, 1e-45]], np.float32),
    "FP64": np.array([[0.5, -np.inf], [np.nan, 5e-324]], np.float64),
    "BF16": np.array([[0.5, -1], [3, 1e30]], ml_dtypes.bfloat16),
    "BYTES": np.array([[b"a", b""], ["é".encode(), b"\x00\xff"]], object),
}
CONFIG = ServerConfig(
    grpc=Listener(host=HOST),
    security=Security(admin_on_data_port=True),
    telemetry=Telemetry(log_level="warning", traces="console", trace_share=0.1),
)


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def server(engine: FakeEngine) -> Iterator[Running]:
    with running(engine, CONFIG) as result:
        yield result


@pytest.fixture
def client(server: Running) -> Iterator[Any]:
    with triton.InferenceServerClient(server.address) as result:
        yield result


def tensor(array: Any, datatype: str = "FP32", name: str = "x") -> Any:
    result = triton.InferInput(name, list(array.shape), datatype)
    result.set_data_from_numpy(array)
    return result


X = np.array([[1.5, 2.5]], np.float32)


def refused(status: str, call: Any, *args: Any, **options: Any) -> str:
    """The message of a call that fails with `status`."""
    with pytest.raises(InferenceServerException) as caught:
        call(*args, **options)
    assert caught.value.status() == f"StatusCode.{status}"
    return str(caught.value.message())


# ---------------------------------------------------------------------------------------- inference


@pytest.mark.parametrize("datatype", DATATYPES)
def test_every_datatype(client: Any, datatype: str) -> None:
    array = DATATYPES[datatype]
    result = client.infer("echo", [tensor(array, datatype)])
    output = result.get_output("x")
    assert (output.datatype, list(output.shape)) == (datatype, [2, 2])
    np.testing.assert_array_equal(result.as_numpy("x"), array)
    assert result.as_numpy("x").dtype == array.dtype


def test_everything_that_a_request_may_have(engine: FakeEngine, client: Any) -> None:
    parameters = {"text": "é", "number": 7, "real": 0.5, "yes": True}
    result = client.infer(
        "echo",
        [tensor(X)],
        model_version="1",
        outputs=[triton.InferRequestedOutput("x")],
        request_id="42",
        priority=2,
        timeout=60_000_000,
        headers={"x-user": "ann"},
        compression_algorithm="gzip",
        parameters=parameters,
    )
    assert result.get_response().id == "42"
    seen = engine.requests[0]
    assert (seen.version, seen.id, seen.priority, seen.sticky) == ("1", "42", 2, "ann")
    assert [output.name for output in seen.outputs] == ["x"]
    assert seen.deadline is not None
    assert {name: seen.parameters[name] for name in parameters} == parameters


@pytest.mark.parametrize("compression", ["gzip", "deflate"])
def test_compressed_requests(client: Any, compression: str) -> None:
    array = np.zeros((1, 50_000), np.float32)
    np.testing.assert_array_equal(
        client.infer("echo", [tensor(array)], compression_algorithm=compression).as_numpy("x"),
        array,
    )


@pytest.mark.parametrize("size", [1, 1000, 5_000_000])
def test_payloads_of_many_sizes(client: Any, size: int) -> None:
    array = np.arange(size, dtype=np.float32).reshape(1, size)
    np.testing.assert_array_equal(client.infer("echo", [tensor(array)]).as_numpy("x"), array)


def test_empty_tensors(client: Any) -> None:
    assert client.infer("echo", [tensor(np.zeros((0, 3), np.float32))]).as_numpy("x").shape == (
        0,
        3,
    )


def test_classes(client: Any) -> None:
    scores = np.array([[0.25, 2.0, -1.0]], np.float32)
    result = client.infer(
        "echo", [tensor(scores)], outputs=[triton.InferRequestedOutput("x", class_count=2)]
    )
    assert result.as_numpy("x").tolist() == [[b"2.000000:1", b"0.250000:0"]]


def test_requests_side_by_side(client: Any) -> None:
    answers: queue.Queue[Any] = queue.Queue()

    def answered(result: Any, error: Any) -> None:
        answers.put(
            (result.get_response().id, result.as_numpy("x")[0, 0]) if error is None else error
        )

    for index in range(50):
        client.async_infer(
            "echo", [tensor(np.full((1, 2), index, np.float32))], answered, request_id=str(index)
        )
    found = dict(answers.get(timeout=30) for _ in range(50))
    assert found == {str(index): index for index in range(50)}


def test_a_request_is_cancelled(engine: FakeEngine, client: Any) -> None:
    answers: queue.Queue[Any] = queue.Queue()
    call = client.async_infer("slow", [tensor(X)], lambda result, error: answers.put(error))
    assert engine.arrived.wait(30)
    call.cancel()
    assert answers.get(timeout=30).status() == "StatusCode.CANCELLED"
    assert engine.dropped.wait(30)


def test_a_deadline_passes(engine: FakeEngine, client: Any) -> None:
    refused("DEADLINE_EXCEEDED", client.infer, "slow", [tensor(X)], client_timeout=0.3)
    assert engine.dropped.wait(30)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"shape": [1, 3]}, "needs 12 bytes, but 8"),
        ({"shape": [-1, 2]}, "negative"),
        ({"shape": [2**40, 2**40]}, "too large"),
        ({"datatype": "FP31"}, "datatype"),
    ],
)
def test_what_does_not_fit_is_refused(client: Any, change: dict[str, Any], text: str) -> None:
    x = tensor(X)
    for name, value in change.items():
        getattr(x, f"set_{name}", lambda value: setattr(x._input, "datatype", value))(value)
    assert text in refused("INVALID_ARGUMENT", client.infer, "echo", [x])


def test_unknown_models_are_not_found(client: Any) -> None:
    assert "absent" in refused("NOT_FOUND", client.infer, "absent", [tensor(X)])


def test_tensors_in_shared_memory_are_refused(client: Any) -> None:
    x = triton.InferInput("x", [1, 2], "FP32")
    x.set_shared_memory("region", 8)
    assert "shared memory" in refused("UNIMPLEMENTED", client.infer, "echo", [x])
    output = triton.InferRequestedOutput("x")
    output.set_shared_memory("region", 8)
    assert "shared memory" in refused(
        "UNIMPLEMENTED", client.infer, "echo", [tensor(X)], outputs=[output]
    )


@pytest.mark.parametrize("is_admin", [False, True])
def test_there_are_no_regions_of_shared_memory(engine: FakeEngine, is_admin: bool) -> None:
    config = ServerConfig(grpc=Listener(host=HOST), security=Security(admin_on_data_port=is_admin))
    with running(engine, config) as server, triton.InferenceServerClient(server.address) as client:
        for kind, more in (("system", ("/key", 8)), ("cuda", (b"aGFuZGxl", 0, 8))):
            register = getattr(client, f"register_{kind}_shared_memory")
            assert "takes no shared memory" in refused("UNIMPLEMENTED", register, "r", *more)
            unregister = getattr(client, f"unregister_{kind}_shared_memory")
            assert "no region 'r'" in refused("NOT_FOUND", unregister, "r")
            unregister()
            assert not getattr(client, f"get_{kind}_shared_memory_status")().regions


# ------------------------------------------------------------------------------------------ streams


def test_a_stream(client: Any) -> None:
    answers: queue.Queue[Any] = queue.Queue()
    client.start_stream(lambda result, error: answers.put(result or error))
    for index in range(20):
        array = np.full((1, 2), index, np.float32)
        client.async_stream_infer(
            "echo", [tensor(array)], request_id=str(index), enable_empty_final_response=True
        )
    client.async_stream_infer("absent", [tensor(X)])
    client.async_stream_infer("echo", [tensor(X)], request_id="last")
    found = [answers.get(timeout=30) for _ in range(22)]
    client.stop_stream()
    for index, result in enumerate(found[:20]):
        assert result.get_response().id == str(index)
        assert result.get_response().parameters["triton_final_response"].bool_param
        assert result.as_numpy("x").tolist() == [[index, index]]
    assert "absent" in found[20].message()
    assert found[21].get_response().id == "last"


def test_a_stream_is_cancelled(engine: FakeEngine, client: Any) -> None:
    errors: queue.Queue[Any] = queue.Queue()
    client.start_stream(lambda result, error: errors.put(error))
    client.async_stream_infer("slow", [tensor(X)])
    assert engine.arrived.wait(30)
    client.stop_stream(cancel_requests=True)
    assert errors.get(timeout=30).status() == "StatusCode.CANCELLED"
    assert engine.dropped.wait(30)


def test_a_deadline_of_a_stream_passes(engine: FakeEngine, client: Any) -> None:
    errors: queue.Queue[Any] = queue.Queue()
    client.start_stream(lambda result, error: errors.put(error), stream_timeout=0.3)
    client.async_stream_infer("slow", [tensor(X)])
    assert errors.get(timeout=30).status() == "StatusCode.DEADLINE_EXCEEDED"
    assert engine.dropped.wait(30)
    client.stop_stream()


# -------------------------------------------------------------------------------------- other calls


def test_health_and_metadata(engine: FakeEngine, client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert [client.is_model_ready(name) for name in ("echo", "loading", "absent")] == [
        True,
        False,
        False,
    ]
    assert client.is_model_ready("echo", "stable")
    assert not client.is_model_ready("echo", "7")
    assert client.get_server_metadata().extensions == ["binary_tensor_data"]
    engine.serving = False
    assert client.is_server_live()
    assert not client.is_server_ready()


def test_statistics_leave_out_what_the_protocol_does_not_have(client: Any) -> None:
    assert [entry.name for entry in client.get_inference_statistics().model_stats] == ["echo"]
    assert client.get_inference_statistics("other", "1").model_stats[0].name == "other"


def test_repository(engine: FakeEngine, client: Any) -> None:
    assert len(client.get_model_repository_index().models) == 4
    client.load_model("m", config='{"name": "m"}', files={"file:1/model.onnx": b"onnx"})
    client.unload_model("m", unload_dependents=True)
    client.unload_model("m")
    assert engine.loads == [
        ("m", '{"name": "m"}', {"1/model.onnx": b"onnx"}),
        ("m", True),
        ("m", False),
    ]


def test_settings_are_shown_and_not_changed(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="infuse")
    traces = {
        name: list(setting.value) for name, setting in client.get_trace_settings().settings.items()
    }
    assert (traces["trace_level"], traces["trace_rate"]) == (["TIMESTAMPS"], ["10"])
    logs = client.get_log_settings().settings
    assert (logs["log_info"].bool_param, logs["log_warning"].bool_param) == (False, True)
    assert logs["log_format"].string_param == "text"
    refused("UNIMPLEMENTED", client.update_trace_settings, settings={"trace_rate": "5"})
    refused("UNIMPLEMENTED", client.update_log_settings, {"log_info": True})


def test_there_is_no_shared_memory(client: Any) -> None:
    for kind in ("system", "cuda"):
        status, unregister = f"get_{kind}_shared_memory_status", f"unregister_{kind}_shared_memory"
        assert len(getattr(client, status)().regions) == 0
        getattr(client, unregister)()
        refused("NOT_FOUND", getattr(client, status), "region")
        refused("NOT_FOUND", getattr(client, unregister), "region")
    refused("UNIMPLEMENTED", client.register_system_shared_memory, "region", "/key", 8)
    refused("UNIMPLEMENTED", client.register_cuda_shared_memory, "region", b"", 0, 8)


@pytest.mark.full
def test_clients_may_keep_connections_alive(engine: FakeEngine, server: Running) -> None:
    """A ping every second, while a call takes six: more than gRPC's servers take unless they are
    told to.
    """
    options = triton.KeepAliveOptions(1000, 20_000, True, http2_max_pings_without_data=0)
    with triton.InferenceServerClient(server.address, keepalive_options=options) as client:
        timer = threading.Timer(6, engine.release.set)
        timer.start()
        assert client.infer("slow", [tensor(X)]).as_numpy("x").tolist() == X.tolist()
        timer.join()


# ------------------------------------------------------------------------------------------ asyncio


def in_loop(server: Running, work: Any) -> None:
    async def main() -> None:
        async with aio.InferenceServerClient(server.address) as client:
            await work(client)

    asyncio.run(main())


def test_asyncio_inference(server: Running) -> None:
    async def work(client: Any) -> None:
        for datatype, array in DATATYPES.items():
            result = await client.infer("echo", [tensor(array, datatype)], request_id=datatype)
            np.testing.assert_array_equal(result.as_numpy("x"), array)
            assert result.get_response().id == datatype
        many = await asyncio.gather(
            *(client.infer("echo", [tensor(X)], request_id=str(i)) for i in range(100))
        )
        assert [result.get_response().id for result in many] == [str(i) for i in range(100)]

    in_loop(server, work)


def test_asyncio_stream(server: Running) -> None:
    async def requests() -> AsyncIterator[dict[str, Any]]:
        for index in range(20):
            yield {
                "model_name": "echo" if index != 5 else "absent",
                "inputs": [tensor(X)],
                "request_id": str(index),
            }

    async def work(client: Any) -> None:
        found = [pair async for pair in client.stream_infer(requests())]
        assert [error is not None for _, error in found] == [index == 5 for index in range(20)]
        assert [result.get_response().id for result, _ in found if result] == [
            str(i) for i in range(20) if i != 5
        ]

    in_loop(server, work)


def test_asyncio_other_calls(engine: FakeEngine, server: Running) -> None:
    async def work(client: Any) -> None:
        assert await client.is_server_live()
        assert await client.is_server_ready()
        assert await client.is_model_ready("echo")
        assert (await client.get_server_metadata()).name == "infuse"
        assert len((await client.get_model_repository_index()).models) == 4
        assert len((await client.get_inference_statistics()).model_stats) == 1
        await client.load_model("m")
        await client.unload_model("m")
        assert engine.loads == [("m", "", {}), ("m", False)]
        assert (await client.get_trace_settings()).settings["trace_mode"].value == ["opentelemetry"]
        assert (await client.get_log_settings()).settings["log_error"].bool_param
        assert not (await client.get_system_shared_memory_status()).regions
        assert not (await client.get_cuda_shared_memory_status()).regions

    in_loop(server, work)


def test_asyncio_deadline_and_cancellation(engine: FakeEngine, server: Running) -> None:
    async def work(client: Any) -> None:
        with pytest.raises(InferenceServerException) as caught:
            await client.infer("slow", [tensor(X)], client_timeout=0.2)
        assert caught.value.status() == "StatusCode.DEADLINE_EXCEEDED"
        assert await asyncio.to_thread(engine.dropped.wait, 30)
        engine.arrived.clear()
        engine.dropped.clear()
        call = asyncio.ensure_future(client.infer("slow", [tensor(X)]))
        assert await asyncio.to_thread(engine.arrived.wait, 30)
        call.cancel()
        assert await asyncio.to_thread(engine.dropped.wait, 30)

    in_loop(server, work)
