"""tritonclient over HTTP, sync and asyncio, against the whole server: every call, every datatype,
JSON and binary.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.http import aio
from tritonclient.utils import InferenceServerException

from infuse.serving.server import Server
from tests.serving.rest_models import TYPES, identities, whole_server

pytestmark = pytest.mark.row("S1")
KINDS = {
    "BOOL": np.array([[True, False], [False, True]]),
    **{
        f"{s}INT{b}": np.array([[0, 1], [2, 100]], f"{s}INT{b}".lower())
        for s in ("", "U")
        for b in (8, 16, 32, 64)
    },
    "FP16": np.array([[0.5, -1], [np.inf, 65504]], np.float16),
    "FP32": np.array([[0.5, -np.inf], [np.nan, 1e-45]], np.float32),
    "FP64": np.array([[0.5, np.inf], [np.nan, 5e-324]], np.float64),
    "BF16": np.array([[0.5, -1], [3, 1e30]], ml_dtypes.bfloat16),
}
LIMITS = {f"{s}INT{b}": np.iinfo(f"{s}INT{b}".lower()) for s in ("", "U") for b in (8, 16, 32, 64)}
WORDS = np.array([b"a", b"", "é".encode(), b"x" * 300], object)
X = np.array([[1.5, 2.5, -3, 0]], np.float32)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with whole_server(tmp_path_factory.mktemp("server")) as running:
        yield running


def address(server: Server, admin: bool = False) -> str:
    """Where a port of the server is, as tritonclient wants it."""
    listener = server.admin if admin else server.http
    assert listener is not None
    return f"127.0.0.1:{listener.port}"


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    with triton.InferenceServerClient(address(server)) as result:
        yield result


@pytest.fixture
def admin(server: Server) -> Iterator[Any]:
    with triton.InferenceServerClient(address(server, admin=True)) as result:
        yield result


def tensor(array: Any, datatype: str = "FP32", name: str = "x", binary: bool = True) -> Any:
    result = triton.InferInput(name, list(array.shape), datatype)
    result.set_data_from_numpy(array, binary_data=binary)
    return result


def wanted(name: str, binary: bool = True, classes: int = 0) -> Any:
    return triton.InferRequestedOutput(name, binary_data=binary, class_count=classes)


def refused(status: int, call: Any, *args: Any, **options: Any) -> str:
    """The message of a call that fails with `status`."""
    with pytest.raises(InferenceServerException) as caught:
        call(*args, **options)
    assert caught.value.status() == str(status)
    return str(caught.value.message())


# ---------------------------------------------------------------------------------------- inference


@pytest.mark.parametrize("json_outputs", [False, True])
@pytest.mark.parametrize("json_inputs", [False, True])
def test_every_datatype(client: Any, json_inputs: bool, json_outputs: bool) -> None:
    halves = ("FP16", "BF16")  # have no form in JSON
    inputs = [tensor(KINDS[n], n, f"x{n}", binary=not json_inputs or n in halves) for n in TYPES]
    outputs = [wanted(f"y{name}", binary=not json_outputs or name in halves) for name in TYPES]
    result = client.infer("kinds", inputs, outputs=outputs)
    for name, array in KINDS.items():
        output = result.get_output(f"y{name}")
        assert (output["datatype"], output["shape"]) == (name, [2, 2])
        assert ("data" in output) is (json_outputs and name not in halves)
        found = result.as_numpy(f"y{name}")
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("binary", [False, True])
def test_the_limits_of_whole_numbers(client: Any, binary: bool) -> None:
    arrays = {name: np.array([[info.min, info.max]], info.dtype) for name, info in LIMITS.items()}
    arrays |= {name: array[:1] for name, array in KINDS.items() if name not in arrays}
    inputs = [
        tensor(arrays[n], n, f"x{n}", binary=binary or n[1] == "F" or n == "FP16") for n in TYPES
    ]
    result = client.infer(
        "kinds", inputs, outputs=[wanted(f"y{name}", binary=binary) for name in LIMITS]
    )
    for name in LIMITS:
        np.testing.assert_array_equal(result.as_numpy(f"y{name}"), arrays[name])
    assert len(result.get_response()["outputs"]) == len(LIMITS)


@pytest.mark.parametrize("json_outputs", [False, True])
@pytest.mark.parametrize("json_inputs", [False, True])
def test_bytes(client: Any, json_inputs: bool, json_outputs: bool) -> None:
    result = client.infer(
        "words",
        [tensor(WORDS, "BYTES", binary=not json_inputs)],
        outputs=[wanted("y", not json_outputs)],
    )
    found = result.as_numpy("y").tolist()
    assert [word.encode() if json_outputs else word for word in found] == WORDS.tolist()


def test_bytes_that_are_no_text_are_sent_as_binary_only(client: Any) -> None:
    array = np.array([b"\xff\0"], object)
    assert client.infer("words", [tensor(array, "BYTES")]).as_numpy("y").tolist() == [b"\xff\0"]
    assert "binary_data" in refused(
        400, client.infer, "words", [tensor(array, "BYTES")], outputs=[wanted("y", False)]
    )


def test_outputs_are_binary_without_a_list_and_as_listed_with_one(client: Any) -> None:
    assert "data" not in client.infer("echo", [tensor(X)]).get_output("y")
    assert "data" in client.infer(
        "echo", [tensor(X)], outputs=[wanted("y", binary=False)]
    ).get_output("y")
    # kserve#5907: what the request says of all outputs holds for those that say nothing themselves.
    listed = {
        "inputs": [json_input()],
        "outputs": [{"name": "y"}],
        "parameters": {"binary_data_output": True},
    }
    response = client._post("v2/models/echo/infer", json.dumps(listed), None, None)
    assert response.get("Inference-Header-Content-Length") is not None


def json_input() -> dict[str, Any]:
    return {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": X.tolist()}


@pytest.mark.parametrize("version", ["", "1", "2", "stable"])
def test_versions_and_labels(client: Any, version: str) -> None:
    response = client.infer(
        "echo", [tensor(X)], model_version=version, request_id="é 7"
    ).get_response()
    assert response["model_name"] == "echo"
    assert response["model_version"] == {"": "2", "stable": "1"}.get(version, version)
    assert response["id"] == "é 7"


@pytest.mark.parametrize("answer", [None, "gzip", "deflate"])
@pytest.mark.parametrize("question", [None, "gzip", "deflate"])
@pytest.mark.parametrize("binary", [False, True])
def test_compression(client: Any, question: str | None, answer: str | None, binary: bool) -> None:
    array = np.arange(4000, dtype=np.float32).reshape(-1, 4)
    result = client.infer(
        "echo",
        [tensor(array, binary=binary)],
        outputs=[wanted("y", binary=binary)],
        request_compression_algorithm=question,
        response_compression_algorithm=answer,
    )
    np.testing.assert_array_equal(result.as_numpy("y"), array)


@pytest.mark.parametrize("rows", [0, 1, 33, 40_000, 400_000])
def test_payloads_of_many_sizes(client: Any, rows: int) -> None:
    array = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
    np.testing.assert_array_equal(client.infer("echo", [tensor(array)]).as_numpy("y"), array)


def test_pictures(client: Any) -> None:
    array = np.random.default_rng(1).random((1, 3, 224, 224), np.float32)
    np.testing.assert_array_equal(client.infer("picture", [tensor(array)]).as_numpy("y"), array)


def test_classes(client: Any) -> None:
    result = client.infer("echo", [tensor(X)], outputs=[wanted("y", classes=2)])
    assert result.as_numpy("y").tolist() == [[b"2.500000:1", b"1.500000:0"]]


def test_parameters_priority_and_timeout(client: Any) -> None:
    parameters = {"text": "é", "number": 7, "real": 0.5, "yes": True}
    result = client.infer(
        "echo", [tensor(X)], priority=1, timeout=60_000_000, parameters=parameters
    )
    np.testing.assert_array_equal(result.as_numpy("y"), X)
    assert refused(504, client.infer, "echo", [tensor(X)], timeout=1)


def test_requests_at_once(server: Server) -> None:
    with triton.InferenceServerClient(address(server), concurrency=8) as client:
        arrays = [np.full((1 + i % 3, 4), i, np.float32) for i in range(40)]
        pending = [
            client.async_infer("echo", [tensor(array)], request_id=str(i))
            for i, array in enumerate(arrays)
        ]
        for i, (each, array) in enumerate(zip(pending, arrays)):
            result = each.get_result(timeout=60)
            np.testing.assert_array_equal(result.as_numpy("y"), array)
            assert result.get_response()["id"] == str(i)


def test_bodies_that_are_made_and_read_by_hand(client: Any) -> None:
    body, length = triton.InferenceServerClient.generate_request_body(
        [tensor(X)], outputs=[wanted("y")]
    )
    response = client._post(
        "v2/models/echo/infer", body, {"Inference-Header-Content-Length": length}, None
    )
    header = int(response.get("Inference-Header-Content-Length"))
    result = triton.InferenceServerClient.parse_response_body(response.read(), header_length=header)
    np.testing.assert_array_equal(result.as_numpy("y"), X)


def test_a_raw_request(client: Any) -> None:
    response = client._post(
        "v2/models/echo/infer", X.tobytes(), {"Inference-Header-Content-Length": 0}, None
    )
    header = int(response.get("Inference-Header-Content-Length"))
    result = triton.InferenceServerClient.parse_response_body(response.read(), header_length=header)
    np.testing.assert_array_equal(result.as_numpy("y"), X)


@pytest.mark.parametrize(
    ("model", "inputs", "options", "status"),
    [
        ("none", [tensor(X)], {}, 404),
        ("later", [tensor(X)], {}, 503),
        ("echo", [tensor(X)], {"model_version": "9"}, 404),
        ("echo", [tensor(X)], {"model_version": "unknown"}, 404),
        ("echo", [tensor(X, name="z")], {}, 400),
        ("echo", [], {}, 400),
        ("echo", [tensor(X), tensor(X, name="z")], {}, 400),
        ("echo", [tensor(X), tensor(X)], {}, 400),
        ("echo", [tensor(X.astype(np.float64), "FP64")], {}, 400),
        ("echo", [tensor(X[:, :3])], {}, 400),
        ("echo", [tensor(X[0])], {}, 400),
        ("echo", [tensor(X)], {"outputs": [wanted("z")]}, 400),
        ("echo", [triton.InferInput("x", [1, 4], "FP32").set_shared_memory("region", 16)], {}, 501),
    ],
)
def test_wrong_requests(
    client: Any, model: str, inputs: list[Any], options: dict[str, Any], status: int
) -> None:
    assert refused(status, client.infer, model, inputs, **options)
    np.testing.assert_array_equal(client.infer("echo", [tensor(X)]).as_numpy("y"), X)


# -------------------------------------------------------------------------------------- other calls


def test_health(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("echo")
    assert client.is_model_ready("echo", "stable")
    assert not client.is_model_ready("echo", "9")
    assert not client.is_model_ready("later")
    assert not client.is_model_ready("none")


def test_metadata(client: Any) -> None:
    metadata = client.get_server_metadata()
    assert metadata["name"] == "infuse"
    assert {"binary_tensor_data", "model_repository", "statistics", "classification"} <= set(
        metadata["extensions"]
    )
    model = client.get_model_metadata("echo")
    assert model["name"] == "echo"
    assert sorted(model["versions"]) == ["1", "2"]
    assert model["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert client.get_model_metadata("words", "1")["inputs"][0]["datatype"] == "BYTES"
    assert refused(404, client.get_model_metadata, "none")


def test_configuration(client: Any) -> None:
    found = client.get_model_config("echo", "1")
    assert found["name"] == "echo"
    assert found["input"][0]["data_type"] == "TYPE_FP32"
    assert refused(404, client.get_model_config, "none")


def test_statistics(client: Any) -> None:
    client.infer("echo", [tensor(X)], model_version="1")
    one = client.get_inference_statistics("echo", "1")["model_stats"]
    assert [(each["name"], each["version"]) for each in one] == [("echo", "1")]
    assert int(one[0]["inference_stats"]["success"]["count"]) >= 1
    assert len(client.get_inference_statistics("echo")["model_stats"]) == 2
    assert {each["name"] for each in client.get_inference_statistics()["model_stats"]} >= {
        "echo",
        "words",
    }
    assert refused(404, client.get_inference_statistics, "none")


def test_the_repository(client: Any, admin: Any) -> None:
    states = {
        (each["name"], each.get("version")): each.get("state")
        for each in client.get_model_repository_index()
    }
    assert states["echo", "1"] == "READY"
    assert "admin port" in refused(403, client.load_model, "later")
    assert not client.is_model_ready("later")
    admin.load_model("later")
    assert client.is_model_ready("later")
    np.testing.assert_array_equal(client.infer("later", [tensor(X)]).as_numpy("y"), X)
    admin.unload_model("later")
    assert not client.is_model_ready("later")
    assert refused(404, admin.load_model, "none")
    assert refused(400, admin.load_model, "later", config="{no json")


def test_a_model_is_loaded_from_files_of_the_request(client: Any, admin: Any) -> None:
    model = identities({"": TYPES["INT32"]}, ["rows", 2])
    admin.load_model(
        "sent", config='{"parameters": {"by": "hand"}}', files={"file:1/model.onnx": model}
    )
    array = np.array([[1, 2]], np.int32)
    np.testing.assert_array_equal(
        client.infer("sent", [tensor(array, "INT32")]).as_numpy("y"), array
    )
    admin.unload_model("sent", unload_dependents=True)
    assert not client.is_model_ready("sent")


def test_settings(client: Any, admin: Any) -> None:
    assert client.get_log_settings()["log_file"] == ""
    assert admin.update_log_settings({"log_verbose_level": 0})["log_verbose_level"] == 0
    assert refused(409, admin.update_log_settings, {"log_file": "x"})
    assert client.get_trace_settings()["trace_level"] == ["OFF"]
    assert client.get_trace_settings("echo")["trace_mode"] == "opentelemetry"
    assert admin.update_trace_settings("echo", {})["trace_level"] == ["OFF"]
    assert refused(409, admin.update_trace_settings, settings={"trace_rate": "5"})


def test_shared_memory(client: Any) -> None:
    assert client.get_system_shared_memory_status() == []
    assert client.get_cuda_shared_memory_status() == []
    assert refused(501, client.register_system_shared_memory, "r", "/r", 4)
    assert refused(501, client.register_cuda_shared_memory, "r", b"", 0, 4)
    client.unregister_system_shared_memory()
    client.unregister_cuda_shared_memory()


# ------------------------------------------------------------------------------------------ asyncio


def test_asyncio(server: Server) -> None:
    async def calls() -> None:
        async with aio.InferenceServerClient(address(server)) as client:
            assert await client.is_server_live()
            assert await client.is_server_ready()
            assert await client.is_model_ready("echo", "1")
            assert (await client.get_server_metadata())["name"] == "infuse"
            assert (await client.get_model_metadata("echo"))["name"] == "echo"
            assert (await client.get_model_config("echo"))["name"] == "echo"
            assert (await client.get_inference_statistics("echo"))["model_stats"]
            assert await client.get_model_repository_index()
            assert "log_info" in await client.get_log_settings()
            assert "trace_rate" in await client.get_trace_settings()
            assert await client.get_system_shared_memory_status() == []
            assert await client.get_cuda_shared_memory_status() == []
            arrays = [np.full((1 + i % 3, 4), i, np.float32) for i in range(30)]
            for options in (
                {},
                {
                    "request_compression_algorithm": "gzip",
                    "response_compression_algorithm": "deflate",
                },
            ):
                results = await asyncio.gather(
                    *(client.infer("echo", [tensor(a)], **options) for a in arrays)
                )
                for result, array in zip(results, arrays):
                    np.testing.assert_array_equal(result.as_numpy("y"), array)
            with pytest.raises(InferenceServerException, match="none"):
                await client.infer("none", [tensor(X)])
        async with aio.InferenceServerClient(address(server, admin=True)) as admin:
            await admin.load_model("later")
            assert await admin.is_model_ready("later")
            await admin.unload_model("later")
            assert await admin.update_log_settings({}) == await admin.get_log_settings()
            assert await admin.update_trace_settings() == await admin.get_trace_settings()
            for call in (
                admin.register_system_shared_memory("r", "/r", 4),
                admin.register_cuda_shared_memory("r", b"", 0, 4),
            ):
                with pytest.raises(InferenceServerException):
                    await call
            await admin.unregister_system_shared_memory()
            await admin.unregister_cuda_shared_memory()

    asyncio.run(calls())
